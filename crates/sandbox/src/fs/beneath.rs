//! Paths resolved by the kernel, beneath a root that is held open.
//!
//! # Invariants
//! 1. No path leaves its root: not by `..`, not by a link, not by a race with a process that moves
//!    directories. `openat2` with `RESOLVE_BENEATH` says so in the same step that opens; nothing here
//!    compares strings.
//! 2. A race that the kernel cannot decide (`EAGAIN`) is tried again, [`TRIES_MAX`] times.
//!
//! # Not here
//! The list of protected directories: that is for the callers that write.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use domain::RelPath;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The number of retries of an undecided race.
pub const TRIES_MAX: u32 = 8;

/// The treatment of symbolic links on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Follow them, as long as they stay beneath the root.
    Follow,
    /// Refuse every one, the last component included.
    Refuse,
}

/// The reason that a path was not opened.
#[derive(Debug, thiserror::Error)]
pub enum BeneathError {
    /// It leads out of its root, or through a link that must not be followed.
    #[error("{path} leads outside its project")]
    Escapes {
        /// The path.
        path: RelPath,
    },
    /// The system said no.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: RelPath,
        /// The error of the system.
        source: io::Error,
    },
}

impl BeneathError {
    /// Returns true if there is nothing at the path.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The same as the system would have said it.
    pub fn into_io(self) -> io::Error {
        match self {
            Self::Escapes { .. } => io::Error::new(io::ErrorKind::PermissionDenied, self.to_string()),
            Self::Io { source, .. } => source,
        }
    }
}

/// Opens a project's root, to resolve paths beneath it.
///
/// # Errors
/// It is not a directory, or not to be reached.
pub fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The same for callers that must not wait: `None` if a disk would have to be waited for, or if it cannot be
/// opened.
pub fn root_at_hand(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).ok()
}

/// Opens `path` beneath `root`. `flags` gain `CLOEXEC`.
///
/// # Errors
/// [`BeneathError::Escapes`] when the path would leave the root.
pub fn open(
    root: BorrowedFd<'_>,
    path: &RelPath,
    flags: OFlags,
    mode: Mode,
    links: LinkPolicy,
) -> Result<OwnedFd, BeneathError> {
    let io_error = |source: io::Error| BeneathError::Io { path: path.clone(), source };
    let name = CString::new(path.as_bytes()).map_err(|nul| io_error(nul.into()))?;
    let resolve = beneath(links);
    for _ in 0..TRIES_MAX {
        match rustix::fs::openat2(root, name.as_c_str(), flags | OFlags::CLOEXEC, mode, resolve) {
            Ok(file) => return Ok(file),
            Err(Errno::AGAIN) => {}
            // Without links to follow, a link at the end that was opened as such is no escape: O_PATH |
            // O_NOFOLLOW succeeds; everything else that meets a link ends here.
            Err(Errno::XDEV | Errno::LOOP) => return Err(BeneathError::Escapes { path: path.clone() }),
            Err(Errno::NOSYS) => return open_by_components(root, path, flags, mode),
            Err(errno) => return Err(io_error(errno.into())),
        }
    }
    Err(io_error(Errno::AGAIN.into()))
}

/// The same for callers that only read and must not wait. `None` if a disk would have to be waited for, or if
/// anything prevents it.
pub fn open_at_hand(
    root: BorrowedFd<'_>,
    path: &RelPath,
    flags: OFlags,
    links: LinkPolicy,
) -> Option<OwnedFd> {
    let name = CString::new(path.as_bytes()).ok()?;
    let resolve = beneath(links) | ResolveFlags::CACHED;
    rustix::fs::openat2(root, name.as_c_str(), flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
}

fn beneath(links: LinkPolicy) -> ResolveFlags {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match links {
        LinkPolicy::Follow => resolve,
        LinkPolicy::Refuse => resolve | ResolveFlags::NO_SYMLINKS,
    }
}

/// The same if the kernel has no `openat2`, or denies it to us: opens one component after the other, and
/// follows no link.
fn open_by_components(
    root: BorrowedFd<'_>,
    path: &RelPath,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, BeneathError> {
    let io_error = |source: io::Error| BeneathError::Io { path: path.clone(), source };
    let no_link = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = root.try_clone_to_owned().map_err(io_error)?;
    let mut names = path.as_bytes().split(|byte| *byte == b'/').peekable();
    while let Some(name) = names.next() {
        let is_last = names.peek().is_none();
        let how = if is_last { flags } else { OFlags::PATH | OFlags::DIRECTORY };
        match rustix::fs::openat(&dir, name, how | no_link, mode) {
            Ok(opened) => dir = opened,
            Err(Errno::LOOP) => return Err(BeneathError::Escapes { path: path.clone() }),
            Err(Errno::NOTDIR) if is_link(&dir, name) => {
                return Err(BeneathError::Escapes { path: path.clone() });
            }
            Err(errno) => return Err(io_error(errno.into())),
        }
    }
    Ok(dir)
}

fn is_link(dir: &OwnedFd, name: &[u8]) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Opens the directory that contains `path`, so that the last component can be made, renamed or removed in
/// it.
///
/// # Errors
/// As [`open`]; links on the way are refused.
pub fn open_parent(root: BorrowedFd<'_>, path: &RelPath) -> Result<OwnedFd, BeneathError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    match path.parent() {
        Some(parent) => open(root, &parent, flags, Mode::empty(), LinkPolicy::Refuse),
        None => root
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| BeneathError::Io { path: path.clone(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn without_openat2_no_link_is_followed_either() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("d/e")).unwrap();
        std::fs::write(dir.path().join("d/e/f"), b"x").unwrap();
        symlink("d", dir.path().join("l")).unwrap();
        symlink("f", dir.path().join("d/e/l")).unwrap();
        let root = open_root(dir.path()).unwrap();
        for (at, flags) in [
            ("d/e/f", OFlags::RDONLY),
            ("d/e/f/g", OFlags::RDONLY),
            ("d/none", OFlags::RDONLY),
            ("l", OFlags::RDONLY),
            ("l/e/f", OFlags::RDONLY),
            ("d/e/l", OFlags::RDONLY),
            ("d/e/l", OFlags::PATH | OFlags::NOFOLLOW),
            ("d/e", OFlags::RDONLY | OFlags::DIRECTORY),
        ] {
            let path = RelPath::new(at).unwrap();
            let same = |opened: Result<OwnedFd, BeneathError>| match opened {
                Ok(opened) => Ok(rustix::fs::fstat(opened).unwrap().st_ino),
                Err(why) => Err(why.to_string()),
            };
            let by_kernel = open(root.as_fd(), &path, flags, Mode::empty(), LinkPolicy::Refuse);
            assert_eq!(
                same(open_by_components(root.as_fd(), &path, flags, Mode::empty())),
                same(by_kernel),
                "{at}"
            );
        }
    }
}
