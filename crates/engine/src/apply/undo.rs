//! `undo`: takes an applied plan out of the user's files again, by the machinery that brought it in.
//!
//! # Invariants
//! 1. The former contents come from the apply's own journal, so that undo needs neither git nor the
//!    changeset.
//! 2. Once the plan is stored as undone, neither the apply's journal nor the undo's own is read again. Both
//!    are removed, and what they held is stored among the contents once.
//! 3. Edits made since are retained if they merge with the undo; otherwise nothing is written.
//! 4. A commit that later commits follow stays: only the files are undone. A branch of the plan that has
//!    other commits stays too, and the undo is refused.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::io::Read;

use domain::{
    ApplyKind, ApplyRecord, Base, ConflictKind, ConflictTake, FileState, Hash, LinesChanged, Merge,
    NetChange, PathChange, Plan, PlanId, ProjectAlias, RelPath, RootIndex, applies_in_force, carriers, hunks,
    lines_changed, merge,
};
use sandbox::content::{ContentFile, ContentSource};
use sandbox::git::refs;
use sandbox::git::refs::RefMove;
use sandbox::journal::{FileImage, ImageBytes, JournalChange, Journals, UndoError, UndoJournal};
use serde_json::Value;
use sync::{CancellationToken, Observed};

use super::check_validity::ChecksAtApply;
use super::git_commit::GitAction;
use super::merge::{Conflict, MergeError, UndoneJournal, WantedChange};
use super::transaction;
use super::transaction::{ApplyJob, Authority, TransactionError};
use super::{ApplyError, ApplyRequest, ApplySummary};
use crate::engine::Engine;
use crate::plan::create::path_of;
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
        let in_force = applies_in_force(&applies);
        let applied = in_force.last().ok_or(ApplyError::UndoExpired { plan: id })?;
        let apply = applied.id;
        let damaged = || ApplyError::UndoDamaged { plan: id, journal: self.inner.journals.undo_path(apply) };
        let images = AppliedJournals::read(&self.inner.journals, &in_force).map_err(|error| match error {
            UndoError::Damaged { .. } => damaged(),
            UndoError::Expired { .. } | UndoError::RolledBack { .. } | UndoError::Io { .. } => {
                ApplyError::UndoExpired { plan: id }
            }
        })?;
        if !images.unclear.is_empty() {
            let conflict = |path: &RelPath| Conflict {
                address: path.to_string(),
                kind: ConflictKind::BaseMoved,
                places: Vec::new(),
                file: path.to_string(),
            };
            let conflicts = images.unclear.iter().map(conflict).collect();
            return Err(ApplyError::Conflicts { plan: id, conflicts, reasons: Vec::new() });
        }
        let wanted = wanted_back(&images, &aliases(&plan));
        let lines = wanted.iter().map(|wanted| lines_of(wanted, &images));
        let (insertions, deletions) = lines
            .fold((0, 0), |(added, removed), lines| (added + lines.insertions, removed + lines.deletions));
        let asked: Option<ApplyRequest> = serde_json::from_value(applied.selection.clone()).ok();
        let earlier: Option<ApplySummary> = serde_json::from_value(applied.summary.clone()).ok();
        let summary = ApplySummary {
            apply,
            files: earlier.map_or(0, |earlier| earlier.files),
            insertions,
            deletions,
            merged: Vec::new(),
            replaced: Vec::new(),
            marked: Vec::new(),
            left_out: Vec::new(),
            validations: (0, 0),
            checks: ChecksAtApply::default(),
            undo_until: transaction::undo_until(&self.inner),
            commit: None,
            branch: asked.as_ref().and_then(|asked| asked.branch.clone()),
            left_commit: None,
            already: false,
        };
        let (mut refs, mut left_commit) = (Vec::new(), None);
        for (root, moved) in images.refs() {
            if is_followed(&plan, root, &moved) {
                if let Some(name) = &summary.branch {
                    let commit = moved.new.clone().unwrap_or_default();
                    return Err(ApplyError::BranchMoved { plan: id, name: name.clone(), commit });
                }
                left_commit = moved.new.clone();
            } else {
                refs.push((root, moved.reversed()));
            }
        }
        let summary = ApplySummary { left_commit, ..summary };
        let job = ApplyJob {
            plan: &plan,
            kind: ApplyKind::Undo,
            wanted,
            net_hash: applied.net_hash,
            selection: Value::Null,
            summary,
            git: GitAction::Nothing,
            refs,
            adds: false,
            left_by: images.left_by(),
            // What was written through to other names is taken back through them.
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
        for spent in in_force.iter().map(|apply| apply.id).chain([undone.apply]) {
            // `gc` removes what stays.
            let _ = self.inner.journals.forget_spent(spent);
        }
        Ok(undone)
    }
}

/// Returns whether a ref that an apply moved is somewhere else by now. If git cannot say, the journal finds
/// out.
fn is_followed(plan: &Plan, root: RootIndex, moved: &RefMove) -> bool {
    let Some(project) = plan.projects.get(usize::from(root.0)) else { return false };
    refs::ref_target(&path_of(&project.root), &moved.name).is_ok_and(|now| now != moved.new)
}

/// The journals of the applies of a plan that are in force, as one: from what the first found to what the last
/// left. Edits of the user between two of them are in both ends, so that an undo retains them.
pub(crate) struct AppliedJournals {
    /// The oldest first; at least one.
    journals: Vec<UndoJournal>,
    /// The changes, one for each path.
    changes: Vec<JoinedChange>,
    /// The files with edits in between that cannot be separated from the plan's changes.
    pub(crate) unclear: Vec<RelPath>,
}

/// The changes of several journals at one path.
struct JoinedChange {
    change: JournalChange,
    /// The content before, if it is in no journal.
    content: Option<Vec<u8>>,
}

impl AppliedJournals {
    /// Reads the journals of these applies, which are in their order.
    pub(crate) fn read(journals: &Journals, applies: &[&ApplyRecord]) -> Result<AppliedJournals, UndoError> {
        let read = applies.iter().map(|apply| journals.read_undo(apply.id));
        let journals = read.collect::<Result<Vec<_>, _>>()?;
        let mut all = AppliedJournals { journals, changes: Vec::new(), unclear: Vec::new() };
        all.join();
        Ok(all)
    }

    fn join(&mut self) {
        let mut joined: BTreeMap<(RootIndex, RelPath), JoinedChange> = BTreeMap::new();
        let mut unclear = Vec::new();
        for change in self.journals.iter().flat_map(UndoJournal::changes) {
            match joined.entry((change.root, change.path.clone())) {
                Entry::Vacant(place) => {
                    place.insert(JoinedChange { change: change.clone(), content: None });
                }
                Entry::Occupied(mut place) => {
                    if !self.add(place.get_mut(), change) {
                        unclear.push(change.path.clone());
                    }
                }
            }
        }
        let is_change = |joined: &JoinedChange| state_of(&joined.change.pre) != state_of(&joined.change.post);
        self.changes = joined.into_values().filter(is_change).collect();
        self.unclear = unclear;
    }

    /// Adds a later change to an earlier one. What the user edited between them is brought into the state
    /// before. Returns false if that is impossible.
    fn add(&self, known: &mut JoinedChange, later: &JournalChange) -> bool {
        let (left, found) = (state_of(&known.change.post), state_of(&later.pre));
        if left != found {
            let Some((content, mode)) = self.edited_between(known, left, found) else { return false };
            let state = FileState::file(&content, mode);
            let attributes = known.change.pre.as_ref().and_then(|image| image.attributes.clone());
            let bytes = ImageBytes::Here(content.clone());
            known.change.pre = Some(FileImage { state, bytes, attributes });
            known.content = Some(content);
        }
        known.change.post.clone_from(&later.post);
        true
    }

    /// The content before, with the edits that lead from what one journal left to what the next found.
    fn edited_between(
        &self,
        known: &JoinedChange,
        left: Option<FileState>,
        found: Option<FileState>,
    ) -> Option<(Vec<u8>, u16)> {
        let before = state_of(&known.change.pre)?;
        let before_text = match &known.content {
            Some(content) => content.clone(),
            None => self.text(before)?,
        };
        let found_text = self.text(found?)?;
        match merge(&self.text(left?)?, &found_text, &before_text) {
            Merge::Same => Some((found_text, before.mode)),
            Merge::Merged(content) => Some((content, before.mode)),
            Merge::Conflict(_) => None,
        }
    }

    fn text(&self, state: FileState) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let state = Some(state).filter(|state| state.text)?;
        self.open(&state.hash).ok()?.read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// When the last of them had written its last file.
    pub(crate) fn left_by(&self) -> Option<UndoneJournal> {
        self.journals.last()?.ended_at().map(|at| UndoneJournal { at })
    }

    /// The git refs that were moved, each from where it was at first to where it was last.
    fn refs(&self) -> Vec<(RootIndex, RefMove)> {
        let mut joined: Vec<(RootIndex, RefMove)> = Vec::new();
        for (root, moved) in self.journals.iter().flat_map(UndoJournal::refs) {
            let known = joined.iter_mut().find(|(of, known)| of == root && known.name == moved.name);
            match known {
                Some((_, known)) => join_refs(known, moved),
                None => joined.push((*root, moved.clone())),
            }
        }
        joined
    }
}

/// Adds a later move of a ref to an earlier one.
fn join_refs(known: &mut RefMove, later: &RefMove) {
    known.new.clone_from(&later.new);
    for entry in &later.index {
        match known.index.iter_mut().find(|known| known.path == entry.path) {
            Some(known) => known.after.clone_from(&entry.after),
            None => known.index.push(entry.clone()),
        }
    }
}

impl ContentSource for AppliedJournals {
    fn open(&self, hash: &Hash) -> io::Result<Box<dyn Read + '_>> {
        let found = self.journals.iter().find_map(|journal| journal.open(hash).ok());
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn linkable_file(&self, hash: &Hash) -> Option<ContentFile> {
        self.journals.iter().find_map(|journal| journal.linkable_file(hash))
    }
}

/// Returns the changes of the files that an undo of these changes makes.
pub(crate) fn wanted_back(images: &AppliedJournals, names: &[ProjectAlias]) -> Vec<WantedChange> {
    let ends = images.changes.iter().map(|JoinedChange { change, .. }| {
        // A directory that the apply made only to hold others is not counted when it is removed either.
        PathChange::new(change.root, &change.path, state_of(&change.pre), state_of(&change.post))
    });
    let carriers = carriers(ends);
    let wanted = images.changes.iter().enumerate().map(|(at, JoinedChange { change, content })| {
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
            content: content.clone(),
            whole_content: None,
            attributes,
            take: ConflictTake::Nothing,
            marked_as: None,
            is_carrier,
        }
    });
    wanted.collect()
}

fn state_of(image: &Option<FileImage>) -> Option<FileState> {
    image.as_ref().map(|image| image.state)
}

fn lines_of(wanted: &WantedChange, images: &AppliedJournals) -> LinesChanged {
    let change = &wanted.change;
    let text = |state: Option<FileState>| state.and_then(|state| images.text(state));
    let (before, after) = (text(change.before), wanted.content.clone().or_else(|| text(change.after)));
    lines_changed(&hunks(before.as_deref(), after.as_deref(), change))
}
