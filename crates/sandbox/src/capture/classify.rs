//! Classifies the entries that a walk met into changes.
//!
//! # Invariants
//! 1. A directory is reported when it was made, when its mode differs from the original's, or when it was
//!    removed. One that was made and holds only what is left out is not reported. One that is removed and
//!    made again where the original had one is the original, with another mode if it differs.
//! 2. Between a directory and anything else there are two changes: taken away, and made.
//! 3. A reported change is remembered only by [`ClassifiedChanges::settle`].

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use domain::{Base, ChangeDraft, ChangeOp, FileState, Kind, RelPath, pair_renames};
use rustix::fs::{FileType, Stat};

use super::filter::{CaptureFilter, PathClass};
use super::omissions;
use super::read_state::{FileOwner, is_of_one_file, observe_first, read_state, state_if_unreadable};
use super::{
    CaptureError, CaptureRoot, CaptureRules, CapturedChange, DirAccess, LeftOutCounts, LeftOutReason,
    ScanContext, ScannedPath, WalkEntry, WalkResult,
};
use crate::fs::listing::{FileStamp, PermissionGuard, list, open_dir, permission_bits, stat_beneath};
use crate::open::baseline::Timestamp;
use crate::open::copy::open_original;

/// The changes in one project.
#[derive(Debug)]
pub(super) struct ClassifiedChanges {
    found: Vec<PathState>,
    pub(super) left_out: LeftOutCounts,
    pub(super) patterns_left_out: bool,
}

/// The current state of one path.
#[derive(Debug)]
pub(super) struct PathState {
    pub(super) path: RelPath,
    pub(super) now: Option<FileState>,
    stamp: Option<FileStamp>,
    /// The mode that it has, as the file system says.
    pub(super) mode: Option<u16>,
    /// Names of extended attributes that were set, and are left out.
    pub(super) attributes: Vec<String>,
    /// True if it is a directory that was made and holds something, which may all be left out.
    may_be_hollow: bool,
}

/// Finds the present entry at every path where something may have changed.
pub(super) fn classify(
    root: &mut CaptureRoot,
    scan: ScanContext<'_>,
) -> Result<ClassifiedChanges, CaptureError> {
    let tree = root.tree.try_clone().map_err(|source| crate::open::manifest::at(None, source))?;
    let mut unlocked = PermissionGuard::in_tree(tree.as_fd());
    let mut opening = match root.whose() {
        FileOwner::Plans => DirAccess::Unlocking(&mut unlocked),
        FileOwner::Users => DirAccess::Passing,
    };
    let (met, mut left_out) = meet_all(root, scan, &mut opening)?;
    let mut found = Vec::new();
    for (path, seen) in &root.memory.paths {
        if met.passed.contains(path) {
            continue;
        }
        let lying = match met.there.get(path) {
            Some(lying) => Some(*lying),
            None if met.gone.contains(path) => None,
            None => look_up(root, path)?,
        };
        found.push(state_now(root, path, seen, lying, scan)?);
    }
    drop_hollow_dirs(root, &mut found);
    omissions::take_set_id_off(root, &mut found, &mut left_out);
    omissions::count_attributes(&found, &mut left_out);
    omissions::count_hard_links(root, &met, &mut left_out);
    omissions::count_root_mode(root, &mut left_out);
    Ok(ClassifiedChanges { found, left_out, patterns_left_out: met.patterns_left_out })
}

/// A directory that was made and holds only what is left out is left out with it.
fn drop_hollow_dirs(root: &CaptureRoot, found: &mut [PathState]) {
    let there: BTreeSet<Vec<u8>> = found
        .iter()
        .filter(|found| found.now.is_some() && !found.may_be_hollow)
        .map(|found| found.path.as_bytes().to_vec())
        .collect();
    for dir in found.iter_mut().filter(|found| found.may_be_hollow) {
        let below = [dir.path.as_bytes(), b"/"].concat();
        let holds = there.range(below.clone()..).next().is_some_and(|path| path.starts_with(&below));
        let last = root.memory.paths.get(&dir.path).and_then(|seen| seen.last);
        let was_told = last.is_some_and(|last| last.kind == Kind::Dir);
        if !holds && !was_told {
            dir.now = None;
        }
    }
}

/// Meets every path, and stores its base, without looking at the present entry.
pub(super) fn save_bases(root: &mut CaptureRoot, scan: ScanContext<'_>) -> Result<(), CaptureError> {
    meet_all(root, scan, &mut DirAccess::Passing).map(|_| ())
}

/// Walks, and remembers each path that is met for the first time.
fn meet_all(
    root: &mut CaptureRoot,
    scan: ScanContext<'_>,
    opening: &mut DirAccess<'_, '_>,
) -> Result<(WalkResult, LeftOutCounts), CaptureError> {
    let mut tracked = std::mem::take(&mut root.tracked);
    let tree = root.tree.try_clone().map_err(|source| crate::open::manifest::at(None, source))?;
    let hidden = scan.hidden.within(&root.path);
    let mut filter =
        CaptureFilter::new(tree.as_fd(), &mut tracked, &root.path, scan.rules).with_hidden(hidden);
    let mut first_seen = Vec::new();
    let mut met = meet_each(root, &mut filter, scan, opening, &mut first_seen);
    if let Ok((met, _)) = &mut met {
        met.patterns_left_out = filter.left_out_patterns();
    }
    root.tracked = tracked;
    // Once for all of them, and after their records were read; also if the walk was not finished.
    if !first_seen.is_empty() && scan.opened.clock_was_set_back() {
        forget_bases(root, first_seen);
    }
    met
}

/// Marks the bases of these paths as unknown: nothing says whether the user's files are those that the plan
/// saw.
fn forget_bases(root: &mut CaptureRoot, first_seen: Vec<RelPath>) {
    match root.changes {
        // There the records show it, not the clock.
        super::ScanSource::InPlace(_) => return,
        super::ScanSource::Upper(_) | super::ScanSource::Copy(_) => {}
    }
    for path in first_seen {
        if let Some(seen) = root.memory.paths.get_mut(&path).filter(|seen| seen.origin.is_some()) {
            seen.base = Base::Moved;
        }
    }
}

fn meet_each(
    root: &mut CaptureRoot,
    filter: &mut CaptureFilter<'_>,
    scan: ScanContext<'_>,
    opening: &mut DirAccess<'_, '_>,
    first_seen: &mut Vec<RelPath>,
) -> Result<(WalkResult, LeftOutCounts), CaptureError> {
    let met = super::walk(root, filter, opening)?;
    let mut left_out = met.left_out.clone();
    let mut hidden = met.hidden.clone();
    for path in met.there.keys().chain(&met.gone) {
        let is_dir = met.there.get(path).is_some_and(|lying| lying.stamp.kind() == FileType::Directory);
        if !root.memory.paths.contains_key(path) {
            let lying = met.there.get(path).filter(|_| is_dir);
            let original = if is_dir { original_dir(root, path)? } else { None };
            let seen = match lying.zip(original) {
                Some((lying, original)) if lying.stamp.mode() == mode_then(root, path, &original) => {
                    for name in omissions::set_attributes(root, path) {
                        left_out.add_part(LeftOutReason::Attribute, path, &name);
                    }
                    continue;
                }
                Some((_, original)) => observe_mode_first(root, path, &original, scan),
                None => observe_first(root, path, scan)?,
            };
            root.memory.paths.insert(path.clone(), seen);
            first_seen.push(path.clone());
        }
        // An entry in the place of a directory now hides all of it.
        if !is_dir && root.memory.paths.get(path).is_some_and(ScannedPath::was_dir) {
            hidden.insert(path.clone());
        }
    }
    for dir in hidden {
        if !root.memory.expanded.contains_key(&dir) {
            let tally = expand(root, &dir, filter, scan, first_seen)?;
            root.memory.expanded.insert(dir.clone(), tally);
        }
        if let Some(tally) = root.memory.expanded.get(&dir) {
            left_out.join(tally);
        }
    }
    Ok((met, left_out))
}

/// The record of the original, when it is a directory.
fn original_dir(root: &CaptureRoot, path: &RelPath) -> Result<Option<Stat>, CaptureError> {
    let stat =
        stat_beneath(root.original.as_fd(), path).map_err(|source| CaptureError::Original { source })?;
    Ok(stat.filter(|stat| crate::fs::listing::kind_of(stat) == FileType::Directory))
}

/// The mode with which the plan found a directory. A copy may not have been given all bits of the original.
fn mode_then(root: &CaptureRoot, path: &RelPath, original: &Stat) -> u16 {
    match &root.changes {
        super::ScanSource::Upper(_) => permission_bits(original.st_mode),
        super::ScanSource::Copy(manifest) | super::ScanSource::InPlace(manifest) => {
            manifest.get(path).map_or_else(|| permission_bits(original.st_mode), FileStamp::mode)
        }
    }
}

/// A directory whose mode differs from the original's. That the plan changed it is known only if no process
/// touched the original meanwhile. A directory is copied up with the mode that it has at that moment.
fn observe_mode_first(
    root: &CaptureRoot,
    path: &RelPath,
    original: &Stat,
    scan: ScanContext<'_>,
) -> ScannedPath {
    let state = FileState::dir(mode_then(root, path, original));
    let is_known = match &root.changes {
        super::ScanSource::Upper(_) | super::ScanSource::Copy(_) => {
            scan.opened.unchanged(root.original.as_fd(), path, original)
        }
        super::ScanSource::InPlace(_) => true,
    };
    ScannedPath::first(Some(state), if is_known { Base::Known } else { Base::Moved })
}

/// Meets all that the original has below a directory that is hidden. Copies need none of it: their records
/// are complete.
fn expand(
    root: &mut CaptureRoot,
    dir: &RelPath,
    filter: &mut CaptureFilter<'_>,
    scan: ScanContext<'_>,
    first_seen: &mut Vec<RelPath>,
) -> Result<LeftOutCounts, CaptureError> {
    let mut left_out = LeftOutCounts::default();
    match root.changes {
        super::ScanSource::Copy(_) | super::ScanSource::InPlace(_) => return Ok(left_out),
        super::ScanSource::Upper(_) => {}
    }
    let mut dirs = vec![dir.clone()];
    while let Some(dir) = dirs.pop() {
        let opened = match open_original(root.original.as_fd(), Some(&dir)) {
            Ok(opened) => opened,
            Err(why) if crate::fs::listing::is_absent(&why) => continue,
            // The files in a directory that we may not look into are not ours to remove either.
            Err(why) if is_of_one_file(&why) => continue,
            Err(source) => return Err(CaptureError::Original { source }),
        };
        let entries = list(opened.as_fd()).map_err(|source| crate::open::manifest::at(Some(&dir), source))?;
        for entry in entries {
            let Ok(path) = entry.path(Some(&dir)) else { continue };
            let is_dir = entry.kind() == FileType::Directory;
            let class = filter.class(&path, is_dir);
            match class {
                PathClass::Protected => {
                    left_out.add(LeftOutReason::Protected, &path);
                    continue;
                }
                PathClass::Ignored { within: true } if is_dir && filter.is_scratch_dir(&path) => {
                    left_out.add(LeftOutReason::Scratch, &path);
                    continue;
                }
                PathClass::Ignored { within } if !is_dir && filter.is_scratch(&path, within, || false) => {
                    left_out.add(LeftOutReason::Scratch, &path);
                    continue;
                }
                PathClass::Captured | PathClass::Ignored { .. } => {}
            }
            match entry.kind() {
                FileType::Directory => dirs.push(path.clone()),
                FileType::RegularFile | FileType::Symlink => {}
                FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => {
                    left_out.add(LeftOutReason::Special, &path);
                    continue;
                }
            }
            let ignored_dir = is_dir && class != PathClass::Captured;
            if !ignored_dir && !root.memory.paths.contains_key(&path) {
                let seen = observe_first(root, &path, scan)?;
                root.memory.paths.insert(path.clone(), seen);
                first_seen.push(path);
            }
        }
    }
    Ok(left_out)
}

/// Returns the entry at a path that the walk did not meet.
fn look_up(root: &CaptureRoot, path: &RelPath) -> Result<Option<WalkEntry>, CaptureError> {
    let Some(stat) = stat_beneath(root.tree.as_fd(), path)? else { return Ok(None) };
    let stamp = FileStamp::from_stat(&stat);
    if stamp.kind() != FileType::Directory {
        return Ok(Some(WalkEntry { stamp, empty: false }));
    }
    let opened = open_dir(root.tree.as_fd(), Some(path))?;
    let names = crate::fs::listing::names(opened.as_fd())
        .map_err(|source| crate::open::manifest::at(Some(path), source))?;
    Ok(Some(WalkEntry { stamp, empty: names.is_empty() }))
}

fn state_now(
    root: &CaptureRoot,
    path: &RelPath,
    seen: &ScannedPath,
    lying: Option<WalkEntry>,
    scan: ScanContext<'_>,
) -> Result<PathState, CaptureError> {
    let mode = lying.map(|lying| lying.stamp.mode());
    let attributes = |lying: &WalkEntry| match seen.stamp == Some(lying.stamp) {
        true => seen.attributes.clone(),
        false => omissions::set_attributes(root, path),
    };
    let attributes = lying.as_ref().map(attributes).unwrap_or_default();
    let found = |now, stamp| PathState {
        path: path.clone(),
        now,
        stamp,
        mode,
        attributes: attributes.clone(),
        may_be_hollow: false,
    };
    let Some(lying) = lying else { return Ok(found(None, None)) };
    if lying.stamp.kind() == FileType::Directory {
        let now = Some(FileState::dir(lying.stamp.mode()));
        let may_be_hollow = !lying.empty && !seen.was_dir();
        return Ok(PathState { may_be_hollow, ..found(now, None) });
    }
    if seen.stamp == Some(lying.stamp) {
        return Ok(found(seen.last, seen.stamp));
    }
    // A record as young as the file clock would look the same after another write: it is not relied upon.
    let trusted = (lying.stamp.changed < Timestamp::now_for_files()).then_some(lying.stamp);
    let tree = root.tree.as_fd();
    match read_state(tree, path, root.whose(), scan.sink, scan.rules.max_file_bytes) {
        Ok(read) => Ok(found(read.map(|(state, _)| state), trusted)),
        // It is tried again at the next scan.
        Err(why) => {
            Ok(found(state_if_unreadable(why, stat_beneath(tree, path).ok().flatten().as_ref())?, None))
        }
    }
}

impl ClassifiedChanges {
    /// Remembers the reported changes, and returns them.
    pub(super) fn settle(self, root: &mut CaptureRoot, rules: &CaptureRules) -> Vec<CapturedChange> {
        let mut drafts = Vec::new();
        for PathState { path, now, stamp, attributes, mode: _, may_be_hollow: _ } in self.found {
            let Some(seen) = root.memory.paths.get_mut(&path) else { continue };
            let changes = between(&path, seen.last, now);
            seen.reported |= !changes.is_empty();
            (seen.last, seen.stamp, seen.attributes) = (now, stamp, attributes);
            drafts.extend(changes);
        }
        pair_renames(drafts).into_iter().map(|draft| to_captured_change(root, draft, rules)).collect()
    }
}

fn between(path: &RelPath, last: Option<FileState>, now: Option<FileState>) -> Vec<ChangeDraft> {
    let is_dir = |state: FileState| state.kind == Kind::Dir;
    let replaced = last.zip(now).is_some_and(|(last, now)| is_dir(last) != is_dir(now));
    let steps = if replaced { vec![(last, None), (None, now)] } else { vec![(last, now)] };
    steps
        .into_iter()
        .filter_map(|(before, after)| ChangeDraft::between(path.clone(), before, after))
        .collect()
}

fn to_captured_change(root: &CaptureRoot, draft: ChangeDraft, rules: &CaptureRules) -> CapturedChange {
    let moved = |path: &RelPath| root.memory.paths.get(path).is_some_and(|seen| seen.base == Base::Moved);
    let source_moved = match draft.op() {
        ChangeOp::Rename { from } => moved(from),
        ChangeOp::Create | ChangeOp::Modify | ChangeOp::Delete | ChangeOp::Mode => false,
    };
    let base = if moved(draft.path()) || source_moved { Base::Moved } else { Base::Known };
    let sides: BTreeSet<u64> =
        [draft.before(), draft.after()].into_iter().flatten().map(|state| state.size).collect();
    let too_large = sides.last().is_some_and(|size| *size > rules.max_file_bytes);
    CapturedChange { root: root.no, draft, base, too_large }
}
