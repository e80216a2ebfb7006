//! The indexes of all projects that a process works on, within one bound of memory.
//!
//! # Invariants
//! 1. A project has one index at a time, for all callers.
//! 2. If the snapshots need more memory than the bound, the longest unused are evicted. A caller that holds
//!    one can still use it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::Hash;
use sync::Clock;

use super::evict::remove;
use super::{Index, IndexConfig};
use crate::ports::WallClock;

/// The indexes of a process.
pub struct IndexCache {
    /// The directory of the indexes; `None` if they are in memory only.
    dir: Option<PathBuf>,
    config: IndexConfig,
    memory_bytes_max: usize,
    clock: Arc<dyn Clock>,
    wall: Arc<dyn WallClock>,
    /// The longest unused first.
    open: Mutex<Vec<(PathBuf, Arc<Index>)>>,
}

impl IndexCache {
    /// Creates indexes that are stored in a directory, or in memory only.
    pub fn new(
        dir: Option<PathBuf>,
        config: IndexConfig,
        memory_bytes_max: usize,
        clock: Arc<dyn Clock>,
        wall: Arc<dyn WallClock>,
    ) -> IndexCache {
        IndexCache { dir, config, memory_bytes_max, clock, wall, open: Mutex::default() }
    }

    /// The index of the project at `root`. Others go if there is no memory for all.
    pub fn of(&self, root: &Path) -> Arc<Index> {
        self.with(root, &self.config)
    }

    /// The same, with bounds of its own. One that is held with other bounds is left to who holds it: two may
    /// use a file.
    pub fn with(&self, root: &Path, config: &IndexConfig) -> Arc<Index> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|(path, _)| path == root).map(|place| open.remove(place).1);
        let known = known.filter(|index| index.config() == config);
        let index = known.unwrap_or_else(|| Arc::new(self.make(root, config)));
        open.push((root.to_owned(), Arc::clone(&index)));
        let mut total: usize = open.iter().map(|(_, index)| index.memory_bytes()).sum();
        while total > self.memory_bytes_max && open.len() > 1 {
            total -= open.remove(0).1.memory_bytes();
        }
        index
    }

    /// Forgets a project and removes its stored index. Returns whether that succeeded: it fails while the
    /// index is in use.
    pub fn clear(&self, root: &Path) -> bool {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(path, _)| path != root);
        self.path_of(root).is_none_or(|path| !path.exists() || remove(&path))
    }

    /// Returns the number of open indexes.
    pub fn held(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the path of a project's index; `None` if indexes are in memory only.
    pub fn path_of(&self, root: &Path) -> Option<PathBuf> {
        let name = Hash::from_content(root.as_os_str().as_bytes()).to_string();
        self.dir.as_ref().map(|dir| dir.join(format!("{}.sqlite", &name[..16])))
    }

    fn make(&self, root: &Path, config: &IndexConfig) -> Index {
        let (config, clock, wall) = (config.clone(), Arc::clone(&self.clock), Arc::clone(&self.wall));
        match self.path_of(root) {
            Some(path) => Index::in_file(path, config, clock, wall),
            None => Index::in_memory(config, clock, wall),
        }
    }
}

impl std::fmt::Debug for IndexCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Indexes").field("dir", &self.dir).field("held", &self.held()).finish_non_exhaustive()
    }
}
