//! Observes the file at a path right now, beneath its root and without following a link.
//!
//! # Invariants
//! 1. A file is named by its path only to be opened; what is read, compared and written afterwards is what
//!    was opened.
//! 2. A path that leads through a link is [`OpError::Escapes`], whatever it leads to.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use domain::{FileState, Hash, RelPath, RootIndex};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::frame::PIECE_BYTES;
use super::request::JournalRoot;
use crate::fs::beneath;
use crate::fs::beneath::{BeneathError, LinkPolicy};
use crate::git::refs::{GitError, RefMoveError};

/// The reason that an op could not be made.
#[derive(Debug)]
pub(super) enum OpError {
    /// The present entry is not the expected one.
    Changed,
    /// The path leads through a link.
    Escapes,
    /// The system said no.
    Io(io::Error),
    /// Git said no.
    Git(GitError),
    /// Git said no, and the op was not begun.
    GitBefore(GitError),
}

impl From<io::Error> for OpError {
    fn from(error: io::Error) -> Self {
        OpError::Io(error)
    }
}

impl From<Errno> for OpError {
    fn from(errno: Errno) -> Self {
        OpError::Io(errno.into())
    }
}

impl From<BeneathError> for OpError {
    fn from(error: BeneathError) -> Self {
        match error {
            BeneathError::Escapes { .. } => OpError::Escapes,
            BeneathError::Io { source, .. } => OpError::Io(source),
        }
    }
}

impl From<GitError> for OpError {
    fn from(error: GitError) -> Self {
        OpError::Git(error)
    }
}

impl From<RefMoveError> for OpError {
    fn from(error: RefMoveError) -> Self {
        match error.is_untouched {
            true => OpError::GitBefore(error.source),
            false => OpError::Git(error.source),
        }
    }
}

/// The roots of a journal, held open.
#[derive(Debug)]
pub(super) struct OpenRoots(BTreeMap<RootIndex, OwnedFd>);

/// A root that is not what it was.
#[derive(Debug, thiserror::Error)]
#[error("{} was replaced by another directory", path.display())]
pub struct RootMoved {
    /// The path at which it should be.
    pub path: PathBuf,
    /// The error of the system, if there was one.
    #[source]
    pub source: Option<io::Error>,
}

/// The meaning of device numbers since the journal was written: they do not survive a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceNumbers {
    /// They do.
    Same,
    /// They may not.
    Renumbered,
}

impl OpenRoots {
    /// Opens the roots and makes sure that they are the same directories as before.
    pub(super) fn open(roots: &[JournalRoot], devices: DeviceNumbers) -> Result<OpenRoots, RootMoved> {
        let mut opened = BTreeMap::new();
        for root in roots {
            let moved = |source| RootMoved { path: root.path.clone(), source };
            let directory = beneath::open_root(&root.path).map_err(|error| moved(Some(error)))?;
            let stat = rustix::fs::fstat(&directory).map_err(|errno| moved(Some(errno.into())))?;
            let same_device = devices == DeviceNumbers::Renumbered || stat.st_dev == root.dev;
            if !same_device || stat.st_ino != root.ino {
                return Err(moved(None));
            }
            opened.insert(root.no, directory);
        }
        Ok(OpenRoots(opened))
    }

    /// The root with this number.
    pub(super) fn get(&self, no: RootIndex) -> io::Result<BorrowedFd<'_>> {
        let root = self.0.get(&no).map(OwnedFd::as_fd);
        root.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such root"))
    }
}

/// A directory and a name in it.
#[derive(Debug)]
pub(super) struct EntryLocation {
    /// The directory, opened `O_PATH`.
    pub(super) parent: OwnedFd,
    /// The name.
    pub(super) name: CString,
}

impl EntryLocation {
    /// The spot at `path`.
    pub(super) fn open(root: BorrowedFd<'_>, path: &RelPath) -> Result<EntryLocation, OpError> {
        let parent = beneath::open_parent(root, path)?;
        let name = CString::new(path.file_name()).map_err(io::Error::from)?;
        Ok(EntryLocation { parent, name })
    }

    /// Removes what is there, if anything is.
    pub(super) fn unlink(&self) -> Result<(), OpError> {
        match rustix::fs::unlinkat(&self.parent, self.name.as_c_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The kind of a file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObservedKind {
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Dir,
    /// A pipe, a socket, a device.
    Special,
}

/// A file that was observed at a path, held by an `O_PATH` descriptor.
#[derive(Debug)]
pub(super) struct ObservedFile {
    /// It itself.
    pub(super) handle: OwnedFd,
    /// The kind of the entry.
    pub(super) kind: ObservedKind,
    /// Permission bits.
    pub(super) mode: u16,
    /// The length of its content.
    pub(super) size: u64,
    /// When its content was last written, in seconds of the wall clock.
    pub(super) mtime_s: i64,
    /// Device and inode.
    pub(super) inode: (u64, u64),
    /// The number of its names.
    pub(super) links: u64,
}

/// Looks at a path. Nothing there, or a file where a directory should lead on: none.
pub(super) fn observe(root: BorrowedFd<'_>, path: &RelPath) -> Result<Option<ObservedFile>, OpError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let handle = match beneath::open(root, path, flags, Mode::empty(), LinkPolicy::Refuse) {
        Ok(handle) => handle,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::fstat(&handle)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => ObservedKind::File,
        FileType::Symlink => ObservedKind::Symlink,
        FileType::Directory => ObservedKind::Dir,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => ObservedKind::Special,
    };
    Ok(Some(ObservedFile {
        handle,
        kind,
        mode: permission_bits(stat.st_mode),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_s: stat.st_mtime,
        inode: (stat.st_dev, stat.st_ino),
        links: stat.st_nlink,
    }))
}

/// The permission bits of a raw mode.
pub(super) fn permission_bits(raw: u32) -> u16 {
    u16::try_from(raw & 0o7777).unwrap_or(0)
}

fn is_absent(error: &BeneathError) -> bool {
    match error {
        BeneathError::Escapes { .. } => false,
        BeneathError::Io { source, .. } => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

impl ObservedFile {
    /// The target of a link.
    pub(super) fn link_target(&self) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.handle, "", Vec::new())?.into_bytes())
    }

    /// The file itself, opened to be read.
    pub(super) fn open_file(&self) -> io::Result<File> {
        let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.handle));
        File::open(again)
    }
}

impl ObservedFile {
    /// The content of the file. If its mode does not let us read it, it counts as the content that the
    /// journal knows, if mode and length are the same.
    pub(super) fn stamp(&self, known: &FileState) -> io::Result<ContentStamp> {
        match self.open_file() {
            Ok(file) => ContentStamp::of_file(&file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let is_known = (self.mode, self.size) == (known.mode, known.size);
                Ok(if is_known { ContentStamp::of_state(known) } else { ContentStamp::NOTHING })
            }
            Err(error) => Err(error),
        }
    }
}

impl ObservedFile {
    /// The file itself, opened to be read; `None` if its mode does not let us.
    pub(super) fn open_readable(&self) -> io::Result<Option<File>> {
        match self.open_file() {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The hash and size of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentStamp {
    /// Its hash.
    pub(super) hash: Hash,
    /// Its length.
    pub(super) size: u64,
}

impl ContentStamp {
    /// The content of a directory, of which none is asked for.
    pub(super) const NOTHING: ContentStamp = ContentStamp { hash: Hash::from_bytes([0; 32]), size: 0 };

    /// The content of a state.
    pub(super) fn of_state(state: &FileState) -> ContentStamp {
        ContentStamp { hash: state.hash, size: state.size }
    }

    /// The content of bytes.
    pub(super) fn of_bytes(bytes: &[u8]) -> ContentStamp {
        ContentStamp { hash: Hash::from_content(bytes), size: bytes.len() as u64 }
    }

    /// The content of a file as it is, from its beginning.
    pub(super) fn of_file(file: &File) -> io::Result<ContentStamp> {
        let expected = usize::try_from(file.metadata()?.len()).unwrap_or(PIECE_BYTES);
        // One byte more than expected, so that a small file is read by one call and its end by the same.
        let mut buffer = vec![0; expected.saturating_add(1).clamp(4096, PIECE_BYTES)];
        let mut hasher = blake3::Hasher::new();
        let mut size = 0;
        loop {
            match file.read_at(&mut buffer, size)? {
                0 => break,
                count => {
                    hasher.update(&buffer[..count]);
                    size += count as u64;
                }
            }
        }
        Ok(ContentStamp { hash: Hash::from_bytes(*hasher.finalize().as_bytes()), size })
    }
}
