//! Compares a copy with its manifest: a file whose record differs was written since the copy was made.
//!
//! # Invariants
//! The whole copy is walked: the cost grows with its files, though only what differs is read.

use std::collections::HashSet;
use std::os::fd::AsFd;

use domain::{RelPath, is_of_no_project};
use rustix::fs::FileType;

use super::filter::{CaptureFilter, PathClass};
use super::{CaptureError, CaptureRoot, DirAccess, LeftOutReason, WalkEntry, WalkResult};
use crate::fs::listing::{FileStamp, ListingEntry, list};
use crate::open::manifest::Manifest;

pub(super) fn walk(
    root: &CaptureRoot,
    manifest: &Manifest,
    filter: &mut CaptureFilter<'_>,
    opening: &mut DirAccess<'_, '_>,
) -> Result<WalkResult, CaptureError> {
    let mut walking =
        ManifestWalk { root, manifest, filter, met: WalkResult::default(), visited: HashSet::new() };
    let mut dirs: Vec<Option<RelPath>> = vec![None];
    while let Some(dir) = dirs.pop() {
        let Some(opened) = opening.open_dir(root.tree.as_fd(), dir.as_ref())? else { continue };
        let entries =
            list(opened.as_fd()).map_err(|source| crate::open::manifest::at(dir.as_ref(), source))?;
        if let Some(dir) = &dir {
            walking.met.there.entry(dir.clone()).and_modify(|lying| lying.empty = entries.is_empty());
        }
        for entry in &entries {
            match entry.path(dir.as_ref()) {
                Ok(path) => dirs.extend(walking.meet(path, entry).map(Some)),
                Err(_) => walking.met.left_out.counts.special += 1,
            }
        }
    }
    walking.take_away();
    Ok(walking.met)
}

struct ManifestWalk<'a, 'f> {
    root: &'a CaptureRoot,
    manifest: &'a Manifest,
    filter: &'a mut CaptureFilter<'f>,
    met: WalkResult,
    visited: HashSet<RelPath>,
}

impl ManifestWalk<'_, '_> {
    /// Puts one entry where it belongs; says which directory to go into.
    fn meet(&mut self, path: RelPath, entry: &ListingEntry) -> Option<RelPath> {
        self.visited.insert(path.clone());
        let kind = entry.kind();
        let stamp = FileStamp::from_stat(&entry.stat);
        let then = self.manifest.get(&path);
        if kind == FileType::Directory {
            let is_new = then.is_none_or(|then| then.kind() != FileType::Directory);
            let is_changed = then.is_none_or(|then| then.mode() != stamp.mode());
            // One that was reported before is looked at by its record here: later it may be unlocked.
            let is_known = self.root.memory.paths.contains_key(&path);
            if (is_new || is_changed || is_known) && self.left_out(&path, true, is_new).is_none() {
                self.met.there.insert(path.clone(), WalkEntry { stamp, empty: false });
            }
            return Some(path);
        }
        if then == Some(&stamp) {
            return None;
        }
        match kind {
            FileType::RegularFile | FileType::Symlink => match self.left_out(&path, false, then.is_none()) {
                Some(why) => {
                    if why == LeftOutReason::Protected && is_of_no_project(&path) && then.is_none() {
                        self.met.left_out.add(LeftOutReason::Repository, &path);
                    }
                    self.met.leave_out(why, &path, &self.root.memory);
                }
                None => {
                    self.met.there.insert(path, WalkEntry { stamp, empty: false });
                }
            },
            FileType::Directory
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => self.met.leave_out(LeftOutReason::Special, &path, &self.root.memory),
        }
        None
    }

    fn left_out(&mut self, path: &RelPath, is_dir: bool, is_new: bool) -> Option<LeftOutReason> {
        match self.filter.class(path, is_dir) {
            PathClass::Captured => None,
            PathClass::Protected => Some(LeftOutReason::Protected),
            PathClass::Ignored { .. } if self.root.memory.was_reported(path) => None,
            PathClass::Ignored { within } => {
                self.filter.is_scratch(path, within, || is_new).then_some(LeftOutReason::Scratch)
            }
        }
    }

    /// Reports as removed the paths in the manifest that the walk did not meet.
    fn take_away(&mut self) {
        let manifest = self.manifest;
        for (path, stamp) in manifest.iter() {
            if self.visited.contains(path) {
                continue;
            }
            let is_dir = stamp.kind() == FileType::Directory;
            match self.left_out(path, is_dir, false) {
                Some(_) if is_dir => {}
                Some(why) => self.met.leave_out(why, path, &self.root.memory),
                None => {
                    self.met.gone.insert(path.clone());
                }
            }
        }
    }
}
