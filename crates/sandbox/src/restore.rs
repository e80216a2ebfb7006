//! Restores recorded changes in a sandbox: the net changes of a plan that is resumed, or the inverse ones of
//! a node that is retried.
//!
//! # Invariants
//! 1. A restored change is not reported by the next scan, and has the base it was recorded with.
//! 2. A content that is not what its hash says is not left in the tree.
//! 3. Nothing is followed out of the tree, and nothing protected is written.
//! 4. Directories get their modes last, the inner first: a mode may deny what is still to be made in them.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use domain::{Base, ErrorClass, FileState, Hash, Kind, NetChange, RelPath, RootIndex, is_of_no_project};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::capture::{CaptureRoot, ScanCache, ScannedPath};
use crate::content::ContentSource;
use crate::fs::beneath;
use crate::fs::beneath::BeneathError;
use crate::fs::sparse_file;

/// Links have no more bytes than a path may have.
const LINK_BYTES_MAX: u64 = 4096;

/// The number of bytes of a content that are in memory at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// The reason that a change could not be put into the sandbox. The changes before it are in.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// No such project is open.
    #[error("the sandbox has no project {}", .root.0)]
    NoSuchRoot {
        /// The number of the project.
        root: RootIndex,
    },
    /// It is in a directory that is never written.
    #[error("{path} is protected")]
    Protected {
        /// The path.
        path: RelPath,
    },
    /// The user's file belongs to another, and the sandbox cannot take it over.
    #[error("{path} belongs to another user or group")]
    ForeignOwner {
        /// The path.
        path: RelPath,
    },
    /// The content is not there, or cannot be read.
    #[error("the content of {path}: {source}")]
    Content {
        /// The path.
        path: RelPath,
        /// The cause.
        source: io::Error,
    },
    /// The content is another than was recorded.
    #[error("the content of {path} is not what was recorded")]
    WrongContent {
        /// The path.
        path: RelPath,
    },
    /// The sandbox could not be written.
    #[error("the sandbox cannot be written: {source}")]
    Sandbox {
        /// The cause.
        #[from]
        source: BeneathError,
    },
}

impl RestoreError {
    /// Returns the class of the error, which decides on a retry of the same changes.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoSuchRoot { .. } | Self::Protected { .. } => ErrorClass::Bug,
            Self::ForeignOwner { .. } | Self::WrongContent { .. } | Self::Sandbox { .. } => {
                ErrorClass::Permanent
            }
            Self::Content { .. } => ErrorClass::Transient,
        }
    }
}

/// Returns true if a file could not be written because it belongs to another: in a user namespace only our
/// own ids exist.
pub fn is_foreign_owner(why: &io::Error) -> bool {
    why.raw_os_error() == Some(libc::EOVERFLOW)
}

/// Puts each change in; removals first, so that what takes their place finds it free.
pub(crate) fn restore(
    roots: &mut [CaptureRoot],
    changes: &[NetChange],
    source: &dyn ContentSource,
) -> Result<(), RestoreError> {
    for change in changes {
        root_of(roots, change.root)?;
        for path in change.from.iter().chain([&change.path]) {
            if is_of_no_project(path) {
                return Err(RestoreError::Protected { path: path.clone() });
            }
        }
    }
    // Backwards, the entries of a directory come before the directory.
    let mut removals: Vec<(RootIndex, &RelPath)> = changes.iter().filter_map(removal).collect();
    removals.sort();
    // A directory that denies it is opened for as long as this takes, and gets its mode in the end.
    let dirs: Vec<(RootIndex, &RelPath)> = changes.iter().filter_map(changed_dir).collect();
    for (no, path) in &dirs {
        open_up(root_of(roots, *no)?.tree.as_fd(), path)?;
    }
    for (no, path) in removals.into_iter().rev() {
        remove(root_of(roots, no)?.tree.as_fd(), path)?;
    }
    let mut makings: Vec<(&NetChange, FileState)> =
        changes.iter().filter_map(|change| change.after.map(|after| (change, after))).collect();
    makings.sort_by(|(a, _), (b, _)| (a.root, &a.path).cmp(&(b.root, &b.path)));
    for (change, after) in makings {
        make(root_of(roots, change.root)?.tree.as_fd(), &change.path, &after, source)?;
    }
    let mut modes: Vec<(RootIndex, &RelPath, u16)> = changes.iter().filter_map(mode_of_dir).collect();
    modes.sort();
    for (no, path, mode) in modes.into_iter().rev() {
        set_dir_mode(root_of(roots, no)?.tree.as_fd(), path, mode)?;
    }
    for change in changes {
        remember(&mut root_of(roots, change.root)?.memory, change);
    }
    Ok(())
}

fn root_of(roots: &mut [CaptureRoot], no: RootIndex) -> Result<&mut CaptureRoot, RestoreError> {
    roots.iter_mut().find(|root| root.no == no).ok_or(RestoreError::NoSuchRoot { root: no })
}

/// A directory that is changed or removed.
fn changed_dir(change: &NetChange) -> Option<(RootIndex, &RelPath)> {
    let is_dir = change.before.is_some_and(|before| before.kind == Kind::Dir);
    is_dir.then_some((change.root, &change.path))
}

fn mode_of_dir(change: &NetChange) -> Option<(RootIndex, &RelPath, u16)> {
    let after = change.after.filter(|after| after.kind == Kind::Dir)?;
    Some((change.root, &change.path, after.mode))
}

/// Opens the permissions of a directory for changes of its entries; one that does not exist is fine.
fn open_up(tree: BorrowedFd<'_>, path: &RelPath) -> Result<(), RestoreError> {
    let Some(stat) = crate::fs::listing::stat_beneath(tree, path)? else { return Ok(()) };
    let mode = crate::fs::listing::permission_bits(stat.st_mode);
    let is_closed = crate::fs::listing::kind_of(&stat).is_dir() && mode & 0o700 != 0o700;
    if is_closed { set_dir_mode(tree, path, mode | 0o700) } else { Ok(()) }
}

fn set_dir_mode(tree: BorrowedFd<'_>, path: &RelPath, mode: u16) -> Result<(), RestoreError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let held = beneath::open(tree, path, flags, Mode::empty(), beneath::LinkPolicy::Refuse)?;
    crate::fs::listing::chmod_held(held.as_fd(), Mode::from_raw_mode(u32::from(mode))).map_err(at(path))
}

fn removal(change: &NetChange) -> Option<(RootIndex, &RelPath)> {
    match (&change.from, change.after) {
        (Some(from), _) => Some((change.root, from)),
        (None, None) => Some((change.root, &change.path)),
        (None, Some(_)) => None,
    }
}

/// Records the state that the next scan compares with.
fn remember(memory: &mut ScanCache, change: &NetChange) {
    let mut set = |path: &RelPath, origin: Option<FileState>, last: Option<FileState>, base: Base| {
        let seen = memory.paths.entry(path.clone()).or_insert_with(|| ScannedPath::first(origin, base));
        (seen.last, seen.stamp, seen.reported) = (last, None, true);
    };
    match &change.from {
        Some(from) => {
            set(from, change.before, None, change.base);
            set(&change.path, None, change.after, change.base);
        }
        None => set(&change.path, change.before, change.after, change.base),
    }
}

fn at(path: &RelPath) -> impl Fn(io::Error) -> RestoreError + '_ {
    move |source| {
        if is_foreign_owner(&source) {
            RestoreError::ForeignOwner { path: path.clone() }
        } else {
            RestoreError::Sandbox { source: BeneathError::Io { path: path.clone(), source } }
        }
    }
}

/// Removes the entry at the path. A directory that is not empty stays.
fn remove(tree: BorrowedFd<'_>, path: &RelPath) -> Result<(), RestoreError> {
    let parent = match beneath::open_parent(tree, path) {
        Ok(parent) => parent,
        Err(why) if crate::fs::listing::is_absent(&why) => return Ok(()),
        Err(why) => return Err(why.into()),
    };
    let name = name_of(path)?;
    let removed = match rustix::fs::unlinkat(&parent, name.as_c_str(), AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => rustix::fs::unlinkat(&parent, name.as_c_str(), AtFlags::REMOVEDIR),
        other => other,
    };
    match removed {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(errno) => Err(at(path)(errno.into())),
    }
}

fn name_of(path: &RelPath) -> Result<CString, RestoreError> {
    CString::new(path.file_name()).map_err(|nul| at(path)(nul.into()))
}

fn make(
    tree: BorrowedFd<'_>,
    path: &RelPath,
    after: &FileState,
    source: &dyn ContentSource,
) -> Result<(), RestoreError> {
    let parent = make_parents(tree, path)?;
    let name = name_of(path)?;
    let mode = Mode::from_raw_mode(u32::from(after.mode));
    match after.kind {
        Kind::Dir => {
            // An entry of another kind was not removed: it is at the same path.
            let stat = crate::fs::listing::stat_beneath(tree, path)?;
            if stat.is_some_and(|stat| !crate::fs::listing::kind_of(&stat).is_dir()) {
                remove(tree, path)?;
            }
            match rustix::fs::mkdirat(&parent, name.as_c_str(), Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(at(path)(errno.into())),
            }
        }
        Kind::Symlink => {
            remove(tree, path)?;
            let target = link_target(path, after, source)?;
            rustix::fs::symlinkat(target.as_c_str(), &parent, name.as_c_str())
                .map_err(|errno| at(path)(errno.into()))
        }
        Kind::File => {
            // A new inode, so that no other name of the old one is written to.
            remove(tree, path)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&parent, name.as_c_str(), flags, Mode::RUSR | Mode::WUSR)
                .map_err(|errno| at(path)(errno.into()))?;
            if let Err(why) = fill(file, path, after, mode, source) {
                remove(tree, path)?;
                return Err(why);
            }
            Ok(())
        }
    }
}

/// Makes the directories on the way; anything else there was removed before.
pub(crate) fn make_parents(tree: BorrowedFd<'_>, path: &RelPath) -> Result<OwnedFd, RestoreError> {
    match beneath::open_parent(tree, path) {
        Ok(parent) => return Ok(parent),
        Err(why) if why.is_not_found() => {}
        Err(why) => return Err(why.into()),
    }
    let mut missing = Vec::new();
    let mut next = path.parent();
    while let Some(dir) = next {
        next = dir.parent();
        missing.push(dir);
    }
    for dir in missing.into_iter().rev() {
        let parent = beneath::open_parent(tree, &dir)?;
        match rustix::fs::mkdirat(&parent, name_of(&dir)?.as_c_str(), Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(at(&dir)(errno.into())),
        }
    }
    Ok(beneath::open_parent(tree, path)?)
}

fn link_target(
    path: &RelPath,
    after: &FileState,
    source: &dyn ContentSource,
) -> Result<CString, RestoreError> {
    let content = |source| RestoreError::Content { path: path.clone(), source };
    let mut target = Vec::new();
    source
        .open(&after.hash)
        .and_then(|reader| reader.take(LINK_BYTES_MAX).read_to_end(&mut target))
        .map_err(content)?;
    if Hash::from_content(&target) != after.hash {
        return Err(RestoreError::WrongContent { path: path.clone() });
    }
    CString::new(target).map_err(|_| RestoreError::WrongContent { path: path.clone() })
}

fn fill(
    file: OwnedFd,
    path: &RelPath,
    after: &FileState,
    mode: Mode,
    source: &dyn ContentSource,
) -> Result<(), RestoreError> {
    let content = |source| RestoreError::Content { path: path.clone(), source };
    let file = File::from(file);
    let mut reader = source.open(&after.hash).map_err(content)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut size = 0;
    // Whole buffers, so that each begins at a block.
    while reader.by_ref().take(BUFFER_BYTES as u64).read_to_end(&mut buffer).map_err(content)? > 0 {
        hasher.update(&buffer);
        sparse_file::write_all_at(&file, &buffer, size).map_err(at(path))?;
        size += buffer.len() as u64;
        buffer.clear();
    }
    file.set_len(size).map_err(at(path))?;
    if hasher.finalize().as_bytes() != after.hash.as_bytes() {
        return Err(RestoreError::WrongContent { path: path.clone() });
    }
    rustix::fs::fchmod(&file, mode).map_err(|errno| at(path)(errno.into()))
}
