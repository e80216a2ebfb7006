//! The inputs that all strategies of one request read: the visible files, and their scores for its words.
//!
//! # Invariants
//! 1. It does not change once it is made, but for files that are read on demand, each once.
//! 2. Files are numbered by project and path, those that the view leaves out have no number.
//!
//! # Not here
//! Making one: `prepare`.

pub(crate) mod build;

use std::sync::Arc;

use domain::RelPath;
use domain::context::{FileLocation, PlanFacts, ProjectIndex};

use crate::bm25::{FieldTerms, Term};
use crate::file_reader::{FileReadResult, FileReader};
use crate::focus::Anchor;
use crate::graph::ReferenceGraph;
use crate::index::File;
use crate::snapshot_stats::SnapshotStats;
use crate::{IndexedRoot, ViewFilter};

/// A file of a request, by project and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIndex(pub u32);

/// The status of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStatus {
    /// It may be seen.
    Seen(FileIndex),
    /// The view leaves it out.
    LeftOut,
    /// The project has no such file.
    Outside,
    /// There is no such project.
    NoProject,
}

/// A project with what follows from its snapshot.
pub(crate) struct IndexedProject {
    pub(crate) project: IndexedRoot,
    pub(crate) derived: Arc<SnapshotStats>,
    pub(crate) filter: ViewFilter,
    /// The number of each file of the snapshot; none: left out.
    pub(crate) numbers: Vec<Option<u32>>,
}

/// The files that may be seen.
#[derive(Default)]
pub(crate) struct VisibleFiles {
    pub(crate) known: Vec<IndexedProject>,
    /// The project of each file, and its position in that project's snapshot.
    pub(crate) files: Vec<(u32, u32)>,
}

impl VisibleFiles {
    pub(crate) fn new(known: Vec<(IndexedRoot, Arc<SnapshotStats>, ViewFilter)>) -> VisibleFiles {
        let mut ground = VisibleFiles::default();
        for (at, (project, derived, filter)) in known.into_iter().enumerate() {
            let mut numbers = Vec::with_capacity(project.snapshot.files().len());
            for (place, file) in project.snapshot.files().iter().enumerate() {
                let number = filter.admits(&file.path).then_some(ground.files.len() as u32);
                if number.is_some() {
                    ground.files.push((at as u32, place as u32));
                }
                numbers.push(number);
            }
            ground.known.push(IndexedProject { project, derived, filter, numbers });
        }
        ground
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = FileIndex> + use<> {
        (0..self.files.len() as u32).map(FileIndex)
    }

    pub(crate) fn known(&self, file: FileIndex) -> &IndexedProject {
        &self.known[self.files[file.0 as usize].0 as usize]
    }

    /// Returns the position of a file in its project's snapshot.
    pub(crate) fn position(&self, file: FileIndex) -> u32 {
        self.files[file.0 as usize].1
    }

    pub(crate) fn file(&self, file: FileIndex) -> &File {
        &self.known(file).project.snapshot.files()[self.position(file) as usize]
    }

    pub(crate) fn fields(&self, file: FileIndex) -> FieldTerms<'_> {
        self.known(file).derived.fields(self.file(file), self.position(file) as usize)
    }

    pub(crate) fn standing(&self, project: ProjectIndex, path: &RelPath) -> PathStatus {
        let Some(known) = self.known.iter().find(|known| known.project.no == project) else {
            return PathStatus::NoProject;
        };
        match known.project.snapshot.position(path).map(|place| known.numbers[place]) {
            Some(Some(number)) => PathStatus::Seen(FileIndex(number)),
            Some(None) => PathStatus::LeftOut,
            None => PathStatus::Outside,
        }
    }

    pub(crate) fn is_defined_out_of_view(&self, name: &str) -> bool {
        self.known.iter().any(|known| {
            let hidden = known.project.snapshot.files().iter().zip(&known.numbers);
            let mut hidden = hidden.filter(|(_, number)| number.is_none());
            hidden.any(|(file, _)| file.facts.defs().iter().any(|def| &*def.name == name))
        })
    }
}

/// The inputs that all strategies of one request read.
pub struct RequestInputs {
    pub(crate) ground: VisibleFiles,
    pub(crate) terms: Vec<Term>,
    /// By the words of the query alone, of all files; 0 to 3.
    pub(crate) lexical: Vec<f32>,
    pub(crate) anchors: Vec<Anchor>,
    pub(crate) asks_for_tests: bool,
    pub(crate) breadth: u8,
    pub(crate) plan: Option<PlanFacts>,
    pub(crate) max_file_bytes: usize,
    pub(crate) readings: FileReader,
    pub(crate) is_named: Vec<domain::context::Name>,
}

impl RequestInputs {
    /// The files that may be seen, by project and path.
    pub fn files(&self) -> impl Iterator<Item = FileIndex> + use<> {
        self.ground.numbers()
    }

    /// Returns the number of files that may be seen.
    pub fn files_len(&self) -> usize {
        self.ground.files.len()
    }

    /// Returns the indexed facts of a file.
    ///
    /// # Panics
    /// The number is none of this request's.
    pub fn file(&self, file: FileIndex) -> &File {
        self.ground.file(file)
    }

    /// The whole file as a place.
    pub fn place(&self, file: FileIndex) -> FileLocation {
        FileLocation::file(self.ground.known(file).project.no, self.file(file).path.clone())
    }

    /// Returns the status of a path.
    pub fn standing(&self, project: ProjectIndex, path: &RelPath) -> PathStatus {
        self.ground.standing(project, path)
    }

    /// The words of the query and what they weigh.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns the score of a file against the words of the query; 0 if it does not match.
    pub fn lexical(&self, file: FileIndex) -> f32 {
        self.lexical.get(file.0 as usize).copied().unwrap_or(0.0)
    }

    /// The files that match best, best first, at most `count`; of equals the first by path.
    pub fn best_lexical(&self, count: usize) -> Vec<(FileIndex, f32)> {
        best(self.files().map(|file| (file, self.lexical(file))), count)
    }

    /// Returns true if any file holds a word of the query.
    pub fn has_hits(&self) -> bool {
        self.lexical.iter().any(|score| *score > 0.0)
    }

    /// Returns the files that the request is about.
    pub fn anchors(&self) -> &[Anchor] {
        &self.anchors
    }

    /// Returns true if the query speaks of tests.
    pub fn asks_for_tests(&self) -> bool {
        self.asks_for_tests
    }

    /// Returns the number of references that are followed.
    pub fn breadth(&self) -> u8 {
        self.breadth
    }

    /// Returns the facts of the requesting plan; `None` if there is no plan.
    pub fn plan(&self) -> Option<&PlanFacts> {
        self.plan.as_ref()
    }

    /// Returns true if the request names this strategy itself.
    pub fn names(&self, strategy: &domain::context::Name) -> bool {
        self.is_named.contains(strategy)
    }

    pub(crate) fn graph(&self, known: usize) -> &ReferenceGraph {
        let known = &self.ground.known[known];
        known.derived.graph(&known.project.snapshot, &*known.project.source)
    }

    /// The content of a file, read once.
    pub(crate) fn reading(&self, file: FileIndex) -> FileReadResult {
        let known = self.ground.known(file);
        let is_named = self.anchors().iter().any(|anchor| anchor.is_pinned && anchor.file == file);
        self.readings.get(file.0, &known.project, self.file(file), self.max_file_bytes, is_named)
    }
}

/// The best of some, best first, those above 0 only; of equals the lower number.
pub(crate) fn best(scored: impl Iterator<Item = (FileIndex, f32)>, count: usize) -> Vec<(FileIndex, f32)> {
    let mut scored: Vec<(FileIndex, f32)> = scored.filter(|(_, score)| *score > 0.0).collect();
    let by_score = |one: &(FileIndex, f32), other: &(FileIndex, f32)| {
        other.1.total_cmp(&one.1).then(one.0.cmp(&other.0))
    };
    if scored.len() > count && count > 0 {
        scored.select_nth_unstable_by(count - 1, by_score);
    }
    scored.truncate(count);
    scored.sort_by(by_score);
    scored
}
