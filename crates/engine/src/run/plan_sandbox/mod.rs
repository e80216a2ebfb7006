//! Opens the sandbox of a run, restores the recorded changes of the plan in it, and closes it.
//!
//! # Invariants
//! The changes of an unfinished try are reverted by inverse entries before the next one begins.

pub(crate) mod content;
pub(crate) mod location;
pub(crate) mod retained;
pub(crate) mod revert;

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{
    CallEnd, CallState, CaptureOmissions, ChangeId, ErrorCategory, NetChange, NewCall, NewChange, Plan,
    RootIndex, SandboxRecord,
};
use sandbox::descriptors::wait_for_room;
use sandbox::{OpenRequest, RootSpec, Sandbox, SandboxOpenError, StrategyChoice};
use serde_json::{Value, json};
use store::{CallAuthority, StagedContent};

use super::call::command;
use super::context::{NodeContext, RunContext};
use super::state::{RunState, SandboxHandle, SandboxSession};
use super::{RunError, sandbox_category};
use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::query::effective_changes::{TAKE_BACK, taking_back};
use content::{Staging, StoreContents};
use revert::RevertEntry;
use worker::EndedCall;

/// Opens the sandbox; or the retained one of this attempt again, whose note is returned.
pub(crate) async fn open(run: RunContext<'_>) -> Result<Option<String>, RunError> {
    let RunContext { engine, job, state, plan } = run;
    let effect = job.enter()?;
    let request = open_request(engine, plan)?;
    let mut place = Arc::clone(&state.session).lock_owned().await;
    let (engine, plan, scope) = (Arc::clone(engine), plan.clone(), job.scope().clone());
    let (opening, opened_by) = (Arc::clone(&engine), Arc::clone(state));
    let watch = engine.watch_copy(plan.id);
    // The thread holds the slot of the sandbox: a shutdown waits for it, and finds the opened sandbox.
    let opened = blocking(move || {
        // A weaker sandbox must not be taken because descriptors ran out for a moment.
        wait_for_room(|| scope.is_cancelled())
            .map_err(|source| SandboxOpenError::Directory { dir: request.dir.clone(), source })?;
        let (sandbox, note) = location::open(&request, &watch, &|| scope.is_cancelled())?;
        let sandbox = sandbox.with_hidden(opening.contexts.hidden().clone());
        let record = record_of(&opening, &plan, &sandbox);
        let staging = Arc::new(Staging::new(Arc::clone(&opening.store)));
        opened_by.opened(
            sandbox.retain_handle().map(|keeper| SandboxHandle { keeper, staging: Arc::clone(&staging) }),
        );
        *place = Some(SandboxSession {
            plan,
            sandbox,
            record: record.clone(),
            mark: None,
            unattended: None,
            looking: Vec::new(),
            staging,
            kept: None,
            found: Vec::new(),
        });
        Ok((record, note))
    });
    let (record, note) = opened.await?.map_err(|error: SandboxOpenError| {
        if matches!(error, SandboxOpenError::Stopped) {
            return RunError::Cancelled;
        }
        RunError::failed(sandbox_category(&error), error)
    })?;
    engine.store.sandbox_opened(&effect, &job.claim(), record).await?;
    Ok(note)
}

pub(crate) fn open_request(engine: &EngineInner, plan: &Plan) -> Result<OpenRequest, RunError> {
    let choice: StrategyChoice =
        plan.spec.sandbox.parse().map_err(|error| RunError::failed(ErrorCategory::InvalidInput, error))?;
    let roots = plan.projects.iter().zip(0..).map(|(project, no)| RootSpec {
        no: RootIndex(no),
        path: path_of(&project.root),
        read_only: project.read_only,
    });
    let (dir, include) = (engine.sandbox_home(plan), vec![".env*".to_owned()]);
    Ok(OpenRequest { dir, roots: roots.collect(), choice, include })
}

fn record_of(engine: &EngineInner, plan: &Plan, sandbox: &Sandbox) -> SandboxRecord {
    let passed_over = sandbox.skipped_strategies().iter();
    SandboxRecord {
        plan: plan.id,
        attempt: plan.attempt,
        rung: sandbox.strategy().as_str().to_owned(),
        passed_over: passed_over.map(|over| (over.rung.as_str().to_owned(), over.why.clone())).collect(),
        dir: command::bytes_of(sandbox.dir()),
        boot: engine.boot,
        opened: engine.wall(),
        closed: None,
        not_captured: CaptureOmissions::default(),
        tree: None,
    }
}

/// Closes the sandbox of nodes that are done again; the changes of a stopped call in it are recorded first.
pub(crate) async fn close(context: &NodeContext<'_>) -> Result<(), RunError> {
    context.end_open_calls().await?;
    remove(context.state).await
}

async fn remove(state: &RunState) -> Result<(), RunError> {
    let mut place = Arc::clone(&state.session).lock_owned().await;
    let closed = blocking(move || place.take().map_or(Ok(()), |session| session.sandbox.close()));
    closed.await?.map_err(|error| RunError::failed(ErrorCategory::Sandbox, error))
}

/// Closes a retained sandbox that is not needed any more.
pub(crate) async fn discard(state: &RunState) -> Result<(), RunError> {
    with_open(state, |session| {
        session.kept = None;
        // `gc` finds a sandbox that cannot be unmarked, which is no worse than before.
        let _ = session.sandbox.unretain();
    })
    .await?;
    remove(state).await
}

/// The recorded changes into a fresh sandbox; their bases stay as they were recorded.
pub(crate) async fn put_back(run: RunContext<'_>, recorded: Vec<NetChange>) -> Result<(), RunError> {
    let (engine, mut place) = (Arc::clone(run.engine), Arc::clone(&run.state.session).lock_owned().await);
    let restored = blocking(move || {
        let session = place.as_mut()?;
        Some(session.sandbox.restore(&recorded, &StoreContents(engine.store.as_ref())))
    });
    match restored.await? {
        None => Err(RunError::Cancelled),
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(RunError::failed(ErrorCategory::Sandbox, error)),
    }
}

/// Inverse entries for what unfinished nodes had changed: the fresh sandbox does not have it.
pub(crate) async fn revert_entries(
    run: RunContext<'_>,
    (back, contents): (Vec<RevertEntry>, Vec<StagedContent>),
    nodes: &BTreeSet<String>,
) -> Result<(), RunError> {
    let RunContext { engine, job, state, plan } = run;
    let changeset = state.changeset(job, TAKE_BACK).await?;
    let effect = job.enter()?;
    let new = NewCall {
        attempt: plan.attempt,
        node: TAKE_BACK.to_owned(),
        tool: TAKE_BACK.to_owned(),
        requested: taking_back(nodes),
        effective: Value::Null,
    };
    let call = engine.store.begin_call(&effect, &job.claim(), new).await?;
    let paths = back.len();
    let changes = back.into_iter().map(|RevertEntry { root, base, draft }| NewChange {
        id: ChangeId::from_u128(engine.ids.ulid()),
        call: call.no,
        root,
        base,
        draft,
    });
    let end = engine.ended(call.started, (CallState::Ok, None, json!({ "paths": paths })));
    let ended = EndedCall::new(&call, CallEnd { duration_ms: 0, ..end }).with_contents(contents);
    changeset.record_call_end(CallAuthority::Effect(&effect), ended, changes.collect()).await?;
    state.close_changeset(TAKE_BACK).await
}

/// Changes what is known of the open sandbox.
pub(crate) async fn with_open(
    state: &RunState,
    change: impl FnOnce(&mut SandboxSession),
) -> Result<(), RunError> {
    state.session.lock().await.as_mut().map(change).ok_or(RunError::Cancelled)
}

/// Runs what blocks on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| RunError::failed(ErrorCategory::Internal, error))
}
