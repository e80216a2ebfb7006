//! `agents mcp`: plans for other agents, over the Model Context Protocol on the standard streams.
//!
//! # Invariants
//! 1. A call is the command of the same meaning, read by the same parser and done by the same code. Its
//!    answer is the envelope that `--format json` writes. The tools of `context_tools` answer as those of a
//!    plan's models do.
//! 2. The user's files change only if `--allow-apply` was given at the start. Without it `apply_plan` is
//!    refused, and a plan that is created here waits for the user, whatever the settings say.
//! 3. Nothing that a caller says becomes an option or asks for more than the tool offers. Values stand behind
//!    `=` or `--`, or have to fit a pattern; the network, variables, paths outside and consent are not
//!    offered.
//! 4. It works in, looks at and reports the projects that it was started with, and no others.
//! 5. One call is done after the other, and the one that is being done is finished before the program ends.

mod context_tools;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use actors::mcp::{McpServeError, ServedResult, ServedTool, ToolService, serve};
use clap::Parser;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::context::PipelineCache;
use super::usage_error::usage_failure;
use super::{Cli, Command, Global, Invocation, alone, context, dispatch, timing};
use crate::errors::{CommandError, codes, hints};
use crate::output::{ColorWhen, CommandReport, Envelope, Format, OutputNote, OutputStyle};
use crate::setup::paths::Env;
use crate::setup::project;
use crate::time::now;

/// The time for which a cancel is waited for.
const CANCEL_WAIT: &str = "30s";
/// The number of calls that may wait for the current one.
const CALLS_WAITING_MAX: usize = 16;

const INSTRUCTIONS: &str = "\
Runs commands and agents as plans: in a sandbox of a project, so that the project's files do not change until a plan \
is applied. request_context finds the parts of the project that a question needs. run_plan starts a plan and returns at once; show_plan \
returns its state; plan_diff returns its changes. A plan is named by its id, its short id, or @last.";

#[derive(Debug, clap::Args)]
pub(super) struct McpArgs {
    /// Let other agents apply plans, that is, change the files of your projects
    #[arg(long)]
    allow_apply: bool,
    /// A project that other agents may read and work in; may be repeated [default: the project of the current
    /// directory]
    #[arg(long, value_name = "DIR")]
    project: Vec<PathBuf>,
}

pub(super) async fn run(args: McpArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let (calls, waiting) = mpsc::channel(CALLS_WAITING_MAX);
    let commands = CommandTools { calls, may_apply: args.allow_apply };
    let projects = allowed(&args.project, invocation)?;
    let doing = do_all(waiting, invocation, projects)?;
    let served = serve(commands, tokio::io::stdin(), tokio::io::stdout()).await;
    // The last caller is gone, so this ends after the call that is being done.
    let joined = tokio::task::spawn_blocking(move || doing.join()).await;
    let is_whole = matches!(joined, Ok(Ok(())));
    if !is_whole {
        return Err(CommandError::new(&codes::INTERNAL, "a call broke down"));
    }
    match served {
        Ok(()) => Ok(CommandReport::new(Value::Null, Vec::new())),
        Err(error @ McpServeError::NoHandshake) => {
            Err(CommandError::new(&codes::USAGE, error.to_string()).hint(hints::STARTED_BY_AGENT))
        }
        Err(error @ McpServeError::Schema { .. }) => {
            Err(CommandError::new(&codes::INTERNAL, error.to_string()))
        }
    }
}

/// The roots of the projects that the server is for.
fn allowed(named: &[PathBuf], invocation: &Invocation) -> Result<Vec<PathBuf>, CommandError> {
    let here = [PathBuf::from(".")];
    let dirs = if named.is_empty() { &here[..] } else { named };
    dirs.iter().map(|dir| project::root_of(&invocation.here.join(dir))).collect()
}

/// The command that a call asks for.
enum RequestedCommand {
    /// A command, by its words.
    Command(Vec<String>),
    /// A context, by the words of the command that assembles it.
    Context(Vec<String>),
    /// The past of the project.
    History(Value),
    /// The token budget that may be asked for.
    Budget,
}

impl RequestedCommand {
    /// The arguments fit the tool's schema.
    fn parse(name: &str, arguments: &Value, may_apply: bool) -> RequestedCommand {
        match name {
            "request_context" => RequestedCommand::Context(context_tools::words(arguments)),
            "query_history" => RequestedCommand::History(arguments.clone()),
            "get_context_budget" => RequestedCommand::Budget,
            name => RequestedCommand::Command(words(name, arguments, may_apply)),
        }
    }
}

/// A call on its way.
struct PendingCall {
    asked: RequestedCommand,
    answer: oneshot::Sender<ServedResult>,
}

/// The tools, as commands.
struct CommandTools {
    calls: mpsc::Sender<PendingCall>,
    may_apply: bool,
}

#[async_trait::async_trait]
impl ToolService for CommandTools {
    fn offers(&self) -> Vec<ServedTool> {
        offers()
    }

    fn instructions(&self) -> &str {
        INSTRUCTIONS
    }

    async fn call(&self, name: &str, arguments: Value) -> ServedResult {
        if name == "apply_plan" && !self.may_apply {
            let failure = CommandError::new(&codes::CONFIRMATION_NEEDED, "this server may not apply plans");
            let failure = failure.hint(hints::SERVER_MAY_APPLY);
            return given(&failure.into(), "plan apply", (now(), Instant::now()));
        }
        let (answer, answered) = oneshot::channel();
        let call = PendingCall { asked: RequestedCommand::parse(name, &arguments, self.may_apply), answer };
        let gone = ServedResult { answer: json!({ "status": "error" }), is_error: true };
        match self.calls.send(call).await {
            Ok(()) => answered.await.unwrap_or(gone),
            Err(_) => gone,
        }
    }
}

/// Does the calls on a thread of their own: each command has a runtime of its own, as from a shell.
fn do_all(
    mut waiting: mpsc::Receiver<PendingCall>,
    invocation: &Invocation,
    projects: Vec<PathBuf>,
) -> Result<JoinHandle<()>, CommandError> {
    // If a call names no project, it means the one of the current directory, else the first.
    let is_inside = projects.iter().any(|root| invocation.here.starts_with(root));
    let here = projects.first().filter(|_| !is_inside).cloned();
    let place = (here.unwrap_or_else(|| invocation.here.clone()), projects);
    let (data_dir, env) = (invocation.global.data_dir.clone(), invocation.env.clone());
    let (color, no_pager) = (ColorWhen::Never, true);
    let global = Global { format: Some(Format::Json), color, data_dir, quiet: true, no_pager };
    let thread = std::thread::Builder::new().name("calls".to_owned()).spawn(move || {
        let held = Arc::default();
        while let Some(PendingCall { asked, answer }) = waiting.blocking_recv() {
            // A caller that is gone is no reason to leave the call undone: it may know that the call was
            // made.
            let _ = answer.send(done(asked, &global, &env, &held, &place));
        }
    });
    thread.map_err(|error| CommandError::new(&codes::IO_FAILED, format!("no thread can be started: {error}")))
}

/// Runs the requested command.
fn done(
    asked: RequestedCommand,
    global: &Global,
    env: &Env,
    held: &Arc<PipelineCache>,
    (here, projects): &(PathBuf, Vec<PathBuf>),
) -> ServedResult {
    let started = (now(), Instant::now());
    let mut style = OutputStyle::find(global.format, global.color, |name| env.get(name).cloned());
    style.can_ask = false;
    let invocation = || {
        let made = Invocation::new(global.clone(), style, env.clone())?;
        Ok(Invocation { held: Arc::clone(held), here: here.clone(), only: Some(projects.clone()), ..made })
    };
    let (name, report) = match asked {
        RequestedCommand::Budget => ("get_context_budget", Ok(context_tools::budget())),
        RequestedCommand::History(arguments) => {
            let report =
                invocation().and_then(|invocation| alone(context_tools::history(&arguments, &invocation)));
            ("query_history", report)
        }
        RequestedCommand::Context(words) => match parsed(&words) {
            Ok(Command::Context(command)) => {
                let report =
                    invocation().and_then(|invocation| alone(context::request(command, &invocation)));
                ("request_context", report)
            }
            Ok(_) => (
                "request_context",
                Err(CommandError::new(&codes::INTERNAL, "it is not a request for a context")),
            ),
            Err(failure) => ("request_context", Err(failure)),
        },
        RequestedCommand::Command(words) => match parsed(&words) {
            Ok(command) => {
                (command.name(), invocation().and_then(|invocation| dispatch(command, &invocation)))
            }
            Err(failure) => ("agents", Err(failure)),
        },
    };
    let unwritten = |error: std::io::Error| CommandError::new(&codes::IO_FAILED, error.to_string());
    let report = report.and_then(|report| report.whole().map_err(unwritten));
    given(&report.unwrap_or_else(CommandReport::from), name, started)
}

/// The command that these words are.
fn parsed(words: &[String]) -> Result<Command, CommandError> {
    let args: Vec<String> = std::iter::once("agents".to_owned()).chain(words.iter().cloned()).collect();
    match Cli::try_parse_from(&args) {
        Ok(Cli { command: Some(command), .. }) => Ok(command),
        Ok(Cli { command: None, .. }) => Err(CommandError::new(&codes::INTERNAL, "it is not a command")),
        Err(error) => {
            let args: Vec<std::ffi::OsString> = args.iter().map(Into::into).collect();
            Err(usage_failure(&error, &args))
        }
    }
}

fn given(report: &CommandReport, command: &str, started: super::CommandStart) -> ServedResult {
    let messages =
        report.notes.iter().map(OutputNote::to_json).chain(report.failure.iter().map(CommandError::to_json));
    let envelope = Envelope {
        command,
        status: report.exit.word(),
        exit_code: report.exit.number(),
        data: &report.data,
        timing: timing(started),
        messages: messages.collect(),
        v: crate::output::envelope::VERSION,
    };
    let answer = serde_json::to_value(&envelope).unwrap_or_default();
    ServedResult { answer, is_error: report.exit.number() != 0 }
}

/// The words of the command that a call means. The arguments fit the tool's schema.
fn words(name: &str, arguments: &Value, may_apply: bool) -> Vec<String> {
    let text = |field: &str| arguments[field].as_str().map(str::to_owned);
    let texts = |field: &str| -> Vec<String> {
        let items = arguments[field].as_array().into_iter().flatten();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let number = |field: &str| arguments[field].as_u64().map(|number| number.to_string());
    let option = |flag: &str, value: Option<String>| value.map(|value| format!("--{flag}={value}"));
    let options = |flag: &str, values: Vec<String>| -> Vec<String> {
        values.into_iter().map(|value| format!("--{flag}={value}")).collect()
    };
    let plan = text("plan").unwrap_or_else(|| "@last".to_owned());
    let mut words: Vec<String> = Vec::new();
    match name {
        "list_plans" => {
            words.extend(["plan", "list"].map(str::to_owned));
            words.extend(option("phase", text("phase")));
            words.extend(option("state", text("state")));
            words.extend(option("project", text("project")));
            words.extend(option("limit", number("limit")));
        }
        "show_plan" => words.extend(["plan".to_owned(), "status".to_owned(), plan]),
        "plan_errors" => words.extend(["plan".to_owned(), "errors".to_owned(), plan]),
        "plan_diff" => {
            words.extend(["plan".to_owned(), "diff".to_owned()]);
            words.extend(option("call", number("call")));
            words.extend(["--".to_owned(), plan]);
            words.extend(texts("paths"));
        }
        "run_plan" => {
            words.extend(["run", "--detach"].map(str::to_owned));
            if !may_apply {
                words.push("--automation=review".to_owned());
            }
            words.extend(options("project", texts("projects")));
            words.extend(options("check", texts("checks")));
            words.extend(options("arg", texts("args")));
            words.extend(options("invariant", texts("invariants")));
            words.extend(option("title", text("title")));
            words.extend(option("timeout", text("timeout")));
            words.extend(option("actor", text("actor")));
            words.extend(text("task"));
            let command = texts("command");
            if !command.is_empty() {
                words.push("--".to_owned());
                words.extend(command);
            }
        }
        "cancel_plan" => {
            words.extend(["plan".to_owned(), "cancel".to_owned(), format!("--wait={CANCEL_WAIT}")]);
            words.extend(option("reason", text("reason")));
            words.push(plan);
        }
        "apply_plan" => {
            words.extend(["plan", "apply", "--yes"].map(str::to_owned));
            words.extend(options("only", texts("only")));
            words.extend(options("reject", texts("reject")));
            words.push(plan);
        }
        // Every offered name is matched above; a word that is no command is reported as one.
        other => words.push(other.to_owned()),
    }
    words
}

fn offers() -> Vec<ServedTool> {
    let plan = json!({
        "type": "string", "pattern": "^(@last|[0-9A-Za-z]{1,26})$",
        "description": "The plan's id, its short id, or @last"
    });
    let texts = |what: &str| json!({ "type": "array", "items": { "type": "string" }, "description": what });
    let text = |what: &str| json!({ "type": "string", "description": what });
    let object = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let offer = |name, description, input, reads_only| ServedTool { name, description, input, reads_only };
    let of_plan = || object(json!({ "plan": plan }), &["plan"]);
    let mut all = vec![
        offer(
            "list_plans",
            "Lists plans, newest first, with their phase, state and number of changed files",
            object(
                json!({
                    "phase": text("Only plans in this phase: strategize, execute, apply"),
                    "state": text("Only plans in this state: queued, processing, complete, errored, cancelled, applied, constrained"),
                    "project": text("Only plans of the project in this directory"),
                    "limit": { "type": "integer", "minimum": 1, "maximum": 1000, "description": "Maximum number of plans; 50 by default" },
                }),
                &[],
            ),
            true,
        ),
        offer("show_plan", "Returns the state of a plan and the next steps", of_plan(), true),
        offer(
            "plan_diff",
            "Returns the changes of a plan, file by file with their hunks; secrets are hidden",
            object(
                json!({
                    "plan": plan, "paths": texts("Only these files and directories"),
                    "call": { "type": "integer", "minimum": 1, "description": "Only the changes of this tool call" },
                }),
                &["plan"],
            ),
            true,
        ),
        offer("plan_errors", "Returns the errors of a plan, and what happens next", of_plan(), true),
        offer(
            "run_plan",
            "Starts a plan in a sandbox and returns at once: a command, or a task in words for an actor",
            json!({
                "type": "object",
                "properties": {
                    "command": {
                        "type": "array", "items": { "type": "string" }, "minItems": 1,
                        "description": "A program and its arguments"
                    },
                    "task": {
                        "type": "string", "pattern": "^[^-]",
                        "description": "Instead of a command: a task in words, or the name of an action"
                    },
                    "actor": text("The actor of the task; the setting by default"),
                    "args": texts("Arguments of the action, as NAME=VALUE"),
                    "projects": texts("Directories to work in, as [NAME=]DIR[:ro]; those of the server by default"),
                    "checks": texts("Commands for the shell that have to pass before the plan can be applied"),
                    "invariants": texts("Invariants: sentences, or rules never=GLOB, only=GLOB, max_files=N, max_lines=N"),
                    "title": text("One line about the plan"),
                    "timeout": text("When to stop a command: 30s, 10m, 2h"),
                },
                "additionalProperties": false
            }),
            false,
        ),
        offer(
            "cancel_plan",
            "Stops a plan for good; its changes stay stored",
            object(json!({ "plan": plan, "reason": text("The reason, which is recorded") }), &["plan"]),
            false,
        ),
        offer(
            "apply_plan",
            "Applies the changes of a plan to the project's files; refused unless the server was started to allow it",
            object(
                json!({
                    "plan": plan, "only": texts("Only these files, directories, globs or hunks (FILE#N)"),
                    "reject": texts("Not these files, directories, globs or hunks"),
                }),
                &["plan"],
            ),
            false,
        ),
    ];
    all.extend(context_tools::offers());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, arguments: &Value) -> String {
        parsed_words(words(name, arguments, false))
    }

    fn parsed_words(words: Vec<String>) -> String {
        super::parsed(&words).unwrap().name().to_owned()
    }

    #[test]
    fn every_tool_is_a_command() {
        let plan = json!({ "plan": "01JB3QK7XM" });
        let commands: Vec<String> = offers()
            .iter()
            // The last have no command of their own.
            .filter(|offer| !matches!(offer.name, "query_history" | "get_context_budget"))
            .map(|offer| match offer.name {
                "request_context" => parsed_words(context_tools::words(&json!({ "query": "why" }))),
                "run_plan" => parsed("run_plan", &json!({ "command": ["make"] })),
                "list_plans" => parsed("list_plans", &json!({ "limit": 3, "state": "complete" })),
                name => parsed(name, &plan),
            })
            .collect();
        let expected = [
            "plan list",
            "plan status",
            "plan diff",
            "plan errors",
            "run",
            "plan cancel",
            "plan apply",
            "context assemble",
        ];
        assert_eq!(commands, expected);
    }

    #[test]
    fn what_a_caller_says_never_becomes_an_option() {
        let hostile = json!({
            "plan": "@last", "paths": ["--reveal"], "reason": "--all", "only": ["--branch=x"],
            "title": "--trust", "checks": ["--network"], "command": ["--apply", "--trust"]
        });
        assert_eq!(words("plan_diff", &hostile, true)[2..], ["--", "@last", "--reveal"]);
        assert_eq!(words("cancel_plan", &hostile, true)[3], "--reason=--all");
        assert_eq!(words("apply_plan", &hostile, true)[3], "--only=--branch=x");
        let run = words("run_plan", &hostile, false);
        let expected = [
            "run",
            "--detach",
            "--automation=review",
            "--check=--network",
            "--title=--trust",
            "--",
            "--apply",
            "--trust",
        ];
        assert_eq!(run, expected);
        let schema = &offers()[4].input["properties"]["task"]["pattern"];
        assert_eq!(schema, "^[^-]");
    }
}
