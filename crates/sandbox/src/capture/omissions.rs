//! Parts of captured files that are left out, and reported: bits that give rights, extended attributes and
//! hard links. The mode of the project's own directory, which has no path, is left out too.
//!
//! # Invariants
//! 1. A file gets no set-user-id or set-group-id bit that the original, or the file that it was moved from,
//!    did not have. Its lines do not show a reviewer that a program runs with other rights.
//! 2. An attribute that a file has only because it was made in the sandbox (a list inherited from its
//!    directory) is not reported. The file inherits the same where it is applied.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use domain::{FileState, Hash, Kind, RelPath};
use rustix::fs::{FileType, Mode, OFlags};

use super::classify::PathState;
use super::{CaptureRoot, LeftOutCounts, LeftOutReason, ScanSource, ScannedPath, WalkEntry, WalkResult};
use crate::fs::beneath;
use crate::fs::beneath::LinkPolicy;
use crate::fs::listing::permission_bits;
use crate::journal::read_attributes;

/// Set-user-id and set-group-id.
const SET_ID: u16 = 0o6000;
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";

/// Takes the bits off that give rights, of files that did not have them.
pub(super) fn take_set_id_off(root: &CaptureRoot, found: &mut [PathState], left_out: &mut LeftOutCounts) {
    let origin = |path: &RelPath| root.memory.paths.get(path).and_then(|seen: &ScannedPath| seen.origin);
    let is_file = |state: &FileState| state.kind == Kind::File;
    let moved: BTreeMap<Hash, u16> = found
        .iter()
        .filter(|found| found.now.is_none())
        .filter_map(|found| origin(&found.path).filter(is_file))
        .filter(|origin| origin.mode & SET_ID != 0)
        .map(|origin| (origin.hash, origin.mode & SET_ID))
        .collect();
    for one in found.iter_mut() {
        let (Some(mode), Some(now)) = (one.mode, one.now.as_mut().filter(|now| is_file(now))) else {
            continue;
        };
        let had = origin(&one.path).filter(is_file).map_or(0, |origin| origin.mode & SET_ID);
        let may_have = had | moved.get(&now.hash).copied().unwrap_or(0);
        let off = mode & SET_ID & !may_have;
        now.mode = mode & !off;
        if off != 0 {
            left_out.add_part(LeftOutReason::SetId, &one.path, &format!("{mode:04o}"));
        }
    }
}

/// Counts the extended attributes that were set.
pub(super) fn count_attributes(found: &[PathState], left_out: &mut LeftOutCounts) {
    for one in found {
        for name in &one.attributes {
            left_out.add_part(LeftOutReason::Attribute, &one.path, name);
        }
    }
}

/// Counts the names that are hard links of others that are captured.
pub(super) fn count_hard_links(root: &CaptureRoot, met: &WalkResult, left_out: &mut LeftOutCounts) {
    match root.changes {
        ScanSource::Upper(_) | ScanSource::Copy(_) => {}
        ScanSource::InPlace(_) => return,
    }
    let is_file = |lying: &WalkEntry| lying.stamp.kind() == FileType::RegularFile;
    let mut files: Vec<(&RelPath, u64)> = met
        .there
        .iter()
        .filter(|(_, lying)| is_file(lying))
        .map(|(path, lying)| (path, lying.stamp.inode()))
        .collect();
    let mut names: HashMap<u64, usize> = HashMap::new();
    files.iter().for_each(|(_, inode)| *names.entry(*inode).or_default() += 1);
    files.retain(|(_, inode)| names.get(inode).is_some_and(|count| *count > 1));
    // A name that the project has stays as it is: the new one becomes the copy.
    let is_new = |path: &RelPath| open_path(root.original.as_fd(), path).is_none();
    files.sort_by_cached_key(|(path, _)| is_new(path));
    let mut first: HashMap<u64, &RelPath> = HashMap::new();
    for (path, inode) in files {
        match first.get(&inode) {
            Some(other) => left_out.add_part(LeftOutReason::HardLink, path, &other.to_string()),
            None => {
                first.insert(inode, path);
            }
        }
    }
}

/// Counts the project itself, if its own directory has another mode than the original.
pub(super) fn count_root_mode(root: &CaptureRoot, left_out: &mut LeftOutCounts) {
    let mode = |dir: BorrowedFd<'_>| rustix::fs::fstat(dir).ok().map(|stat| permission_bits(stat.st_mode));
    let (now, before) = (mode(root.tree.as_fd()), mode(root.original.as_fd()));
    if let Some(now) = now.filter(|_| now != before) {
        left_out.add_root_mode(now);
    }
}

/// The names of extended attributes that the plan's file has and the original has not, or has otherwise.
pub(super) fn set_attributes(root: &CaptureRoot, path: &RelPath) -> Vec<String> {
    let set = read(root.tree.as_fd(), path);
    let told = set.iter().filter(|(name, _)| is_reported(name)).peekable();
    if told.clone().peekable().peek().is_none() {
        return Vec::new();
    }
    let before = read(root.original.as_fd(), path);
    let inherits = || {
        let above = path.parent();
        above.is_some_and(|dir| read(root.tree.as_fd(), &dir).iter().any(|(name, _)| name == DEFAULT_LIST))
    };
    told.filter(|(name, value)| !before.iter().any(|(other, was)| other == name && was == value))
        .filter(|(name, _)| !(name == ACCESS_LIST || name == DEFAULT_LIST) || !inherits())
        .map(|(name, _)| name.escape_ascii().to_string())
        .collect()
}

/// Returns false for labels of the system and attributes of the overlay: no command made them.
fn is_reported(name: &[u8]) -> bool {
    let is_users = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
    is_users || name == b"security.capability" || name == ACCESS_LIST || name == DEFAULT_LIST
}

/// Reads the extended attributes. Unreadable ones are not reported: the content matters more.
fn read(root: BorrowedFd<'_>, path: &RelPath) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = open_path(root, path).and_then(|held| read_attributes(held.as_fd()).ok());
    read.map(|attributes| attributes.extended).unwrap_or_default()
}

/// A descriptor of what is at a path; `None` if nothing is, or it cannot be reached.
fn open_path(root: BorrowedFd<'_>, path: &RelPath) -> Option<OwnedFd> {
    beneath::open(root, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), LinkPolicy::Refuse).ok()
}
