//! Walks the upper directory of an overlay: the plan made, copied up or removed everything in it.
//!
//! # Invariants
//! 1. A character device 0:0 says that the entry below it was removed.
//! 2. A directory with `user.overlay.opaque` = `y` hides all of the original's.
//! 3. Only the upper directory is walked: the cost is that of what changed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use domain::{RelPath, is_of_no_project};
use rustix::fs::{FileType, Stat};

use super::filter::{CaptureFilter, PathClass};
use super::{CaptureError, CaptureRoot, DirAccess, LeftOutReason, WalkEntry, WalkResult};
use crate::fs::listing::{FileStamp, kind_of, list, stat_beneath};

pub(super) fn walk(
    root: &CaptureRoot,
    upper: &OwnedFd,
    filter: &mut CaptureFilter<'_>,
    opening: &mut DirAccess<'_, '_>,
) -> Result<WalkResult, CaptureError> {
    let mut met = WalkResult::default();
    let mut dirs: Vec<Option<RelPath>> = vec![None];
    while let Some(dir) = dirs.pop() {
        let Some(opened) = opening.open_dir(upper.as_fd(), dir.as_ref())? else { continue };
        let entries =
            list(opened.as_fd()).map_err(|source| crate::open::manifest::at(dir.as_ref(), source))?;
        if let Some(dir) = &dir {
            let empty = entries.iter().all(|entry| is_whiteout(&entry.stat));
            met.there.entry(dir.clone()).and_modify(|lying| lying.empty = empty);
            if is_opaque(opened.as_fd()) && filter.class(dir, true) != PathClass::Protected {
                met.hidden.insert(dir.clone());
            }
        }
        for entry in entries {
            let Ok(path) = entry.path(dir.as_ref()) else {
                met.left_out.counts.special += 1;
                continue;
            };
            if let Some(below) = meet(root, path, &entry.stat, filter, &mut met)? {
                dirs.push(Some(below));
            }
        }
    }
    Ok(met)
}

/// Puts one entry where it belongs; says which directory to go into.
fn meet(
    root: &CaptureRoot,
    path: RelPath,
    stat: &Stat,
    filter: &mut CaptureFilter<'_>,
    met: &mut WalkResult,
) -> Result<Option<RelPath>, CaptureError> {
    if is_whiteout(stat) {
        take_away(root, path, filter, met)?;
        return Ok(None);
    }
    let kind = kind_of(stat);
    let is_dir = kind == FileType::Directory;
    let why = match filter.class(&path, is_dir) {
        PathClass::Captured => None,
        PathClass::Protected => Some(LeftOutReason::Protected),
        PathClass::Ignored { .. } if root.memory.was_reported(&path) => None,
        PathClass::Ignored { within } => {
            let is_new = || !matches!(stat_beneath(root.original.as_fd(), &path), Ok(Some(_)));
            filter.is_scratch(&path, within, is_new).then_some(LeftOutReason::Scratch)
        }
    };
    match (kind, why) {
        // The entries that are left out of a directory are counted, so it is walked all the same.
        (FileType::Directory, Some(_)) => return Ok(Some(path)),
        (FileType::Directory, None) => {
            met.there.insert(path.clone(), WalkEntry { stamp: FileStamp::from_stat(stat), empty: false });
            return Ok(Some(path));
        }
        (FileType::RegularFile | FileType::Symlink, None) => {
            met.there.insert(path, WalkEntry { stamp: FileStamp::from_stat(stat), empty: false });
        }
        (FileType::RegularFile | FileType::Symlink, Some(why)) => {
            let is_new = || matches!(stat_beneath(root.original.as_fd(), &path), Ok(None));
            if why == LeftOutReason::Protected && is_of_no_project(&path) && is_new() {
                met.left_out.add(LeftOutReason::Repository, &path);
            }
            met.leave_out(why, &path, &root.memory);
        }
        (
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown,
            _,
        ) => met.leave_out(LeftOutReason::Special, &path, &root.memory),
    }
    Ok(None)
}

fn take_away(
    root: &CaptureRoot,
    path: RelPath,
    filter: &mut CaptureFilter<'_>,
    met: &mut WalkResult,
) -> Result<(), CaptureError> {
    let original =
        stat_beneath(root.original.as_fd(), &path).map_err(|source| CaptureError::Original { source })?;
    let was_dir = original.is_some_and(|stat| kind_of(&stat) == FileType::Directory);
    match filter.class(&path, was_dir) {
        PathClass::Protected => met.leave_out(LeftOutReason::Protected, &path, &root.memory),
        PathClass::Ignored { within }
            if !root.memory.was_reported(&path)
                && filter.is_scratch(&path, within, || false)
                && (!was_dir || filter.is_scratch_dir(&path)) =>
        {
            met.leave_out(LeftOutReason::Scratch, &path, &root.memory);
        }
        // It had tracked files: they are looked at, and the directory itself is left to the user.
        PathClass::Ignored { .. } if was_dir && !root.memory.was_reported(&path) => {
            met.hidden.insert(path);
        }
        PathClass::Captured | PathClass::Ignored { .. } => {
            met.gone.insert(path);
        }
    }
    Ok(())
}

fn is_whiteout(stat: &Stat) -> bool {
    kind_of(stat) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn is_opaque(dir: BorrowedFd<'_>) -> bool {
    let mut value = [0; 2];
    matches!(rustix::fs::fgetxattr(dir, c"user.overlay.opaque", &mut value), Ok(1)) && value[0] == b'y'
}
