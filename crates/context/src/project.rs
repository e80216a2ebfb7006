//! A project as one assembly sees it: a snapshot that does not change, and where its files are read.
//!
//! # Invariants
//! 1. A project is opened once for an assembly; everything is ranked by that snapshot.
//!
//! # Not here
//! Updating an index, and reading files: the implementations of the ports do that.

use std::io;
use std::sync::Arc;

use domain::context::{IndexLine, ProjectIndex};
use domain::{Hash, RelPath};

use crate::index::{ContentParts, Facts, Language, Outline, Snapshot, outline};
use crate::parallel_map::in_parallel;
use crate::{Error, StopCheck, Views};

/// The projects of one plan, or of one person's working directory.
pub trait Projects: Send + Sync {
    /// Brings the index up to date as far as there is time, and gives what it knows.
    ///
    /// # Errors
    /// [`Error::NoProject`], [`Error::Projects`] or a cancel. A failure of the index is a note.
    fn open(&self, stop: &StopCheck) -> Result<OpenedProjects, Error>;
}

/// The projects that a request is answered from.
#[derive(Clone, Default)]
pub struct OpenedProjects {
    /// The projects, in the order of their numbers.
    pub projects: Vec<IndexedRoot>,
    /// The result of the update.
    pub index: IndexLine,
    /// The problems of the update.
    pub notes: Vec<String>,
}

/// One project.
#[derive(Clone)]
pub struct IndexedRoot {
    /// Its number in the request.
    pub no: ProjectIndex,
    /// The name of the project if there are several.
    pub alias: String,
    /// The files and commits that the index knows of it.
    pub snapshot: Arc<Snapshot>,
    /// The reader of its files.
    pub source: Arc<dyn IndexedContents>,
    /// Its own rules, which narrow the user's.
    pub views: Views,
}

/// The source of the content of a project's files.
pub trait IndexedContents: Send + Sync {
    /// The first `max_bytes + 1` bytes of a file below the project's root, never of anything that it leads
    /// out to.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if it is gone; any other: it cannot be read.
    fn read(&self, path: &RelPath, max_bytes: usize) -> io::Result<Vec<u8>>;

    /// Returns true if there is a file, without a byte of it being read.
    fn is_there(&self, path: &RelPath) -> bool;

    /// The outlines of texts that are about to be shown, each given with the hash of its file and its facts,
    /// in their order. An implementation that stores outlines looks there first.
    fn outlines(&self, texts: &[(Hash, &str, &Facts)], stop: &StopCheck) -> Vec<Arc<Outline>> {
        let _ = stop;
        in_parallel(texts.len(), 1, |at| {
            let (_, text, facts) = texts[at];
            Arc::new(outline(text, facts))
        })
    }

    /// Returns the parts of contents, in their order; `None` for those that are not stored.
    fn parts(&self, contents: &[(Hash, Language)], stop: &StopCheck) -> Vec<Option<ContentParts>> {
        let _ = stop;
        vec![None; contents.len()]
    }

    /// Stores the parts of contents, so that they need not be found again. They may be evicted at any time.
    fn keep_parts(&self, parts: &[(Hash, Language, ContentParts)]) {
        let _ = parts;
    }

    /// Returns the stored value of this key that was derived from a snapshot. An implementation that stores
    /// nothing returns `None`.
    fn load_derived(&self, key: &Hash) -> Option<Vec<u8>> {
        let _ = key;
        None
    }

    /// Stores the data derived from a snapshot, so that the next process need not derive it again. It may be
    /// evicted at any time.
    fn store_derived(&self, key: &Hash, bytes: &[u8]) {
        let _ = (key, bytes);
    }
}
