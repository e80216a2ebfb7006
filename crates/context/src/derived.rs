//! What follows from a snapshot alone and is wanted by every request: the words of its paths, its references.
//!
//! # Invariants
//! 1. Nothing here depends on a request, so it is made once for a snapshot and shared.
//! 2. The cache holds snapshots weakly, and at most [`SNAPSHOTS_MAX`] of them: it keeps none alive.

use std::sync::{Arc, OnceLock, Weak};

use sync::primitives::{Mutex, lock};

use crate::graph::Graph;
use crate::index::{Snapshot, terms};

/// How many snapshots the cache knows, the latest used.
const SNAPSHOTS_MAX: usize = 16;

/// What follows from one snapshot.
pub(crate) struct Derived {
    /// The words of each file's path, in the order of the files.
    pub(crate) path_terms: Vec<Vec<(u32, u16)>>,
    graph: OnceLock<Graph>,
}

impl Derived {
    fn of(snapshot: &Snapshot) -> Derived {
        let path_terms = snapshot.files().iter().map(|file| terms::of_path(&file.path)).collect();
        Derived { path_terms, graph: OnceLock::new() }
    }

    /// The references, built by whoever asks first.
    pub(crate) fn graph(&self, snapshot: &Snapshot) -> &Graph {
        self.graph.get_or_init(|| Graph::of(snapshot))
    }
}

/// Remembers what followed from the snapshots that were used last. Shared by all pipelines of a process.
#[derive(Default)]
pub struct SnapshotCache {
    known: Mutex<Vec<(Weak<Snapshot>, Arc<Derived>)>>,
}

impl SnapshotCache {
    /// What follows from a snapshot. Two who ask at once may both make it; one of the two is kept.
    pub(crate) fn of(&self, snapshot: &Arc<Snapshot>) -> Arc<Derived> {
        if let Some(derived) = self.find(snapshot) {
            return derived;
        }
        let derived = Arc::new(Derived::of(snapshot));
        let dropped = {
            let mut known = lock(&self.known);
            let (kept, mut dropped): (Vec<_>, Vec<_>) =
                known.drain(..).partition(|(snapshot, _)| snapshot.strong_count() > 0);
            *known = kept;
            if known.len() >= SNAPSHOTS_MAX {
                dropped.push(known.remove(0));
            }
            known.push((Arc::downgrade(snapshot), Arc::clone(&derived)));
            dropped
        };
        // Outside the lock: it is large.
        drop(dropped);
        derived
    }

    fn find(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<Derived>> {
        let mut known = lock(&self.known);
        let at = known.iter().position(|(kept, _)| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(snapshot)))?;
        let used = known.remove(at);
        let derived = Arc::clone(&used.1);
        known.push(used);
        Some(derived)
    }
}
