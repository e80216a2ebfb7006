//! Our pipeline on a directory: the index in a file, the files and commits by the crate `sandbox`.

#![allow(dead_code, reason = "not every benchmark uses all of it")]

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use context::index::{ContentParts, Facts, Index, IndexConfig, Language, Oid, Outline, Snapshot};
use context::ports::{
    Commit, CommitLog, FileStat, FileTree, History, PortError, StopPoll, SystemWallClock, WalkSummary,
};
use context::stages::Stages;
use context::strategies::ContextStrategy;
use context::{
    Error, ExecutorConfig, IndexedContents, LexicalCounter, OpenedProjects, ParallelStrategyExecutor,
    Pipeline, PipelineConfig, PipelineParts, Projects, SnapshotCache, StopCheck, Views,
};
use domain::context::{AssembledContext, Budget, ContextRequest, IndexLine};
use domain::{ContextId, Hash, Redactor, RelPath, RootIndex};
use sandbox::git::log::GitHistory;
use sandbox::project_tree::{ProjectTree, TreeFile};
use sync::{CancellationToken, CircuitBreaker, SystemClock};

/// A project with its index, as one process has it.
pub(crate) struct Project {
    pipeline: Pipeline,
    indexed: Arc<Indexed>,
    clock: Arc<SystemClock>,
}

/// The project's files, commits and index.
struct Indexed {
    tree: Files,
    history: Option<Commits>,
    index: Arc<Index>,
    /// How many files the last update found changed.
    changed: Mutex<u32>,
}

impl Project {
    /// The project at `root`, its index kept in `file`.
    pub(crate) fn open(root: &Path, file: &Path) -> Project {
        let clock = Arc::new(SystemClock::new());
        let index =
            Index::in_file(file.to_owned(), IndexConfig::default(), clock.clone(), Arc::new(SystemWallClock));
        let indexed = Arc::new(Indexed {
            tree: Files(ProjectTree::open(root).unwrap()),
            history: GitHistory::around(root).map(Commits),
            index: Arc::new(index),
            changed: Mutex::default(),
        });
        let executor = ParallelStrategyExecutor::<dyn ContextStrategy>::new(
            ExecutorConfig::default(),
            CircuitBreaker::default(),
            clock.clone(),
        );
        let parts = PipelineParts {
            config: PipelineConfig::default(),
            projects: Arc::new(Shared(Arc::clone(&indexed))),
            strategies: Pipeline::strategies(),
            stages: Stages::new(Arc::new(executor.unwrap())),
            counter: Arc::new(LexicalCounter::default()),
            redactor: Arc::new(Redactor::new([1; 32], Vec::new()).unwrap()),
            clock: clock.clone(),
            cache: Arc::new(SnapshotCache::default()),
        };
        Project { pipeline: Pipeline::new(parts).unwrap(), indexed, clock }
    }

    /// Brings the index up to date; how many files had changed.
    pub(crate) fn update(&self) -> u32 {
        self.indexed.index.expect_changes(&self.stop());
        let _ = self.indexed.open(&self.stop()).unwrap();
        *self.indexed.changed.lock().unwrap()
    }

    /// A context of at most so many tokens, of the tree as it is now.
    pub(crate) fn assemble(&self, query: &str, tokens: u32) -> AssembledContext {
        let request = ContextRequest {
            query: query.to_owned(),
            ..ContextRequest::new(ContextId::from_u128(1), Budget::fixed(tokens))
        };
        self.indexed.index.expect_changes(&self.stop());
        self.pipeline.assemble(&request, &self.stop()).unwrap()
    }

    /// What the index knew last.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.indexed.index.snapshot()
    }

    fn stop(&self) -> StopCheck {
        StopCheck::new(CancellationToken::new().observe(), None, self.clock.clone())
    }
}

impl Indexed {
    fn open(&self, stop: &StopCheck) -> Result<context::index::IndexUpdate, Error> {
        let history = self.history.as_ref().map(|history| history as &dyn History);
        // Nobody cancels a benchmark.
        let updated = self.index.update(&self.tree, history, stop).unwrap();
        *self.changed.lock().unwrap() = updated.changed;
        Ok(updated)
    }
}

struct Shared(Arc<Indexed>);

impl Projects for Shared {
    fn open(&self, stop: &StopCheck) -> Result<OpenedProjects, Error> {
        let updated = self.0.open(stop)?;
        let index = IndexLine {
            files: updated.snapshot.files().len() as u32,
            changed: updated.changed,
            partial: updated.snapshot.partial(),
            unfinished: updated.is_unfinished,
            ..IndexLine::default()
        };
        let project = context::IndexedRoot {
            no: RootIndex(0),
            alias: "project".to_owned(),
            snapshot: updated.snapshot,
            source: Arc::new(Shared(Arc::clone(&self.0))),
            views: Views::default(),
        };
        Ok(OpenedProjects { projects: vec![project], index, notes: updated.notes })
    }
}

impl IndexedContents for Shared {
    fn read(&self, path: &RelPath, max_bytes: usize) -> io::Result<Vec<u8>> {
        self.0.tree.read(path, max_bytes.saturating_add(1))
    }

    fn is_there(&self, path: &RelPath) -> bool {
        self.0.tree.read(path, 0).is_ok()
    }

    fn outlines(&self, texts: &[(Hash, &str, &Facts)], stop: &StopCheck) -> Vec<Arc<Outline>> {
        self.0.index.outlines(texts, stop)
    }

    fn parts(&self, contents: &[(Hash, Language)], stop: &StopCheck) -> Vec<Option<ContentParts>> {
        self.0.index.parts(contents, stop)
    }

    fn keep_parts(&self, parts: &[(Hash, Language, ContentParts)]) {
        self.0.index.keep_parts(parts);
    }

    fn load_derived(&self, key: &Hash) -> Option<Vec<u8>> {
        self.0.index.load_derived(key)
    }

    fn store_derived(&self, key: &Hash, bytes: &[u8]) {
        self.0.index.store_derived(key, bytes);
    }
}

struct Files(ProjectTree);

impl FileTree for Files {
    fn walk(
        &self,
        is_over: &StopPoll<'_>,
        sink: &(dyn Fn(FileStat) + Sync),
    ) -> Result<WalkSummary, PortError> {
        let told = |file: TreeFile| {
            let TreeFile { path, size, mtime_ns, ctime_ns, inode } = file;
            sink(FileStat { path, size, mtime_ns, ctime_ns, inode });
        };
        let end = self.0.walk(is_over, &mut { told }).map_err(failed)?;
        Ok(WalkSummary { complete: end.is_complete, unread: end.unread })
    }

    fn size(&self, path: &RelPath) -> io::Result<u64> {
        self.0.size(path)
    }

    fn read(&self, path: &RelPath, max: usize) -> io::Result<Vec<u8>> {
        self.0.read(path, max as u64)
    }
}

struct Commits(GitHistory);

impl History for Commits {
    fn head(&self, stop: &StopCheck) -> Result<Option<Oid>, PortError> {
        let head = self.0.head(&|| stop.should_stop()).map_err(failed)?;
        Ok(head.and_then(|head| Oid::new(&head)))
    }

    fn cut_at(&self) -> String {
        self.0.cut_at()
    }

    fn log(&self, stop_at: Option<&Oid>, max: u32, stop: &StopCheck) -> Result<CommitLog, PortError> {
        let paths_max = context::ports::COMMIT_PATHS_MAX;
        let told = self.0.log(stop_at.map(Oid::as_str), max, paths_max, &|| stop.should_stop());
        let told = told.map_err(failed)?;
        let commits = told.commits.into_iter().filter_map(|commit| {
            let oid = Oid::new(&commit.oid)?;
            Some(Commit { oid, at: commit.at, message: commit.message, paths: commit.paths })
        });
        Ok(CommitLog { commits: commits.collect(), joins: told.joins })
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> PortError {
    PortError { message: error.to_string(), source: Some(Box::new(error)) }
}
