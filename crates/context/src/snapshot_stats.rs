//! The statistics of a snapshot that every request needs. They are the words of its paths with their number,
//! its references, and the files of its commits.
//!
//! # Invariants
//! 1. Nothing here depends on a request, so it is made once for a snapshot and shared.
//! 2. The cache holds snapshots weakly, and at most [`SNAPSHOTS_MAX`] of them: it holds none in memory.

use std::sync::{Arc, OnceLock, Weak};

use sync::primitives::{Mutex, lock};

use crate::IndexedContents;
use crate::bm25::{FieldTerms, Lengths, lengths};
use crate::graph::ReferenceGraph;
use crate::index::terms::PathTerms;
use crate::index::{CommitFacts, EncodedCount, File, HashCounts, Snapshot};

/// The number of snapshots the cache knows, the latest used.
const SNAPSHOTS_MAX: usize = 16;

/// The data that follows from one snapshot.
pub(crate) struct SnapshotStats {
    /// The words of all paths, in the order of the files, and where those of each end.
    path_terms: (Vec<EncodedCount>, Vec<u32>),
    lengths: Vec<Lengths>,
    graph: OnceLock<ReferenceGraph>,
    /// The positions of each commit's files, as far as they exist.
    commits: OnceLock<Vec<Vec<u32>>>,
}

impl SnapshotStats {
    fn from_snapshot(snapshot: &Snapshot) -> SnapshotStats {
        let (mut encoded, mut ends) = (Vec::new(), Vec::with_capacity(snapshot.files().len()));
        let mut paths = PathTerms::default();
        for file in snapshot.files() {
            encoded.extend(
                paths.of(&file.path).into_iter().map(|(hash, count)| HashCounts::encode(hash, count)),
            );
            ends.push(encoded.len() as u32);
        }
        let mut derived = SnapshotStats {
            path_terms: (encoded, ends),
            lengths: Vec::new(),
            graph: OnceLock::new(),
            commits: OnceLock::new(),
        };
        let files = snapshot.files().iter().enumerate();
        derived.lengths = files.map(|(at, file)| lengths(&file.facts, derived.path_terms(at))).collect();
        derived
    }

    /// Returns the positions in the snapshot of the files that a commit changed; removed files are not among
    /// them.
    pub(crate) fn commit_files(&self, snapshot: &Snapshot, commit: usize) -> &[u32] {
        let positions = |commit: &CommitFacts| {
            commit.paths.iter().filter_map(|path| snapshot.position(path)).map(|place| place as u32).collect()
        };
        &self.commits.get_or_init(|| snapshot.commits().iter().map(positions).collect())[commit]
    }

    /// Returns the terms by which a file of the snapshot is found, by its position.
    pub(crate) fn fields<'a>(&'a self, file: &'a File, at: usize) -> FieldTerms<'a> {
        FieldTerms { facts: &file.facts, path_terms: self.path_terms(at), lengths: self.lengths[at] }
    }

    /// The words of a file's path.
    fn path_terms(&self, file: usize) -> HashCounts<'_> {
        let (encoded, ends) = &self.path_terms;
        let from = file.checked_sub(1).map_or(0, |before| ends[before]);
        HashCounts::new(&encoded[from as usize..ends[file] as usize])
    }

    /// Returns the references. The first caller loads the stored graph or builds it.
    pub(crate) fn graph(&self, snapshot: &Snapshot, source: &dyn IndexedContents) -> &ReferenceGraph {
        self.graph.get_or_init(|| {
            let key = ReferenceGraph::key(snapshot);
            let kept = source
                .load_derived(&key)
                .and_then(|bytes| ReferenceGraph::decode(&bytes, snapshot.files().len()));
            kept.unwrap_or_else(|| {
                let graph = ReferenceGraph::from_snapshot(snapshot);
                if !snapshot.files().iter().any(|file| file.facts.is_lost()) {
                    source.store_derived(&key, &graph.encode());
                }
                graph
            })
        })
    }
}

/// Remembers what followed from the snapshots that were used last. Shared by all pipelines of a process.
#[derive(Default)]
pub struct SnapshotCache {
    known: Mutex<Vec<(Weak<Snapshot>, Arc<SnapshotStats>)>>,
}

impl SnapshotCache {
    /// Returns the statistics of a snapshot. Two callers at once may both make them; one of the two is
    /// retained.
    pub(crate) fn of(&self, snapshot: &Arc<Snapshot>) -> Arc<SnapshotStats> {
        if let Some(derived) = self.find(snapshot) {
            return derived;
        }
        let derived = Arc::new(SnapshotStats::from_snapshot(snapshot));
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

    fn find(&self, snapshot: &Arc<Snapshot>) -> Option<Arc<SnapshotStats>> {
        let mut known = lock(&self.known);
        let at = known.iter().position(|(kept, _)| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(snapshot)))?;
        let used = known.remove(at);
        let derived = Arc::clone(&used.1);
        known.push(used);
        Some(derived)
    }
}
