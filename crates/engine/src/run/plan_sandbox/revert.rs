//! Computes the inverse entries that revert the changes of nodes that run again.
//!
//! A file that no other node changed since becomes what it was. If a settled node has changed it since, the
//! reverted change is merged out of it, three-way, the latest first. An undo is merged with later changes in
//! the same way.
//!
//! # Invariants
//! 1. The changes of a settled node remain: they are merged with, or nothing is done.
//! 2. The inverse of a path begins with what the last entry of that path left, so that entries stay a chain.
//! 3. Files that were moved, and changed by others since, are not distinguished.

use std::collections::BTreeSet;
use std::io::{self, Read};

use domain::inverse as back_of;
use domain::{
    Base, ChangeDraft, ChangeEntry, ChangeOp, FileMerge, FileState, Merge, MergePlacement, MergeSides,
    RelPath, RootIndex, fold_all, merge, merge_file,
};
use sandbox::content::ContentSource;

use super::content::Staging;
use crate::run::RunError;

/// An inverse entry that is to be recorded.
pub(crate) struct RevertEntry {
    /// The project.
    pub(crate) root: RootIndex,
    /// The reliability of its content before.
    pub(crate) base: Base,
    /// Its effect.
    pub(crate) draft: ChangeDraft,
}

type PathInRoot<'a> = (RootIndex, &'a RelPath);

/// Returns the entries that revert `unfinished`, with the `finished` ones unchanged; new contents are stored
/// in `staging`. Or returns the path at which both cannot be separated.
pub(crate) fn inverse(
    staging: &Staging,
    finished: &[ChangeEntry],
    unfinished: &[ChangeEntry],
) -> Result<Result<Vec<RevertEntry>, RelPath>, RunError> {
    let changed_since = |entry: &ChangeEntry| {
        let is_later = |other: &&ChangeEntry| other.no > entry.no && touches(other, entry);
        finished.iter().any(|other| is_later(&other))
    };
    let shared: BTreeSet<PathInRoot<'_>> = unfinished
        .iter()
        .filter(|entry| changed_since(entry))
        .map(|entry| (entry.root, &entry.path))
        .collect();
    let (mixed, own): (Vec<&ChangeEntry>, Vec<&ChangeEntry>) =
        unfinished.iter().partition(|entry| shared.contains(&(entry.root, &entry.path)));
    let mut back: Vec<RevertEntry> = Vec::new();
    for change in fold_all(own) {
        let drafts = back_of(&change).into_iter();
        back.extend(drafts.map(|draft| RevertEntry { root: change.root, base: change.base, draft }));
    }
    for (root, path) in shared {
        let at = |entry: &&ChangeEntry| (entry.root, &entry.path) == (root, path);
        let entries: Vec<&ChangeEntry> = mixed.iter().copied().filter(at).collect();
        let all = finished.iter().chain(unfinished).filter(at);
        let Some(last) = all.max_by_key(|entry| entry.no) else { continue };
        match merged_out(staging, &entries, last.after)? {
            None => return Ok(Err(path.clone())),
            Some(after) => {
                let draft = ChangeDraft::between(path.clone(), last.after, after);
                back.extend(draft.map(|draft| RevertEntry { root, base: last.base, draft }));
            }
        }
    }
    Ok(Ok(back))
}

/// Returns true if the later entry changed what the earlier one had left, or where it had been.
fn touches(later: &ChangeEntry, earlier: &ChangeEntry) -> bool {
    let paths = |entry: &ChangeEntry| {
        let from = match &entry.op {
            ChangeOp::Rename { from } => Some(from.clone()),
            ChangeOp::Create | ChangeOp::Modify | ChangeOp::Delete | ChangeOp::Mode => None,
        };
        [Some(entry.path.clone()), from]
    };
    let of_earlier = paths(earlier);
    later.root == earlier.root
        && paths(later).iter().flatten().any(|path| of_earlier.iter().flatten().any(|other| other == path))
}

/// Returns the rest of a file after these entries, which are in order, are removed from its present content.
/// The outer `None` if that cannot be determined.
fn merged_out(
    staging: &Staging,
    entries: &[&ChangeEntry],
    now: Option<FileState>,
) -> Result<Option<Option<FileState>>, RunError> {
    let failed = |error: io::Error| RunError::failed(domain::ErrorCategory::Sandbox, error);
    let mut now = now;
    for entry in entries.iter().rev() {
        if matches!(entry.op, ChangeOp::Rename { .. }) {
            return Ok(None);
        }
        let sides = MergeSides {
            base: entry.after,
            now,
            plan: entry.before,
            trust: Base::Known,
            place: MergePlacement::Stays,
        };
        now = match merge_file(&sides) {
            FileMerge::AlreadyThere => now,
            FileMerge::Write(state) => Some(state),
            FileMerge::Remove => None,
            FileMerge::MergeLines { mode } => {
                let read = |state: Option<FileState>| read(staging, state);
                let (base, ours, plan) = (read(sides.base), read(now), read(sides.plan));
                match merge(&base.map_err(failed)?, &ours.map_err(failed)?, &plan.map_err(failed)?) {
                    Merge::Same => now,
                    Merge::Merged(bytes) => {
                        staging.keep_bytes(&bytes).map_err(failed)?;
                        Some(FileState::file(&bytes, mode))
                    }
                    Merge::Conflict(_) => return Ok(None),
                }
            }
            FileMerge::Move(_) | FileMerge::Conflict(_) => return Ok(None),
        };
    }
    Ok(Some(now))
}

/// Returns the content of a file from the staging area or from the store.
fn read(staging: &Staging, state: Option<FileState>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(state) = state {
        staging.open(&state.hash)?.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
