//! What all strategies of one request read: the files that may be seen, and how well they match its words.
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
use domain::context::{Place, PlanFacts, ProjectNo};

use crate::bm25::{Fields, Term};
use crate::file_reader::{Reading, Readings};
use crate::focus::Anchor;
use crate::graph::Graph;
use crate::index::File;
use crate::snapshot_stats::Derived;
use crate::{Filter, Project};

/// A file of a request, by project and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNo(pub u32);

/// Where a path stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may be seen.
    Seen(FileNo),
    /// The view leaves it out.
    LeftOut,
    /// The project has no such file.
    Outside,
    /// There is no such project.
    NoProject,
}

/// A project with what follows from its snapshot.
pub(crate) struct Known {
    pub(crate) project: Project,
    pub(crate) derived: Arc<Derived>,
    pub(crate) filter: Filter,
    /// The number of each file of the snapshot; none: left out.
    pub(crate) numbers: Vec<Option<u32>>,
}

/// The files that may be seen.
#[derive(Default)]
pub(crate) struct Ground {
    pub(crate) known: Vec<Known>,
    /// Which project, and where in its snapshot.
    pub(crate) files: Vec<(u32, u32)>,
}

impl Ground {
    pub(crate) fn new(known: Vec<(Project, Arc<Derived>, Filter)>) -> Ground {
        let mut ground = Ground::default();
        for (at, (project, derived, filter)) in known.into_iter().enumerate() {
            let mut numbers = Vec::with_capacity(project.snapshot.files().len());
            for (place, file) in project.snapshot.files().iter().enumerate() {
                let number = filter.admits(&file.path).then_some(ground.files.len() as u32);
                if number.is_some() {
                    ground.files.push((at as u32, place as u32));
                }
                numbers.push(number);
            }
            ground.known.push(Known { project, derived, filter, numbers });
        }
        ground
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = FileNo> + use<> {
        (0..self.files.len() as u32).map(FileNo)
    }

    pub(crate) fn known(&self, file: FileNo) -> &Known {
        &self.known[self.files[file.0 as usize].0 as usize]
    }

    /// Where it stands in its project's snapshot.
    pub(crate) fn position(&self, file: FileNo) -> u32 {
        self.files[file.0 as usize].1
    }

    pub(crate) fn file(&self, file: FileNo) -> &File {
        &self.known(file).project.snapshot.files()[self.position(file) as usize]
    }

    pub(crate) fn fields(&self, file: FileNo) -> Fields<'_> {
        self.known(file).derived.fields(self.file(file), self.position(file) as usize)
    }

    pub(crate) fn standing(&self, project: ProjectNo, path: &RelPath) -> Standing {
        let Some(known) = self.known.iter().find(|known| known.project.no == project) else {
            return Standing::NoProject;
        };
        match known.project.snapshot.position(path).map(|place| known.numbers[place]) {
            Some(Some(number)) => Standing::Seen(FileNo(number)),
            Some(None) => Standing::LeftOut,
            None => Standing::Outside,
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

/// What all strategies of one request read.
pub struct Prepared {
    pub(crate) ground: Ground,
    pub(crate) terms: Vec<Term>,
    /// By the words of the query alone, of all files; 0 to 3.
    pub(crate) lexical: Vec<f32>,
    pub(crate) anchors: Vec<Anchor>,
    pub(crate) asks_for_tests: bool,
    pub(crate) breadth: u8,
    pub(crate) plan: Option<PlanFacts>,
    pub(crate) max_file_bytes: usize,
    pub(crate) readings: Readings,
    pub(crate) is_named: Vec<domain::context::Name>,
}

impl Prepared {
    /// The files that may be seen, by project and path.
    pub fn files(&self) -> impl Iterator<Item = FileNo> + use<> {
        self.ground.numbers()
    }

    /// How many files may be seen.
    pub fn files_len(&self) -> usize {
        self.ground.files.len()
    }

    /// What the index knows of a file.
    ///
    /// # Panics
    /// The number is none of this request's.
    pub fn file(&self, file: FileNo) -> &File {
        self.ground.file(file)
    }

    /// The whole file as a place.
    pub fn place(&self, file: FileNo) -> Place {
        Place::file(self.ground.known(file).project.no, self.file(file).path.clone())
    }

    /// Where a path stands.
    pub fn standing(&self, project: ProjectNo, path: &RelPath) -> Standing {
        self.ground.standing(project, path)
    }

    /// The words of the query and what they weigh.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// How well a file matches the words of the query; 0 if not at all.
    pub fn lexical(&self, file: FileNo) -> f32 {
        self.lexical.get(file.0 as usize).copied().unwrap_or(0.0)
    }

    /// The files that match best, best first, at most `count`; of equals the first by path.
    pub fn best_lexical(&self, count: usize) -> Vec<(FileNo, f32)> {
        best(self.files().map(|file| (file, self.lexical(file))), count)
    }

    /// Whether any file holds a word of the query.
    pub fn has_hits(&self) -> bool {
        self.lexical.iter().any(|score| *score > 0.0)
    }

    /// What the request is about.
    pub fn anchors(&self) -> &[Anchor] {
        &self.anchors
    }

    /// Whether the query speaks of tests.
    pub fn asks_for_tests(&self) -> bool {
        self.asks_for_tests
    }

    /// How many references away is still looked at.
    pub fn breadth(&self) -> u8 {
        self.breadth
    }

    /// What is known of the plan that asks.
    pub fn plan(&self) -> Option<&PlanFacts> {
        self.plan.as_ref()
    }

    /// Whether the request names this strategy itself.
    pub fn names(&self, strategy: &domain::context::Name) -> bool {
        self.is_named.contains(strategy)
    }

    pub(crate) fn graph(&self, known: usize) -> &Graph {
        let known = &self.ground.known[known];
        known.derived.graph(&known.project.snapshot, &*known.project.source)
    }

    /// The content of a file, read once.
    pub(crate) fn reading(&self, file: FileNo) -> Reading {
        let known = self.ground.known(file);
        let is_named = self.anchors().iter().any(|anchor| anchor.is_pinned && anchor.file == file);
        self.readings.get(file.0, &known.project, self.file(file), self.max_file_bytes, is_named)
    }
}

/// The best of some, best first, those above 0 only; of equals the lower number.
pub(crate) fn best(scored: impl Iterator<Item = (FileNo, f32)>, count: usize) -> Vec<(FileNo, f32)> {
    let mut scored: Vec<(FileNo, f32)> = scored.filter(|(_, score)| *score > 0.0).collect();
    let by_score =
        |one: &(FileNo, f32), other: &(FileNo, f32)| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0));
    if scored.len() > count && count > 0 {
        scored.select_nth_unstable_by(count - 1, by_score);
    }
    scored.truncate(count);
    scored.sort_by(by_score);
    scored
}
