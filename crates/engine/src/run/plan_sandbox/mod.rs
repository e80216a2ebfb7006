//! The sandbox that a run works in: opened, brought to where the plan stood, closed.
//!
//! # Invariants
//! What an unfinished try had changed is taken back by inverse entries before the next one begins.

pub(crate) mod content;
pub(crate) mod location;
pub(crate) mod retained;
pub(crate) mod revert;

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{
    CallEnd, CallState, ChangeId, ErrorCategory, NetChange, NewCall, NewChange, NotCaptured, Plan, RootNo,
    SandboxRecord,
};
use sandbox::descriptors::wait_for_room;
use sandbox::{Choice, OpenError, OpenRequest, RootSpec, Sandbox};
use serde_json::{Value, json};
use store::{By, Staged};

use super::call::command;
use super::context::Site;
use super::state::{LiveRun, Open, Reach};
use super::{Stopped, sandbox_category};
use crate::engine::House;
use crate::plan::create::path_of;
use crate::query::effective_changes::{TAKE_BACK, taking_back};
use content::{Staging, Stored};
use revert::Back;
use worker::EndedCall;
use worker::JobRun;

/// Opens the sandbox; or again the one that is kept of this attempt, whose note is given back.
pub(crate) async fn open(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
) -> Result<Option<String>, Stopped> {
    let effect = run.enter()?;
    let request = open_request(house, plan)?;
    let mut place = Arc::clone(&live.open).lock_owned().await;
    let (house, plan, scope) = (Arc::clone(house), plan.clone(), run.scope().clone());
    let (opening, opened_by) = (Arc::clone(&house), Arc::clone(live));
    let watch = house.watch_copy(plan.id);
    // The place goes with the thread: whoever winds down waits for it, and finds what it opened.
    let opened = blocking(move || {
        // A weaker sandbox must not be taken because descriptors ran out for a moment.
        wait_for_room(|| scope.is_cancelled())
            .map_err(|source| OpenError::Directory { dir: request.dir.clone(), source })?;
        let (sandbox, note) = location::open(&request, &watch, &|| scope.is_cancelled())?;
        let sandbox = sandbox.hiding(opening.contexts.hidden().clone());
        let record = record_of(&opening, &plan, &sandbox);
        let staging = Arc::new(Staging::new(Arc::clone(&opening.store)));
        opened_by.opened(sandbox.keeper().map(|keeper| Reach { keeper, staging: Arc::clone(&staging) }));
        *place = Some(Open {
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
    let (record, note) = opened.await?.map_err(|error: OpenError| {
        if matches!(error, OpenError::Stopped) {
            return Stopped::Cancelled;
        }
        Stopped::failed(sandbox_category(&error), error)
    })?;
    house.store.sandbox_opened(&effect, &run.claim(), record).await?;
    Ok(note)
}

pub(crate) fn open_request(house: &House, plan: &Plan) -> Result<OpenRequest, Stopped> {
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
        tree: None,
    }
}

/// Closes the sandbox of nodes that are done anew; what a stopped call left in it is recorded first.
pub(crate) async fn close(site: &Site<'_>) -> Result<(), Stopped> {
    site.end_open_calls().await?;
    remove(site.live).await
}

async fn remove(live: &LiveRun) -> Result<(), Stopped> {
    let mut place = Arc::clone(&live.open).lock_owned().await;
    let closed = blocking(move || place.take().map_or(Ok(()), |open| open.sandbox.close()));
    closed.await?.map_err(|error| Stopped::failed(ErrorCategory::Sandbox, error))
}

/// Closes a sandbox that was kept, which is no longer worth it.
pub(crate) async fn discard(live: &LiveRun) -> Result<(), Stopped> {
    with_open(live, |open| {
        open.kept = None;
        // What cannot be unmarked is found by `gc`, and is no worse than before.
        let _ = open.sandbox.keep_no_more();
    })
    .await?;
    remove(live).await
}

/// The recorded changes into a fresh sandbox; their bases stay as they were recorded.
pub(crate) async fn put_back(
    house: &Arc<House>,
    live: &Arc<LiveRun>,
    recorded: Vec<NetChange>,
) -> Result<(), Stopped> {
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

/// Inverse entries for what unfinished nodes had changed: the fresh sandbox does not have it.
pub(crate) async fn take_back(
    house: &Arc<House>,
    run: &JobRun,
    live: &LiveRun,
    plan: &Plan,
    (back, contents): (Vec<Back>, Vec<Staged>),
    nodes: &BTreeSet<String>,
) -> Result<(), Stopped> {
    let changeset = live.changeset(run, TAKE_BACK).await?;
    let effect = run.enter()?;
    let new = NewCall {
        attempt: plan.attempt,
        node: TAKE_BACK.to_owned(),
        tool: TAKE_BACK.to_owned(),
        requested: taking_back(nodes),
        effective: Value::Null,
    };
    let call = house.store.begin_call(&effect, &run.claim(), new).await?;
    let paths = back.len();
    let changes = back.into_iter().map(|Back { root, base, draft }| NewChange {
        id: ChangeId::from_u128(house.ids.ulid()),
        call: call.no,
        root,
        base,
        draft,
    });
    let end = house.ended(call.started, (CallState::Ok, None, json!({ "paths": paths })));
    let ended = EndedCall::new(&call, CallEnd { duration_ms: 0, ..end }).with_contents(contents);
    changeset.record_call_end(By::Effect(&effect), ended, changes.collect()).await?;
    live.close_changeset(TAKE_BACK).await
}

/// Changes what is known of the open sandbox.
pub(crate) async fn with_open(live: &LiveRun, change: impl FnOnce(&mut Open)) -> Result<(), Stopped> {
    live.open.lock().await.as_mut().map(change).ok_or(Stopped::Cancelled)
}

/// Runs what blocks on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Stopped::failed(ErrorCategory::Internal, error))
}
