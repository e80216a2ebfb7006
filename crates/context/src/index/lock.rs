//! The lock file next to an index that says which processes use it. All users share it, and the process that
//! recreates or removes the index has it alone.
//!
//! # Invariants
//! 1. A lock counts only while its file is at its path. A process that removes an index removes its lock
//!    last. A process that opened the lock file before and locks it later sees that it is gone, and opens it
//!    again.
//! 2. No caller waits.

use std::fs::{DirBuilder, File as OsFile, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::disk::DiskError;
use super::image::is_at;

/// The number of times that a lock is opened again if it was removed before it was taken.
const TRIES_MAX: u32 = 8;

/// Holds the file that says who uses the index; its time says when it was last opened.
pub(super) fn hold_shared(path: &Path, now_ns: i64) -> Result<OsFile, DiskError> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(now_ns).unwrap_or(0));
    for _ in 0..TRIES_MAX {
        let lock = open_lock(path)?;
        lock.set_modified(now)?;
        if let Some(lock) = take_lock(lock, path, OsFile::try_lock_shared)? {
            return Ok(lock);
        }
    }
    Err(DiskError::Busy)
}

pub(super) fn open_lock(path: &Path) -> io::Result<OsFile> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false).mode(0o600).open(lock_path(path))
}

/// Takes the lock; `None` if the file was removed since it was opened: no other process could find that lock.
pub(super) fn take_lock(
    lock: OsFile,
    path: &Path,
    take: impl FnOnce(&OsFile) -> Result<(), TryLockError>,
) -> Result<Option<OsFile>, DiskError> {
    take(&lock).map_err(|_| DiskError::Busy)?;
    Ok(is_at(&lock, &lock_path(path)).then_some(lock))
}

pub(super) fn lock_path(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

#[cfg(test)]
mod tests {
    use super::super::disk::open;
    use super::super::evict::remove;
    use super::*;

    #[test]
    fn a_lock_that_was_removed_before_it_was_taken_keeps_nobody_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("i.sqlite");
        let before = open_lock(&path).unwrap();
        assert!(remove(&path), "nobody has taken it");
        assert!(take_lock(before, &path, OsFile::try_lock_shared).unwrap().is_none());

        let before = open_lock(&path).unwrap();
        assert!(remove(&path));
        let index = open(&path, 1024, 1).unwrap_or_else(|why| panic!("{why}"));
        assert!(take_lock(before, &path, OsFile::try_lock).unwrap().is_none(), "alone with nothing");
        assert!(!remove(&path), "it is in use");
        drop(index);
        assert!(remove(&path));
    }
}
