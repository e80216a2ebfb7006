//! One change of a file: its state before, its state after, and the call that changed it.
//!
//! # Invariants
//! 1. The states before and after alone say what happened; names of tools play no part.
//!    [`ChangeDraft::between`] and [`pair_renames`] are the only makers of a draft; an entry can be
//!    recorded again.
//! 2. A rename has the content of its source, unedited. With edits it stays a delete and a create.
//!
//! # Not here
//! The source of the states (capture), and the storage of entries ([`Changesets`](crate::Changesets)).

pub mod changeset;
pub(crate) mod digest;
pub mod file_state;
pub mod net;
pub mod selection;
pub mod zero_runs;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::{CallNumber, ChangeId, ChangesetId, RootIndex};
use crate::path::RelPath;
use file_state::{FileState, Hash, Kind};
use net::NetChange;

/// The operation on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOp {
    /// It was not there before.
    Create,
    /// Its kind or content differs.
    Modify,
    /// It is no longer there.
    Delete,
    /// It came, unedited, from another path.
    Rename {
        /// The path before.
        from: RelPath,
    },
    /// Only its permission bits differ.
    Mode,
}

/// The trust in the state before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The state before is trusted.
    Known,
    /// The file may have been changed meanwhile: nothing is merged upon it.
    Moved,
}

/// A change as it was found, not yet numbered.
///
/// ```
/// use domain::{ChangeDraft, FileState, ChangeOp, RelPath};
///
/// let path = RelPath::new("build.sh")?;
/// let before = FileState::file(b"make\n", 0o644);
/// let after = FileState::file(b"make\n", 0o755);
/// let draft = ChangeDraft::between(path.clone(), Some(before), Some(after));
/// assert_eq!(draft.map(|draft| draft.op().clone()), Some(ChangeOp::Mode));
/// assert_eq!(ChangeDraft::between(path, Some(before), Some(before)), None);
/// # Ok::<(), domain::PathError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeDraft {
    path: RelPath,
    op: ChangeOp,
    before: Option<FileState>,
    after: Option<FileState>,
}

impl ChangeDraft {
    /// Returns what happened at `path`; nothing, when both states are the same.
    pub fn between(
        path: RelPath,
        before: Option<FileState>,
        after: Option<FileState>,
    ) -> Option<ChangeDraft> {
        let op = match (&before, &after) {
            (None, None) => return None,
            (None, Some(_)) => ChangeOp::Create,
            (Some(_), None) => ChangeOp::Delete,
            (Some(before), Some(after)) if !same_content(before, after) => ChangeOp::Modify,
            (Some(before), Some(after)) if before.mode != after.mode => ChangeOp::Mode,
            (Some(_), Some(_)) => return None,
        };
        Some(ChangeDraft { path, op, before, after })
    }

    /// Returns where the file is; for a rename, where it went.
    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// Returns what happened to it.
    pub fn op(&self) -> &ChangeOp {
        &self.op
    }

    /// Returns what it was; for a rename, at the place that it came from.
    pub fn before(&self) -> Option<&FileState> {
        self.before.as_ref()
    }

    /// Returns what it became.
    pub fn after(&self) -> Option<&FileState> {
        self.after.as_ref()
    }
}

fn same_content(before: &FileState, after: &FileState) -> bool {
    before.kind == after.kind && before.size == after.size && before.hash == after.hash
}

/// Joins each delete with the create that took its content over, among the drafts of one call in one root.
///
/// A pair has equal hash, equal kind and content that is not empty. Of several partners the one with the same
/// file name is taken, then the first in path order. A path that was both deleted and created was replaced,
/// so it is the end of no rename: renames never chain, nor form a circle.
///
/// The answer is in path order, at the same path the delete first; what comes in twice goes out twice.
pub fn pair_renames(drafts: Vec<ChangeDraft>) -> Vec<ChangeDraft> {
    let mut drafts = drafts;
    drafts.sort_by(|a, b| a.path.cmp(&b.path).then_with(|| is_create(a).cmp(&is_create(b))));
    let source_of_create = find_sources(&drafts);
    let renamed_away: BTreeSet<usize> = source_of_create.values().copied().collect();
    let sources: BTreeMap<usize, (RelPath, Option<FileState>)> = renamed_away
        .iter()
        .filter_map(|delete| drafts.get(*delete).map(|draft| (*delete, (draft.path.clone(), draft.before))))
        .collect();
    drafts
        .into_iter()
        .enumerate()
        .filter(|(index, _)| !renamed_away.contains(index))
        .map(|(index, draft)| match source_of_create.get(&index).and_then(|delete| sources.get(delete)) {
            Some((from, before)) => {
                ChangeDraft { op: ChangeOp::Rename { from: from.clone() }, before: *before, ..draft }
            }
            None => draft,
        })
        .collect()
}

/// Returns which delete each create takes its content from, by index into `drafts`, which are in path order.
fn find_sources(drafts: &[ChangeDraft]) -> BTreeMap<usize, usize> {
    let created: BTreeSet<&RelPath> =
        drafts.iter().filter(|draft| is_create(draft)).map(ChangeDraft::path).collect();
    let deleted: BTreeSet<&RelPath> =
        drafts.iter().filter(|draft| is_delete(draft)).map(ChangeDraft::path).collect();
    let mut sources = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for tie in [RenameTieBreak::SameName, RenameTieBreak::PathOrder] {
        let mut free: BTreeMap<MoveKey<'_>, VecDeque<usize>> = BTreeMap::new();
        for (index, draft) in drafts.iter().enumerate() {
            if !is_delete(draft) || taken.contains(&index) || created.contains(&draft.path) {
                continue;
            }
            if let Some(key) = move_key(draft, draft.before(), tie) {
                free.entry(key).or_default().push_back(index);
            }
        }
        for (index, draft) in drafts.iter().enumerate() {
            if !is_create(draft) || sources.contains_key(&index) || deleted.contains(&draft.path) {
                continue;
            }
            let partners = move_key(draft, draft.after(), tie).and_then(|key| free.get_mut(&key));
            if let Some(delete) = partners.and_then(VecDeque::pop_front) {
                sources.insert(index, delete);
                taken.insert(delete);
            }
        }
    }
    sources
}

#[derive(Clone, Copy)]
enum RenameTieBreak {
    SameName,
    PathOrder,
}

/// The key that both ends of a rename have in common.
type MoveKey<'a> = (Hash, Kind, Option<&'a [u8]>);

fn move_key<'a>(
    draft: &'a ChangeDraft,
    state: Option<&FileState>,
    tie: RenameTieBreak,
) -> Option<MoveKey<'a>> {
    let name = match tie {
        RenameTieBreak::SameName => Some(draft.path.file_name()),
        RenameTieBreak::PathOrder => None,
    };
    state.filter(|state| state.size > 0).map(|state| (state.hash, state.kind, name))
}

fn is_create(draft: &ChangeDraft) -> bool {
    matches!(draft.op, ChangeOp::Create)
}

fn is_delete(draft: &ChangeDraft) -> bool {
    matches!(draft.op, ChangeOp::Delete)
}

/// A change to be recorded, named by its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewChange {
    /// Recording the same id again records it once.
    pub id: ChangeId,
    /// The tool call that made the change.
    pub call: CallNumber,
    /// The project of the path.
    pub root: RootIndex,
    /// Says if the state before can be trusted.
    pub base: Base,
    /// The change.
    pub draft: ChangeDraft,
}

/// A recorded change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEntry {
    /// The name that its caller gave it.
    pub id: ChangeId,
    /// The changeset that holds it.
    pub changeset: ChangesetId,
    /// Its place in the changeset: from 1, without gaps.
    pub seq: u32,
    /// Its place in the plan: from 1, rising. A checkpoint is such a number.
    pub no: u64,
    /// The tool call that made the change.
    pub call: CallNumber,
    /// The project of the path.
    pub root: RootIndex,
    /// The path of the file; for a rename, the new one.
    pub path: RelPath,
    /// The operation.
    pub op: ChangeOp,
    /// The state before.
    pub before: Option<FileState>,
    /// The state after.
    pub after: Option<FileState>,
    /// Says if the state before can be trusted.
    pub base: Base,
}

impl ChangeEntry {
    /// The entry for `change` at its place.
    pub(crate) fn new(changeset: ChangesetId, seq: u32, no: u64, change: NewChange) -> ChangeEntry {
        let NewChange { id, call, root, base, draft } = change;
        let ChangeDraft { path, op, before, after } = draft;
        ChangeEntry { id, changeset, seq, no, call, root, path, op, before, after, base }
    }

    /// Returns the same change, to be recorded once more under another name.
    pub fn recorded_again(&self, id: ChangeId) -> NewChange {
        let ChangeEntry { call, root, path, op, before, after, base, .. } = self.clone();
        NewChange { id, call, root, base, draft: ChangeDraft { path, op, before, after } }
    }

    /// Returns whether `change` is what was recorded here: the same name and the same content.
    pub fn matches(&self, change: &NewChange) -> bool {
        let NewChange { id, call, root, base, draft } = change;
        let ChangeDraft { path, op, before, after } = draft;
        self.id == *id
            && self.call == *call
            && self.root == *root
            && self.base == *base
            && self.path == *path
            && self.op == *op
            && self.before == *before
            && self.after == *after
    }
}

/// The drafts that lead from the state after `change` to the one before it.
pub fn inverse(change: &NetChange) -> Vec<ChangeDraft> {
    match &change.from {
        Some(from) => {
            let gone = ChangeDraft::between(change.path.clone(), change.after, None);
            let back = ChangeDraft::between(from.clone(), None, change.before);
            gone.into_iter().chain(back).collect()
        }
        None => ChangeDraft::between(change.path.clone(), change.after, change.before).into_iter().collect(),
    }
}

/// The net change that takes `draft`, found in the project `root`, back.
pub fn undoing(root: RootIndex, draft: &ChangeDraft) -> NetChange {
    let (path, from) = match draft.op() {
        ChangeOp::Rename { from } => (from.clone(), Some(draft.path().clone())),
        ChangeOp::Create | ChangeOp::Modify | ChangeOp::Delete | ChangeOp::Mode => {
            (draft.path().clone(), None)
        }
    };
    NetChange {
        root,
        path,
        from,
        before: draft.after().copied(),
        after: draft.before().copied(),
        base: Base::Known,
        calls: Vec::new(),
    }
}
