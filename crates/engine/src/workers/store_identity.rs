//! The identity of the store's file: detects if it is no longer the one that was opened.
//!
//! If a data directory is removed under a worker, or replaced by a backup, the worker has a file that no
//! other process can see. It would wait for plans for ever, and prevent the start of a worker that could see
//! them.
//!
//! # Invariants
//! What cannot be looked at counts as unchanged: a worker ends by what it knows, not by what it does not.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of the store's file in the data directory.
const NAME: &str = "agents.db";

/// The file that was opened.
#[derive(Clone, Debug)]
pub(crate) struct StoreFile {
    path: PathBuf,
    /// Device and inode; none when it could not be looked at.
    opened: Option<(u64, u64)>,
}

impl StoreFile {
    /// Returns the present file of the data directory.
    pub(crate) fn in_dir(data_dir: &Path) -> Self {
        let path = data_dir.join(NAME);
        let opened = identity(&path).ok();
        Self { path, opened }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if it is gone, or another one is in its place.
    pub(crate) fn is_replaced(&self) -> bool {
        match (self.opened, identity(&self.path)) {
            (Some(opened), Ok(now)) => opened != now,
            (Some(_), Err(error)) => error.kind() == io::ErrorKind::NotFound,
            (None, _) => false,
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_or_replaced_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        std::fs::write(&path, "one").unwrap();
        let file = StoreFile::in_dir(dir.path());
        std::fs::write(&path, "written to").unwrap();
        assert!(!file.is_replaced());
        let kept = dir.path().join("kept");
        std::fs::rename(&path, &kept).unwrap();
        assert!(file.is_replaced());
        std::fs::write(&path, "another").unwrap();
        assert!(file.is_replaced());
        std::fs::rename(&kept, &path).unwrap();
        assert!(!file.is_replaced());
    }
}
