//! Records the files and directories that a journal touched, and syncs them to the disk.
//!
//! # Invariants
//! After [`SyncSet::sync`] what was written is there after a power loss: a few files one by one, many by one
//! sync of each file system.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

use domain::{RelPath, RootIndex};
use rustix::fs::{Mode, OFlags};

use super::observe_file::OpenRoots;
use super::op::{JournalOp, OpAction};
use crate::fs::beneath;
use crate::fs::beneath::{BeneathError, LinkPolicy};

/// Above this many files a sync of the whole file system is cheaper.
const FILES_ONE_BY_ONE_MAX: usize = 16;

/// The files and directories that a journal touched.
#[derive(Debug, Default)]
pub(super) struct SyncSet {
    files: BTreeSet<(RootIndex, RelPath)>,
    directories: BTreeSet<(RootIndex, Option<RelPath>)>,
}

impl SyncSet {
    /// The op is about to touch something.
    pub(super) fn note(&mut self, op: &JournalOp) {
        match op.how {
            OpAction::Write { .. } | OpAction::Create { .. } | OpAction::Mode { .. } => {
                self.files.insert((op.root, op.path.clone()));
            }
            OpAction::Remove { .. }
            | OpAction::MakeDir { .. }
            | OpAction::RemoveDir { .. }
            | OpAction::Link { .. } => {}
            OpAction::Ref(_) => return,
        }
        self.directories.insert((op.root, op.path.parent()));
    }

    /// Notes that the entry that the op parked is gone.
    pub(super) fn note_parked(&mut self, op: &JournalOp) {
        self.directories.insert((op.root, op.parked.parent()));
    }

    /// Waits until removed names are removed on disk. The files are synced already, so that this is one
    /// commit of the file system's own journal, whatever the number of directories. A sync of the whole file
    /// system would wait for the data of all processes.
    pub(super) fn sync_directories(&self, roots: &OpenRoots) -> io::Result<()> {
        for (root, path) in &self.directories {
            match open_to_sync(roots.get(*root)?, path.as_ref(), OFlags::DIRECTORY) {
                Ok(Some(directory)) => rustix::fs::fsync(directory)?,
                Ok(None) => {}
                // Closed, perhaps by ourselves: then with everything else on its file system.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return self.sync_file_systems(roots);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until all of it is on disk.
    pub(super) fn sync(&self, roots: &OpenRoots) -> io::Result<()> {
        if self.files.len() + self.directories.len() > 2 * FILES_ONE_BY_ONE_MAX
            || self.files.len() > FILES_ONE_BY_ONE_MAX
        {
            return self.sync_file_systems(roots);
        }
        for (root, path) in &self.files {
            match open_to_sync(roots.get(*root)?, Some(path), OFlags::NONBLOCK) {
                Ok(Some(file)) => rustix::fs::fdatasync(file)?,
                Ok(None) => {}
                // Not for us to read, so not to be opened: then with everything else on its file system.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return self.sync_file_systems(roots);
                }
                Err(error) => return Err(error),
            }
        }
        self.sync_directories(roots)
    }

    fn sync_file_systems(&self, roots: &OpenRoots) -> io::Result<()> {
        let mut synced = BTreeSet::new();
        for (root, path) in &self.directories {
            let root = roots.get(*root)?;
            let directory = match open_to_sync(root, path.as_ref(), OFlags::DIRECTORY) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    open_to_sync(root, None, OFlags::DIRECTORY)?
                }
                directory => directory?,
            };
            let Some(directory) = directory else { continue };
            if synced.insert(rustix::fs::fstat(&directory)?.st_dev) {
                rustix::fs::syncfs(directory)?;
            }
        }
        Ok(())
    }
}

/// Opens the entry to be synced; `None` if it was removed meanwhile, or a link is there.
fn open_to_sync(
    root: BorrowedFd<'_>,
    path: Option<&RelPath>,
    flags: OFlags,
) -> io::Result<Option<std::os::fd::OwnedFd>> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Some(path) = path else {
        return Ok(Some(rustix::fs::openat(root, c".", flags, Mode::empty())?));
    };
    match beneath::open(root, path, flags, Mode::empty(), LinkPolicy::Refuse) {
        Ok(file) => Ok(Some(file)),
        Err(BeneathError::Escapes { .. }) => Ok(None),
        Err(error) if error.is_not_found() => Ok(None),
        Err(BeneathError::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => Ok(None),
        Err(BeneathError::Io { source, .. }) => Err(source),
    }
}
