//! The projects of a request, opened for it, each as its plan sees it.
//!
//! # Invariants
//! 1. The index is that of the project; what a plan changed is laid over its snapshot and never written into
//!    it.
//! 2. A path that a plan changed is read from the plan's tree and nowhere else, every other one from the
//!    project.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use context::index::{ContentParts, Facts, Index, IndexComparison, IndexUpdate, Language, Outline};
use context::ports::FileTree;
use context::{Error, IndexedContents, IndexedRoot, OpenedProjects, Projects, StopCause, StopCheck};
use domain::context::{IndexLine, ProjectIndex};
use domain::{Hash, RelPath, RootIndex};
use sandbox::project_tree::ProjectTree;

use super::git_history::GitCommitHistory;
use super::trees::DiskTree;
use super::{ContextError, ContextSettings, Contexts, ProjectSettings};

/// A project to look into.
#[derive(Clone)]
pub struct ContextProject {
    /// The path of the project.
    pub root: PathBuf,
    /// Its alias, if there are several projects.
    pub alias: String,
    /// The changes of a plan in it.
    pub changes: Option<ProjectChanges>,
}

/// The changes of a plan in a project, and the source of their contents.
#[derive(Clone)]
pub struct ProjectChanges {
    pub(super) tree: Arc<dyn FileTree>,
    pub(super) paths: Arc<BTreeSet<RelPath>>,
}

impl ProjectChanges {
    /// Returns the changed paths.
    pub fn paths(&self) -> impl Iterator<Item = &RelPath> {
        self.paths.iter()
    }

    fn has(&self, path: &RelPath) -> bool {
        self.paths.contains(path)
    }
}

impl ContextProject {
    /// Creates a project with its files on the disk.
    pub fn at(root: impl Into<PathBuf>, alias: impl Into<String>) -> ContextProject {
        ContextProject { root: root.into(), alias: alias.into(), changes: None }
    }

    /// The same, as a plan sees it.
    #[must_use]
    pub fn with(self, changes: ProjectChanges) -> ContextProject {
        ContextProject { changes: Some(changes), ..self }
    }
}

/// A project whose index is at hand.
pub(super) struct OpenProject {
    pub(super) index: Arc<Index>,
    tree: Arc<DiskTree>,
    history: Option<GitCommitHistory>,
}

impl OpenProject {
    pub(super) fn update(&self, stop: &StopCheck) -> Result<IndexUpdate, StopCause> {
        let history = self.history.as_ref().map(|history| history as &dyn context::ports::History);
        self.index.update(&*self.tree, history, stop)
    }

    pub(super) fn verify(&self, stop: &StopCheck) -> Result<IndexComparison, StopCause> {
        let history = self.history.as_ref().map(|history| history as &dyn context::ports::History);
        self.index.verify(&*self.tree, history, stop)
    }
}

impl Contexts {
    /// The index of a project, with what it is brought up to date from.
    pub(super) fn ready(&self, root: &Path, settings: &ProjectSettings) -> Result<OpenProject, ContextError> {
        let tree =
            ProjectTree::open(root).map_err(|source| ContextError::Root { root: root.to_owned(), source })?;
        let tree = tree.with_hidden(self.hidden());
        let history = match settings.index.history_commits {
            0 => None,
            1.. => GitCommitHistory::around(root),
        };
        let index = self.shared.indexes.with(root, &settings.index);
        Ok(OpenProject { index, tree: Arc::new(DiskTree(tree)), history })
    }

    pub(super) fn opening(&self, projects: Vec<ContextProject>, settings: ContextSettings) -> ProjectOpener {
        ProjectOpener { contexts: self.clone(), projects, settings }
    }
}

/// Opens the projects of one request.
pub(super) struct ProjectOpener {
    contexts: Contexts,
    projects: Vec<ContextProject>,
    settings: ContextSettings,
}

impl Projects for ProjectOpener {
    fn open(&self, stop: &StopCheck) -> Result<OpenedProjects, Error> {
        let began = self.contexts.shared.clock.now();
        let mut opened = OpenedProjects { notes: self.settings.notes.clone(), ..OpenedProjects::default() };
        for ((project, settings), no) in self.projects.iter().zip(&self.settings.projects).zip(0..) {
            let ready = self.contexts.ready(&project.root, settings);
            let ready = ready.map_err(|error| Error::Projects(error.to_string()))?;
            let updated = ready.update(stop).map_err(|stopped| match stopped {
                StopCause::Cancelled(reason) => Error::Cancelled(reason),
                StopCause::DeadlinePassed => Error::Projects(stopped.to_string()),
            })?;
            add(&mut opened.index, &updated);
            let several = self.projects.len() > 1;
            opened.notes.extend(updated.notes.iter().map(|note| match several {
                true => format!("{}: {note}", project.alias),
                false => note.clone(),
            }));
            opened.projects.push(seen(project, settings, RootIndex(no), &ready, &updated));
        }
        opened.index.ms = millis(self.contexts.shared.clock.now().saturating_sub(began));
        Ok(opened)
    }
}

fn add(line: &mut IndexLine, updated: &IndexUpdate) {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    line.files = line.files.saturating_add(count(updated.snapshot.files().len()));
    line.changed = line.changed.saturating_add(updated.changed);
    line.commits = line.commits.saturating_add(count(updated.snapshot.commits().len()));
    line.partial |= updated.snapshot.partial();
    line.unfinished |= updated.is_unfinished;
}

pub(super) fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

fn seen(
    project: &ContextProject,
    settings: &ProjectSettings,
    no: ProjectIndex,
    ready: &OpenProject,
    updated: &IndexUpdate,
) -> IndexedRoot {
    let snapshot = match &project.changes {
        Some(changes) if !changes.paths.is_empty() => {
            let changed: Vec<RelPath> = changes.paths.iter().cloned().collect();
            ready.index.with_changes(&updated.snapshot, &*changes.tree, &changed)
        }
        Some(_) | None => Arc::clone(&updated.snapshot),
    };
    let (index, tree) = (Arc::clone(&ready.index), Arc::clone(&ready.tree));
    let source = ProjectFileReader { index, tree, changes: project.changes.clone() };
    let (alias, views) = (project.alias.clone(), settings.views.clone());
    IndexedRoot { no, alias, snapshot, source: Arc::new(source), views }
}

/// The reader of one project's files for one request.
struct ProjectFileReader {
    index: Arc<Index>,
    tree: Arc<DiskTree>,
    changes: Option<ProjectChanges>,
}

impl IndexedContents for ProjectFileReader {
    fn read(&self, path: &RelPath, max_bytes: usize) -> io::Result<Vec<u8>> {
        let max = max_bytes.saturating_add(1);
        match &self.changes {
            Some(changes) if changes.has(path) => changes.tree.read(path, max),
            Some(_) | None => self.tree.read(path, max),
        }
    }

    fn is_there(&self, path: &RelPath) -> bool {
        match &self.changes {
            Some(changes) if changes.has(path) => changes.tree.size(path).is_ok(),
            Some(_) | None => self.tree.size(path).is_ok(),
        }
    }

    fn outlines(&self, texts: &[(Hash, &str, &Facts)], stop: &StopCheck) -> Vec<Arc<Outline>> {
        self.index.outlines(texts, stop)
    }

    fn parts(&self, contents: &[(Hash, Language)], stop: &StopCheck) -> Vec<Option<ContentParts>> {
        self.index.parts(contents, stop)
    }

    fn keep_parts(&self, parts: &[(Hash, Language, ContentParts)]) {
        self.index.keep_parts(parts);
    }

    fn load_derived(&self, key: &Hash) -> Option<Vec<u8>> {
        self.index.load_derived(key)
    }

    fn store_derived(&self, key: &Hash, bytes: &[u8]) {
        self.index.store_derived(key, bytes);
    }
}
