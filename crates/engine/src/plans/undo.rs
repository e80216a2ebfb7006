//! `undo`: takes an applied plan out of the user's files again, by the machinery that brought it in.
//!
//! # Invariants
//! 1. What was before comes from the apply's own journal, so that undo needs neither git nor the changeset.
//! 2. Edits made since are kept where they go together with the undo; where not, nothing is written.

use std::io::Read;

use domain::{
    ApplyId, ApplyKind, ApplyStage, ApplyState, Base, FileState, LinesChanged, NetChange, Plan, PlanId,
    PlanState, ProjectAlias, hunks, lines_changed,
};
use sandbox::content::ContentSource;
use sandbox::journal::UndoJournal;
use serde_json::Value;

use super::Engine;
use super::apply::{ApplyError, ApplySummary};
use super::carry::{self, Authority, Errand};
use super::commit::GitWish;
use super::diff::aliases;
use super::merging::Wanted;

impl Engine {
    /// Undoes a plan that is applied.
    ///
    /// # Errors
    /// It is not applied, later edits stand in the way, or its journal is gone; then nothing was written.
    pub async fn undo(&self, id: PlanId) -> Result<ApplySummary, ApplyError> {
        let plan = self.house.store.plan(id).await?;
        if plan.state != PlanState::Apply(ApplyState::Applied) || plan.undone_at.is_some() {
            return Err(ApplyError::NotReady { plan: id, state: plan.state });
        }
        let apply = self.standing_apply(&plan).await?;
        let expired = |_| ApplyError::UndoExpired { plan: id };
        let images = self.house.journals.read_undo(apply).map_err(expired)?;
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
            undo_until: carry::undo_until(&self.house),
            commit: None,
            already: false,
        };
        let errand = Errand {
            plan: &plan,
            kind: ApplyKind::Undo,
            wanted,
            net_hash: images.header().net_hash,
            selection: Value::Null,
            summary,
            git: GitWish::Nothing,
            refs: images.refs().iter().map(|(root, moved)| (*root, moved.reversed())).collect(),
        };
        Ok(carry::carry(&self.house, errand, &Authority::LockHolder, &images).await?)
    }

    async fn standing_apply(&self, plan: &Plan) -> Result<ApplyId, ApplyError> {
        let applies = self.house.store.applies(plan.id).await?;
        let is_standing = |kind, stage| kind == ApplyKind::Apply && stage == ApplyStage::Applied;
        let standing = applies.iter().rev().find(|apply| is_standing(apply.kind, apply.stage));
        standing.map(|apply| apply.id).ok_or(ApplyError::UndoExpired { plan: plan.id })
    }
}

/// What an undo of these changes is to make of the files.
pub(super) fn wanted_back(images: &UndoJournal, names: &[ProjectAlias]) -> Vec<Wanted> {
    let wanted = images.changes().iter().map(|change| {
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
        Wanted { change: back, address, content: None, attributes, take: false }
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
