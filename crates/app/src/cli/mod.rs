//! The command line: what can be typed, and which file does it.
//!
//! # Invariants
//! 1. A command line is read whole before anything is opened. Arguments that cannot be understood are
//!    reported in the format that was asked for, with exit 2.
//! 2. A command answers with a [`CommandReport`] or a [`CommandError`]; secrets are taken out of it and it is
//!    written here, once.
//! 3. Commands that only read have one thread; those that run plans have several.

mod action;
mod actor;
mod completions;
mod config;
mod consent;
mod context;
mod definition_source;
mod detach;
mod disk_use;
mod doctor;
mod examples;
mod follow;
mod for_each;
mod forecast;
mod invocation;
mod job;
mod limit;
mod live_feed;
mod man;
mod mcp;
mod plan;
mod plan_args;
mod price_check;
mod recording;
mod run;
mod schema;
mod signals;
mod tool;
mod top;
mod trust;
mod usage_error;
mod worker;

use std::ffi::OsString;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{CommandFactory, Parser, Subcommand};

pub use invocation::Invocation;
use plan::PlanCommand;

use crate::errors::{CommandError, Exit, codes};
use crate::output::{self, ColorWhen, CommandReport, Format, OutputStyle, Timing};
use crate::setup::paths::Env;
use crate::time::{now, stamp};

/// Runs commands and agents in a sandbox, shows exactly what they changed, and applies it in one step that
/// can be undone.
#[derive(Debug, Parser)]
#[command(name = "agents", version, disable_help_subcommand = false, after_help = AFTER_HELP)]
#[command(propagate_version = true, infer_long_args = true)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands whose answers are shown in a pager, as the envelope names them.
const PAGED: [&str; 6] = ["log", "plan diff", "plan logs", "plan list", "plan errors", "plan tree"];

/// The time for which the end of the program waits for sandboxes that are being removed.
const CLEAR_WAIT: Duration = Duration::from_secs(5);

const AFTER_HELP: &str = "\
A plan is named by the letters that `agents list` shows, by its whole id, or by @last.
Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused by a gate or a conflict, 5 cancelled, 6 needs the user.";

const SHORT_HELP: &str = "\
agents runs a command in a sandbox of your project and shows what it changed; your files change only when you apply it.

  agents run -- COMMAND     run a command (an agent, a codemod, a script) in a sandbox
  agents diff               show the changes
  agents apply              apply them to your files (`agents undo` undoes that)
  agents list               list the plans of this project

All commands: agents --help
";

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The output format [default: rich at a terminal, else plain]
    #[arg(long, global = true, value_enum, env = "CLEVERAGENTS_FORMAT", hide_env_values = true)]
    pub format: Option<Format>,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value = "auto", hide_possible_values = false)]
    pub color: ColorWhen,
    /// The directory in which plans are stored [default: cleveragents in the XDG data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Do not show progress
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Do not show long answers in a pager
    #[arg(long, global = true)]
    pub no_pager: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command, an action or a task in words in a sandbox of your project
    Run(Box<run::RunArgs>),
    /// Show what a plan changed: `agents plan diff`
    Diff(plan::diff::DiffArgs),
    /// Apply the changes of a plan to your files: `agents plan apply`
    Apply(plan::apply::ApplyArgs),
    /// Run the checks of a plan again: `agents plan check`
    Check(plan::check::CheckArgs),
    /// Undo an applied plan: `agents plan undo`
    Undo(plan::undo::UndoArgs),
    /// Apply a plan again that was undone: `agents plan redo`
    Redo(plan::redo::RedoArgs),
    /// List what was applied and undone, the newest first
    Log(plan::log::LogArgs),
    /// Show the state of a plan and the next steps: `agents plan status`
    Status(plan::status::StatusArgs),
    /// List the plans of this project: `agents plan list`
    List(plan::list::ListArgs),
    /// Show the output of the commands of a plan: `agents plan logs`
    Logs(plan::logs::LogsArgs),
    /// Follow a plan until it waits or ends: `agents plan watch`
    Watch(plan::watch::WatchArgs),
    /// Stop a plan for good: `agents plan cancel`
    Cancel(plan::cancel::CancelArgs),
    /// All commands for plans
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Show actions: tasks that are defined in a file and run by their name
    #[command(subcommand)]
    Action(action::ActionCommand),
    /// Show actors: the models, agents and commands that do the work
    #[command(subcommand)]
    Actor(actor::ActorCommand),
    /// Show the tools that models call
    #[command(subcommand)]
    Tool(tool::ToolCommand),
    /// Watch all plans on one screen, cancel them, review and apply them
    Top(top::TopArgs),
    /// Show the jobs that run the phases of plans
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Run detached plans, many at once
    Worker(worker::WorkerArgs),
    /// Offer plans to other agents, over the Model Context Protocol on the standard streams
    Mcp(mcp::McpArgs),
    /// Find the parts of your project that a model needs, within a number of tokens
    #[command(subcommand)]
    Context(context::ContextCommand),
    /// Read and write settings
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Trust the present checks, actions and actors of a project
    Trust(trust::TrustArgs),
    /// Check what this machine supports, and remove what a crash left behind
    Doctor,
    /// Print the JSON Schema of an action, an actor or the answers of this program
    Schema(schema::SchemaArgs),
    /// Print the completions of a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write all pages to a directory
    Man(man::ManArgs),
}

impl Command {
    /// Its name, as the envelope has it.
    fn name(&self) -> &'static str {
        match self {
            Command::Run(_) => "run",
            Command::Diff(_) => "plan diff",
            Command::Apply(_) => "plan apply",
            Command::Check(_) => "plan check",
            Command::Undo(_) => "plan undo",
            Command::Redo(_) => "plan redo",
            Command::Log(_) => "log",
            Command::Status(_) => "plan status",
            Command::List(_) => "plan list",
            Command::Logs(_) => "plan logs",
            Command::Watch(_) => "plan watch",
            Command::Cancel(_) => "plan cancel",
            Command::Plan(command) => command.name(),
            Command::Action(command) => command.name(),
            Command::Actor(command) => command.name(),
            Command::Tool(command) => command.name(),
            Command::Top(_) => "top",
            Command::Job(command) => command.name(),
            Command::Worker(_) => "worker",
            Command::Mcp(_) => "mcp",
            Command::Context(command) => command.name(),
            Command::Config(command) => command.name(),
            Command::Trust(_) => "trust",
            Command::Doctor => "doctor",
            Command::Schema(_) => "schema",
            Command::Completions(_) => "completions",
            Command::Man(_) => "man",
        }
    }
}

/// The command line as clap knows it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Reads the command line, does what it says, and answers.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if completions::answer_shell(&args) {
        return ExitCode::SUCCESS;
    }
    let started = (now(), Instant::now());
    let exit = match Cli::try_parse_from(&args) {
        Ok(cli) => answer(cli, started),
        Err(error) => refuse(&error, &args, started),
    };
    ExitCode::from(exit.number())
}

type CommandStart = (domain::WallMs, Instant);

fn answer(cli: Cli, started: CommandStart) -> Exit {
    let env: Env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let style = OutputStyle::find(cli.global.format, cli.global.color, |name| env.get(name).cloned());
    let Some(command) = cli.command else {
        return exit_after_printing(std::io::stdout().write_all(SHORT_HELP.as_bytes()), &style);
    };
    let name = command.name();
    let is_paged = PAGED.contains(&name);
    // Its output is a protocol: an answer at its end would be no message.
    let is_spoken_to = matches!(command, Command::Mcp(_));
    let report = Invocation::new(cli.global, style, env)
        .and_then(|invocation| {
            let report = dispatch(command, &invocation)?;
            let pager = if is_paged { invocation.pager() } else { None };
            Ok(CommandReport { pager, ..report })
        })
        .unwrap_or_else(CommandReport::from);
    if is_spoken_to && report.exit == Exit::Done {
        return Exit::Done;
    }
    output::write(&report, name, timing(started), &style)
}

fn timing((began, instant): CommandStart) -> Timing {
    Timing {
        started: stamp(began),
        duration_ms: u64::try_from(instant.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

fn dispatch(command: Command, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let answer = match command {
        Command::Run(args) => alone(run::run(*args, invocation)),
        Command::Diff(args) => plan::dispatch(PlanCommand::Diff(args), invocation),
        Command::Apply(args) => plan::dispatch(PlanCommand::Apply(args), invocation),
        Command::Check(args) => plan::dispatch(PlanCommand::Check(args), invocation),
        Command::Undo(args) => plan::dispatch(PlanCommand::Undo(args), invocation),
        Command::Redo(args) => plan::dispatch(PlanCommand::Redo(args), invocation),
        Command::Log(args) => alone(plan::log::run(args, invocation)),
        Command::Status(args) => plan::dispatch(PlanCommand::Status(args), invocation),
        Command::List(args) => plan::dispatch(PlanCommand::List(args), invocation),
        Command::Logs(args) => plan::dispatch(PlanCommand::Logs(args), invocation),
        Command::Watch(args) => plan::dispatch(PlanCommand::Watch(args), invocation),
        Command::Cancel(args) => plan::dispatch(PlanCommand::Cancel(args), invocation),
        Command::Plan(command) => plan::dispatch(command, invocation),
        Command::Action(command) => action::run(command, invocation),
        Command::Actor(command) => actor::run(command, invocation),
        Command::Tool(command) => tool::run(command, invocation),
        Command::Top(args) => working(top::run(args, invocation)),
        Command::Job(command) => job::dispatch(command, invocation),
        Command::Worker(args) => working(worker::run(args, invocation)),
        Command::Mcp(args) => working(mcp::run(args, invocation)),
        Command::Context(command) => context::dispatch(command, invocation),
        Command::Config(command) => config::run(command, invocation),
        Command::Trust(args) => alone(trust::run(args, invocation)),
        Command::Doctor => working(doctor::run(invocation)),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    invocation.without_secrets(answer)
}

/// Runs a command that works on many plans concurrently.
fn working<T>(command: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    block_on(runtime, command)
}

/// Runs what only reads, or works on one plan. What takes long has threads of its own, so one for the rest is
/// enough, and starts at once.
fn alone<T>(command: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    block_on(tokio::runtime::Builder::new_current_thread().enable_all().build(), command)
}

fn block_on<T>(
    runtime: std::io::Result<tokio::runtime::Runtime>,
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let runtime = runtime.map_err(|error| {
        CommandError::new(&codes::IO_FAILED, format!("no threads can be started: {error}"))
    })?;
    let answer = runtime.block_on(command);
    // What is being cleared away may finish, within reason: the next command sweeps what is left of it.
    runtime.shutdown_timeout(CLEAR_WAIT);
    answer
}

/// Help and version are answers; everything else that clap says is a failure.
fn refuse(error: &clap::Error, args: &[OsString], started: CommandStart) -> Exit {
    use clap::error::ErrorKind;
    let style = OutputStyle::find(asked_format(args), ColorWhen::Auto, |name| std::env::var(name).ok());
    if error.kind() == ErrorKind::DisplayHelp {
        let shown = examples::with_examples(command()).try_get_matches_from(args).err();
        return exit_after_printing(shown.as_ref().unwrap_or(error).print(), &style);
    }
    if error.kind() == ErrorKind::DisplayVersion {
        return exit_after_printing(error.print(), &style);
    }
    output::write(
        &CommandReport::from(usage_error::usage_failure(error, args)),
        "agents",
        timing(started),
        &style,
    )
}

/// Returns the exit of a program that printed its help. If the output is closed, no reader is left for an
/// error.
fn exit_after_printing(printed: std::io::Result<()>, style: &OutputStyle) -> Exit {
    match printed.and_then(|()| std::io::stdout().flush()) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            output::tell_unwritten(&error, style);
            Exit::Failed
        }
    }
}

/// The format that a command line asks for which cannot be read otherwise.
fn asked_format(args: &[OsString]) -> Option<Format> {
    let words: Vec<&str> =
        args.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()).collect();
    let after =
        words.iter().position(|word| *word == "--format").and_then(|place| words.get(place + 1).copied());
    let joined = words.iter().find_map(|word| word.strip_prefix("--format="));
    let variable = std::env::var("CLEVERAGENTS_FORMAT").ok();
    let word = after.or(joined).or(variable.as_deref())?;
    clap::ValueEnum::from_str(word, false).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once(&"agents").chain(words))
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_of_the_design_can_be_typed() {
        for line in [
            "run --project a=. --check x --timeout 10m --network --pass-env A --env K=V --writable /tmp --ignore dist/ --apply -- c -d",
            "plan use -- make",
            "plan execute 01 --again",
            "plan list --phase execute --state complete --project . --limit 5",
            "plan status",
            "plan watch @last",
            "plan watch 01 02",
            "plan watch --all",
            "top --all --once",
            "plan logs 01 --call 2",
            "plan logs -f",
            "plan diff 01 src --stat",
            "plan diff 01 --call 1 --conflicts --reveal --name-only",
            "plan artifacts 01 --out d",
            "plan apply 01 --only a --reject b#1 --take c --allow-empty --yes",
            "plan apply 01 -i",
            "plan apply 01 02 03 --yes",
            "apply --batch b --passed --yes",
            "apply --all",
            "cancel --all",
            "cancel --state running --all",
            "undo",
            "check 01 02 --only x",
            "plan check",
            "redo",
            "plan shell",
            "plan shell 01 --network -- make test",
            "redo k3ps --yes",
            "log",
            "log --all --limit 5",
            "plan apply 01 --dry-run",
            "plan apply 01 --conflicts markers",
            "diff src/a.rs",
            "list --all --batch @last",
            "run --for-each f --batch b -- make",
            "plan gc --unapplied --older-than 14d --yes",
            "config set a b",
            "config unset --project a",
            "config list plan",
            "config edit",
            "config path --project",
            "man plan apply",
            "plan apply 01 --unchecked",
            "plan apply 01 --commit --message m",
            "plan apply 01 --branch b",
            "plan undo 01 --yes",
            "plan cancel 01 --reason because --wait 5s",
            "plan cancel 01 02 03",
            "plan cancel --state queued --all --yes",
            "plan resume 01",
            "plan errors",
            "run --detach -- make",
            "plan execute 01 --detach",
            "plan resume 01 --detach",
            "worker --max 8 --until-idle 60s",
            "mcp --allow-apply",
            "job list --all --plan 01",
            "job show 01",
            "job cancel 01 --reason because --wait 5s",
            "plan gc --dry-run --older 30d",
            "plan gc --set-aside 01",
            "config get plan.concurrency --origin",
            "config set a=b c=d",
            "config list",
            "trust",
            "trust shop --list",
            "trust shop --revoke",
            "run rename-symbol --arg from=a --arg to=b --trust",
            "run fix.yaml",
            "run --actor codex task",
            "action list",
            "action show rename-symbol",
            "action check a.yaml b.yaml",
            "actor list",
            "actor show coder",
            "actor check",
            "tool list",
            "tool show read_file",
            "tool check read_file {}",
            "context assemble q --project a=. --focus src/a.rs:1-9 --focus pack --budget 8k --depth full --view execute --strategy simple-keyword --receipt r.json",
            "context assemble - --plan 01",
            "context simulate q --budgets 1k,4k,16k",
            "context inspect src/a.rs",
            "context index --verify",
            "context index --clear",
            "context breakers --reset all",
            "doctor --format json",
            "diff --no-pager",
            "schema envelope",
            "completions bash",
            "man --out d",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(parse(&words).is_ok(), "{line}: {}", parse(&words).unwrap_err());
        }
    }

    #[test]
    fn the_words_of_a_command_are_its_own() {
        let cli = parse(&["run", "--", "codex", "--format", "json", "-q"]).unwrap();
        assert_eq!(cli.global.format, None);
        assert!(!cli.global.quiet);
        let args = ["agents", "run", "--bogus", "--", "x", "--format", "json"].map(OsString::from);
        assert_eq!(asked_format(&args), None);
        let args = ["agents", "run", "--format=yaml", "--bogus"].map(OsString::from);
        assert_eq!(asked_format(&args), Some(Format::Yaml));
    }
}
