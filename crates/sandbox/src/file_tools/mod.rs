//! Reads and writes single files of a sandbox, for tools that need no process.
//!
//! # Invariants
//! 1. A tool stores the content that it replaces as its base before it touches the file.
//! 2. No link is followed, no path leaves its root, and no protected path is written.

mod remove_and_move;
mod search;
mod walk;

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use domain::{RelPath, RootIndex};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::capture::{CaptureError, CaptureRules, ProtectedPaths};
use crate::content::ContentSink;
use crate::fs::beneath;
use crate::fs::beneath::{BeneathError, LinkPolicy};
use crate::hidden_path_matcher::HiddenInProject;
use crate::restore::{RestoreError, make_parents};
use crate::sandbox::{NoSuchRoot, Sandbox};

pub use search::{ContentRenderer, Match, SearchError, SearchRequest, SearchResult, search};
pub use walk::{ListedEntry, ListedKind, Visit, WalkRequest, walk};

/// The reason that a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteFileError {
    /// The project is not open.
    #[error(transparent)]
    NoSuchRoot(#[from] NoSuchRoot),
    /// It is in a directory that is never written.
    #[error("{path} is protected")]
    Protected {
        /// The path.
        path: RelPath,
    },
    /// It leads out of its project, or through a link.
    #[error("{path} leads outside its project")]
    Escapes {
        /// The path.
        path: RelPath,
    },
    /// It is a directory, and something is in it.
    #[error("{path} is a directory that is not empty")]
    NotEmpty {
        /// The path.
        path: RelPath,
    },
    /// Something is there already.
    #[error("{path} exists")]
    Exists {
        /// The path.
        path: RelPath,
    },
    /// The present content could not be stored.
    #[error(transparent)]
    Base(#[from] CaptureError),
    /// A directory on the way could not be made.
    #[error(transparent)]
    Parents(#[from] RestoreError),
    /// It could not be written.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: RelPath,
        /// The cause.
        source: io::Error,
    },
}

/// Returns the content at `path`, at most `bytes_max` of it, and its length; beneath any root.
///
/// # Errors
/// It is not there, is no file, or cannot be read.
pub fn read_file(root: BorrowedFd<'_>, path: &RelPath, bytes_max: u64) -> io::Result<(Vec<u8>, u64)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened =
        beneath::open(root, path, flags, Mode::empty(), LinkPolicy::Refuse).map_err(BeneathError::into_io)?;
    read_opened(File::from(opened), bytes_max)
}

/// The same through links, as long as they stay beneath the root: for callers that only read.
///
/// # Errors
/// [`BeneathError::Escapes`] when a link leads out; it is hidden; else as [`read_file`].
pub fn read_through_links(
    root: BorrowedFd<'_>,
    path: &RelPath,
    bytes_max: u64,
    hidden: &HiddenInProject,
) -> Result<(Vec<u8>, u64), BeneathError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let opened = beneath::open(root, path, flags, Mode::empty(), LinkPolicy::Follow)?;
    hidden
        .check_opened(root, opened.as_fd())
        .and_then(|()| read_opened(File::from(opened), bytes_max))
        .map_err(|source| BeneathError::Io { path: path.clone(), source })
}

/// The same if all of it is in memory, for callers that must not wait. `None` if a disk would have to be
/// waited for, or if anything prevents the read.
pub fn read_at_hand(
    root: BorrowedFd<'_>,
    path: &RelPath,
    bytes_max: usize,
    links: LinkPolicy,
    hidden: &HiddenInProject,
) -> Option<(Vec<u8>, u64)> {
    let flags = match links {
        LinkPolicy::Follow => OFlags::RDONLY | OFlags::NONBLOCK,
        LinkPolicy::Refuse => OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK,
    };
    let file = beneath::open_at_hand(root, path, flags, links)?;
    hidden.check_opened(root, file.as_fd()).ok()?;
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE;
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(&file, c"", how, wanted).ok()?;
    if FileType::from_raw_mode(found.stx_mode.into()) != FileType::RegularFile {
        return None;
    }
    // One byte more than there should be: the same read shows whether the file ends there.
    let expected = usize::try_from(found.stx_size).unwrap_or(usize::MAX).saturating_add(1).min(bytes_max);
    let mut bytes = vec![0; expected];
    let mut filled = 0;
    while filled < expected {
        let rest = &mut [IoSliceMut::new(&mut bytes[filled..])];
        match rustix::io::preadv2(&file, rest, filled as u64, ReadWriteFlags::NOWAIT) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(filled);
    // A file that grows meanwhile is left to a caller that can wait.
    (filled as u64 <= found.stx_size).then_some((bytes, found.stx_size))
}

fn read_opened(file: File, bytes_max: u64) -> io::Result<(Vec<u8>, u64)> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    // One more than there should be, so that its end is met without a larger buffer.
    let expected = found.len().saturating_add(1).min(bytes_max);
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok((bytes, found.len()))
}

impl Sandbox {
    /// Writes a whole file. The mode of an existing file stays, and missing directories are made. The next
    /// scan reports it.
    ///
    /// # Errors
    /// Returns an error if it may not or cannot be written, or the present content cannot be stored.
    pub fn write_file(
        &mut self,
        no: RootIndex,
        path: &RelPath,
        bytes: &[u8],
        sink: &dyn ContentSink,
        rules: &CaptureRules,
    ) -> Result<(), WriteFileError> {
        if ProtectedPaths::new(rules).and(self.hidden(no)).has(path, false) {
            return Err(WriteFileError::Protected { path: path.clone() });
        }
        self.keep_base(no, path, sink, rules)?;
        let root = self.root(no)?;
        make_parents(root, path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(0o666);
        let opened =
            beneath::open(root, path, flags, mode, LinkPolicy::Refuse).map_err(|error| match error {
                BeneathError::Escapes { path } => WriteFileError::Escapes { path },
                BeneathError::Io { path, source } => WriteFileError::Io { path, source },
            })?;
        let written = File::from(opened).write_all(bytes);
        written.map_err(|source| WriteFileError::Io { path: path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_in_memory_is_read_without_waiting_and_as_by_whoever_waits() {
        // A file system in memory answers no question whether it would wait.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("d")).unwrap();
        std::fs::write(at("d/f"), "some text").unwrap();
        std::fs::write(at("empty"), "").unwrap();
        std::fs::write(at("long"), vec![b'x'; 5000]).unwrap();
        symlink("d/f", at("inside")).unwrap();
        symlink("/etc/hostname", at("outside")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let root = beneath::root_at_hand(dir.path()).unwrap();
        let hidden = HiddenInProject::default();
        let read = |name: &str, links| {
            read_at_hand(root.as_fd(), &RelPath::new(name).unwrap(), 4096, links, &hidden)
        };
        // A machine that is busy renaming files may have to be asked again.
        let at_last = |name: &str, links| (0..1000).find_map(|_| read(name, links));
        for name in ["d/f", "empty", "long"] {
            let waited = read_file(root.as_fd(), &RelPath::new(name).unwrap(), 4096).unwrap();
            assert_eq!(at_last(name, LinkPolicy::Refuse), Some(waited), "{name}");
        }
        // A link is cached once it has been followed: the first process that follows it records when.
        let inside = RelPath::new("inside").unwrap();
        let followed = (0..1000).find_map(|_| {
            read_through_links(root.as_fd(), &inside, 4096, &HiddenInProject::default()).unwrap();
            read("inside", LinkPolicy::Follow)
        });
        assert_eq!(followed, at_last("d/f", LinkPolicy::Refuse));
        for (name, links) in [
            ("inside", LinkPolicy::Refuse),
            ("outside", LinkPolicy::Follow),
            ("d", LinkPolicy::Refuse),
            ("none", LinkPolicy::Refuse),
            ("fifo", LinkPolicy::Refuse),
        ] {
            assert_eq!(read(name, links), None, "{name}");
        }
        assert!(beneath::root_at_hand(&at("d/f")).is_none());
    }
}
