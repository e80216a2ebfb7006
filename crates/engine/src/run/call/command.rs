//! The gate that every command of a plan passes: admitted, run, captured, recorded.
//!
//! # How a call goes
//! 1. When its turn in the sandbox has come, the call is counted in the plan's accounts, stored as running
//!    under its number, and marked in the sandbox (`sandbox_call`).
//! 2. The command runs in the plan's sandbox, or, for a check, in a layer above it that is thrown away. While
//!    it runs the bases of what it changes are saved every few seconds.
//! 3. When its whole process tree is dead, what changed is captured: after a failure and a time-out too.
//! 4. Its end, its changes and their contents are stored as one step. If they cannot be, the sandbox is
//!    retained.
//!
//! A run that is interrupted stops between 2 and 3; `shutdown` does the rest, for the mark that the call
//! leaves.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    ByteText, CommandLine, ErrorCategory, IsolationOptions, NewCall, NodeRun, Plan, RelPath, RootIndex,
    ToolCall,
};
use sandbox::Layer;
use sandbox::command::{
    CommandExit, CommandSpec, EnvSpec, IsolationExceptions, OutputSpec, ResourceLimits, Stdin, WorkDir,
    environment,
};
use sandbox::descriptors::wait_for_room;
use sandbox::isolation::{CommandStartError, Isolation, IsolationPolicy, IsolationUsed};
use sandbox::view::SandboxView;
use serde_json::{Value, json};

use super::capture;
use super::home;
use super::piped::{PipedHandle, PipedStart, line};
use super::result::CommandResult;
use super::sandbox_call::{CallAccess, RecordedCallEnd, SandboxCall};
use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::query::details::RUN_COMMAND;
use crate::run::RunError;
use crate::run::context::{NodeContext, RunContext};
use crate::run::plan_sandbox::blocking;
use crate::run::plan_sandbox::location::log_dir;
use crate::run::plan_sandbox::retained;
use crate::run::plan_sandbox::retained::RetainedEnd;
use crate::run::state::{RunState, StopBehavior};
use worker::JobRun;

/// The interval at which the bases of a running command's changes are saved.
const SAVE_BASES_EVERY: Duration = Duration::from_secs(2);
const MB: u64 = 1024 * 1024;
/// The maximum number of characters of a command that a message repeats.
const SHOWN_CHARS_MAX: usize = 80;
/// The directory next to its logs in which a command may write its result: `$AGENTS_OUTPUT`.
const OUTPUT_DIR: &str = "output";
const OUTPUT_FILE: &str = "result.json";

/// A command to be run for a plan.
pub(crate) struct CommandRequest {
    pub(crate) node: String,
    pub(crate) tool: &'static str,
    pub(crate) run: CommandLine,
    pub(crate) root: RootIndex,
    pub(crate) cwd: ByteText,
    pub(crate) timeout: Option<Duration>,
    pub(crate) network: bool,
    /// Ports of this machine's loopback that it may reach.
    pub(crate) allow_loopback: Vec<u16>,
    pub(crate) env: Vec<(ByteText, ByteText)>,
    pub(crate) pass_env: Vec<String>,
    pub(crate) writable: Vec<ByteText>,
    /// The input of the command; empty if there is none. For a program that is spoken to, the messages to it.
    pub(crate) stdin: Option<Vec<u8>>,
    /// True if it may change the projects.
    pub(crate) writes: bool,
    /// The treatment of its changes.
    pub(crate) access: CallAccess,
    /// The recorded arguments of the call, if it is more than a command.
    pub(crate) asked: Option<RecordedArguments>,
}

/// The recorded arguments of a call: redacted.
pub(crate) struct RecordedArguments {
    pub(crate) requested: Value,
    pub(crate) effective: Value,
}

/// A command that has ended, and its call, which has not.
pub(crate) struct EndedCommand {
    pub(crate) call: SandboxCall,
    pub(crate) finished: CommandResult,
}

/// Admits a command when its turn in the sandbox has come, and runs it to its end.
pub(crate) async fn run(context: &NodeContext<'_>, task: CommandRequest) -> Result<EndedCommand, RunError> {
    let (ran, ()) = run_alongside(context, task, None, std::future::ready(())).await?;
    Ok(ran)
}

/// The same with a program that is spoken to: `conversation` waits for it to begin, and ends it.
pub(crate) async fn run_piped<T, F: Future<Output = T>>(
    context: &NodeContext<'_>,
    task: CommandRequest,
    conversation: impl FnOnce(PipedHandle) -> F,
) -> Result<(EndedCommand, T), RunError> {
    let (line, speaks) = line();
    run_alongside(context, task, Some(line), conversation(speaks)).await
}

async fn run_alongside<T>(
    context: &NodeContext<'_>,
    task: CommandRequest,
    line: Option<PipedStart>,
    beside: impl Future<Output = T>,
) -> Result<(EndedCommand, T), RunError> {
    let RunContext { engine, job, state, plan } = context.run;
    let mut sandbox_call = context.begin_call(task.access, new_call(engine, plan, &task)).await?;
    let call = sandbox_call.call().clone();
    let CommandView { view, layer, logs } = begin(context, &call, &task).await?;
    if layer.is_some() {
        sandbox_call.cannot_have_written();
    }
    let output = logs.join(OUTPUT_DIR).join(OUTPUT_FILE);
    let spec = match line {
        Some(_) => spoken_spec(context.run, &task, logs)?,
        None => command_spec(engine, &ProcessMarks::new(job), plan, &task, logs)?,
    };
    let (isolation, given, is_overlay) =
        (isolation(engine, plan), spec.clone(), view.mount_namespace.is_some());
    let (waiter, begun, scope) = (Arc::clone(state), call.clone(), context.scope.clone());
    let waiting = tokio::task::spawn_blocking(move || {
        let mut running = isolation.start_when_there_is_room(view, spec, || scope.is_cancelled())?;
        let ends = if line.is_some() { StopBehavior::WhenAsked } else { StopBehavior::AtOnce };
        waiter.began(&begun, &scope, &running.killer(), ends);
        let told = line.map(|line| line.began(&mut running));
        let used = running.isolation().clone();
        let ended = running.wait();
        waiter.ended(begun.no);
        if let Some(told) = told {
            told.ended(&ended);
        }
        Ok((ended, used))
    });
    let saves_bases = task.access == CallAccess::Record;
    let mut both = std::pin::pin!(async { tokio::join!(waiting, beside) });
    let (ended, came_to) = loop {
        tokio::select! {
            both = &mut both => break both,
            () = tokio::time::sleep(SAVE_BASES_EVERY), if saves_bases => save_bases(state, &call.new.node).await?,
        }
    };
    job.scope().check()?;
    let ended = ended.map_err(|error| RunError::failed(ErrorCategory::Internal, error))?;
    // Cut afterwards: half of a secret is not known as one.
    let shown = one_line(&engine.redactor.redact_text(&task.run.render()));
    let projects: Vec<PathBuf> = plan.projects.iter().map(|project| path_of(&project.root)).collect();
    let missed =
        ended.as_ref().ok().and_then(|(ended, _)| home::missed(&given, &projects, ended, is_overlay));
    let finished = CommandResult { call, shown, ended, _layer: layer, output, missed, judged: None };
    Ok((EndedCommand { call: sandbox_call, finished }, came_to))
}

/// The view in which a command runs.
struct CommandView {
    view: SandboxView,
    layer: Option<Layer>,
    /// The directory of its output.
    logs: PathBuf,
}

/// The trees that the command sees: those of the sandbox, or, for one that is to change nothing, of a layer
/// above them.
async fn begin(
    context: &NodeContext<'_>,
    call: &ToolCall,
    task: &CommandRequest,
) -> Result<CommandView, RunError> {
    let mut place = Arc::clone(&context.state.open).lock_owned().await;
    let (no, is_check, scope) = (call.no, task.tool != RUN_COMMAND, context.scope.clone());
    blocking(move || {
        let open = place.as_mut().ok_or(RunError::Cancelled)?;
        let logs = log_dir(open.sandbox.dir(), no);
        let sandbox_failed = |error: std::io::Error| RunError::failed(ErrorCategory::Sandbox, error);
        // A layer that cannot be had is done without, so a lack of descriptors has to be waited out before.
        wait_for_room(|| scope.is_cancelled()).map_err(sandbox_failed)?;
        make_logs(&logs).map_err(sandbox_failed)?;
        let layer = if is_check { open.sandbox.layer().ok() } else { None };
        let view = match &layer {
            Some(layer) => layer.view(),
            None => open.sandbox.view(),
        };
        Ok(CommandView { view: view.map_err(sandbox_failed)?, layer, logs })
    })
    .await?
}

async fn save_bases(state: &RunState, node: &str) -> Result<(), RunError> {
    let mut place = Arc::clone(&state.open).lock_owned().await;
    let node = node.to_owned();
    blocking(move || {
        if let Some(open) = place.as_mut() {
            // What cannot be saved early is looked at again when the command has ended.
            let _ = open.sandbox.save_bases(open.staging.as_ref(), &capture::rules(open, &node));
        }
    })
    .await
}

/// Stores the end of a command with all that it changed; what a check wrote into the sandbox itself is put
/// back. `settles` is given the number of changes, and returns the end of the node if it is the node's last
/// call. If the changes of the plan's command cannot be stored, its sandbox is retained.
pub(crate) async fn record(
    context: &NodeContext<'_>,
    ran: EndedCommand,
    result: Option<Value>,
    settles: impl FnOnce(usize) -> Option<NodeRun>,
) -> Result<RecordedCallEnd, RunError> {
    let EndedCommand { call, finished } = ran;
    let is_kept = call.records();
    let recorded = call.end(context, |staging, changed| {
        let end = finished.call_end(context.engine, staging, result, changed)?;
        Ok((end, settles(changed)))
    });
    match recorded.await {
        Err(RunError::Failed { category, message, .. }) if is_kept => {
            let end = RetainedEnd::new(context.engine, &finished);
            Err(retained::keep(context.state, &end, category, &message).await)
        }
        other => other,
    }
}

pub(crate) fn new_call(engine: &EngineInner, plan: &Plan, task: &CommandRequest) -> NewCall {
    let names = task.env.iter().map(|(name, _)| name.to_string());
    let requested = json!({
        "command": engine.redactor.redact_text(&task.run.render()),
        "cwd": task.cwd,
        "network": task.network,
        "timeout_s": task.timeout.map(|timeout| timeout.as_secs()),
        "env": names.chain(task.pass_env.iter().cloned()).collect::<Vec<_>>(),
        "writable": task.writable,
    });
    let argv: Vec<String> =
        task.run.argv().iter().map(|word| engine.redactor.redact_text(&word.to_string())).collect();
    let effective = json!({ "argv": argv });
    let (requested, effective) = match &task.asked {
        Some(RecordedArguments { requested, effective }) => (requested.clone(), effective.clone()),
        None => (requested, effective),
    };
    NewCall {
        attempt: plan.attempt,
        node: task.node.clone(),
        tool: task.tool.to_owned(),
        requested,
        effective,
    }
}

/// Returns the isolation of the plan's commands.
pub(crate) fn isolation(engine: &EngineInner, plan: &Plan) -> Isolation {
    let policy = match (plan.spec.isolation_required, plan.spec.walls.landlock) {
        (true, false) => IsolationPolicy::Required,
        (true, true) => IsolationPolicy::Landlock,
        (false, _) => IsolationPolicy::Optional,
    };
    Isolation::new(policy, engine.options.child.clone())
}

/// Makes the directory of a call's logs, and the one for its result.
pub(crate) fn make_logs(logs: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(logs.join(OUTPUT_DIR))
}

/// A program of the plan that is spoken to.
pub(crate) fn spoken_spec(
    run: RunContext<'_>,
    task: &CommandRequest,
    logs: PathBuf,
) -> Result<CommandSpec, RunError> {
    let RunContext { engine, job, plan, .. } = run;
    let spec = command_spec(engine, &ProcessMarks::new(job), plan, task, logs)?;
    Ok(CommandSpec { stdin: Stdin::Spoken, ..spec })
}

/// The marks by which the processes of a job are known; empty for those of no job, which die with who started
/// them.
#[derive(Default)]
pub(crate) struct ProcessMarks {
    job: String,
    fence: u64,
}

impl ProcessMarks {
    pub(crate) fn new(job: &JobRun) -> ProcessMarks {
        ProcessMarks { job: job.job().id.to_string(), fence: job.claim().fence.0 }
    }
}

/// The end of a command, and the isolation that was in force; or the reason why it did not begin.
pub(crate) type CommandEnd = Result<(CommandExit, IsolationUsed), CommandStartError>;

pub(crate) fn command_spec(
    engine: &EngineInner,
    marks: &ProcessMarks,
    plan: &Plan,
    task: &CommandRequest,
    logs: PathBuf,
) -> Result<CommandSpec, RunError> {
    let below = match task.cwd.as_bytes() {
        b"" => None,
        bytes => {
            Some(RelPath::new(bytes).map_err(|error| RunError::failed(ErrorCategory::InvalidInput, error))?)
        }
    };
    let word = |text: &ByteText| OsString::from_vec(text.as_bytes().to_vec());
    let given = EnvSpec {
        plan: plan.id.to_string().into(),
        job: marks.job.clone().into(),
        fence: marks.fence,
        output: Some(logs.join(OUTPUT_DIR).join(OUTPUT_FILE)),
        pass_env: task.pass_env.iter().map(OsString::from).collect(),
        env: task.env.iter().map(|(name, value)| (word(name), word(value))).collect(),
    };
    engine.redactor.register_passed(task.pass_env.iter().map(String::as_str));
    let cwd = WorkDir { root: task.root, below };
    let output_dir = logs.join(OUTPUT_DIR);
    let output = OutputSpec::in_dir(logs);
    let mut spec = CommandSpec::new(task.run.argv().iter().map(word), cwd, output);
    spec.env = environment(std::env::vars_os(), &given);
    spec.timeout = task.timeout;
    if let Some(bytes) = &task.stdin {
        spec.stdin = Stdin::Bytes(bytes.clone());
    }
    spec.network = task.network;
    let of_plan = plan.spec.allow_loopback.iter().filter(|_| task.network);
    spec.loopback_ports = task.allow_loopback.iter().chain(of_plan).copied().collect();
    spec.loopback_ports.sort_unstable();
    spec.loopback_ports.dedup();
    let IsolationOptions {
        unix_sockets,
        io_uring,
        processes_max,
        memory_mb_max,
        disk_free_mb_min,
        landlock: _,
    } = plan.spec.walls;
    spec.openings = IsolationExceptions { unix_sockets, io_uring };
    spec.bounds = ResourceLimits {
        processes_max,
        memory_bytes_max: memory_mb_max.saturating_mul(MB),
        disk_free_bytes_min: disk_free_mb_min.saturating_mul(MB),
    };
    spec.writes = task.writes;
    spec.writable = paths(&task.writable);
    spec.writable.push(output_dir);
    spec.hide = paths(&plan.spec.hidden_paths());
    spec.hide.extend(engine.contexts.hidden().paths().map(Path::to_owned));
    spec.scratch = paths(&plan.spec.scratch);
    home::show(plan, &mut spec);
    Ok(spec)
}

fn paths(texts: &[ByteText]) -> Vec<PathBuf> {
    texts.iter().map(path_of).collect()
}

/// The command on one line that a message can hold.
pub(crate) fn one_line(shown: &str) -> String {
    let line = shown.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(SHOWN_CHARS_MAX).collect();
    if cut == shown { cut } else { format!("{cut}…") }
}

/// A path as bytes.
pub(crate) fn bytes_of(path: &Path) -> Vec<u8> {
    OsStr::new(path).as_bytes().to_vec()
}
