//! Reads directories: one level at a time, by file descriptor, without following links.
//!
//! # Invariants
//! 1. One directory is open at a time: a tree of any depth is walked with a handful of descriptors and no
//!    recursion.
//! 2. Entries come in the order of their names, so that two walks of one tree are the same.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use domain::{PathError, RelPath};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::beneath;
use super::beneath::{BeneathError, LinkPolicy};
use crate::open::baseline::Timestamp;

/// An entry of a directory under one name.
#[derive(Debug)]
pub(crate) struct ListingEntry {
    pub(crate) name: CString,
    pub(crate) stat: Stat,
}

impl ListingEntry {
    pub(crate) fn kind(&self) -> FileType {
        kind_of(&self.stat)
    }

    /// Its path, when `dir` is the path of its directory.
    pub(crate) fn path(&self, dir: Option<&RelPath>) -> Result<RelPath, PathError> {
        match dir {
            Some(dir) => RelPath::new([dir.as_bytes(), b"/", self.name.as_bytes()].concat()),
            None => RelPath::new(self.name.as_bytes()),
        }
    }
}

/// The part of a file's record that shows whether the file was written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    ino: u64,
    size: u64,
    mode: u32,
    modified: Timestamp,
    pub(crate) changed: Timestamp,
}

impl FileStamp {
    pub(crate) fn from_stat(stat: &Stat) -> FileStamp {
        FileStamp {
            ino: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode,
            modified: Timestamp::modified(stat),
            changed: Timestamp::changed(stat),
        }
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn inode(&self) -> u64 {
        self.ino
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn mode(&self) -> u16 {
        permission_bits(self.mode)
    }
}

/// The permission bits of a mode.
pub(crate) fn permission_bits(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

pub(crate) fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Opens a directory to be read; none is the root itself.
pub(crate) fn open_dir(root: BorrowedFd<'_>, dir: Option<&RelPath>) -> Result<OwnedFd, BeneathError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match dir {
        Some(dir) => beneath::open(root, dir, flags, Mode::empty(), LinkPolicy::Refuse),
        None => rustix::fs::openat(root, c".", flags, Mode::empty())
            .map_err(|errno| BeneathError::Io { path: root_path(), source: errno.into() }),
    }
}

/// Directories of a plan's tree that were closed to ourselves. A command may take away its own permissions,
/// and what it made must be read all the same. They are closed again when this is dropped.
#[derive(Debug)]
pub(crate) struct PermissionGuard<'a> {
    tree: BorrowedFd<'a>,
    held: Vec<(OwnedFd, Mode)>,
}

impl<'a> PermissionGuard<'a> {
    /// Makes a guard for this tree; no other process works in it.
    pub(crate) fn in_tree(tree: BorrowedFd<'a>) -> PermissionGuard<'a> {
        PermissionGuard { tree, held: Vec::new() }
    }

    /// Opens a directory to be read, and leaves it open to ourselves.
    ///
    /// `root` is the tree itself, or the upper directory of its overlay: permissions are changed through the
    /// tree, so that both agree about them.
    pub(crate) fn open_dir(
        &mut self,
        root: BorrowedFd<'_>,
        dir: Option<&RelPath>,
    ) -> Result<OwnedFd, BeneathError> {
        let first = open_dir(root, dir);
        let closed = match &first {
            // Readable is not enough: its entries are looked at by name.
            Ok(opened) => rustix::fs::fstat(opened).is_ok_and(|stat| stat.st_mode & 0o500 != 0o500),
            Err(BeneathError::Io { source, .. }) => source.kind() == io::ErrorKind::PermissionDenied,
            Err(BeneathError::Escapes { .. }) => false,
        };
        let Some(path) = dir.filter(|_| closed) else { return first };
        self.unlock(path)?;
        open_dir(root, dir)
    }

    fn unlock(&mut self, dir: &RelPath) -> Result<(), BeneathError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let held = beneath::open(self.tree, dir, flags, Mode::empty(), LinkPolicy::Refuse)?;
        let io_error = |source: io::Error| BeneathError::Io { path: dir.clone(), source };
        let stat = rustix::fs::fstat(&held).map_err(|errno| io_error(errno.into()))?;
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        chmod_held(held.as_fd(), mode | Mode::RWXU).map_err(io_error)?;
        self.held.push((held, mode));
        Ok(())
    }
}

impl Drop for PermissionGuard<'_> {
    fn drop(&mut self) {
        for (held, mode) in self.held.drain(..).rev() {
            // That it cannot would show as an open directory, which nothing is said about.
            let _ = chmod_held(held.as_fd(), mode);
        }
    }
}

/// Opens a file of ours to be read, even if its mode forbids it.
pub(crate) fn open_readable(
    root: BorrowedFd<'_>,
    path: &RelPath,
    flags: OFlags,
) -> Result<OwnedFd, BeneathError> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let first = beneath::open(root, path, flags, Mode::empty(), LinkPolicy::Refuse);
    let Err(BeneathError::Io { source, .. }) = &first else { return first };
    if source.raw_os_error() != Some(Errno::ACCESS.raw_os_error()) {
        return first;
    }
    let Ok(held) =
        beneath::open(root, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), LinkPolicy::Refuse)
    else {
        return first;
    };
    let Ok(stat) = rustix::fs::fstat(&held) else { return first };
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    if chmod_held(held.as_fd(), mode | Mode::RUSR | Mode::XUSR).is_err() {
        return first;
    }
    let again = beneath::open(root, path, flags, Mode::empty(), LinkPolicy::Refuse);
    // The mode goes back whatever came of it; that it cannot would be seen as a change of mode.
    let _ = chmod_held(held.as_fd(), mode);
    again
}

/// Changes the mode of exactly what is held, which need not be open for reading.
pub(crate) fn chmod_held(held: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), mode)?)
}

/// The number of bytes of names that are read at once.
const NAMES_BYTES: usize = 32 * 1024;

/// Returns the entries of a directory that was just opened: it is read as far as it was not read before.
pub(crate) fn list(dir: BorrowedFd<'_>) -> io::Result<Vec<ListingEntry>> {
    list_unless(dir, &|| false)
}

/// After so many entries a listing looks whether it is still wanted.
pub(crate) const LOOK_ENTRIES: usize = 256;

/// The same until `is_over`; then the entries that were met by then.
pub(crate) fn list_unless(dir: BorrowedFd<'_>, is_over: &dyn Fn() -> bool) -> io::Result<Vec<ListingEntry>> {
    let mut buffer = [MaybeUninit::uninit(); NAMES_BYTES];
    let mut names = RawDir::new(dir, &mut buffer);
    let mut entries = Vec::new();
    while let Some(entry) = names.next() {
        if entries.len() % LOOK_ENTRIES == LOOK_ENTRIES - 1 && is_over() {
            break;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(Errno::INTR) => continue,
            // It was removed since it was opened, and nothing is in it.
            Err(Errno::NOENT) => break,
            Err(errno) => return Err(errno.into()),
        };
        let name = entry.file_name();
        if is_itself_or_above(name) {
            continue;
        }
        match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => entries.push(ListingEntry { name: name.to_owned(), stat }),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// The names in an open directory, as they come, however often it was read.
pub(crate) fn names(dir: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !is_itself_or_above(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

fn is_itself_or_above(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Returns the record of the entry at a path, itself a link or not; `None` if there is nothing.
pub(crate) fn stat_beneath(root: BorrowedFd<'_>, path: &RelPath) -> Result<Option<Stat>, BeneathError> {
    match beneath::open(root, path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), LinkPolicy::Refuse) {
        Ok(held) => rustix::fs::fstat(&held)
            .map(Some)
            .map_err(|errno| BeneathError::Io { path: path.clone(), source: errno.into() }),
        Err(why) if is_absent(&why) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Returns true if there is nothing at the path: no entry, or something other than a directory on the way.
pub(crate) fn is_absent(why: &BeneathError) -> bool {
    match why {
        BeneathError::Escapes { .. } => true,
        BeneathError::Io { source, .. } => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

/// Returns the text that represents the root in a message.
#[allow(clippy::expect_used, reason = "the text is a path")]
pub(crate) fn root_path() -> RelPath {
    RelPath::new("(the project itself)").expect("the text is a path")
}
