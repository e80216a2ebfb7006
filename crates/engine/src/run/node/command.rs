//! Command, file and wait nodes: a command in the sandbox, a file that is read or written, time that passes.
//!
//! # Invariants
//! 1. Every step is a call, its end stored with what it changed: the durable point that a resumed plan
//!    continues from. One that can have an effect is admitted before it begins.
//! 2. A wait is counted from its first beginning, also when the plan is resumed elsewhere.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actors::tool::ToolError;
use domain::{
    ByteText, CallEnd, CallState, CommandLine, CommandTask, ErrorCategory, NewCall, NodeKind, NodeRun, Phase,
    RelPath, RootIndex, SpendKind, TokenUsage, WallMs, expand_argv, value_text,
};
use sandbox::fs::beneath;
use sandbox::fs::beneath::LinkPolicy;
use sandbox::{WriteFileError, read_at_hand};
use serde_json::{Value, json};
use store::CallAuthority;
use sync::Effect;

use super::decisions;
use super::decisions::ReportedDecision;
use super::model;
use super::{ActiveNode, NodeOutput, NodePersistence, NodeResult};
use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::query::details::{EDIT_FILE, READ_FILE, RUN_COMMAND, WAIT, WRITE_FILE};
use crate::run::RunError;
use crate::run::accounting;
use crate::run::accounting::UnrecordedCall;
use crate::run::call::admit::CallAccess;
use crate::run::call::command;
use crate::run::call::command::{CommandRequest, EndedCommand};
use crate::run::call::{agent_program, capture, record, tool, write_guard};
use crate::run::context::RunContext;
use crate::run::plan_sandbox::blocking;
use crate::run::state::RunState;
use worker::EndedCall;
use worker::JobRun;

/// The most that a program is believed to have used of anything.
const SAID_USED_MAX: u64 = 1_000_000_000_000_000;
/// The maximum number of bytes of a file that a call stores.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The first bytes of a file, and how many it has.
type FileHead = (Vec<u8>, u64);

/// Does what a node is there for.
pub(crate) async fn run(node: &ActiveNode<'_>) -> Result<NodeResult, RunError> {
    let step = node.step;
    match &step.does {
        NodeKind::Command(task) => run_command(node, task).await,
        NodeKind::Read { path } => read(node, path).await,
        NodeKind::Write { path, text } => {
            let text = text.clone().into_bytes();
            write(node, (WRITE_FILE, path), move |_, _| Ok(text)).await
        }
        NodeKind::Edit { path, old, new } => {
            let (old, new) = (old.clone(), new.clone());
            let text = move |path: &RelPath, now: CurrentBytes<'_>| edited(path, now(), &old, &new);
            write(node, (EDIT_FILE, path), text).await
        }
        NodeKind::Wait { seconds } => wait(node, Duration::from_secs(*seconds)).await,
        NodeKind::Tool { name, with } => {
            let with = expanded(node, with)?;
            tool::run_tool_step(node, (name.as_str(), &with)).await
        }
        NodeKind::Model(task) => {
            let left = model::run(node, task).await?;
            Ok(NodeResult { run: node.ended(left), end: NodePersistence::Loose })
        }
        NodeKind::External(task) => agent_program::run(node, task).await,
        NodeKind::Actor { .. } => {
            let message = format!("node {} ({}) cannot be run by this version yet", step.node, step.render());
            Err(RunError::failed(ErrorCategory::InvalidInput, message))
        }
    }
}

/// Arguments with the values of this run in every text.
fn expanded(node: &ActiveNode<'_>, with: &Value) -> Result<Value, RunError> {
    Ok(match with {
        Value::String(text) => Value::String(node.expand(text)?),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| expanded(node, item)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Ok((key.clone(), expanded(node, value)?)));
            Value::Object(fields.collect::<Result<_, RunError>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => with.clone(),
    })
}

/// The command of a node, as it is admitted: with the values of the run where it has placeholders.
pub(crate) async fn task_of(
    node: &ActiveNode<'_>,
    command: &CommandTask,
) -> Result<CommandRequest, RunError> {
    let writes = command.writes && !node.only_reads();
    let access = access_of(node, writes).await?;
    let text = |text: &ByteText| -> Result<ByteText, RunError> {
        match std::str::from_utf8(text.as_bytes()) {
            Ok(source) if command.expand => Ok(ByteText::from(node.expand(source)?.as_str())),
            // A word that is no text has no placeholder.
            Ok(_) | Err(_) => Ok(text.clone()),
        }
    };
    let run = match &command.run {
        CommandLine::Argv(argv) if command.expand => {
            CommandLine::Argv(expand_argv(argv, node.values).map_err(|error| node.unfit(&error))?)
        }
        CommandLine::Argv(_) | CommandLine::Shell(_) => command.run.clone(),
    };
    let args = node.plan.spec.args.iter().map(|(name, value)| {
        let name = format!("ARG_{}", name.to_uppercase().replace('-', "_"));
        (ByteText::from(name.as_str()), ByteText::from(value_text(value).as_ref()))
    });
    let named = command.env.iter().map(|(name, value)| Ok((name.clone(), text(value)?)));
    let named = named.collect::<Result<Vec<_>, RunError>>()?;
    let stdin = command.stdin.as_ref().map(text).transpose()?.map(|text| text.0);
    Ok(CommandRequest {
        node: node.path.to_owned(),
        tool: RUN_COMMAND,
        run,
        root: RootIndex(0),
        cwd: command.cwd.clone(),
        timeout: node.step.ends_after_s().map(Duration::from_secs),
        network: command.network,
        allow_loopback: command.allow_loopback.clone(),
        env: args.chain(named).collect(),
        pass_env: command.pass_env.clone(),
        writable: command.writable.clone(),
        stdin,
        writes,
        access,
        asked: None,
    })
}

/// Returns the treatment of the changes of the node's programs. A program that may only look and cannot be
/// prevented from writing works alone, so that found changes belong to a known program.
async fn access_of(node: &ActiveNode<'_>, writes: bool) -> Result<CallAccess, RunError> {
    Ok(match writes {
        true => CallAccess::Record,
        false if write_guard::is_enforced(node.run).await? => CallAccess::Look,
        false => CallAccess::PutBack,
    })
}

async fn run_command(node: &ActiveNode<'_>, task: &CommandTask) -> Result<NodeResult, RunError> {
    let mut ran = command::run(&node.context, task_of(node, task).await?).await?;
    let finished = &mut ran.finished;
    match finished.exit() {
        Some(0) if !task.is_ok_exit(0) => {
            let wanted: Vec<String> = task.ok_exit.iter().map(ToString::to_string).collect();
            let why = format!("`{}` exited with status 0, not {}", finished.shown(), wanted.join(" or "));
            finished.judge(Err(why));
        }
        Some(status) if status != 0 && task.is_ok_exit(status) => finished.judge(Ok(())),
        Some(_) | None => {}
    }
    let finished = &ran.finished;
    let text = finished.text(node.engine);
    let failure = finished.failure().map(|message| (finished.category(), message));
    end_command(node, ran, text, failure).await
}

/// Stores the end of the only call of a node, with what it changed and with what the node left when nothing
/// failed.
pub(crate) async fn end_command(
    node: &ActiveNode<'_>,
    mut ran: EndedCommand,
    text: String,
    mut failure: Option<(ErrorCategory, String)>,
) -> Result<NodeResult, RunError> {
    let (engine, context) = (node.engine, &node.context);
    if let Some(message) = write_guard::revert_writes(context, &mut ran).await? {
        ran.finished.judge(Err(message.clone()));
        failure = Some((ErrorCategory::Tool, message));
    }
    let (finished, effect) = (&ran.finished, ran.call.effect());
    let (exit, no) = (finished.exit(), finished.call().no);
    let json = finished.json(engine).map_err(|unfit| unfit.of_call(no));
    let failure = failure.map(|(category, message)| RunError::Failed {
        category,
        message,
        left: Some(Box::new(NodeOutput { exit, text: text.clone(), ..NodeOutput::default() })),
        call: Some(no),
    });
    let decided = match &json {
        Ok(json) if failure.is_none() => decide(node, effect, json).await,
        Ok(_) | Err(_) => Ok(()),
    };
    let (json, decided) = match decided {
        // A decision that is invalid fails the node, as an output does that is no JSON.
        Err(unfit @ RunError::Failed { .. }) => (Err(unfit.of_call(no)), Ok(())),
        other => (json, other),
    };
    let is_done = failure.is_none() && decided.is_ok();
    let said_used = json.as_ref().ok().filter(|_| is_done).map(usage_in).unwrap_or_default();
    let mut ended = None;
    let recorded = record::record_command(context, ran, None, |changed| {
        let json = json.as_ref().ok().filter(|_| is_done)?.clone();
        let changed = u32::try_from(changed).unwrap_or(u32::MAX);
        let usage = usage_in(&json);
        let left = NodeOutput { exit, text, json, changed, usage, ..NodeOutput::default() };
        ended = Some(node.ended(left.clone()));
        node.settles(left)
    })
    .await?;
    // Its changes are recorded, whatever stops the node from here on.
    decided?;
    count_used(node, &recorded.effect, said_used).await?;
    node.scope.check()?;
    match (failure, json, ended) {
        (Some(failure), _, _) | (None, Err(failure), _) => Err(failure),
        (None, Ok(_), Some(run)) => Ok(NodeResult { run, end: with_its_call(node) }),
        (None, Ok(_), None) => Err(RunError::Cancelled),
    }
}

/// Records the decisions that a program reports. The report of the strategist node is recorded later, as the
/// strategy.
async fn decide(node: &ActiveNode<'_>, effect: &Effect, json: &Value) -> Result<(), RunError> {
    let strategist = node.plan.spec.strategist.as_ref().filter(|_| node.phase() == Phase::Strategize);
    if strategist.is_some_and(|strategist| strategist.result == node.path) {
        // An invalid decision is reported now, while the node can still be run again.
        return ReportedDecision::all_in(json).map(drop).map_err(|why| decisions::invalid(node.path, &why));
    }
    decisions::record_all(&node.context, effect, json).await
}

/// Adds the use that a program reports to the plan's accounts, up to their limits. It could not be reserved
/// beforehand, and later calls find less.
async fn count_used(node: &ActiveNode<'_>, effect: &Effect, used: TokenUsage) -> Result<(), RunError> {
    let (store, claim) = (&node.engine.store, node.job.claim());
    for (kind, amount) in [(SpendKind::Tokens, used.tokens()), (SpendKind::Cost, used.cost_micros)] {
        if amount > 0 {
            let amount = amount.min(SAID_USED_MAX);
            let added = store.add_spent(CallAuthority::Effect(effect), &claim, kind, amount).await;
            added.map_err(|error| accounting::stopped(error, node.path))?;
        }
    }
    Ok(())
}

/// Returns the use that a program reports: `usage: {tokens_in, tokens_out, cost_micros}`.
fn usage_in(json: &Value) -> TokenUsage {
    json.get("usage").and_then(|usage| serde_json::from_value(usage.clone()).ok()).unwrap_or_default()
}

/// Reads the file as the plan sees it: in its sandbox, if it has one. The call is stored together with its
/// end: a read has no effect, so one that was not stored is simply made again.
async fn read(node: &ActiveNode<'_>, path: &ByteText) -> Result<NodeResult, RunError> {
    let RunContext { engine, state, plan, .. } = node.run;
    let rel = rel(path)?;
    let _turn = node.context.turn(false).await?;
    let (effect, started) = (node.enter()?, engine.wall());
    let root = plan.projects.first().map(|project| path_of(&project.root)).unwrap_or_default();
    let hidden = engine.contexts.hidden().within(&root);
    let at_hand = state.at_hand(RootIndex(0), &root, |root| {
        read_at_hand(root, &rel, TEXT_BYTES_MAX, LinkPolicy::Refuse, &hidden)
    });
    let found = match (at_hand, hidden.check(&rel)) {
        (_, Err(refused)) => Err(refused),
        (Some(found), Ok(())) => Ok(found),
        (None, Ok(())) => read_waiting(state, root, rel).await?,
    };
    let found = found.map_err(|error| {
        RunError::failed(ErrorCategory::InvalidInput, format!("{path} cannot be read: {error}"))
    });
    let new = new_call(node, READ_FILE, json!({ "path": path }));
    match found {
        Ok((head, bytes)) => {
            let text = engine.redactor.redact_text(&String::from_utf8_lossy(&head));
            let end = end_of(engine, started, &Ok(json!({ "bytes": bytes, "text": text })));
            let left = NodeOutput { text, ..NodeOutput::default() };
            let unkept = UnrecordedCall::new(effect, new, end).settling(node.settles(left.clone()));
            Ok(NodeResult { run: node.ended(left), end: NodePersistence::WithCall(Box::new(unkept)) })
        }
        Err(stopped) => {
            let end = end_of(engine, started, &Err(&stopped));
            let no = accounting::keep(node.run, &effect, new, end).await?;
            Err(stopped.of_call(no))
        }
    }
}

/// The end of a node that was stored with that of its last call, unless the node is repeated.
fn with_its_call(node: &ActiveNode<'_>) -> NodePersistence {
    if node.step.repeat.is_none() { NodePersistence::Stored } else { NodePersistence::Loose }
}

/// Reads the file on a thread that may wait for a disk.
async fn read_waiting(
    state: &RunState,
    root: PathBuf,
    rel: RelPath,
) -> Result<io::Result<FileHead>, RunError> {
    let place = Arc::clone(&state.session).lock_owned().await;
    blocking(move || match place.as_ref() {
        Some(session) => {
            let root = session.sandbox.root(RootIndex(0)).map_err(io::Error::other)?;
            sandbox::read_file(root, &rel, TEXT_BYTES_MAX as u64)
        }
        None => sandbox::read_file(beneath::open_root(&root)?.as_fd(), &rel, TEXT_BYTES_MAX as u64),
    })
    .await
}

/// A node whose only call has ended.
fn done_of(
    node: &ActiveNode<'_>,
    done: Result<(), RunError>,
    ended: Option<NodeRun>,
) -> Result<NodeResult, RunError> {
    done?;
    let run = ended.ok_or(RunError::Cancelled)?;
    Ok(NodeResult { run, end: with_its_call(node) })
}

fn rel(path: &ByteText) -> Result<RelPath, RunError> {
    RelPath::new(path.as_bytes()).map_err(|error| RunError::failed(ErrorCategory::InvalidInput, error))
}

/// Reads the whole file that is about to be written.
type CurrentBytes<'a> = &'a dyn Fn() -> io::Result<Vec<u8>>;

/// Writes a file of the sandbox: `text` of what is there now.
async fn write(
    node: &ActiveNode<'_>,
    (tool, path): (&str, &ByteText),
    text: impl FnOnce(&RelPath, CurrentBytes<'_>) -> Result<Vec<u8>, String> + Send + 'static,
) -> Result<NodeResult, RunError> {
    let RunContext { engine, state, .. } = node.run;
    let rel = rel(path)?;
    if node.only_reads() {
        return Err(node.unfit(&format!("{path} cannot be written: this part of the plan is read-only")));
    }
    let context = &node.context;
    let call = context.begin_call(CallAccess::Record, new_call(node, tool, json!({ "path": path }))).await?;
    let (started, no, of_node) = (call.call().started, call.call().no, node.path.to_owned());
    let mut place = Arc::clone(&state.session).lock_owned().await;
    let written = blocking(move || {
        let session = place.as_mut().ok_or(RunError::Cancelled)?;
        let wrong = |message: String| RunError::failed(ErrorCategory::Tool, message);
        let root = session.sandbox.root(RootIndex(0)).map_err(|error| wrong(error.to_string()))?;
        let text = text(&rel, &|| whole(root, &rel, session.plan.spec.max_file_bytes)).map_err(wrong)?;
        let rules = capture::rules(session, &of_node);
        let written = session.sandbox.write_file(RootIndex(0), &rel, &text, session.staging.as_ref(), &rules);
        written.map_err(|error| wrong(not_written(&error)))
    });
    // A thread that broke down may have written: it has failed, and what it wrote is captured.
    let written = written.await.and_then(|written| written);
    if let Err(RunError::Cancelled) = written {
        return Err(RunError::Cancelled);
    }
    let mut ended = None;
    let recorded = call.end(context, |_, changed| {
        let end = end_of(engine, started, &written.as_ref().map(|()| json!({ "changed": changed })));
        if written.is_ok() {
            let changed = u32::try_from(changed).unwrap_or(u32::MAX);
            ended = Some(node.ended(NodeOutput { changed, ..NodeOutput::default() }));
        }
        Ok((end, ended.clone().filter(|_| node.step.repeat.is_none())))
    });
    recorded.await?;
    done_of(node, written.map_err(|stopped| stopped.of_call(no)), ended)
}

/// Returns the reason why a file was not written, with the code that a model would get.
fn not_written(error: &WriteFileError) -> String {
    match error {
        WriteFileError::Protected { path } => {
            ToolError::ProtectedPath { path: path.to_string() }.text_with_code()
        }
        WriteFileError::NoSuchRoot(_)
        | WriteFileError::Escapes { .. }
        | WriteFileError::NotEmpty { .. }
        | WriteFileError::Exists { .. }
        | WriteFileError::Base(_)
        | WriteFileError::Parents(_)
        | WriteFileError::Io { .. } => error.to_string(),
    }
}

/// The bytes of a file, all of them or none.
fn whole(root: BorrowedFd<'_>, path: &RelPath, max: u64) -> io::Result<Vec<u8>> {
    let (bytes, len) = sandbox::read_file(root, path, max)?;
    if u64::try_from(bytes.len()).is_ok_and(|read| read == len) {
        return Ok(bytes);
    }
    let message = format!("it has {len} bytes, {max} are allowed (capture.max_file_mb)");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}

/// The text with the one place replaced.
fn edited(path: &RelPath, now: io::Result<Vec<u8>>, old: &str, new: &str) -> Result<Vec<u8>, String> {
    let now = now.map_err(|error| format!("{path} cannot be read: {error}"))?;
    let now = String::from_utf8(now).map_err(|_| format!("{path} is not a text file"))?;
    match now.matches(old).count() {
        1 => Ok(now.replacen(old, new, 1).into_bytes()),
        0 => Err(format!("{path} does not contain the text to replace")),
        many => Err(format!(
            "{path} contains the text to replace {many} times; include more of the text around it"
        )),
    }
}

async fn wait(node: &ActiveNode<'_>, whole: Duration) -> Result<NodeResult, RunError> {
    let RunContext { engine, job, .. } = node.run;
    let passed = node.began.map_or(0, |began| engine.wall().0.saturating_sub(began.0));
    let left = whole.saturating_sub(Duration::from_millis(passed));
    let effect = node.enter()?;
    let new = new_call(node, WAIT, json!({ "seconds": whole.as_secs() }));
    let call = accounting::begin(node.run, &effect, new).await?;
    let waited = tokio::select! {
        biased;
        _ = node.scope.cancelled() => Err(RunError::Cancelled),
        () = tokio::time::sleep(left) => Ok(Value::Null),
    };
    // The run's end does not wait for the account of a call that was stopped: it ends that itself.
    job.scope().check()?;
    let end = end_of(engine, call.started, &waited.as_ref().map(Value::clone));
    let settles = node.settles(NodeOutput::default()).filter(|_| waited.is_ok());
    job.context()
        .end_call(CallAuthority::Effect(&effect), EndedCall::new(&call, end).settling(settles))
        .await?;
    done_of(node, waited.map(drop), Some(node.ended(NodeOutput::default())))
}

/// Lets time pass; a cancel ends it.
pub(crate) async fn pause(job: &JobRun, time: Duration) -> Result<(), RunError> {
    tokio::select! {
        biased;
        _ = job.scope().cancelled() => Err(RunError::Cancelled),
        () = tokio::time::sleep(time) => Ok(()),
    }
}

fn new_call(node: &ActiveNode<'_>, tool: &str, requested: Value) -> NewCall {
    NewCall {
        attempt: node.plan.attempt,
        node: node.path.to_owned(),
        tool: tool.to_owned(),
        requested,
        effective: Value::Null,
    }
}

fn end_of(engine: &EngineInner, started: WallMs, done: &Result<Value, &RunError>) -> CallEnd {
    let came_to = match done {
        Ok(result) => (CallState::Ok, None, result.clone()),
        Err(RunError::Failed { message, .. }) => (CallState::Failed, Some(message.clone()), Value::Null),
        Err(
            RunError::Cancelled | RunError::Reported(_) | RunError::Limit { .. } | RunError::Constrained(_),
        ) => (CallState::Cancelled, None, Value::Null),
    };
    engine.ended(started, came_to)
}
