//! Renames among changes that were recorded as a deletion and an addition, for the reader of a diff.
//!
//! # Invariants
//! 1. The same changes and contents always give the same renames.
//! 2. A change is an end of at most one rename. Both ends are in one project and of one kind, and neither is
//!    a directory or below the other.
//! 3. Equal contents are paired first. The rest is paired by the share of bytes in common lines, the largest
//!    share first, and by nothing below [`SIMILARITY_MIN`].
//! 4. The cost is bounded: files, bytes read and comparisons each have a limit. Beyond it a change stays a
//!    deletion or an addition, which is always true.
//!
//! # Not here
//! The choice and the apply of changes: these work on deletions and additions, as recorded. A move that was
//! recorded as one is a change of its own ([`crate::pair_renames`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher};

use crate::change::Base;
use crate::change::file_state::{FileState, Hash, Kind};
use crate::change::net::NetChange;

use super::hunks::in_lines;
use super::lines::split_lines;

/// The least share of common content that makes a rename, in percent, as git has it.
pub const SIMILARITY_MIN: u8 = 50;
/// The number of deleted and of added files among which similar ones are searched, as git has it.
const SIDE_FILES_MAX: usize = 1000;
/// The bytes of contents that are compared.
const CONTENT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The number of times that a line of an added file is compared with a deleted file that has it.
const LINE_MATCHES_MAX: u64 = 20_000_000;

/// A deleted and an added file that are one file with another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DetectedRename {
    /// The index of the deletion.
    pub from: usize,
    /// The index of the addition.
    pub to: usize,
    /// The share of the content that is the same, in percent; 100 only for equal contents.
    pub similarity: u8,
}

impl DetectedRename {
    /// The rename as one change; `None` if it does not belong to these changes.
    pub fn as_change(&self, changes: &[NetChange]) -> Option<NetChange> {
        let (gone, come) = (changes.get(self.from)?, changes.get(self.to)?);
        let calls: BTreeSet<_> = gone.calls.iter().chain(&come.calls).copied().collect();
        Some(NetChange {
            from: Some(gone.path.clone()),
            before: gone.before,
            calls: calls.into_iter().collect(),
            ..come.clone()
        })
    }
}

/// Returns the renames among `changes`, in the order of the additions. `read` returns a content that is stored.
pub fn find_renames(
    changes: &[NetChange],
    mut read: impl FnMut(&Hash) -> Option<Vec<u8>>,
) -> Vec<DetectedRename> {
    let ends = |state: fn(&NetChange) -> Option<FileState>, other: fn(&NetChange) -> Option<FileState>| {
        let is_end = move |change: &NetChange| {
            change.from.is_none() && change.base == Base::Known && other(change).is_none()
        };
        let found = changes.iter().enumerate().filter(move |(_, change)| is_end(change));
        found.filter_map(move |(at, change)| {
            let state = state(change).filter(|state| state.kind != Kind::Dir && state.size > 0);
            state.map(|state| RenameEnd { at, state })
        })
    };
    let gone: Vec<RenameEnd> = ends(|change| change.before, |change| change.after).collect();
    let come: Vec<RenameEnd> = ends(|change| change.after, |change| change.before).collect();
    if gone.is_empty() || come.is_empty() {
        return Vec::new();
    }
    let mut renames = pair_equal(changes, &gone, &come);
    let taken: BTreeSet<usize> = renames.iter().flat_map(|rename| [rename.from, rename.to]).collect();
    let left = |ends: &[RenameEnd]| -> Vec<RenameEnd> {
        ends.iter().filter(|end| !taken.contains(&end.at) && in_lines(&end.state)).copied().collect()
    };
    renames.extend(pair_similar(changes, &left(&gone), &left(&come), &mut read));
    renames.sort_unstable_by_key(|rename| rename.to);
    renames
}

/// A deletion or an addition of a file that has content.
#[derive(Clone, Copy)]
struct RenameEnd {
    at: usize,
    state: FileState,
}

/// Returns whether two changes can be the ends of a rename.
fn fit(gone: &NetChange, come: &NetChange) -> bool {
    let is_below =
        |path: &[u8], above: &[u8]| path.strip_prefix(above).is_some_and(|rest| rest.first() == Some(&b'/'));
    let (from, to) = (gone.path.as_bytes(), come.path.as_bytes());
    gone.root == come.root && !is_below(from, to) && !is_below(to, from)
}

/// Pairs equal contents: those with one file name first, then in the order of paths.
fn pair_equal(changes: &[NetChange], gone: &[RenameEnd], come: &[RenameEnd]) -> Vec<DetectedRename> {
    let mut renames = Vec::new();
    let mut taken = BTreeSet::new();
    for by_name in [true, false] {
        let key = |end: &RenameEnd| {
            let change = &changes[end.at];
            let name = by_name.then(|| change.path.file_name());
            (change.root, end.state.kind, end.state.hash, end.state.size, name)
        };
        let mut free: BTreeMap<_, VecDeque<usize>> = BTreeMap::new();
        for end in gone.iter().filter(|end| is_known(&end.state) && !taken.contains(&end.at)) {
            free.entry(key(end)).or_default().push_back(end.at);
        }
        for end in come {
            if taken.contains(&end.at) {
                continue;
            }
            let Some(partners) = free.get_mut(&key(end)) else { continue };
            let partner = partners.iter().position(|from| fit(&changes[*from], &changes[end.at]));
            if let Some(from) = partner.and_then(|at| partners.remove(at)) {
                taken.extend([from, end.at]);
                renames.push(DetectedRename { from, to: end.at, similarity: 100 });
            }
        }
    }
    renames
}

/// A content that could not be read has a hash of zeros, and equals nothing.
fn is_known(state: &FileState) -> bool {
    state.hash != Hash::from_bytes([0; 32])
}

/// Pairs similar contents.
fn pair_similar(
    changes: &[NetChange],
    gone: &[RenameEnd],
    come: &[RenameEnd],
    read: &mut dyn FnMut(&Hash) -> Option<Vec<u8>>,
) -> Vec<DetectedRename> {
    if gone.is_empty() || come.is_empty() || gone.len().max(come.len()) > SIDE_FILES_MAX {
        return Vec::new();
    }
    let bytes: u64 = gone.iter().chain(come).map(|end| end.state.size).sum();
    if bytes > CONTENT_BYTES_MAX {
        return Vec::new();
    }
    // The deleted files that have a line, each with the bytes that it has of it.
    let mut holders: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
    for (source, end) in gone.iter().enumerate() {
        for (line, bytes) in line_bytes(read(&end.state.hash)) {
            holders.entry(line).or_default().push((source, bytes));
        }
    }
    let mut scores = Vec::new();
    let mut matches_left = LINE_MATCHES_MAX;
    for end in come {
        let mut common = vec![0_u64; gone.len()];
        for (line, bytes) in line_bytes(read(&end.state.hash)) {
            let Some(holders) = holders.get(&line) else { continue };
            let Some(left) = matches_left.checked_sub(holders.len() as u64) else { return best(scores) };
            matches_left = left;
            for (source, of_source) in holders {
                common[*source] += bytes.min(*of_source);
            }
        }
        for (source, common) in gone.iter().zip(common) {
            let longer = source.state.size.max(end.state.size);
            let percent = common.saturating_mul(100).checked_div(longer).unwrap_or(0);
            let similarity = u8::try_from(percent.min(99)).unwrap_or(99);
            let (from, to) = (&changes[source.at], &changes[end.at]);
            if similarity >= SIMILARITY_MIN && fit(from, to) {
                let is_other_name = from.path.file_name() != to.path.file_name();
                let rename = DetectedRename { from: source.at, to: end.at, similarity };
                scores.push((u8::MAX - similarity, is_other_name, rename));
            }
        }
    }
    best(scores)
}

/// Takes the best of the scores, each end once.
fn best(mut scores: Vec<(u8, bool, DetectedRename)>) -> Vec<DetectedRename> {
    scores.sort_unstable();
    let mut taken = BTreeSet::new();
    let mut renames = Vec::new();
    for (_, _, rename) in scores {
        if !taken.contains(&rename.from) && !taken.contains(&rename.to) {
            taken.extend([rename.from, rename.to]);
            renames.push(rename);
        }
    }
    renames
}

/// The lines of a content by their hash, each with the bytes that all lines like it have.
fn line_bytes(content: Option<Vec<u8>>) -> BTreeMap<u64, u64> {
    let mut lines = BTreeMap::new();
    for line in split_lines(&content.unwrap_or_default()) {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        *lines.entry(hasher.finish()).or_insert(0) += line.len() as u64;
    }
    lines
}
