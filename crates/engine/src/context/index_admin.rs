//! Updates, drops and verifies the index of a project.
//!
//! # Invariants
//! 1. An index is a cache: throwing it away loses nothing but time.
//! 2. The index that is built for the comparison is in memory and written nowhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use context::index::Snapshot;
use context::{Error, StopCause};
use domain::RelPath;
use sync::Observed;

use super::projects::{OpenProject, millis};
use super::{ContextError, ContextProject, Contexts, PipelineError};

/// The number of times that a project that changes all the time is looked at.
const LOOKS_MAX: u32 = 4;
/// The maximum number of different paths that are reported.
const DIFFERENT_MAX: usize = 20;

/// The state of the index of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexState {
    /// Files that it knows.
    pub files: u64,
    /// Contents that it knows.
    pub facts: u64,
    /// The size of the index on the disk, in bytes.
    pub bytes: u64,
    /// Commits that it knows.
    pub commits: u64,
    /// The number of files that there are in each language.
    pub languages: BTreeMap<&'static str, u64>,
    /// Files that had changed since it was last asked.
    pub changed: u32,
    /// True if there are files that it does not know.
    pub partial: bool,
    /// True if there was no time for all of them; the next update continues.
    pub unfinished: bool,
    /// The time that the update took, in milliseconds.
    pub ms: u32,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// The result of a comparison of an index with the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexVerification {
    /// It does.
    Same,
    /// It does not, of these files; or of the history, if there is none.
    Different(Vec<RelPath>),
    /// The files change faster than they can be looked at.
    Moving,
}

impl Contexts {
    /// Brings the index of a project up to date and returns its state. Blocks.
    ///
    /// # Errors
    /// The project or its settings cannot be read; or a cancel.
    pub fn index(&self, project: &ContextProject, stop: &Observed) -> Result<IndexState, ContextError> {
        let began = self.shared.clock.now();
        let (ready, stop) = (self.ready_one(project)?, self.stop(stop));
        ready.index.expect_changes(&stop);
        let updated = ready.update(&stop).map_err(cancelled)?;
        let size = ready.index.size(&stop);
        let mut languages = BTreeMap::new();
        for file in updated.snapshot.files() {
            *languages.entry(file.facts.language.name()).or_default() += 1;
        }
        Ok(IndexState {
            files: updated.snapshot.files().len() as u64,
            facts: size.facts,
            bytes: size.bytes,
            commits: updated.snapshot.commits().len() as u64,
            languages,
            changed: updated.changed,
            partial: updated.snapshot.partial(),
            unfinished: updated.is_unfinished,
            ms: millis(self.shared.clock.now().saturating_sub(began)),
            notes: updated.notes,
        })
    }

    /// Removes the index of a project; returns whether that could be done. It cannot while a process uses it.
    pub fn clear_index(&self, project: &ContextProject) -> bool {
        self.shared.indexes.clear(&project.root)
    }

    /// Builds the index of a project aside, from nothing, and compares. Blocks.
    ///
    /// # Errors
    /// The project or its settings cannot be read; or a cancel.
    pub fn verify_index(
        &self,
        project: &ContextProject,
        stop: &Observed,
    ) -> Result<IndexVerification, ContextError> {
        let (ready, stop) = (self.ready_one(project)?, self.stop(stop));
        let mut last: Option<Arc<Snapshot>> = None;
        for _ in 0..LOOKS_MAX {
            let found = ready.verify(&stop).map_err(cancelled)?;
            if found.is_same() {
                return Ok(IndexVerification::Same);
            }
            // A file that was written between the two looks may differ. Only a difference while nothing
            // changes is an error.
            let snapshot = found.updated.snapshot;
            if last.is_some_and(|last| last == snapshot) {
                let mut paths = found.differing;
                paths.truncate(DIFFERENT_MAX);
                return Ok(IndexVerification::Different(paths));
            }
            last = Some(snapshot);
        }
        Ok(IndexVerification::Moving)
    }

    fn ready_one(&self, project: &ContextProject) -> Result<OpenProject, ContextError> {
        let settings = self.settings(std::slice::from_ref(project))?;
        let own = settings.projects.into_iter().next().unwrap_or_default();
        self.ready(&project.root, &own)
    }
}

fn cancelled(stopped: StopCause) -> ContextError {
    ContextError::Pipeline(match stopped {
        StopCause::Cancelled(reason) => Error::Cancelled(reason),
        StopCause::DeadlinePassed => PipelineError::Projects(stopped.to_string()),
    })
}
