//! The user's yes to what a project's files run and ask for.
//!
//! # What needs a yes
//! Actions and actors that came with a project, before they run at all. What they ask for beyond the sandbox:
//! the network, variables, paths outside. The project's own checks.
//!
//! # Invariants
//! 1. A yes is to one content at one place. It is stored with the user's data, and asked for once.
//! 2. Without a yes to its action and actors no plan is made. Without one to its checks the plan is made, and
//!    they do not run.
//! 3. `policy.trust = "all"` is a yes to what runs in the sandbox, and to nothing beyond it.
//! 4. A project that is hidden needs a yes at a terminal, each time.
//!
//! # Not here
//! Which files ask for what: `definitions`. Whether a check runs: `engine::engine`, by what is stored here.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use ::definitions::FrozenDefinition;
use domain::{DefinitionSource, PlanSpec, PlanStep, ProjectLink, Validation, trust_digest};
use engine::Engine;
use serde_json::json;

use super::Invocation;
use super::invocation::path_of;
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::{OutputNote, confirm, one_line, one_line_of};
use crate::render::diff::counted;
use crate::render::next_steps::{trust_command, trust_or_skip_checks};

/// The number of commands a question shows; the rest is counted.
const COMMANDS_SHOWN_MAX: usize = 30;
/// The number of characters of each command that the question shows.
const COMMAND_CHARS_MAX: usize = 1_000;

/// The permissions that a plan needs from its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Consent {
    asks: Vec<String>,
    files: Vec<ForeignFile>,
    /// The commands of the definitions.
    runs: Vec<String>,
    checks: Vec<ForeignCheck>,
    is_given: bool,
}

/// A file of a definition that needs a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForeignFile {
    source: DefinitionSource,
    /// The project that it is in, or the folder of a file that is in none.
    root: Vec<u8>,
    /// The digests that need a yes: of what it runs, and of what it asks for.
    digests: Vec<String>,
}

/// A check that came with a project.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ForeignCheck {
    name: String,
    /// The command, as a person would type it.
    run: String,
    root: Vec<u8>,
    digest: String,
}

impl Consent {
    /// Returns the parts of a definition that need a yes. `trusts_all` is true if commands in the sandbox
    /// need none, `is_given` if the yes was typed with the command.
    pub(super) fn to(
        frozen: Option<&FrozenDefinition>,
        projects: &[ProjectLink],
        trusts_all: bool,
        is_given: bool,
    ) -> Consent {
        let Some(frozen) = frozen else { return Consent { is_given, ..Consent::default() } };
        let mut files: Vec<ForeignFile> = Vec::new();
        let is_foreign = |place: &String| frozen.foreign.contains(place) || frozen.asking.contains(place);
        for source in frozen.sources.iter().filter(|source| is_foreign(&source.place)) {
            let project = project_of(Path::new(&source.place), projects);
            // A file outside of all projects that the user names is the user's choice, as a script would be.
            let needs_trust = frozen.foreign.contains(&source.place) && project.is_some() && !trusts_all;
            let runs = needs_trust.then(|| source.digest.clone());
            let asks = frozen.asking.contains(&source.place).then(|| asks_digest(source, &frozen.asks));
            let digests: Vec<String> = runs.into_iter().chain(asks).collect();
            let root = project.map_or_else(|| folder_of(&source.place), <[u8]>::to_vec);
            let file = ForeignFile { source: source.clone(), root, digests };
            if !file.digests.is_empty() && !files.contains(&file) {
                files.push(file);
            }
        }
        let of_strategist = frozen.strategist.iter().flat_map(|strategist| &strategist.steps);
        let runs = frozen.steps.iter().chain(of_strategist).filter(|step| step.command().is_some());
        let checks = frozen.validations.iter().map(|check| check.run.render());
        let runs = runs.map(PlanStep::render).chain(checks).collect();
        Consent { asks: frozen.asks.clone(), files, runs, checks: Vec::new(), is_given }
    }

    /// Adds the checks of a plan that came with its projects.
    pub(super) fn add_checks(&mut self, spec: &PlanSpec, projects: &[ProjectLink]) {
        let foreign = spec.validations.iter().filter(|check| check.needs_trust);
        foreign.for_each(|check| self.add_check(check, projects));
    }

    /// Adds a check that came with one of these projects.
    pub(super) fn add_check(&mut self, check: &Validation, projects: &[ProjectLink]) {
        let project = projects.get(usize::from(check.root.0));
        self.checks.extend(project.map(|project| ForeignCheck {
            name: check.name.clone(),
            run: check.run.render(),
            root: project.root.as_bytes().to_vec(),
            digest: check.content_digest(),
        }));
    }

    /// Finds the yes in the store, takes the one that was typed, or asks for it; stores what is new. Returns
    /// what to report of checks that have none.
    ///
    /// # Errors
    /// Returns an error if a definition has none.
    pub(super) async fn settle(
        &self,
        engine: &Engine,
        invocation: &Invocation,
    ) -> Result<Option<OutputNote>, CommandError> {
        let mut open = Vec::new();
        for file in &self.files {
            if !is_granted(engine, &file.root, &file.digests).await? {
                open.push(file);
            }
        }
        let is_unowned = !self.asks.is_empty() && self.files.is_empty();
        if !open.is_empty() || is_unowned {
            let is_said = self.is_given || is_agreed(invocation, || self.question(&open))?;
            if !is_said {
                return Err(self.missing(&open));
            }
            for file in open {
                grant(engine, &file.root, &file.digests).await?;
            }
        }
        self.settle_checks(engine, invocation).await
    }

    async fn settle_checks(
        &self,
        engine: &Engine,
        invocation: &Invocation,
    ) -> Result<Option<OutputNote>, CommandError> {
        let mut open = Vec::new();
        for check in &self.checks {
            if !check.is_trusted(engine).await? {
                open.push(check);
            }
        }
        if open.is_empty() {
            return Ok(None);
        }
        if self.is_given || is_agreed(invocation, || checks_question(&open))? {
            for check in open {
                grant(engine, &check.root, std::slice::from_ref(&check.digest)).await?;
            }
            return Ok(None);
        }
        Ok(Some(not_run(&open)))
    }

    /// Stores a yes to all of it. Returns how much of that is new.
    pub(super) async fn grant_all(&self, engine: &Engine) -> Result<usize, CommandError> {
        let mut granted = 0;
        for file in &self.files {
            if !is_granted(engine, &file.root, &file.digests).await? {
                grant(engine, &file.root, &file.digests).await?;
                granted += 1;
            }
        }
        for check in &self.checks {
            if !check.is_trusted(engine).await? {
                grant(engine, &check.root, std::slice::from_ref(&check.digest)).await?;
                granted += 1;
            }
        }
        Ok(granted)
    }

    /// Returns whether nothing of it needs a yes any more.
    pub(super) async fn is_settled(&self, engine: &Engine) -> Result<bool, CommandError> {
        for file in &self.files {
            if !is_granted(engine, &file.root, &file.digests).await? {
                return Ok(false);
            }
        }
        for check in &self.checks {
            if !check.is_trusted(engine).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns a line for each thing that its definitions run or ask for.
    pub(super) fn lines(&self) -> Vec<String> {
        let asks = self.asks.iter().map(|ask| format!("asks for {ask}"));
        question_lines(&self.runs).into_iter().map(|run| format!("runs {run}")).chain(asks).collect()
    }

    fn question(&self, open: &[&ForeignFile]) -> String {
        let lines: String = question_lines(&self.runs).iter().map(|run| format!("\n  {run}")).collect();
        let runs =
            if lines.is_empty() { String::new() } else { format!("\nIt runs, in the sandbox:{lines}") };
        format!("{}.{runs}\nTrust it until the file changes?", self.sentence(open))
    }

    fn sentence(&self, open: &[&ForeignFile]) -> String {
        let files: Vec<&str> = open.iter().map(|file| file.source.place.as_str()).collect();
        let is_one = files.len() == 1;
        let files = files.join(", ");
        match (self.asks.is_empty(), is_one) {
            (false, true) => format!("{files} asks for {}", self.asks.join(", ")),
            (false, false) => format!("{files} ask for {}", self.asks.join(", ")),
            (true, true) => format!("{files} came with the project, and you have not trusted it"),
            (true, false) => format!("{files} came with the project, and you have not trusted them"),
        }
    }

    fn missing(&self, open: &[&ForeignFile]) -> CommandError {
        let sources: Vec<&DefinitionSource> = open.iter().map(|file| &file.source).collect();
        let failure = CommandError::new(&codes::CONSENT_NEEDED, self.sentence(open))
            .detail(json!({ "asks": self.asks, "sources": sources }))
            .own_hint();
        match open.first() {
            Some(file) => failure.hint(hints::TRUST_PROJECT).field("command", trust_command(&file.root)),
            None => failure,
        }
    }
}

impl ForeignCheck {
    async fn is_trusted(&self, engine: &Engine) -> Result<bool, CommandError> {
        is_granted(engine, &self.root, std::slice::from_ref(&self.digest)).await
    }
}

fn not_run(open: &[&ForeignCheck]) -> OutputNote {
    let names: Vec<String> = open.iter().map(|check| one_line(&check.name)).collect();
    let root = open.first().map(|check| check.root.as_slice()).unwrap_or_default();
    OutputNote::warning(format!(
        "{} of the project will not run, because you have not trusted it: {}; {}",
        counted(open.len(), "check"),
        names.join(", "),
        trust_or_skip_checks(root),
    ))
}

fn checks_question(open: &[&ForeignCheck]) -> String {
    let runs: Vec<String> = open.iter().map(|check| check.run.clone()).collect();
    let lines: String = question_lines(&runs).iter().map(|run| format!("\n  {run}")).collect();
    let many = counted(open.len(), "check");
    format!(
        "The project has {many} of its own, to be run in the sandbox:{lines}\nTrust these until one of them changes?"
    )
}

/// The commands as a question shows them.
fn question_lines(runs: &[String]) -> Vec<String> {
    let rest = runs.len().saturating_sub(COMMANDS_SHOWN_MAX);
    let rest = (rest > 0).then(|| format!("… and {rest} more"));
    let runs = runs.iter().take(COMMANDS_SHOWN_MAX);
    runs.map(|run| one_line_of(run, COMMAND_CHARS_MAX)).chain(rest).collect()
}

/// Asks a person, if one is there.
fn is_agreed(invocation: &Invocation, question: impl FnOnce() -> String) -> Result<bool, CommandError> {
    if !invocation.style.can_ask || invocation.style.format.is_for_programs() {
        return Ok(false);
    }
    confirm(&question()).map_err(|error| {
        CommandError::new(&codes::IO_FAILED, format!("the terminal cannot be read: {error}"))
    })
}

async fn is_granted(engine: &Engine, root: &[u8], digests: &[String]) -> Result<bool, CommandError> {
    for digest in digests {
        if !engine.store().consented(root, digest).await.map_err(|error| from_engine::store(&error))? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn grant(engine: &Engine, root: &[u8], digests: &[String]) -> Result<(), CommandError> {
    for digest in digests {
        engine.store().consent(root, digest).await.map_err(|error| from_engine::store(&error))?;
    }
    Ok(())
}

/// Asks the person at the terminal whether a plan may work in a project that is hidden. It is asked each
/// time.
///
/// # Errors
/// Returns an error if the user says no, or if no user can be asked.
pub(super) fn to_hidden_project(
    root: &Path,
    hidden: &Path,
    invocation: &Invocation,
) -> Result<(), CommandError> {
    let sentence =
        format!("the project {} is at {}, which is hidden from plans", root.display(), hidden.display());
    let question = || format!("{sentence}.\nWork in it anyway, and show its files to the actor?");
    if is_agreed(invocation, question)? {
        return Ok(());
    }
    Err(CommandError::new(&codes::PROJECT_HIDDEN, sentence))
}

/// A file that asks for more later, because what it names has changed, is asked about again.
fn asks_digest(source: &DefinitionSource, asks: &[String]) -> String {
    let parts = ["asks", source.digest.as_str()].into_iter().chain(asks.iter().map(String::as_str));
    trust_digest(&parts.collect::<Vec<_>>())
}

fn project_of<'p>(file: &Path, projects: &'p [ProjectLink]) -> Option<&'p [u8]> {
    // A file that was named may be a link, be reached by one, or lie elsewhere by its `..`.
    let real = std::fs::canonicalize(file);
    let goes_up = file.components().any(|part| part == Component::ParentDir);
    let is_in = |root: &Path| {
        (!goes_up && file.starts_with(root)) || real.as_ref().is_ok_and(|file| file.starts_with(root))
    };
    let around = projects.iter().find(|project| is_in(&path_of(project.root.as_bytes())));
    around.map(|project| project.root.as_bytes())
}

fn folder_of(place: &str) -> Vec<u8> {
    let file = Path::new(place);
    file.parent().unwrap_or(file).as_os_str().as_bytes().to_vec()
}
