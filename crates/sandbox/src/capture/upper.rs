//! What the upper directory of an overlay says: everything in it was made, copied up or taken away by the plan.
//!
//! # Invariants
//! 1. A character device 0:0 says that what lies below it was taken away.
//! 2. A directory with `user.overlay.opaque` = `y` hides all of the original's.
//! 3. Only the upper directory is walked: the cost is that of what changed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use domain::{RelPath, is_of_no_project};
use rustix::fs::{FileType, Stat};

use super::filter::{Class, Filter};
use super::{CaptureError, LeftOut, Lying, Met, Opening, Watched};
use crate::fs::listing::{Stamp, kind_of, list, stat_beneath};

pub(super) fn walk(
    root: &Watched,
    upper: &OwnedFd,
    filter: &mut Filter<'_>,
    opening: &mut Opening<'_, '_>,
) -> Result<Met, CaptureError> {
    let mut met = Met::default();
    let mut dirs: Vec<Option<RelPath>> = vec![None];
    while let Some(dir) = dirs.pop() {
        let Some(opened) = opening.open_dir(upper.as_fd(), dir.as_ref())? else { continue };
        let entries =
            list(opened.as_fd()).map_err(|source| crate::open::manifest::at(dir.as_ref(), source))?;
        if let Some(dir) = &dir {
            let empty = entries.iter().all(|entry| is_whiteout(&entry.stat));
            met.there.entry(dir.clone()).and_modify(|lying| lying.empty = empty);
            if is_opaque(opened.as_fd()) && filter.class(dir, true) != Class::Protected {
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
    root: &Watched,
    path: RelPath,
    stat: &Stat,
    filter: &mut Filter<'_>,
    met: &mut Met,
) -> Result<Option<RelPath>, CaptureError> {
    if is_whiteout(stat) {
        take_away(root, path, filter, met)?;
        return Ok(None);
    }
    let kind = kind_of(stat);
    let is_dir = kind == FileType::Directory;
    let why = match filter.class(&path, is_dir) {
        Class::Captured => None,
        Class::Protected => Some(LeftOut::Protected),
        Class::Ignored { .. } if root.memory.was_reported(&path) => None,
        Class::Ignored { within } => {
            let is_new = || !matches!(stat_beneath(root.original.as_fd(), &path), Ok(Some(_)));
            filter.is_scratch(&path, within, is_new).then_some(LeftOut::Scratch)
        }
    };
    match (kind, why) {
        // What is left out of a directory is counted in it, so it is gone into all the same.
        (FileType::Directory, Some(_)) => return Ok(Some(path)),
        (FileType::Directory, None) => {
            met.there.insert(path.clone(), Lying { stamp: Stamp::of(stat), empty: false });
            return Ok(Some(path));
        }
        (FileType::RegularFile | FileType::Symlink, None) => {
            met.there.insert(path, Lying { stamp: Stamp::of(stat), empty: false });
        }
        (FileType::RegularFile | FileType::Symlink, Some(why)) => {
            let is_new = || matches!(stat_beneath(root.original.as_fd(), &path), Ok(None));
            if why == LeftOut::Protected && is_of_no_project(&path) && is_new() {
                met.left_out.add(LeftOut::Repository, &path);
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
        ) => met.leave_out(LeftOut::Special, &path, &root.memory),
    }
    Ok(None)
}

fn take_away(
    root: &Watched,
    path: RelPath,
    filter: &mut Filter<'_>,
    met: &mut Met,
) -> Result<(), CaptureError> {
    let original =
        stat_beneath(root.original.as_fd(), &path).map_err(|source| CaptureError::Original { source })?;
    let was_dir = original.is_some_and(|stat| kind_of(&stat) == FileType::Directory);
    match filter.class(&path, was_dir) {
        Class::Protected => met.leave_out(LeftOut::Protected, &path, &root.memory),
        Class::Ignored { within }
            if !root.memory.was_reported(&path)
                && filter.is_scratch(&path, within, || false)
                && (!was_dir || filter.is_scratch_dir(&path)) =>
        {
            met.leave_out(LeftOut::Scratch, &path, &root.memory);
        }
        // Tracked files lay in it: they are looked at, and the directory itself stays the user's business.
        Class::Ignored { .. } if was_dir && !root.memory.was_reported(&path) => {
            met.hidden.insert(path);
        }
        Class::Captured | Class::Ignored { .. } => {
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
