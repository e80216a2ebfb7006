//! The trees that a context is made from: a project's own, and the changes of a plan in the store.
//!
//! # Invariants
//! 1. A path is opened beneath its root by the kernel; see `sandbox::project_tree`.
//! 2. The tree of a plan's stored changes has those and nothing else: a path that the plan did not change is
//!    not in it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use context::ports::{FileStat, FileTree, PortError, StopPoll, WalkSummary};
use domain::{Hash, RelPath};
use sandbox::project_tree::{ProjectTree, TreeFile, WalkEnd};
use store::Store;

/// A tree on the disk.
pub(super) struct DiskTree(pub(super) ProjectTree);

impl FileTree for DiskTree {
    fn walk(
        &self,
        is_over: &StopPoll<'_>,
        sink: &(dyn Fn(FileStat) + Sync),
    ) -> Result<WalkSummary, PortError> {
        match self.0.walk(is_over, &mut |file| sink(stat(file))) {
            Ok(WalkEnd { is_complete, unread }) => Ok(WalkSummary { complete: is_complete, unread }),
            Err(why) => Err(PortError {
                message: format!("the files cannot be listed: {why}"),
                source: Some(Box::new(why)),
            }),
        }
    }

    fn size(&self, path: &RelPath) -> io::Result<u64> {
        self.0.size(path)
    }

    fn read(&self, path: &RelPath, max: usize) -> io::Result<Vec<u8>> {
        self.0.read(path, u64::try_from(max).unwrap_or(u64::MAX))
    }
}

fn stat(file: TreeFile) -> FileStat {
    let TreeFile { path, size, mtime_ns, ctime_ns, inode } = file;
    FileStat { path, size, mtime_ns, ctime_ns, inode }
}

/// The changes of a plan in the store.
pub(super) struct StoredChangesTree {
    pub(super) store: Arc<dyn Store>,
    /// The content and size at each path; `None` if there is nothing any more.
    pub(super) files: BTreeMap<RelPath, Option<(Hash, u64)>>,
}

impl StoredChangesTree {
    fn at(&self, path: &RelPath) -> io::Result<(Hash, u64)> {
        Ok(self.files.get(path).copied().flatten().ok_or(io::ErrorKind::NotFound)?)
    }
}

impl FileTree for StoredChangesTree {
    /// Stops at once: this tree is read path by path, and never walked.
    fn walk(&self, _: &StopPoll<'_>, _: &(dyn Fn(FileStat) + Sync)) -> Result<WalkSummary, PortError> {
        Ok(WalkSummary::stopped())
    }

    fn size(&self, path: &RelPath) -> io::Result<u64> {
        self.at(path).map(|(_, size)| size)
    }

    fn read(&self, path: &RelPath, max: usize) -> io::Result<Vec<u8>> {
        let (hash, _) = self.at(path)?;
        let mut bytes = Vec::new();
        let content = self.store.open_content(&hash)?;
        content.take(u64::try_from(max).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
