//! A command of a plan as a call: admitted and run here. The caller captures and records it.
//!
//! The command runs in the plan's sandbox, or, for a check, in a layer above it that is thrown away. While it
//! runs, the bases of what it changes are saved every few seconds.
//!
//! # Not here
//! The process and its isolation: `process`. The end and the changes of the call: `record`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::text::first_chars;
use domain::{ByteText, CommandLine, ErrorCategory, NewCall, Plan, RootIndex};
use serde_json::{Value, json};

use super::admit::CallAccess;
use super::capture;
use super::home;
use super::piped::{PipedHandle, PipedStart, line};
use super::process;
use super::process::{CommandView, ProcessMarks};
use super::result::CommandResult;
use super::sandbox_call::SandboxCall;
use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::run::RunError;
use crate::run::context::{NodeContext, RunContext};
use crate::run::plan_sandbox::blocking;
use crate::run::state::{RunState, StopBehavior};

/// The interval at which the bases of a running command's changes are saved.
const SAVE_BASES_EVERY: Duration = Duration::from_secs(2);
/// The maximum number of characters of a command that a message repeats.
const SHOWN_CHARS_MAX: usize = 80;
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
    let CommandView { view, layer, logs } = process::open_view(context, &call, &task).await?;
    if layer.is_some() {
        sandbox_call.cannot_have_written();
    }
    let output = process::output_path(&logs);
    let spec = match line {
        Some(_) => process::spoken_spec(context.run, &task, logs)?,
        None => process::command_spec(engine, &ProcessMarks::new(job), plan, &task, logs)?,
    };
    let (isolation, given, is_overlay) =
        (process::isolation(engine, plan), spec.clone(), view.mount_namespace.is_some());
    let (waiter, begun, scope) = (Arc::clone(state), call.clone(), context.scope.clone());
    let waiting = tokio::task::spawn_blocking(move || {
        let mut running = isolation.start_when_there_is_room(view, spec, || scope.is_cancelled())?;
        let ends = if line.is_some() { StopBehavior::WhenAsked } else { StopBehavior::AtOnce };
        waiter.began(&begun, &scope, &running.killer(), ends);
        let piped_end = line.map(|line| line.began(&mut running));
        let used = running.isolation().clone();
        let ended = running.wait();
        waiter.ended(begun.no);
        if let Some(piped_end) = piped_end {
            piped_end.ended(&ended);
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
    let finished =
        CommandResult { call, shown, ended, _layer: layer, output, missed, judged: None, session: None };
    Ok((EndedCommand { call: sandbox_call, finished }, came_to))
}

async fn save_bases(state: &RunState, node: &str) -> Result<(), RunError> {
    let mut place = Arc::clone(&state.session).lock_owned().await;
    let node = node.to_owned();
    blocking(move || {
        if let Some(session) = place.as_mut() {
            // A base that cannot be saved early is looked at again when the command has ended.
            let _ = session.sandbox.save_bases(session.staging.as_ref(), &capture::rules(session, &node));
        }
    })
    .await
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

/// The command on one line that a message can hold.
pub(crate) fn one_line(shown: &str) -> String {
    let line = shown.lines().next().unwrap_or_default();
    let cut = first_chars(line, SHOWN_CHARS_MAX);
    if cut == shown { cut.to_owned() } else { format!("{cut}…") }
}

/// A path as bytes.
pub(crate) fn bytes_of(path: &Path) -> Vec<u8> {
    OsStr::new(path).as_bytes().to_vec()
}
