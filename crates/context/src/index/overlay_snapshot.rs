//! A project as a plan sees it: its snapshot with some files read from another tree, cached for as long as it
//! is asked for.
//!
//! # Invariants
//! 1. Equal base and equal contents give the same snapshot, so what follows from it is made once.
//! 2. A content that the base or a cached view has at all is not scanned again.
//! 3. A path is in a view only if something is there, also one that is never opened: whether it is there is
//!    asked first.
//! 4. At most [`VIEWS_MAX`] are cached, the latest used; nothing is written to the disk.
//!
//! # Not here
//! The list of a plan's changes: the caller passes it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};

use domain::{Hash, RelPath};

use super::path_only_files::{PathOnly, before_reading};
use super::{Facts, File, Language, Scanner, Snapshot};
use crate::ports::FileTree;

/// The number of views that are cached: plans that work on one project at once.
const VIEWS_MAX: usize = 4;

/// The files at the changed paths; `None` if the path no longer exists.
type OverlayFiles = Vec<(RelPath, Option<File>)>;

/// The views that were asked for last, the latest at the end.
#[derive(Debug, Default)]
pub(super) struct ChangedViews {
    kept: Vec<CachedView>,
}

#[derive(Debug)]
struct CachedView {
    base: Weak<Snapshot>,
    changes: OverlayFiles,
    snapshot: Arc<Snapshot>,
}

/// Contents with their facts, of the cached views.
pub(super) type Scanned = HashMap<(Hash, Language), Arc<Facts>>;

impl ChangedViews {
    /// Returns the contents that need not be scanned again.
    pub(super) fn scanned(&self) -> Scanned {
        let files = self.kept.iter().flat_map(|kept| &kept.changes).filter_map(|(_, file)| file.as_ref());
        files.filter_map(|file| Some(((file.hash?, file.facts.language), Arc::clone(&file.facts)))).collect()
    }

    /// Returns the base with these changes: the cached snapshot, or a new one.
    pub(super) fn take(&mut self, base: &Arc<Snapshot>, changes: OverlayFiles) -> Arc<Snapshot> {
        let is_it =
            |kept: &CachedView| Weak::as_ptr(&kept.base) == Arc::as_ptr(base) && kept.changes == changes;
        let kept = match self.kept.iter().position(is_it) {
            Some(at) => self.kept.remove(at),
            None => {
                let snapshot = Arc::new(base.with_changes(changes.iter().cloned()));
                CachedView { base: Arc::downgrade(base), changes, snapshot }
            }
        };
        let snapshot = Arc::clone(&kept.snapshot);
        if self.kept.len() >= VIEWS_MAX {
            self.kept.remove(0);
        }
        self.kept.push(kept);
        snapshot
    }

    /// Returns the approximate memory of the views without their bases, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let of = |kept: &CachedView| {
            let facts = kept.changes.iter().filter_map(|(_, file)| file.as_ref());
            let facts: usize = facts.map(|file| file.facts.memory_bytes()).sum();
            size_of_val(kept.snapshot.files()) + facts
        };
        self.kept.iter().map(of).sum()
    }
}

/// Reads the changed paths from `tree`.
pub(super) fn read_changes(
    base: &Snapshot,
    tree: &dyn FileTree,
    changed: &[RelPath],
    file_bytes_max: u64,
    scanned: &Scanned,
) -> OverlayFiles {
    let mut scanner = Scanner::default();
    let bytes_max = usize::try_from(file_bytes_max).unwrap_or(usize::MAX).saturating_add(1);
    let mut read = |path: &RelPath| {
        let size = match tree.size(path) {
            Ok(size) => size,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => return Some(File::unread(path.clone(), 0, PathOnly::Unreadable)),
        };
        if let Some(reason) = before_reading(path, size, file_bytes_max) {
            return Some(File::unread(path.clone(), size, reason));
        }
        let bytes = match tree.read(path, bytes_max) {
            Ok(bytes) => bytes,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => return Some(File::unread(path.clone(), size, PathOnly::Unreadable)),
        };
        let key = (Hash::from_content(&bytes), Language::detect(path, &bytes));
        let in_base =
            || base.file(path).filter(|file| (file.hash, file.facts.language) == (Some(key.0), key.1));
        match scanned.get(&key).or_else(|| in_base().map(|file| &file.facts)) {
            Some(facts) if bytes.len() < bytes_max => Some(File {
                path: path.clone(),
                hash: Some(key.0),
                path_only: facts.path_only,
                facts: Arc::clone(facts),
            }),
            Some(_) | None => Some(File::from_bytes(path.clone(), &bytes, file_bytes_max, &mut scanner)),
        }
    };
    changed.iter().map(|path| (path.clone(), read(path))).collect()
}
