//! What a step does: a command in the sandbox, a file that is read, time that passes.
//!
//! # Invariants
//! 1. Every step is a call: admitted before it begins, its end stored with what it changed. The end is the durable
//!    point that a resumed plan goes on from.
//! 2. A wait is counted from its first beginning, also when the plan is resumed elsewhere.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    ByteText, CallEnd, CallState, CommandTask, Does, ErrorCategory, NewCall, Plan, RelPath, RootNo, Step,
    ToolCall, WallMs,
};
use rustix::fs::{Mode, OFlags};
use sandbox::beneath::{self, Links};
use serde_json::{Value, json};
use store::{By, CallOutcome};

use super::super::House;
use super::super::facts::{READ_FILE, RUN_COMMAND, WAIT};
use super::super::use_plan::path_of;
use super::Stopped;
use super::command::{self, Task};
use super::ground::blocking;
use super::work::LiveRun;
use crate::worker::JobRun;

/// How much of a file a call keeps.
const TEXT_BYTES_MAX: usize = 64 * 1024;

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

/// Reads the file as the plan sees it: in its sandbox, if it has one.
async fn read(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    step: &Step,
    path: &ByteText,
) -> Result<(), Stopped> {
    let wrong = |error| Stopped::failed(ErrorCategory::InvalidInput, error);
    let rel = RelPath::new(path.as_bytes()).map_err(wrong)?;
    let place = Arc::clone(&live.open).lock_owned().await;
    let root = plan.projects.first().map(|project| path_of(&project.root)).unwrap_or_default();
    call(house, run, plan, step, READ_FILE, json!({ "path": path }), async {
        let text = blocking(move || match place.as_ref() {
            Some(open) => {
                let tree = open.sandbox.root(RootNo(0)).map_err(std::io::Error::other)?;
                read_text(tree, &rel)
            }
            None => read_text(beneath::open_root(&root)?.as_fd(), &rel),
        });
        let (bytes, text) = text.await?.map_err(|error| {
            Stopped::failed(ErrorCategory::InvalidInput, format!("{path} cannot be read: {error}"))
        })?;
        Ok(json!({ "bytes": bytes, "text": house.redactor.redact_text(&text) }))
    })
    .await
}

fn read_text(root: BorrowedFd<'_>, path: &RelPath) -> std::io::Result<(u64, String)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = beneath::open(root, path, flags, Mode::empty(), Links::Refuse)
        .map_err(sandbox::beneath::BeneathError::into_io)?;
    let file = std::fs::File::from(file);
    let bytes = file.metadata()?.len();
    let mut head = Vec::new();
    file.take(TEXT_BYTES_MAX as u64).read_to_end(&mut head)?;
    Ok((bytes, String::from_utf8_lossy(&head).into_owned()))
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
    call(house, run, plan, step, WAIT, json!({ "seconds": whole.as_secs() }), async {
        pause(run, left).await?;
        Ok(Value::Null)
    })
    .await
}

/// Lets time pass; a cancel ends it.
pub(super) async fn pause(run: &JobRun, time: Duration) -> Result<(), Stopped> {
    tokio::select! {
        biased;
        _ = run.scope().cancelled() => Err(Stopped::Cancelled),
        () = tokio::time::sleep(time) => Ok(()),
    }
}

/// A call that changes nothing and needs no process.
async fn call(
    house: &Arc<House>,
    run: &JobRun,
    plan: &Plan,
    step: &Step,
    tool: &str,
    requested: Value,
    work: impl Future<Output = Result<Value, Stopped>>,
) -> Result<(), Stopped> {
    let effect = run.enter()?;
    let new = NewCall {
        attempt: plan.attempt,
        node: step.node.clone(),
        tool: tool.to_owned(),
        requested,
        effective: Value::Null,
    };
    let call = house.store.begin_call(&effect, &run.claim(), new).await?;
    let done = work.await;
    let (state, error, result) = match &done {
        Ok(result) => (CallState::Ok, None, result.clone()),
        Err(Stopped::Failed { message, .. }) => (CallState::Failed, Some(message.clone()), Value::Null),
        Err(_) => (CallState::Cancelled, None, Value::Null),
    };
    let end = CallEnd {
        state,
        duration_ms: house.wall().0.saturating_sub(call.started.0),
        exit: None,
        error,
        result,
        isolation: None,
        stdout: None,
        stderr: None,
    };
    let outcome = CallOutcome {
        attempt: plan.attempt,
        no: call.no,
        end,
        changeset: None,
        changes: Vec::new(),
        contents: Vec::new(),
    };
    // The run's end does not wait for the account of a call that was stopped.
    if !matches!(done, Err(Stopped::Cancelled)) {
        house.store.end_call(By::Effect(&effect), &run.claim(), outcome).await?;
    }
    done.map(drop)
}
