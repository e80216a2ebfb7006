//! What a plan changed all in all: its entries folded, one change for each path.
//!
//! # Invariants
//! 1. Folding the entries is replaying them: whoever applies the net changes to the state before the first
//!    entry has the state after the last. All `from` are emptied before any `path` is filled.
//! 2. What ends as it began is no change, and a move to where it began is none either.
//! 3. A change has a `from` only if its source was there at first and is gone in the end, and its target was
//!    not there at first. Every other move is told as what happened at each of its two ends, so that nothing
//!    that was overwritten on the way is forgotten.
//!
//! # Not here
//! Which attempt's entries count (the store), and what a change meets in the project ([`crate::merge_file`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{Base, ChangeEntry, Op};
use crate::changeset_digest::{encode_bytes, encode_state};
use crate::file_state::{FileState, Hash};
use crate::id::{CallNo, RootNo};
use crate::path::RelPath;

/// Keeps these hashes apart from any other use of BLAKE3; a new encoding takes a new name.
const CONTEXT: &str = "CleverAgents net changes, encoding 1";

/// The difference at one path between the plan's base and its result. What diff, merge and apply work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetChange {
    /// The project that the path lies in.
    pub root: RootNo,
    /// Where the file is now; of a deleted one, where it was.
    pub path: RelPath,
    /// Where it was before, when it was moved.
    pub from: Option<RelPath>,
    /// What it was; for a move, at `from`.
    pub before: Option<FileState>,
    /// What it became.
    pub after: Option<FileState>,
    /// Whether the state before can be trusted.
    pub base: Base,
    /// The tool calls that had a part in it, rising.
    pub calls: Vec<CallNo>,
}

/// Folds the entries of one attempt, in the order of their numbers, into one change for each path, in the
/// order of roots and paths.
///
/// ```
/// use domain::{FileState, fold};
/// # use domain::*;
/// # let entry = |no, path: &str, op, before, after| ChangeEntry { id: ChangeId::from_u128(no as u128),
/// #     changeset: ChangesetId::from_u128(1), seq: no as u32, no, call: CallNo(no as u32), root: RootNo(0),
/// #     path: RelPath::new(path).unwrap(), op, before, after, base: Base::Known };
/// let (old, new) = (FileState::file(b"old", 0o644), FileState::file(b"new", 0o644));
/// let moved = entry(1, "b", Op::Rename { from: RelPath::new("a")? }, Some(old), Some(old));
/// let edited = entry(2, "b", Op::Modify, Some(old), Some(new));
/// let net = fold(&[moved, edited]);
/// assert_eq!(net.len(), 1);
/// assert_eq!(net[0].from, Some(RelPath::new("a")?));
/// assert_eq!((net[0].before, net[0].after), (Some(old), Some(new)));
/// # Ok::<(), PathError>(())
/// ```
pub fn fold<'a>(entries: impl IntoIterator<Item = &'a ChangeEntry>) -> Vec<NetChange> {
    let mut places: Places = BTreeMap::new();
    for entry in entries {
        match &entry.op {
            Op::Rename { from } => replay_move(&mut places, from, entry),
            Op::Create | Op::Modify | Op::Delete | Op::Mode => replay_in_place(&mut places, entry),
        }
    }
    let moves = find_moves(&places);
    let moved_away: BTreeSet<&Key> = moves.values().collect();
    let changes = places.iter().filter(|(key, _)| !moved_away.contains(key));
    changes
        .filter_map(|(key, place)| match moves.get(key).and_then(|from| places.get_key_value(from)) {
            Some((from, source)) => Some(moved(key, place, from, source)),
            None => stayed(key, place),
        })
        .collect()
}

/// One hash of what the changes make of the tree: of the sorted (root, path, state after), where a moved file
/// is also absent from where it was. How it came about, and by which calls, plays no part.
pub fn net_hash(changes: &[NetChange]) -> Hash {
    let mut ends: BTreeSet<(RootNo, &RelPath, Option<&FileState>)> = BTreeSet::new();
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

type Key = (RootNo, RelPath);
type Places = BTreeMap<Key, Place>;

/// What is known of one path while entries are replayed.
struct Place {
    first: Option<FileState>,
    base: Base,
    last: Option<FileState>,
    /// Where the file that lies here now lay at first; none if it was made by the plan, or nothing lies here.
    origin: Option<RelPath>,
    calls: BTreeSet<CallNo>,
}

/// The place at `path`, which held `first` if no entry told of it before.
fn place<'a>(
    places: &'a mut Places,
    entry: &ChangeEntry,
    path: &RelPath,
    first: Option<FileState>,
) -> &'a mut Place {
    let place = places.entry((entry.root, path.clone())).or_insert_with(|| Place {
        first,
        base: entry.base,
        last: first,
        origin: first.map(|_| path.clone()),
        calls: BTreeSet::new(),
    });
    place.calls.insert(entry.call);
    place
}

fn replay_in_place(places: &mut Places, entry: &ChangeEntry) {
    let place = place(places, entry, &entry.path, entry.before);
    let was = place.last.is_some();
    place.last = entry.after;
    if was && entry.after.is_some() {
        return;
    }
    // A file that ended takes its origin along; the one that begins here is the plan's own.
    let ended = place.origin.take().filter(|origin| *origin != entry.path);
    let calls = place.calls.clone();
    if let Some(source) = ended.and_then(|origin| places.get_mut(&(entry.root, origin))) {
        source.calls.extend(calls);
    }
}

fn replay_move(places: &mut Places, from: &RelPath, entry: &ChangeEntry) {
    let source = place(places, entry, from, entry.before);
    source.last = None;
    let origin = source.origin.take();
    let calls = source.calls.clone();
    let target = place(places, entry, &entry.path, None);
    target.last = entry.after;
    target.origin = origin;
    target.calls.extend(calls);
}

/// Each target that is told as a move, with its source.
fn find_moves(places: &Places) -> BTreeMap<Key, Key> {
    let mut moves = BTreeMap::new();
    for (key, place) in places {
        let Some(origin) = &place.origin else { continue };
        let from = (key.0, origin.clone());
        let Some(source) = places.get(&from) else { continue };
        let (Some(before), Some(after)) = (source.first, place.last) else { continue };
        if place.first.is_none() && source.last.is_none() && before.kind == after.kind {
            moves.insert(key.clone(), from);
        }
    }
    moves
}

fn moved(key: &Key, place: &Place, from: &Key, source: &Place) -> NetChange {
    NetChange {
        root: key.0,
        path: key.1.clone(),
        from: Some(from.1.clone()),
        before: source.first,
        after: place.last,
        base: source.base,
        calls: source.calls.union(&place.calls).copied().collect(),
    }
}

fn stayed(key: &Key, place: &Place) -> Option<NetChange> {
    (place.first != place.last).then(|| NetChange {
        root: key.0,
        path: key.1.clone(),
        from: None,
        before: place.first,
        after: place.last,
        base: place.base,
        calls: place.calls.iter().copied().collect(),
    })
}
