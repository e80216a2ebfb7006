//! The facts of the index about one file: its definitions, its references in both directions, and the files
//! that change with it.
//!
//! # Invariants
//! 1. The cost of a file at each depth is the one that the pipeline charges: it is asked.
//! 2. Lists are bounded, the best first, ties by path.
//! 3. Names are text of files: secrets are taken out of them.
//! 4. The answer is only about files that the default view shows.
//!
//! # Not here
//! Ranking: these are the plain facts that the strategies rank by.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use context::index::{File, Snapshot, module_name, terms};
use context::{LexicalCounter, OpenedProjects, Projects, ViewFilter, left_out};
use domain::context::{
    AssembledContext, Budget, ContextRequest, ContextView, Depth, ExclusionReason, Focus, Name, ProjectIndex,
};
use domain::{ContextId, RelPath};
use sync::Observed;

use super::{ContextAsk, ContextError, ContextProject, Contexts, PipelineError};

/// The maximum number of neighbours of a kind in the answer.
const NEIGHBOURS_MAX: usize = 20;
/// The number of names that say why two files are neighbours.
const NAMES_MAX: usize = 5;
/// A name that more files define says nothing about where it comes from.
const DEFINERS_MAX: usize = 20;
/// Shorter names are said by chance.
const NAME_LETTERS_MIN: usize = 3;
/// A symbol that more places define is not understood.
const PLACES_MAX: usize = 20;
/// As many tokens as any file can cost.
const TOKENS: u32 = 1_000_000;

/// The file or symbol that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InspectTarget {
    /// A file.
    Path(ProjectIndex, RelPath),
    /// Whatever is defined under this name: the first file that does.
    Symbol(String),
}

/// The knowledge of the index about a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileInspection {
    /// The project.
    pub project: ProjectIndex,
    /// The file.
    pub path: RelPath,
    /// The language of the file.
    pub language: &'static str,
    /// The number of lines that it has; none if it was not read.
    pub lines: Option<u32>,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// Why only its path is known.
    pub path_only: Option<ExclusionReason>,
    /// The cost at each depth; for a file that is only listed, the first depth alone.
    pub tokens: Vec<(Depth, u32)>,
    /// The definitions in the file, by line.
    pub definitions: Vec<InspectedDef>,
    /// Files that use what it defines.
    pub referred_by: Vec<Neighbour>,
    /// Files that define what it uses.
    pub refers_to: Vec<Neighbour>,
    /// Files that commits changed together with it.
    pub changes_with: Vec<(RelPath, u32)>,
    /// Of a symbol: all places that define it.
    pub defined_at: Vec<(ProjectIndex, RelPath, u32)>,
    /// Notes about problems.
    pub notes: Vec<String>,
}

/// Something that a file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedDef {
    /// Its name.
    pub name: String,
    /// The kind of the definition, in one word.
    pub kind: &'static str,
    /// The line of its name.
    pub line: u32,
    /// The first line that belongs to it.
    pub from: u32,
    /// The last one.
    pub to: u32,
}

/// A file that shares names with another.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// The file.
    pub path: RelPath,
    /// The weight of the shared names.
    pub weight: f32,
    /// Some of the names, those that say most first.
    pub names: Vec<String>,
}

impl Contexts {
    /// Returns the knowledge of the index about a file, or about the file that defines a symbol. Blocks.
    ///
    /// # Errors
    /// There is no such thing, or it is defined in too many places; no project; or a cancel.
    pub fn inspect(
        &self,
        projects: &[ContextProject],
        sought: &InspectTarget,
        stop: &Observed,
    ) -> Result<FileInspection, ContextError> {
        let opened = self.in_view(projects, stop)?;
        let (project, file, defined_at) = match (find(&opened, sought), sought) {
            (Ok(found), _) => found,
            // The pipeline decides whether it is hidden or does not exist.
            (Err(error), InspectTarget::Path(no, path)) => {
                self.about(projects, Focus::Path(*no, path.clone()), Depth::Listing, stop)?;
                return Err(error.into());
            }
            (Err(error), InspectTarget::Symbol(_)) => return Err(error.into()),
        };
        let snapshot = &opened.projects[usize::from(project.0)].snapshot;
        let at = snapshot.position(&file.path);
        let redactor = self.redactor()?;
        let shown = |name: &str| redactor.redact_str(name).into_owned();
        let (mut referred_by, mut refers_to) = at.map(|at| references(snapshot, at)).unwrap_or_default();
        for name in referred_by.iter_mut().chain(&mut refers_to).flat_map(|one| &mut one.names) {
            *name = shown(name);
        }
        let definition = |def: &context::index::Def| InspectedDef {
            name: shown(&def.name),
            kind: def.kind.word(),
            line: def.line,
            from: def.start,
            to: def.end,
        };
        Ok(FileInspection {
            project,
            path: file.path.clone(),
            language: file.facts.language.name(),
            lines: file.hash.map(|_| file.facts.lines),
            bytes: u64::from(file.facts.bytes),
            path_only: file.path_only.map(left_out),
            tokens: self.costs(projects, project, file, stop)?,
            definitions: file.facts.defs().iter().map(definition).collect(),
            referred_by,
            refers_to,
            changes_with: changes_with(snapshot, &file.path),
            defined_at,
            notes: opened.notes.clone(),
        })
    }

    /// The path or the definition whose name is nearest to a word that names nothing. Blocks.
    ///
    /// # Errors
    /// The projects cannot be opened; or a cancel.
    pub fn nearest(
        &self,
        projects: &[ContextProject],
        word: &str,
        stop: &Observed,
    ) -> Result<Option<String>, ContextError> {
        let opened = self.in_view(projects, stop)?;
        let path =
            word.rsplit_once(':').filter(|(_, lines)| lines.contains('-')).map_or(word, |(path, _)| path);
        let (mut paths, mut names) = (Vec::new(), BTreeMap::new());
        for file in opened.projects.iter().flat_map(|project| project.snapshot.files()) {
            let shown = file.path.to_string();
            let name = shown.rsplit('/').next().unwrap_or(&shown).to_owned();
            names.entry(name).or_insert_with(|| shown.clone());
            paths.push(shown);
            for def in file.facts.defs() {
                names.entry(def.name.to_string()).or_insert_with(|| def.name.to_string());
            }
        }
        let whole = domain::nearest(path, paths.iter().map(String::as_str)).map(str::to_owned);
        let last = path.rsplit('/').next().unwrap_or(path);
        let by_name = || {
            domain::nearest(last, names.keys().map(String::as_str)).and_then(|name| names.get(name)).cloned()
        };
        let redactor = self.redactor()?;
        Ok(whole.or_else(by_name).map(|name| redactor.redact_str(&name).into_owned()))
    }

    /// The projects, and of their files those that the default view shows.
    fn in_view(&self, projects: &[ContextProject], stop: &Observed) -> Result<OpenedProjects, ContextError> {
        let settings = self.settings(projects)?;
        let of_user = settings.pipeline.views.resolve(ContextView::Default);
        let mut opened = self.opening(projects.to_vec(), settings).open(&self.stop(stop))?;
        for project in &mut opened.projects {
            let own = project.views.resolve(ContextView::Default);
            let filter = ViewFilter::compile(&[&of_user, &own]).map_err(PipelineError::from)?;
            let hidden = project.snapshot.files().iter().filter(|file| !filter.admits(&file.path));
            let hidden: Vec<_> = hidden.map(|file| (file.path.clone(), None)).collect();
            if !hidden.is_empty() {
                project.snapshot = Arc::new(project.snapshot.with_changes(hidden));
            }
        }
        Ok(opened)
    }

    /// Returns the cost of the file at each depth, as the pipeline charges it.
    fn costs(
        &self,
        projects: &[ContextProject],
        project: ProjectIndex,
        file: &File,
        stop: &Observed,
    ) -> Result<Vec<(Depth, u32)>, ContextError> {
        let depths = match file.path_only {
            Some(_) => &Depth::ALL[..1],
            None => &Depth::ALL[..],
        };
        let mut costs = Vec::new();
        for depth in depths {
            let context = self.about(projects, Focus::Path(project, file.path.clone()), *depth, stop)?;
            let is_its =
                |place: &domain::context::FileLocation| place.project == project && place.path == file.path;
            let of_file = context.receipt.included.iter().filter(|line| is_its(&line.place));
            costs.push((*depth, of_file.map(|line| line.tokens).sum()));
        }
        Ok(costs)
    }

    /// Returns the context of the pipeline for one focus.
    fn about(
        &self,
        projects: &[ContextProject],
        focus: Focus,
        depth: Depth,
        stop: &Observed,
    ) -> Result<AssembledContext, ContextError> {
        let request = ContextRequest {
            focus: vec![focus],
            depth,
            only: "simple-keyword".parse::<Name>().into_iter().collect(),
            ..ContextRequest::new(ContextId::from_u128(0), Budget::fixed(TOKENS))
        };
        let counter = Arc::new(LexicalCounter::default());
        self.assemble_here(ContextAsk { projects: projects.to_vec(), request, counter }, stop)
    }
}

type LocatedFile<'a> = (ProjectIndex, &'a File, Vec<(ProjectIndex, RelPath, u32)>);

fn find<'a>(opened: &'a OpenedProjects, sought: &InspectTarget) -> Result<LocatedFile<'a>, PipelineError> {
    let not_found = |focus| PipelineError::FocusNotFound { focus };
    match sought {
        InspectTarget::Path(no, path) => {
            let project = opened.projects.iter().find(|project| project.no == *no);
            let file = project.and_then(|project| project.snapshot.file(path));
            let file = file.ok_or_else(|| not_found(Focus::Path(*no, path.clone())))?;
            Ok((*no, file, Vec::new()))
        }
        InspectTarget::Symbol(name) => {
            let mut first = None;
            let mut places = Vec::new();
            for project in &opened.projects {
                for file in project.snapshot.files() {
                    for def in file.facts.defs().iter().filter(|def| *def.name == **name) {
                        first.get_or_insert((project.no, file));
                        places.push((project.no, file.path.clone(), def.line));
                    }
                }
            }
            if places.len() > PLACES_MAX {
                return Err(PipelineError::FocusAmbiguous { symbol: name.clone(), places: places.len() });
            }
            let (no, file) = first.ok_or_else(|| not_found(Focus::Symbol(name.clone())))?;
            Ok((no, file, places))
        }
    }
}

/// Returns the files that use the definitions of this file, and the files whose definitions it uses.
fn references(snapshot: &Snapshot, at: usize) -> (Vec<Neighbour>, Vec<Neighbour>) {
    let file = &snapshot.files()[at];
    let mut definers: HashMap<u32, (String, BTreeSet<usize>)> = HashMap::new();
    for (index, other) in snapshot.files().iter().enumerate() {
        let module = module_name(&other.path);
        let names = other.facts.defs().iter().map(|def| &*def.name).chain(module.as_deref());
        for name in names {
            let is_name = name.len() >= NAME_LETTERS_MIN && !name.contains(char::is_whitespace);
            if is_name && !terms::is_everyday(name) {
                let entry =
                    definers.entry(terms::hash(name)).or_insert_with(|| (name.to_owned(), BTreeSet::new()));
                entry.1.insert(index);
            }
        }
    }
    definers.retain(|_, (_, files)| files.len() <= DEFINERS_MAX);
    let mut by: BTreeMap<usize, Vec<(f32, String)>> = BTreeMap::new();
    let mut to: BTreeMap<usize, Vec<(f32, String)>> = BTreeMap::new();
    let worth = |count: u16, definers: usize| f32::from(count).sqrt() / definers as f32;
    for (hash, (name, files)) in &definers {
        let is_own = files.contains(&at);
        if is_own {
            for (index, other) in
                snapshot.files().iter().enumerate().filter(|(index, _)| !files.contains(index))
            {
                let count = other.facts.idents().get(*hash);
                if count > 0 {
                    by.entry(index).or_default().push((worth(count, files.len()), name.clone()));
                }
            }
        } else {
            let count = file.facts.idents().get(*hash);
            for index in files.iter().filter(|_| count > 0) {
                to.entry(*index).or_default().push((worth(count, files.len()), name.clone()));
            }
        }
    }
    (neighbours(snapshot, by), neighbours(snapshot, to))
}

fn neighbours(snapshot: &Snapshot, found: BTreeMap<usize, Vec<(f32, String)>>) -> Vec<Neighbour> {
    let neighbour = |(index, mut names): (usize, Vec<(f32, String)>)| {
        names.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        Neighbour {
            path: snapshot.files()[index].path.clone(),
            weight: names.iter().map(|(worth, _)| worth).sum(),
            names: names.into_iter().take(NAMES_MAX).map(|(_, name)| name).collect(),
        }
    };
    let mut all: Vec<Neighbour> = found.into_iter().map(neighbour).collect();
    all.sort_by(|one, other| other.weight.total_cmp(&one.weight).then_with(|| one.path.cmp(&other.path)));
    all.truncate(NEIGHBOURS_MAX);
    all
}

/// The files that are still there and that commits changed together with this one, with how many did.
fn changes_with(snapshot: &Snapshot, path: &RelPath) -> Vec<(RelPath, u32)> {
    let mut counts: BTreeMap<&RelPath, u32> = BTreeMap::new();
    for commit in snapshot.commits().iter().filter(|commit| commit.paths.contains(path)) {
        for other in commit.paths.iter().filter(|other| *other != path) {
            *counts.entry(other).or_default() += 1;
        }
    }
    let there = counts.into_iter().filter(|(other, _)| snapshot.position(other).is_some());
    let mut all: Vec<(RelPath, u32)> = there.map(|(other, count)| (other.clone(), count)).collect();
    all.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    all.truncate(NEIGHBOURS_MAX);
    all
}
