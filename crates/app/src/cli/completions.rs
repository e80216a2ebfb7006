//! `agents completions SHELL`: prints the script that makes a shell ask this program, and answers the shell.
//!
//! The shell calls the program with the variable `COMPLETE` and the words of the line. The answer is made
//! from the command line as it is declared, and from the plans, settings, definitions and tools that
//! exist here.
//!
//! # Invariants
//! 1. An answer changes nothing: no directory is made, no interrupted apply is finished.
//! 2. Whatever goes wrong while it is looked, the answer has fewer candidates, and no error.
//! 3. At most [`CANDIDATES_MAX`] plans are offered, the newest first.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ::definitions::Kind;
use clap::ValueHint;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use domain::{Plan, PlanId};
use engine::{BootClock, short_ids_in};
use serde_json::json;
use store::{PlanFilter, PlanStore, SqliteOptions, SqliteStore};

use super::plan::selection::LAST;
use super::{Global, Invocation};
use crate::config::ENTRIES;
use crate::errors::{CommandError, codes};
use crate::output::{ColorWhen, CommandReport, Format, OutputStyle, one_line};
use crate::render::state::{StateFacts, state_words};
use crate::setup::paths::{self, DataDirState};
use crate::setup::{self, project};
use crate::time::now;

/// The variable by which a shell asks for candidates.
const VARIABLE: &str = "COMPLETE";
/// The maximum number of plans that are offered.
const CANDIDATES_MAX: usize = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  echo 'source <(agents completions bash)' >> ~/.bashrc
  echo 'source <(agents completions zsh)' >> ~/.zshrc
  echo 'agents completions fish | source' >> ~/.config/fish/config.fish";

pub(super) fn run(args: &CompletionsArgs) -> Result<CommandReport, CommandError> {
    let mut script = Vec::new();
    let name = args.shell.to_string();
    let failed = |why: String| CommandError::new(&codes::INTERNAL, why);
    let shells = Shells::builtins();
    let shell = shells.completer(&name).ok_or_else(|| failed(format!("no completions for {name}")))?;
    shell
        .write_registration(VARIABLE, "agents", "agents", "agents", &mut script)
        .map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&script).into_owned();
    Ok(CommandReport::new(json!({ "shell": name, "script": text }), script))
}

/// Answers a shell that asks for candidates. Returns false if none does.
pub(super) fn answer_shell(args: &[OsString]) -> bool {
    if std::env::var_os(VARIABLE).is_none_or(|shell| shell.is_empty()) {
        return false;
    }
    let here = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(completed_command).bin("agents").completer("agents");
    // A shell that cannot be answered shows no candidates; an error would be written into the line.
    asked.try_complete(args.iter().cloned(), here.as_deref()).unwrap_or(true)
}

/// The command line with candidates for the values that exist here.
fn completed_command() -> clap::Command {
    with_candidates(super::command(), "agents")
}

fn with_candidates(command: clap::Command, path: &str) -> clap::Command {
    let command = command.mut_args(|arg| match candidates_for(path, &arg) {
        Some(find) => arg.add(ArgValueCompleter::new(move |typed: &OsStr| matching(find(), typed))),
        None => arg,
    });
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        with_candidates(inner, &path)
    })
}

type FindCandidates = fn() -> Vec<CompletionCandidate>;

/// Returns the search for the values of an argument; `None` if the declaration says it all.
fn candidates_for(path: &str, arg: &clap::Arg) -> Option<FindCandidates> {
    let value = arg.get_value_names().and_then(<[_]>::first).map(|name| name.as_str()).unwrap_or_default();
    let id = arg.get_id().as_str();
    let is_path = !matches!(arg.get_value_hint(), ValueHint::Unknown);
    match (path, id, value) {
        (_, "plan" | "plans" | "set_aside", _) => Some(plans),
        (_, "batch", _) => Some(batches),
        ("agents config get", "key", _) => Some(settings),
        ("agents config set", "settings", _) => Some(settings_to_set),
        ("agents config unset", "keys", _) => Some(settings),
        ("agents config list", "prefix", _) => Some(settings),
        ("agents tool show" | "agents tool check", "tool" | "name", _) => Some(tools),
        (_, "actor" | "actors", _) if !is_path => Some(actors),
        ("agents action show" | "agents action check", _, "NAME|FILE") => Some(actions),
        ("agents run" | "agents plan use", "what", _) => Some(actions),
        ("agents run" | "agents plan use", "automation", _) => Some(profiles),
        _ => None,
    }
}

/// The candidates that begin as it was typed.
fn matching(found: Vec<CompletionCandidate>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let begins = |one: &CompletionCandidate| one.get_value().as_bytes().starts_with(typed.as_bytes());
    found.into_iter().filter(begins).collect()
}

fn candidate(value: impl Into<OsString>, help: impl AsRef<str>) -> CompletionCandidate {
    CompletionCandidate::new(value).help(Some(one_line(help.as_ref()).into()))
}

/// This call, as far as a completion needs it: nothing is opened, nothing is written but the answer.
fn invocation() -> Option<Invocation> {
    let (color, no_pager) = (ColorWhen::Never, true);
    let global = Global { format: Some(Format::Plain), color, data_dir: None, quiet: true, no_pager };
    let env: paths::Env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let style = OutputStyle::find(global.format, global.color, |_| None);
    Invocation::new(global, style, env).ok()
}

/// The newest plans of this project, with their short ids.
fn plans_here() -> Option<Vec<(Plan, String)>> {
    let invocation = invocation()?;
    let dir = invocation.data_dir().ok()?;
    if !matches!(paths::look_at_data_dir(&dir).ok()?, DataDirState::Ours) {
        return None;
    }
    let root = project::root_of(&invocation.here).ok()?;
    let store = SqliteStore::open(SqliteOptions { dir, clock: Arc::new(BootClock), wall: now }).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().ok()?;
    runtime.block_on(async {
        let root = Some(root.as_os_str().as_bytes().to_vec());
        let filter = PlanFilter { root, limit: CANDIDATES_MAX, ..PlanFilter::default() };
        let plans = store.newest_plans(&filter).await.ok()?;
        let ids: Vec<PlanId> = plans.iter().map(|plan| plan.id).collect();
        let shorts = short_ids_in(&store, &ids).await.ok()?;
        Some(plans.into_iter().zip(shorts).collect())
    })
}

fn plans() -> Vec<CompletionCandidate> {
    let found = plans_here().unwrap_or_default();
    let last = candidate(LAST, "the newest plan of this project");
    let one = |(no, (plan, short)): (usize, (Plan, String))| {
        let words = state_words(&plan, StateFacts { has_changes: true, ..StateFacts::default() });
        candidate(short, format!("{} ({words})", plan.title)).display_order(Some(no + 1))
    };
    std::iter::once(last.display_order(Some(0))).chain(found.into_iter().enumerate().map(one)).collect()
}

fn batches() -> Vec<CompletionCandidate> {
    let mut found: Vec<CompletionCandidate> = vec![candidate(LAST, "the newest batch of this project")];
    let mut names: Vec<String> = Vec::new();
    for name in plans_here().unwrap_or_default().into_iter().filter_map(|(plan, _)| plan.spec.batch.clone()) {
        if !names.contains(&name) {
            found.push(candidate(name.clone(), "a batch of this project"));
            names.push(name);
        }
    }
    found
}

fn settings() -> Vec<CompletionCandidate> {
    ENTRIES.iter().map(|entry| candidate(entry.name, entry.doc)).collect()
}

fn settings_to_set() -> Vec<CompletionCandidate> {
    ENTRIES.iter().map(|entry| candidate(format!("{}=", entry.name), entry.doc)).collect()
}

fn definitions_of(kind: Kind) -> Vec<CompletionCandidate> {
    let find = || {
        let invocation = invocation()?;
        let projects = project::find_all(&[], &invocation.here).ok()?;
        setup::definitions::library(&projects, &invocation.env).list(kind).ok()
    };
    find().unwrap_or_default().into_iter().map(|line| candidate(line.name, line.description)).collect()
}

fn actors() -> Vec<CompletionCandidate> {
    definitions_of(Kind::Actor)
}

fn actions() -> Vec<CompletionCandidate> {
    definitions_of(Kind::Action)
}

fn tools() -> Vec<CompletionCandidate> {
    super::tool::names().into_iter().map(|(name, about)| candidate(name, about)).collect()
}

fn profiles() -> Vec<CompletionCandidate> {
    let built_in = [
        ("manual", "asks before every phase"),
        ("review", "asks before files change"),
        ("auto", "asks only where a check is missing"),
    ];
    built_in.map(|(name, about)| candidate(name, about)).into()
}
