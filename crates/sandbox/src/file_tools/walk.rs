//! Walks the entries below a directory, one by one: for listing and searching.
//!
//! # Invariants
//! 1. Directories are opened beneath the root, and no link is followed.
//! 2. The order is that of the names, a directory before what is in it.
//! 3. Hidden entries are not reported.
//! 4. Directories of version control or of this program are named, and not entered.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use domain::RelPath;
use rustix::fs::FileType;

use crate::capture::{CaptureFilter, CaptureRules, PathClass, TrackedRepository};
use crate::fs::beneath::BeneathError;
use crate::fs::listing::{list, open_dir};
use crate::hidden_path_matcher::HiddenInProject;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
    Special,
}

/// An entry that the walk met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its path.
    pub path: RelPath,
    /// Its kind.
    pub kind: ListedKind,
    /// Its length in bytes, if it is a file.
    pub size: u64,
}

/// The visitor's answer: continue or stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// With the next.
    GoOn,
    /// No further.
    Stop,
}

/// The start and the depth of a walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkRequest<'a> {
    /// The project's own path, for the rules of git.
    pub project: &'a Path,
    /// The directory; none for the root.
    pub dir: Option<&'a RelPath>,
    /// The number of levels; `None` for all.
    pub depth: Option<u32>,
    /// Also what git ignores.
    pub ignored: bool,
    /// Passed over.
    pub hidden: &'a HiddenInProject,
}

/// Reports everything below a directory.
///
/// # Errors
/// The directory itself cannot be read. One below it that cannot is passed over.
pub fn walk(
    root: BorrowedFd<'_>,
    walk: WalkRequest<'_>,
    visit: &mut dyn FnMut(ListedEntry) -> Visit,
) -> Result<(), BeneathError> {
    let mut tracked = TrackedRepository::new(walk.project);
    let rules = CaptureRules::default();
    let mut filter = CaptureFilter::new(root, &mut tracked, walk.project, &rules);
    if let Some(dir) = walk.dir {
        walk.hidden.check(dir).map_err(|source| BeneathError::Io { path: dir.clone(), source })?;
    }
    let mut waiting = below(root, walk.dir, 1)?;
    while let Some((found, level)) = waiting.pop() {
        if walk.hidden.has(&found.path) {
            continue;
        }
        let is_dir = found.kind == ListedKind::Directory;
        let class = filter.class(&found.path, is_dir);
        if matches!(class, PathClass::Ignored { .. }) && !walk.ignored {
            continue;
        }
        let is_deep_enough = walk.depth.is_some_and(|depth| level >= depth);
        let goes_in = is_dir && class != PathClass::Protected && !is_deep_enough;
        let path = found.path.clone();
        if visit(found) == Visit::Stop {
            return Ok(());
        }
        if goes_in && let Ok(inner) = below(root, Some(&path), level + 1) {
            waiting.extend(inner);
        }
    }
    Ok(())
}

/// Returns the entries of one directory, the first name last.
fn below(
    root: BorrowedFd<'_>,
    dir: Option<&RelPath>,
    level: u32,
) -> Result<Vec<(ListedEntry, u32)>, BeneathError> {
    let opened = open_dir(root, dir)?;
    let entries = list(opened.as_fd()).map_err(|source| BeneathError::Io {
        path: dir.cloned().unwrap_or_else(crate::fs::listing::root_path),
        source,
    })?;
    let listed = entries.into_iter().rev().filter_map(|entry| {
        let kind = kind_of(entry.kind());
        let size = if kind == ListedKind::File { u64::try_from(entry.stat.st_size).unwrap_or(0) } else { 0 };
        // A path too long to be named cannot be asked for either.
        Some((ListedEntry { path: entry.path(dir).ok()?, kind, size }, level))
    });
    Ok(listed.collect())
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a foreign enum")]
fn kind_of(kind: FileType) -> ListedKind {
    match kind {
        FileType::RegularFile => ListedKind::File,
        FileType::Directory => ListedKind::Directory,
        FileType::Symlink => ListedKind::Link,
        _ => ListedKind::Special,
    }
}
