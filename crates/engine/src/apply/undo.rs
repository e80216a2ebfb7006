//! `undo`: takes an applied plan out of the user's files again, by the machinery that brought it in.
//!
//! # Invariants
//! 1. The former contents come from the apply's own journal, so that undo needs neither git nor the
//!    changeset.
//! 2. Once the plan is stored as undone, neither the apply's journal nor the undo's own is read again. Both
//!    are removed, and what they held is stored among the contents once.
//! 3. Edits made since are retained if they merge with the undo; otherwise nothing is written.

use std::io::Read;

use domain::{
    ApplyKind, Base, ConflictTake, FileState, LinesChanged, NetChange, PathChange, PlanId, ProjectAlias,
    carriers, hunks, latest_apply, lines_changed,
};
use sandbox::content::ContentSource;
use sandbox::journal::{FileImage, UndoError, UndoJournal};
use serde_json::Value;
use sync::{CancellationToken, Observed};

use super::check_validity::ChecksAtApply;
use super::git_commit::GitAction;
use super::merge::{MergeError, UndoneJournal, WantedChange};
use super::transaction;
use super::transaction::{ApplyJob, Authority, TransactionError};
use super::{ApplyError, ApplyRequest, ApplySummary};
use crate::engine::Engine;
use crate::query::diff::aliases;

impl Engine {
    /// Undoes a plan that is applied.
    ///
    /// # Errors
    /// It is not applied, later edits conflict with the undo, or its journal is gone; then nothing was
    /// written.
    pub async fn undo(&self, id: PlanId) -> Result<ApplySummary, ApplyError> {
        self.undo_unless(id, &CancellationToken::new().observe()).await
    }

    /// The same, unless `stop` is cancelled before anything is written.
    ///
    /// # Errors
    /// As [`undo`](Self::undo), and [`ApplyError::Withdrawn`].
    pub async fn undo_unless(&self, id: PlanId, stop: &Observed) -> Result<ApplySummary, ApplyError> {
        let plan = self.inner.store.plan(id).await?;
        if !plan.is_applied() {
            return Err(ApplyError::NotReady { plan: id, state: plan.state });
        }
        let applies = self.inner.store.applies(id).await?;
        let applied = latest_apply(&applies).ok_or(ApplyError::UndoExpired { plan: id })?;
        let apply = applied.id;
        let damaged = || ApplyError::UndoDamaged { plan: id, journal: self.inner.journals.undo_path(apply) };
        let images = self.inner.journals.read_undo(apply).map_err(|error| match error {
            UndoError::Damaged { .. } => damaged(),
            UndoError::Expired { .. } | UndoError::RolledBack { .. } | UndoError::Io { .. } => {
                ApplyError::UndoExpired { plan: id }
            }
        })?;
        let wanted = wanted_back(&images, &aliases(&plan));
        let lines = wanted.iter().map(|wanted| lines_of(&wanted.change, &images));
        let (insertions, deletions) = lines
            .fold((0, 0), |(added, removed), lines| (added + lines.insertions, removed + lines.deletions));
        let summary = ApplySummary {
            apply,
            files: 0,
            insertions,
            deletions,
            merged: Vec::new(),
            replaced: Vec::new(),
            left_out: Vec::new(),
            validations: (0, 0),
            checks: ChecksAtApply::default(),
            undo_until: transaction::undo_until(&self.inner),
            commit: None,
            already: false,
        };
        // Changes that were written through to other names are undone through them.
        let asked: Option<ApplyRequest> = serde_json::from_value(applied.selection.clone()).ok();
        let job = ApplyJob {
            plan: &plan,
            kind: ApplyKind::Undo,
            wanted,
            net_hash: images.header().net_hash,
            selection: Value::Null,
            summary,
            git: GitAction::Nothing,
            refs: images.refs().iter().map(|(root, moved)| (*root, moved.reversed())).collect(),
            left_by: left_by(&images),
            through_links: asked.is_some_and(|asked| asked.through_links),
            checked: None,
        };
        let undone =
            transaction::run_transaction(&self.inner, &job, &Authority::LockHolder { stop }, &images).await;
        let undone = undone.map_err(|error| {
            // The former contents come from the journal alone.
            let is_damaged = matches!(error, TransactionError::Merging(MergeError::ContentMissing { .. }));
            if is_damaged { damaged() } else { error.into() }
        })?;
        for spent in [apply, undone.apply] {
            // `gc` removes what stays.
            let _ = self.inner.journals.forget_spent(spent);
        }
        Ok(undone)
    }
}

/// When the journal that is undone had written its last file.
pub(crate) fn left_by(images: &UndoJournal) -> Option<UndoneJournal> {
    images.ended_at().map(|at| UndoneJournal { at })
}

/// Returns the changes of the files that an undo of these changes makes.
pub(crate) fn wanted_back(images: &UndoJournal, names: &[ProjectAlias]) -> Vec<WantedChange> {
    let ends = images.changes().iter().map(|change| {
        let state = |image: &Option<FileImage>| image.as_ref().map(|image| image.state);
        // A directory that the apply made only to hold others is not counted when it is removed either.
        PathChange::new(change.root, &change.path, state(&change.pre), state(&change.post))
    });
    let carriers = carriers(ends);
    let wanted = images.changes().iter().enumerate().map(|(at, change)| {
        let back = NetChange {
            root: change.root,
            path: change.path.clone(),
            from: None,
            before: change.post.as_ref().map(|image| image.state),
            after: change.pre.as_ref().map(|image| image.state),
            base: Base::Known,
            calls: Vec::new(),
        };
        let address = domain::change_address(&back, names);
        let attributes = change.pre.as_ref().and_then(|image| image.attributes.clone());
        let is_carrier = carriers.contains(&at);
        WantedChange {
            change: back,
            address,
            content: None,
            whole_content: None,
            attributes,
            take: ConflictTake::Nothing,
            is_carrier,
        }
    });
    wanted.collect()
}

fn lines_of(change: &NetChange, images: &dyn ContentSource) -> LinesChanged {
    let text = |state: Option<FileState>| {
        let mut bytes = Vec::new();
        let state = state.filter(|state| state.text)?;
        images.open(&state.hash).ok()?.read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let (before, after) = (text(change.before), text(change.after));
    lines_changed(&hunks(before.as_deref(), after.as_deref(), change))
}
