//! From what a walk met to what changed.
//!
//! # Invariants
//! 1. A directory is reported only when it was made and is empty, or when it was taken away whole. One that comes back
//!    where the original had one is the original.
//! 2. Between a directory and anything else there are two changes: taken away, and made.
//! 3. What is told is remembered only by [`Told::settle`].

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use domain::{Base, Draft, FileState, Kind, Op, RelPath, pair_renames};
use rustix::fs::FileType;

use super::filter::{Class, Filter};
use super::original::{Whose, first_sight, instead, is_of_one_file, read_state};
use super::{
    CaptureError, CaptureRules, CapturedChange, LeftOut, Lying, Met, Opening, Scan, Seen, Tally, Watched,
};
use crate::base_known::Moment;
use crate::copy::open_original;
use crate::listing::{Stamp, Unlocked, list, open_dir, stat_beneath};

/// What changed in one project.
#[derive(Debug)]
pub(super) struct Told {
    found: Vec<Found>,
    pub(super) left_out: Tally,
}

/// What lies at one path now.
#[derive(Debug)]
struct Found {
    path: RelPath,
    now: Option<FileState>,
    stamp: Option<Stamp>,
}

/// Finds out what lies now at every path where something may have changed.
pub(super) fn tell(root: &mut Watched, scan: Scan<'_>) -> Result<Told, CaptureError> {
    let tree = root.tree.try_clone().map_err(|source| crate::manifest::at(None, source))?;
    let mut unlocked = Unlocked::in_tree(tree.as_fd());
    let mut opening = match root.whose() {
        Whose::Plans => Opening::Unlocking(&mut unlocked),
        Whose::Users => Opening::Passing,
    };
    let (met, left_out) = meet_all(root, scan, &mut opening)?;
    let mut found = Vec::new();
    for (path, seen) in &root.memory.paths {
        if met.passed.contains(path) {
            continue;
        }
        let lying = match met.there.get(path) {
            Some(lying) => Some(*lying),
            None if met.gone.contains(path) => None,
            None => look(root, path)?,
        };
        found.push(state_now(root, path, seen, lying, scan)?);
    }
    Ok(Told { found, left_out })
}

/// Meets every path, and keeps its base, without looking at what lies there now.
pub(super) fn save_bases(root: &mut Watched, scan: Scan<'_>) -> Result<(), CaptureError> {
    meet_all(root, scan, &mut Opening::Passing).map(|_| ())
}

/// Walks, and remembers each path that is met for the first time.
fn meet_all(
    root: &mut Watched,
    scan: Scan<'_>,
    opening: &mut Opening<'_, '_>,
) -> Result<(Met, Tally), CaptureError> {
    let mut tracked = std::mem::take(&mut root.tracked);
    let tree = root.tree.try_clone().map_err(|source| crate::manifest::at(None, source))?;
    let mut filter = Filter::new(tree.as_fd(), &mut tracked, &root.path, scan.rules);
    let met = meet_each(root, &mut filter, scan, opening);
    root.tracked = tracked;
    met
}

fn meet_each(
    root: &mut Watched,
    filter: &mut Filter<'_>,
    scan: Scan<'_>,
    opening: &mut Opening<'_, '_>,
) -> Result<(Met, Tally), CaptureError> {
    let met = super::walk(root, filter, opening)?;
    let mut left_out = met.left_out.clone();
    let mut hidden = met.hidden.clone();
    for path in met.there.keys().chain(&met.gone) {
        let is_dir = met.there.get(path).is_some_and(|lying| lying.stamp.kind() == FileType::Directory);
        if !root.memory.paths.contains_key(path) {
            if is_dir && original_is_dir(root, path)? {
                continue;
            }
            let seen = first_sight(root, path, scan)?;
            root.memory.paths.insert(path.clone(), seen);
        }
        // Whatever lies over a directory now hides all of it.
        if !is_dir && root.memory.paths.get(path).is_some_and(Seen::was_dir) {
            hidden.insert(path.clone());
        }
    }
    for dir in hidden {
        if !root.memory.expanded.contains_key(&dir) {
            let tally = expand(root, &dir, filter, scan)?;
            root.memory.expanded.insert(dir.clone(), tally);
        }
        if let Some(tally) = root.memory.expanded.get(&dir) {
            left_out.join(tally);
        }
    }
    Ok((met, left_out))
}

fn original_is_dir(root: &Watched, path: &RelPath) -> Result<bool, CaptureError> {
    let stat =
        stat_beneath(root.original.as_fd(), path).map_err(|source| CaptureError::Original { source })?;
    Ok(stat.is_some_and(|stat| crate::listing::kind_of(&stat) == FileType::Directory))
}

/// Meets all that the original has below a directory that is hidden. Copies need none of it: their records are complete.
fn expand(
    root: &mut Watched,
    dir: &RelPath,
    filter: &mut Filter<'_>,
    scan: Scan<'_>,
) -> Result<Tally, CaptureError> {
    let mut left_out = Tally::default();
    match root.changes {
        super::Where::Copy(_) | super::Where::InPlace(_) => return Ok(left_out),
        super::Where::Upper(_) => {}
    }
    let mut dirs = vec![dir.clone()];
    while let Some(dir) = dirs.pop() {
        let opened = match open_original(root.original.as_fd(), Some(&dir)) {
            Ok(opened) => opened,
            Err(why) if crate::listing::is_absent(&why) => continue,
            // What lies in a directory that we may not look into is not ours to take away either.
            Err(why) if is_of_one_file(&why) => continue,
            Err(source) => return Err(CaptureError::Original { source }),
        };
        let entries = list(opened.as_fd()).map_err(|source| crate::manifest::at(Some(&dir), source))?;
        for entry in entries {
            let Ok(path) = entry.path(Some(&dir)) else { continue };
            let is_dir = entry.kind() == FileType::Directory;
            let class = filter.class(&path, is_dir);
            match class {
                Class::Protected => {
                    left_out.add(LeftOut::Protected, &path);
                    continue;
                }
                Class::Ignored { within: true } if is_dir && filter.is_scratch_dir(&path) => {
                    left_out.add(LeftOut::Scratch, &path);
                    continue;
                }
                Class::Ignored { within } if !is_dir && filter.is_scratch(&path, within, || false) => {
                    left_out.add(LeftOut::Scratch, &path);
                    continue;
                }
                Class::Captured | Class::Ignored { .. } => {}
            }
            match entry.kind() {
                FileType::Directory => dirs.push(path.clone()),
                FileType::RegularFile | FileType::Symlink => {}
                FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => {
                    left_out.add(LeftOut::Special, &path);
                    continue;
                }
            }
            let ignored_dir = is_dir && class != Class::Captured;
            if !ignored_dir && !root.memory.paths.contains_key(&path) {
                let seen = first_sight(root, &path, scan)?;
                root.memory.paths.insert(path, seen);
            }
        }
    }
    Ok(left_out)
}

/// What lies at a path that the walk did not meet.
fn look(root: &Watched, path: &RelPath) -> Result<Option<Lying>, CaptureError> {
    let Some(stat) = stat_beneath(root.tree.as_fd(), path)? else { return Ok(None) };
    let stamp = Stamp::of(&stat);
    if stamp.kind() != FileType::Directory {
        return Ok(Some(Lying { stamp, empty: false }));
    }
    let opened = open_dir(root.tree.as_fd(), Some(path))?;
    let names =
        crate::listing::names(opened.as_fd()).map_err(|source| crate::manifest::at(Some(path), source))?;
    Ok(Some(Lying { stamp, empty: names.is_empty() }))
}

fn state_now(
    root: &Watched,
    path: &RelPath,
    seen: &Seen,
    lying: Option<Lying>,
    scan: Scan<'_>,
) -> Result<Found, CaptureError> {
    let found = |now, stamp| Found { path: path.clone(), now, stamp };
    let Some(lying) = lying else { return Ok(found(None, None)) };
    if lying.stamp.kind() == FileType::Directory {
        return Ok(found(dir_now(seen, lying), None));
    }
    if seen.stamp == Some(lying.stamp) {
        return Ok(found(seen.last, seen.stamp));
    }
    // A record as young as the file clock would look the same after another write: it is not relied upon.
    let trusted = (lying.stamp.changed < Moment::now_for_files()).then_some(lying.stamp);
    let tree = root.tree.as_fd();
    match read_state(tree, path, root.whose(), scan.sink, scan.rules.max_file_bytes) {
        Ok(read) => Ok(found(read.map(|(state, _)| state), trusted)),
        // It is tried again at the next scan.
        Err(why) => Ok(found(instead(why, stat_beneath(tree, path).ok().flatten().as_ref())?, None)),
    }
}

fn dir_now(seen: &Seen, lying: Lying) -> Option<FileState> {
    let was = |state: Option<FileState>| state.filter(|state| state.kind == Kind::Dir);
    match (was(seen.origin), was(seen.last)) {
        (Some(origin), _) => Some(origin),
        (None, Some(_)) => Some(FileState::dir(lying.stamp.mode())),
        (None, None) => lying.empty.then(|| FileState::dir(lying.stamp.mode())),
    }
}

impl Told {
    /// Remembers what was told, and gives the changes.
    pub(super) fn settle(self, root: &mut Watched, rules: &CaptureRules) -> Vec<CapturedChange> {
        let mut drafts = Vec::new();
        for Found { path, now, stamp } in self.found {
            let Some(seen) = root.memory.paths.get_mut(&path) else { continue };
            let changes = between(&path, seen.last, now);
            seen.reported |= !changes.is_empty();
            (seen.last, seen.stamp) = (now, stamp);
            drafts.extend(changes);
        }
        pair_renames(drafts).into_iter().map(|draft| captured(root, draft, rules)).collect()
    }
}

fn between(path: &RelPath, last: Option<FileState>, now: Option<FileState>) -> Vec<Draft> {
    let is_dir = |state: FileState| state.kind == Kind::Dir;
    let replaced = last.zip(now).is_some_and(|(last, now)| is_dir(last) != is_dir(now));
    let steps = if replaced { vec![(last, None), (None, now)] } else { vec![(last, now)] };
    steps.into_iter().filter_map(|(before, after)| Draft::between(path.clone(), before, after)).collect()
}

fn captured(root: &Watched, draft: Draft, rules: &CaptureRules) -> CapturedChange {
    let moved = |path: &RelPath| root.memory.paths.get(path).is_some_and(|seen| seen.base == Base::Moved);
    let source_moved = match draft.op() {
        Op::Rename { from } => moved(from),
        Op::Create | Op::Modify | Op::Delete | Op::Mode => false,
    };
    let base = if moved(draft.path()) || source_moved { Base::Moved } else { Base::Known };
    let sides: BTreeSet<u64> =
        [draft.before(), draft.after()].into_iter().flatten().map(|state| state.size).collect();
    let too_large = sides.last().is_some_and(|size| *size > rules.max_file_bytes);
    CapturedChange { root: root.no, draft, base, too_large }
}
