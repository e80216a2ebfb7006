//! The execute phase: a sandbox, the plan's command in it, its checks.
//!
//! # How a run begins
//! A sandbox starts from the live tree. If the command of this attempt ended well before (the run was broken off in its
//! checks), the recorded changes are put back into it. If it did not, they are taken back by inverse entries, and the
//! command runs again as if for the first time.
//!
//! If what the command changed could not be captured, its sandbox was kept: that one is opened again, captured, and the
//! command is not run a second time.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    CallEnd, CallState, ChangeId, ErrorCategory, NetChange, NewCall, NewChange, NotCaptured, Outcome, Plan,
    RootNo, SandboxRecord, ToolCall, Validation, ValidationResult, fold, net_hash,
};
use sandbox::{Choice, OpenError, OpenRequest, RootSpec, Sandbox};
use serde_json::{Value, json};
use store::{By, CallOutcome};

use super::super::House;
use super::super::contents::{Staging, Stored};
use super::super::facts::{RUN_COMMAND, TAKE_BACK, VALIDATE, execute_node};
use super::super::use_plan::path_of;
use super::command::{self, Finished, Task};
use super::kept;
use super::work::{LiveRun, Open};
use super::{Stopped, sandbox_category};
use crate::plan_context::ChangesetHandle;
use crate::worker::JobRun;

/// How much of a check's output its message keeps.
const MESSAGE_BYTES_MAX: usize = 2 * 1024;

pub(super) async fn execute(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
) -> Result<(), Stopped> {
    let kept = open_sandbox(house, run, live, plan).await?;
    let handle = run.context().start_changeset().await?;
    with_open(live, |open| open.changeset = Some(handle.id())).await?;
    let mut is_there = false;
    if let Some(note) = kept {
        is_there = kept::capture(house, run, live, plan, &note).await?;
        if !is_there {
            close_sandbox(live).await?;
            open_sandbox(house, run, live, plan).await?;
            with_open(live, |open| open.changeset = Some(handle.id())).await?;
        }
    }
    if !is_there {
        let recorded = fold(&house.entries(plan).await?);
        if command_is_done(house, plan).await? {
            put_back(house, live, recorded).await?;
        } else {
            if !recorded.is_empty() {
                take_back(house, run, plan, &handle, recorded).await?;
            }
            run_command(house, run, live, plan).await?;
        }
    }
    validate(house, run, live, plan).await?;
    handle.close().await?;
    Ok(())
}

/// Opens the sandbox; or again the one that is kept of this attempt, whose note is given back.
async fn open_sandbox(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
) -> Result<Option<String>, Stopped> {
    let effect = run.enter()?;
    let request = open_request(house, plan)?;
    let mut place = Arc::clone(&live.open).lock_owned().await;
    let (house, plan, scope) = (Arc::clone(house), plan.clone(), run.scope().clone());
    let opening = Arc::clone(&house);
    // The place goes with the thread: whoever winds down waits for it, and finds what it opened.
    let opened = blocking(move || {
        let (sandbox, note) = if sandbox::is_kept(&request.dir) {
            sandbox::reopen(request).map(|(sandbox, note)| (sandbox, Some(note)))?
        } else {
            (sandbox::open_unless(request, &|| scope.is_cancelled())?, None)
        };
        let record = record_of(&opening, &plan, &sandbox);
        let staging = Arc::new(Staging::new(Arc::clone(&opening.store)));
        let (kept, found) = (None, Vec::new());
        let open =
            Open { plan, sandbox, record: record.clone(), changeset: None, call: None, staging, kept, found };
        *place = Some(open);
        Ok((record, note))
    });
    let (record, note) = opened.await?.map_err(|error: OpenError| {
        if matches!(error, OpenError::Stopped) {
            return Stopped::Cancelled;
        }
        Stopped::failed(sandbox_category(&error), error)
    })?;
    house.store.sandbox_opened(&effect, &run.claim(), record).await?;
    Ok(note)
}

fn open_request(house: &House, plan: &Plan) -> Result<OpenRequest, Stopped> {
    let choice: Choice =
        plan.spec.sandbox.parse().map_err(|error| Stopped::failed(ErrorCategory::InvalidInput, error))?;
    let roots = plan.projects.iter().zip(0..).map(|(project, no)| RootSpec {
        no: RootNo(no),
        path: path_of(&project.root),
        read_only: project.read_only,
    });
    let (dir, include) = (house.sandbox_home(plan), vec![".env*".to_owned()]);
    Ok(OpenRequest { dir, roots: roots.collect(), choice, include })
}

fn record_of(house: &House, plan: &Plan, sandbox: &Sandbox) -> SandboxRecord {
    let passed_over = sandbox.passed_over().iter();
    SandboxRecord {
        plan: plan.id,
        attempt: plan.attempt,
        rung: sandbox.rung().as_str().to_owned(),
        passed_over: passed_over.map(|over| (over.rung.as_str().to_owned(), over.why.clone())).collect(),
        dir: command::bytes_of(sandbox.dir()),
        boot: house.boot,
        opened: house.wall(),
        closed: None,
        not_captured: NotCaptured::default(),
    }
}

async fn close_sandbox(live: &LiveRun) -> Result<(), Stopped> {
    let mut place = Arc::clone(&live.open).lock_owned().await;
    let closed = blocking(move || place.take().map_or(Ok(()), |open| open.sandbox.close()));
    closed.await?.map_err(|error| Stopped::failed(ErrorCategory::Sandbox, error))
}

/// Whether the command of this attempt has ended well.
async fn command_is_done(house: &House, plan: &Plan) -> Result<bool, Stopped> {
    let calls = house.store.calls(plan.id).await?;
    let last = |call: &&ToolCall| call.new.attempt == plan.attempt && call.new.node == execute_node();
    Ok(calls.iter().rfind(last).is_some_and(|call| call.state() == CallState::Ok))
}

/// The recorded changes into a fresh sandbox; their bases stay as they were recorded.
async fn put_back(house: &Arc<House>, live: &Arc<LiveRun>, recorded: Vec<NetChange>) -> Result<(), Stopped> {
    let (house, mut place) = (Arc::clone(house), Arc::clone(&live.open).lock_owned().await);
    let restored = blocking(move || {
        let open = place.as_mut()?;
        Some(open.sandbox.restore(&recorded, &Stored(house.store.as_ref())))
    });
    match restored.await? {
        None => Err(Stopped::Cancelled),
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(Stopped::failed(ErrorCategory::Sandbox, error)),
    }
}

/// Inverse entries for what an unfinished try had changed: the fresh sandbox does not have it.
async fn take_back(
    house: &Arc<House>,
    run: &JobRun,
    plan: &Plan,
    handle: &ChangesetHandle,
    recorded: Vec<NetChange>,
) -> Result<(), Stopped> {
    let effect = run.enter()?;
    let new = NewCall {
        attempt: plan.attempt,
        node: TAKE_BACK.to_owned(),
        tool: TAKE_BACK.to_owned(),
        requested: Value::Null,
        effective: Value::Null,
    };
    let call = house.store.begin_call(&effect, &run.claim(), new).await?;
    let changes = recorded.iter().flat_map(|change| {
        domain::inverse(change).into_iter().map(|draft| NewChange {
            id: ChangeId::from_u128(house.ids.ulid()),
            call: call.no,
            root: change.root,
            base: change.base,
            draft,
        })
    });
    let outcome = CallOutcome {
        attempt: plan.attempt,
        no: call.no,
        end: CallEnd {
            state: CallState::Ok,
            duration_ms: 0,
            exit: None,
            error: None,
            result: json!({ "paths": recorded.len() }),
            isolation: None,
            stdout: None,
            stderr: None,
        },
        changeset: Some(handle.id()),
        changes: changes.collect(),
        contents: Vec::new(),
    };
    house.store.end_call(By::Effect(&effect), &run.claim(), outcome).await?;
    Ok(())
}

/// The plan's command.
pub(super) fn task_of(plan: &Plan) -> Task {
    let command = &plan.spec.task;
    Task {
        node: execute_node().to_owned(),
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
) -> Result<(), Stopped> {
    let finished = command::run(house, run, live, plan, task_of(plan)).await?;
    command::record(house, run, live, plan, &finished, None).await?;
    match finished.failure() {
        None => Ok(()),
        Some(message) => Err(Stopped::failed(finished.category(), message)),
    }
}

/// Runs every check, each on the plan's changes and none upon what another one wrote.
async fn validate(house: &Arc<House>, run: &JobRun, live: &Arc<LiveRun>, plan: &Plan) -> Result<(), Stopped> {
    if plan.spec.validations.is_empty() {
        return Ok(());
    }
    let present = net_hash(&fold(&house.entries(plan).await?)).to_string();
    let mut validations: Vec<&Validation> = plan.spec.validations.iter().collect();
    validations.sort_by(|a, b| (a.mode, &a.name).cmp(&(b.mode, &b.name)));
    for validation in validations {
        let task = Task {
            node: format!("validate/{}", validation.name),
            tool: VALIDATE,
            run: validation.run.clone(),
            root: validation.root,
            cwd: validation.cwd.clone(),
            timeout: Some(Duration::from_secs(validation.timeout_s)),
            network: plan.spec.task.network,
            env: plan.spec.task.env.clone(),
            pass_env: plan.spec.task.pass_env.clone(),
            writable: Vec::new(),
        };
        let finished = command::run(house, run, live, plan, task).await?;
        let result = result_of(house, plan, validation, &finished, &present);
        let result = serde_json::to_value(result).unwrap_or(Value::Null);
        command::record(house, run, live, plan, &finished, Some(result)).await?;
    }
    Ok(())
}

fn result_of(
    house: &House,
    plan: &Plan,
    validation: &Validation,
    finished: &Finished,
    present: &str,
) -> ValidationResult {
    let outcome = match finished.state() {
        CallState::Ok => Outcome::Passed,
        CallState::Failed if finished.exit().is_some() => Outcome::Failed,
        CallState::Failed
        | CallState::TimedOut
        | CallState::Refused
        | CallState::Cancelled
        | CallState::Running => Outcome::Errored,
    };
    let message = house.redactor.redact_text(&finished.last_words(MESSAGE_BYTES_MAX));
    ValidationResult {
        validation: validation.name.clone(),
        mode: validation.mode,
        outcome,
        message,
        duration_ms: finished.duration_ms(),
        attempt: plan.attempt,
        call: finished.call().no,
        net_hash: present.to_owned(),
    }
}

/// Changes what is known of the open sandbox.
async fn with_open(live: &LiveRun, change: impl FnOnce(&mut Open)) -> Result<(), Stopped> {
    live.open.lock().await.as_mut().map(change).ok_or(Stopped::Cancelled)
}

/// Runs what blocks on a thread that may.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Stopped::failed(ErrorCategory::Internal, error))
}
