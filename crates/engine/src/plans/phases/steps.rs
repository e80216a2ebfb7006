//! What a step does: a command in the sandbox, a file that is read or written, time that passes.
//!
//! # Invariants
//! 1. Every step is a call, its end stored with what it changed: the durable point that a resumed plan goes on from. One
//!    that can have an effect is admitted before it begins.
//! 2. A wait is counted from its first beginning, also when the plan is resumed elsewhere.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    ByteText, CallEnd, CallState, CommandTask, Does, ErrorCategory, NewCall, Plan, RelPath, RootNo, Step,
    ToolCall, WallMs,
};
use sandbox::beneath;
use serde_json::{Value, json};
use store::{By, CallOutcome};

use super::super::House;
use super::super::facts::{EDIT_FILE, READ_FILE, RUN_COMMAND, WAIT, WRITE_FILE};
use super::super::use_plan::path_of;
use super::Stopped;
use super::command::{self, Task};
use super::ground::blocking;
use super::spending;
use super::work::LiveRun;
use crate::worker::JobRun;

/// How much of a file a call keeps.
const TEXT_BYTES_MAX: u64 = 64 * 1024;

/// Does one step. `calls` are those of the attempt so far.
pub(super) async fn run(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    step: &Step,
    calls: &[ToolCall],
) -> Result<(), Stopped> {
    match &step.does {
        Does::Command(task) => run_command(house, run, live, plan, step, task).await,
        Does::Read { path } => read(house, run, live, plan, step, path).await,
        Does::Write { path, text } => {
            let text = text.clone().into_bytes();
            write(house, run, live, plan, step, (WRITE_FILE, path), move |_, _| Ok(text)).await
        }
        Does::Edit { path, old, new } => {
            let (old, new) = (old.clone(), new.clone());
            let text = move |path: &RelPath, now: Now<'_>| edited(path, now(), &old, &new);
            write(house, run, live, plan, step, (EDIT_FILE, path), text).await
        }
        Does::Wait { seconds } => {
            let began = calls.iter().find(|call| call.new.node == step.node).map(|call| call.started);
            wait(house, run, plan, step, Duration::from_secs(*seconds), began).await
        }
    }
}

/// The command of a step, as it is admitted.
pub(super) fn task_of(step: &Step, command: &CommandTask) -> Task {
    Task {
        node: step.node.clone(),
        tool: RUN_COMMAND,
        run: command.run.clone(),
        root: RootNo(0),
        cwd: command.cwd.clone(),
        timeout: command.timeout_s.map(Duration::from_secs),
        network: command.network,
        env: command.env.clone(),
        pass_env: command.pass_env.clone(),
        writable: command.writable.clone(),
    }
}

async fn run_command(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    step: &Step,
    task: &CommandTask,
) -> Result<(), Stopped> {
    let finished = command::run(house, run, live, plan, task_of(step, task)).await?;
    command::record(house, run, live, plan, &finished, None).await?;
    match finished.failure() {
        None => Ok(()),
        Some(message) => Err(Stopped::failed(finished.category(), message)),
    }
}

/// Reads the file as the plan sees it: in its sandbox, if it has one. The call is kept together with its end: nobody can
/// tell whether a read took place, so one that was not kept is simply made again.
async fn read(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    step: &Step,
    path: &ByteText,
) -> Result<(), Stopped> {
    let rel = rel(path)?;
    let (effect, started) = (run.enter()?, house.wall());
    let place = Arc::clone(&live.open).lock_owned().await;
    let root = plan.projects.first().map(|project| path_of(&project.root)).unwrap_or_default();
    let found = blocking(move || match place.as_ref() {
        Some(open) => {
            let root = open.sandbox.root(RootNo(0)).map_err(io::Error::other)?;
            sandbox::read_file(root, &rel, TEXT_BYTES_MAX)
        }
        None => sandbox::read_file(beneath::open_root(&root)?.as_fd(), &rel, TEXT_BYTES_MAX),
    });
    let done = found.await?.map_err(|error| {
        Stopped::failed(ErrorCategory::InvalidInput, format!("{path} cannot be read: {error}"))
    });
    let done = done.map(|(head, bytes)| {
        let text = house.redactor.redact_text(&String::from_utf8_lossy(&head));
        json!({ "bytes": bytes, "text": text })
    });
    let new = new_call(plan, step, READ_FILE, json!({ "path": path }));
    let end = end_of(house, started, &done.as_ref().map(Value::clone));
    spending::keep(house, run, &effect, new, end).await?;
    done.map(drop)
}

fn rel(path: &ByteText) -> Result<RelPath, Stopped> {
    RelPath::new(path.as_bytes()).map_err(|error| Stopped::failed(ErrorCategory::InvalidInput, error))
}

/// Reads the whole file that is about to be written.
type Now<'a> = &'a dyn Fn() -> io::Result<Vec<u8>>;

/// Writes a file of the sandbox: `text` of what is there now.
async fn write(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    step: &Step,
    (tool, path): (&str, &ByteText),
    text: impl FnOnce(&RelPath, Now<'_>) -> Result<Vec<u8>, String> + Send + 'static,
) -> Result<(), Stopped> {
    let rel = rel(path)?;
    let effect = run.enter()?;
    let new = new_call(plan, step, tool, json!({ "path": path }));
    let call = spending::begin(house, run, &effect, new).await?;
    let mut place = Arc::clone(&live.open).lock_owned().await;
    let admitted = call.clone();
    let written = blocking(move || {
        let open = place.as_mut().ok_or(Stopped::Cancelled)?;
        open.call = Some(admitted);
        let wrong = |message: String| Stopped::failed(ErrorCategory::Tool, message);
        let root = open.sandbox.root(RootNo(0)).map_err(|error| wrong(error.to_string()))?;
        let text = text(&rel, &|| whole(root, &rel, open.plan.spec.max_file_bytes)).map_err(wrong)?;
        let rules = command::rules(&open.plan);
        let written = open.sandbox.write_file(RootNo(0), &rel, &text, open.staging.as_ref(), &rules);
        written.map_err(|error| wrong(error.to_string()))?;
        command::scan(open)
    });
    let written = written.await?;
    if matches!(written, Err(Stopped::Cancelled)) {
        return written;
    }
    command::end_call(house, run, live, plan, (&call, &effect), |_, changed| {
        Ok(end_of(house, call.started, &written.as_ref().map(|()| json!({ "changed": changed }))))
    })
    .await?;
    written
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
    let now = String::from_utf8(now).map_err(|_| format!("{path} is no text"))?;
    match now.matches(old).count() {
        1 => Ok(now.replacen(old, new, 1).into_bytes()),
        0 => Err(format!("{path} does not have the text that is to be replaced")),
        many => Err(format!("{path} has the text that is to be replaced {many} times; name more of it")),
    }
}

async fn wait(
    house: &Arc<House>,
    run: &JobRun,
    plan: &Plan,
    step: &Step,
    whole: Duration,
    began: Option<WallMs>,
) -> Result<(), Stopped> {
    let passed = began.map_or(0, |began| house.wall().0.saturating_sub(began.0));
    let left = whole.saturating_sub(Duration::from_millis(passed));
    let effect = run.enter()?;
    let new = new_call(plan, step, WAIT, json!({ "seconds": whole.as_secs() }));
    let call = spending::begin(house, run, &effect, new).await?;
    // The run's end does not wait for the account of a call that was stopped.
    pause(run, left).await?;
    let outcome = CallOutcome {
        attempt: plan.attempt,
        no: call.no,
        end: end_of(house, call.started, &Ok(Value::Null)),
        changeset: None,
        changes: Vec::new(),
        contents: Vec::new(),
    };
    house.store.end_call(By::Effect(&effect), &run.claim(), outcome).await?;
    Ok(())
}

/// Lets time pass; a cancel ends it.
pub(super) async fn pause(run: &JobRun, time: Duration) -> Result<(), Stopped> {
    tokio::select! {
        biased;
        _ = run.scope().cancelled() => Err(Stopped::Cancelled),
        () = tokio::time::sleep(time) => Ok(()),
    }
}

fn new_call(plan: &Plan, step: &Step, tool: &str, requested: Value) -> NewCall {
    NewCall {
        attempt: plan.attempt,
        node: step.node.clone(),
        tool: tool.to_owned(),
        requested,
        effective: Value::Null,
    }
}

fn end_of(house: &House, started: WallMs, done: &Result<Value, &Stopped>) -> CallEnd {
    let (state, error, result) = match done {
        Ok(result) => (CallState::Ok, None, result.clone()),
        Err(Stopped::Failed { message, .. }) => (CallState::Failed, Some(message.clone()), Value::Null),
        Err(Stopped::Cancelled | Stopped::Told(_) | Stopped::Limit { .. } | Stopped::Constrained(_)) => {
            (CallState::Cancelled, None, Value::Null)
        }
    };
    CallEnd {
        state,
        duration_ms: house.wall().0.saturating_sub(started.0),
        exit: None,
        error: error.map(|error| house.redactor.redact_text(&error)),
        result,
        isolation: None,
        stdout: None,
        stderr: None,
    }
}
