//! Net changes: folds a plan's entries into one change for each path.
//!
//! # Invariants
//! 1. Folding the entries is replaying them: applying the net changes to the state before the first entry
//!    gives the state after the last. All `from` are emptied before any `path` is filled.
//! 2. A file that ends as it began has no change. A file that is moved away and back has none either.
//! 3. A change has a `from` only if its source existed at first and is gone in the end. Its target must not
//!    have existed at first. Every other move is reported as a change at each of its two ends, so that
//!    nothing that was overwritten on the way is forgotten.
//! 4. [`fold`] leaves out directories that were made with a usual mode only to hold other things: they are
//!    not reviewed. [`fold_all`] has them; code that writes files uses it.
//!
//! # Not here
//! The choice of the attempt whose entries count (the store), and the merge of a change with the project
//! ([`crate::merge_file`]).

use std::collections::{BTreeSet, HashMap};

use super::digest::{encode_bytes, encode_state};
use super::file_state::{FileState, Hash, Kind};
use super::{Base, ChangeEntry, ChangeOp};
use crate::id::{CallNumber, RootIndex};
use crate::path::RelPath;

/// Separates these hashes from any other use of BLAKE3; a new encoding takes a new name.
const CONTEXT: &str = "CleverAgents net changes, encoding 1";

/// The difference at one path between the plan's base and its result. Diff, merge and apply work on these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetChange {
    /// The project of the path.
    pub root: RootIndex,
    /// The present path of the file; of a deleted one, its last path.
    pub path: RelPath,
    /// The path before a move.
    pub from: Option<RelPath>,
    /// The state before; for a move, at `from`.
    pub before: Option<FileState>,
    /// The state after.
    pub after: Option<FileState>,
    /// Says if the state before can be trusted.
    pub base: Base,
    /// The tool calls that had a part in it, rising.
    pub calls: Vec<CallNumber>,
}

/// Folds the entries of one attempt, in the order of their numbers, into one change for each path, in the
/// order of roots and paths.
///
/// ```
/// use domain::{FileState, fold};
/// # use domain::*;
/// # let entry = |no, path: &str, op, before, after| ChangeEntry { id: ChangeId::from_u128(no as u128),
/// #     changeset: ChangesetId::from_u128(1), seq: no as u32, no, call: CallNumber(no as u32), root: RootIndex(0),
/// #     path: RelPath::new(path).unwrap(), op, before, after, base: Base::Known };
/// let (old, new) = (FileState::file(b"old", 0o644), FileState::file(b"new", 0o644));
/// let moved = entry(1, "b", ChangeOp::Rename { from: RelPath::new("a")? }, Some(old), Some(old));
/// let edited = entry(2, "b", ChangeOp::Modify, Some(old), Some(new));
/// let net = fold(&[moved, edited]);
/// assert_eq!(net.len(), 1);
/// assert_eq!(net[0].from, Some(RelPath::new("a")?));
/// assert_eq!((net[0].before, net[0].after), (Some(old), Some(new)));
/// # Ok::<(), PathError>(())
/// ```
pub fn fold<'a>(entries: impl IntoIterator<Item = &'a ChangeEntry>) -> Vec<NetChange> {
    let mut folding = NetChangeFold::default();
    entries.into_iter().for_each(|entry| folding.add(entry));
    folding.finish()
}

/// The same, with the directories that were made to hold what was made.
pub fn fold_all<'a>(entries: impl IntoIterator<Item = &'a ChangeEntry>) -> Vec<NetChange> {
    let mut folding = NetChangeFold::default();
    entries.into_iter().for_each(|entry| folding.add(entry));
    folding.finish_all()
}

/// The same, entry by entry: not all of them have to be in memory at once.
///
/// A plan may change 100,000 files, so that each costs little: its place and a number in the index.
#[derive(Debug, Default)]
pub struct NetChangeFold {
    /// In the order in which entries first name them.
    places: Vec<ReplayedPath>,
    /// The number of each place, by the hash of its root and path.
    index: HashMap<Hash, u32>,
}

impl NetChangeFold {
    /// Takes the next entry, in the order of their numbers.
    pub fn add(&mut self, entry: &ChangeEntry) {
        match &entry.op {
            ChangeOp::Rename { from } => self.replay_move(from, entry),
            ChangeOp::Create | ChangeOp::Modify | ChangeOp::Delete | ChangeOp::Mode => {
                self.replay_in_place(entry)
            }
        }
    }

    /// Returns what they come to, without directories that were made with a usual mode only to hold others.
    pub fn finish(self) -> Vec<NetChange> {
        let mut net = self.finish_all();
        let carriers = carriers(net.iter().map(PathChange::from));
        let mut at = 0..;
        net.retain(|_| at.next().is_none_or(|at| !carriers.contains(&at)));
        net
    }

    /// Returns what they come to.
    pub fn finish_all(mut self) -> Vec<NetChange> {
        let moves = self.find_moves();
        let moved: Vec<NetChange> =
            moves.iter().map(|(at, from)| build_move(&self.places[*at], &self.places[*from])).collect();
        for at in moves.into_iter().flat_map(|(at, from)| [at, from]) {
            self.places[at].forget();
        }
        drop(self.index);
        // It takes the memory of the places over.
        let mut changes: Vec<NetChange> = self.places.into_iter().filter_map(build_in_place).collect();
        changes.extend(moved);
        changes.sort_unstable_by(|one, other| (one.root, &one.path).cmp(&(other.root, &other.path)));
        changes
    }

    fn find(&self, root: RootIndex, path: &RelPath) -> Option<usize> {
        self.index.get(&index_key(root, path)).map(|at| *at as usize)
    }

    /// The place at `path`, which held `first` if no earlier entry names it.
    fn place(&mut self, entry: &ChangeEntry, path: &RelPath, first: Option<FileState>) -> &mut ReplayedPath {
        let next = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let at = *self.index.entry(index_key(entry.root, path)).or_insert(next);
        if at == next {
            self.places.push(ReplayedPath {
                root: entry.root,
                path: path.clone(),
                first,
                base: entry.base,
                last: first,
                origin: if first.is_some() { FileOrigin::Here } else { FileOrigin::Nowhere },
                calls: Vec::with_capacity(1),
            });
        }
        let place = &mut self.places[at as usize];
        place.add_calls(&[entry.call]);
        place
    }

    fn replay_in_place(&mut self, entry: &ChangeEntry) {
        let place = self.place(entry, &entry.path, entry.before);
        let was = place.last.is_some();
        place.last = entry.after;
        if was && entry.after.is_some() {
            return;
        }
        // A file that ended takes its origin along; the one that begins here is the plan's own.
        let ended = match std::mem::replace(&mut place.origin, FileOrigin::Nowhere) {
            FileOrigin::At(origin) if origin != entry.path => origin,
            FileOrigin::At(_) | FileOrigin::Here | FileOrigin::Nowhere => return,
        };
        let calls = place.calls.clone();
        if let Some(source) = self.find(entry.root, &ended) {
            self.places[source].add_calls(&calls);
        }
    }

    fn replay_move(&mut self, from: &RelPath, entry: &ChangeEntry) {
        let source = self.place(entry, from, entry.before);
        source.last = None;
        let origin = match std::mem::replace(&mut source.origin, FileOrigin::Nowhere) {
            FileOrigin::Here => FileOrigin::At(from.clone()),
            origin @ (FileOrigin::At(_) | FileOrigin::Nowhere) => origin,
        };
        let calls = source.calls.clone();
        let target = self.place(entry, &entry.path, None);
        target.last = entry.after;
        target.origin = origin;
        target.add_calls(&calls);
    }

    /// Each target that is reported as a move, with its source.
    fn find_moves(&self) -> Vec<(usize, usize)> {
        let mut moves = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            let FileOrigin::At(origin) = &place.origin else { continue };
            let Some(from) = self.find(place.root, origin) else { continue };
            let source = &self.places[from];
            let (Some(before), Some(after)) = (source.first, place.last) else { continue };
            if place.first.is_none() && source.last.is_none() && before.kind == after.kind {
                moves.push((at, from));
            }
        }
        moves
    }
}

/// By its hash a place needs no second copy of its path.
fn index_key(root: RootIndex, path: &RelPath) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&root.0.to_le_bytes()).update(path.as_bytes());
    Hash::from_bytes(*hasher.finalize().as_bytes())
}

/// The modes that directories get by default under the usual umasks.
const USUAL_DIR_MODES: [u16; 2] = [0o755, 0o775];

/// One path, and what was there before and after.
#[derive(Clone, Copy, Debug)]
pub struct PathChange<'a> {
    root: RootIndex,
    path: &'a [u8],
    before: Option<FileState>,
    after: Option<FileState>,
}

impl<'a> PathChange<'a> {
    /// The two ends of a change at `path`.
    pub fn new(
        root: RootIndex,
        path: &'a RelPath,
        before: Option<FileState>,
        after: Option<FileState>,
    ) -> PathChange<'a> {
        PathChange { root, path: path.as_bytes(), before, after }
    }

    fn is_usual_new_dir(&self) -> bool {
        self.before.is_none() && self.after.as_ref().is_some_and(is_usual_dir)
    }
}

impl<'a> From<&'a NetChange> for PathChange<'a> {
    fn from(change: &'a NetChange) -> PathChange<'a> {
        PathChange::new(change.root, &change.path, change.before, change.after)
    }
}

/// Returns whether it is a directory with a default mode.
pub(crate) fn is_usual_dir(state: &FileState) -> bool {
    state.kind == Kind::Dir && USUAL_DIR_MODES.contains(&state.mode)
}

/// Returns which of these, by index, are directories that were made with a usual mode to hold others of them.
pub fn carriers<'a>(ends: impl Iterator<Item = PathChange<'a>> + Clone) -> BTreeSet<usize> {
    if !ends.clone().any(|end| end.is_usual_new_dir()) {
        return BTreeSet::new();
    }
    let made: BTreeSet<(RootIndex, &[u8])> =
        ends.clone().filter(|end| end.after.is_some()).map(|end| (end.root, end.path)).collect();
    let holds = |end: &PathChange<'_>| {
        let below = [end.path, b"/"].concat();
        let first = made.range((end.root, &below[..])..).next();
        first.is_some_and(|(root, path)| *root == end.root && path.starts_with(&below))
    };
    let is_carrier = |end: &PathChange<'_>| end.is_usual_new_dir() && holds(end);
    ends.enumerate().filter(|(_, end)| is_carrier(end)).map(|(at, _)| at).collect()
}

/// One hash of the tree that the changes lead to: of the sorted (root, path, state after). A moved file is
/// also absent from its old path. The order of the changes and the calls that made them play no part.
pub fn net_hash(changes: &[NetChange]) -> Hash {
    let mut ends: BTreeSet<(RootIndex, &RelPath, Option<&FileState>)> = BTreeSet::new();
    for change in changes {
        ends.insert((change.root, &change.path, change.after.as_ref()));
        ends.extend(change.from.as_ref().map(|from| (change.root, from, None)));
    }
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    let mut sink = |bytes: &[u8]| {
        hasher.update(bytes);
    };
    sink(&(ends.len() as u64).to_le_bytes());
    for (root, path, after) in ends {
        sink(&root.0.to_le_bytes());
        encode_bytes(path.as_bytes(), &mut sink);
        encode_state(after, &mut sink);
    }
    Hash::from_bytes(*hasher.finalize().as_bytes())
}

/// The state of one path while entries are replayed. There is one for each changed file: it is small, and no
/// smaller than the change that takes its memory over.
#[derive(Debug)]
struct ReplayedPath {
    root: RootIndex,
    path: RelPath,
    first: Option<FileState>,
    base: Base,
    last: Option<FileState>,
    origin: FileOrigin,
    /// Rising.
    calls: Vec<CallNumber>,
}

/// The first place of the file that is at a path now.
#[derive(Debug)]
enum FileOrigin {
    /// Nowhere: the plan made it, or nothing is there.
    Nowhere,
    /// At the same path.
    Here,
    /// At this one.
    At(RelPath),
}

impl ReplayedPath {
    fn add_calls(&mut self, calls: &[CallNumber]) {
        for call in calls {
            if let Err(place) = self.calls.binary_search(call) {
                self.calls.insert(place, *call);
            }
        }
    }

    /// Makes it no change, because it is reported as a part of a move.
    fn forget(&mut self) {
        self.last = self.first;
    }
}

fn build_move(place: &ReplayedPath, source: &ReplayedPath) -> NetChange {
    NetChange {
        root: place.root,
        path: place.path.clone(),
        from: Some(source.path.clone()),
        before: source.first,
        after: place.last,
        base: source.base,
        calls: source
            .calls
            .iter()
            .chain(&place.calls)
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    }
}

fn build_in_place(place: ReplayedPath) -> Option<NetChange> {
    let ReplayedPath { root, path, first: before, last: after, base, calls, .. } = place;
    (before != after).then_some(NetChange { root, path, from: None, before, after, base, calls })
}
