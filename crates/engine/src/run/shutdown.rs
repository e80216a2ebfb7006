//! Shuts down a run. Captures the changes of its interrupted command, within a time limit, and clears its
//! sandbox when the end of the run is stored.
//!
//! # Invariants
//! 1. Nothing is deleted unless its content is stored. The sandbox of an interrupted run is marked as
//!    retained before anything else is done. The mark is removed when the store has taken the end of the
//!    call. So the sandbox stays, however the shutdown is interrupted: by its bound, by a store that refuses,
//!    by the end of the process.
//! 2. The last capture takes [`capture_wait`](super::super::EngineOptions::capture_wait) at most, and so the
//!    run comes to its end. The history of the plan records what was not captured by then, with the place
//!    of the sandbox.
//! 3. A run whose job has another owner by now stores nothing, and retains nothing for later: the other one
//!    does the work.
//! 4. No thread of the runtime is blocked, and no task waits for the deletion: see [`clear`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    CallEnd, CallState, Detail, ErrorCategory, ErrorId, JobState, NewError, NodeKind, Phase, Plan, StepId,
    StoredOutput, ToolCall, TreeChanges,
};
use sandbox::{CapturedChange, RetainHandle, SandboxStrategy};
use serde_json::Value;
use store::{CallAuthority, StagedContent};
use sync::primitives::lock;
use sync::{CancelReason, Finisher};
use tokio::time::{Instant, timeout, timeout_at};

use super::call::capture::CallLeftovers;
use super::call::sandbox_call::{CallMark, STOPPED};
use super::plan_sandbox::blocking;
use super::plan_sandbox::location;
use super::state::{RunState, SandboxHandle, SandboxSession};
use crate::apply::check_validity::{PlanTrees, named_places};
use crate::engine::EngineInner;
use crate::maintenance::retained_sandboxes::{KEPT_IN, retained_dir_of};
use crate::query::details::ASK_MODEL;
use worker::JobRun;
use worker::{EndedCall, PlanError};

/// The number of entries of the user's tree that are compared at the end of a plan that can reach nothing
/// outside.
const ENTRIES_MAX: usize = 1000;
/// The time that the comparison of a whole tree may take.
const COMPARE_WAIT: Duration = Duration::from_secs(10);
/// The maximum number of changed files that are named.
const NAMED_MAX: usize = 20;

/// The time that the store may take for each of the last words about a sandbox.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(20);

/// The shutdown of a run.
#[derive(Clone, Copy)]
pub(crate) struct RunShutdown<'a> {
    pub(crate) engine: &'a Arc<EngineInner>,
    pub(crate) job: &'a JobRun,
    /// The right to store the last records of the run.
    pub(crate) finisher: &'a Finisher,
    /// The reason of the interruption; `None` if the run came to its end.
    pub(crate) interrupted: Option<CancelReason>,
}

/// Captures the changes of an interrupted command. A sandbox whose changes are not stored by then is
/// retained.
pub(crate) async fn wind_down(shutdown: RunShutdown<'_>, state: &RunState) {
    let RunShutdown { engine, interrupted, .. } = shutdown;
    let until = Instant::now() + engine.options.capture_wait;
    let is_lost = interrupted == Some(CancelReason::LeaseLost);
    let reach = state.reach().filter(|_| !is_lost);
    let mut marked = match reach.clone().filter(|_| interrupted.is_some()) {
        Some(reach) => mark_kept(reach.keeper).await,
        None => None,
    };
    let Ok(mut place) = timeout_at(until, Arc::clone(&state.session).lock_owned()).await else {
        if let Some(reach) = reach {
            retain_sandbox(shutdown, reach).await;
        }
        return;
    };
    let Some(mut session) = place.take() else {
        unmark(marked).await;
        if interrupted == Some(CancelReason::User) {
            shutdown.report_left().await;
        }
        return;
    };
    let is_owner = !is_lost && shutdown.still_owns().await;
    for call in std::mem::take(&mut session.looking).iter().filter(|_| is_owner) {
        // It changed nothing: there is nothing to capture, and nothing is lost if the store does not take its end.
        let last = InterruptedCall { shutdown, call };
        let _ = last.store(last.call_end(None, [None, None]), CallEndWrite::End).await;
    }
    let left = match session.mark.clone() {
        Some(mark) if is_owner => {
            if marked.is_none()
                && let Some(keeper) = session.sandbox.retain_handle()
            {
                marked = mark_kept(keeper).await;
            }
            let last = InterruptedCall { shutdown, call: mark.call() };
            last.end(session, &mark, until).await
        }
        Some(_) | None => SandboxOutcome::Done(session),
    };
    match left {
        SandboxOutcome::Done(session) => {
            let (is_kept, mut record) = (session.kept.is_some(), session.record.clone());
            record.tree = shutdown.compare_tree(&session).await;
            *place = Some(session);
            if !is_kept {
                unmark(marked).await;
            }
            // The record is that of the present owner's sandbox.
            if !is_kept && is_owner {
                record.closed = Some(engine.wall());
                let _ = timeout(STORE_WAIT, engine.store.sandbox_closed(record)).await;
            }
        }
        SandboxOutcome::Lost(session) => {
            let was_kept = session.kept.is_some();
            *place = Some(session);
            if !was_kept {
                unmark(marked).await;
            }
        }
        SandboxOutcome::Kept => {}
    }
}

impl RunShutdown<'_> {
    /// Returns the changes in the user's tree that happened while the plan worked, and not by it. For a plan
    /// that can reach nothing outside, the comparison is bounded, so that its end does not depend on the size
    /// of the tree.
    async fn compare_tree(self, session: &SandboxSession) -> Option<TreeChanges> {
        if self.job.job().phase != Phase::Execute || session.sandbox.strategy() == SandboxStrategy::InPlace {
            return None;
        }
        let stamp = session.sandbox.stamp().ok()?;
        let (trees, plan) = (PlanTrees::new(self.engine, &session.plan), session.plan.clone());
        let until = std::time::Instant::now() + COMPARE_WAIT;
        let compared = blocking(move || {
            let (entries_max, asks_git) =
                if reaches_out(&plan) { (usize::MAX, true) } else { (ENTRIES_MAX, false) };
            let moves = trees.compare(&stamp, entries_max, asks_git, &|| std::time::Instant::now() > until);
            let named: Vec<String> = named_places(&plan, &moves).take(NAMED_MAX).collect();
            let more = moves.more + moves.places.len().saturating_sub(named.len());
            TreeChanges {
                moved: named,
                more: u64::try_from(more).unwrap_or(u64::MAX),
                is_whole: moves.is_whole,
            }
        });
        compared.await.ok()
    }

    /// Returns true if the store knows of no other owner. One that does not answer is asked again by what is
    /// to be stored.
    async fn still_owns(self) -> bool {
        let claim = self.job.claim();
        match timeout(STORE_WAIT, self.engine.store.job(claim.job)).await {
            Ok(Ok(job)) => job.state == JobState::Running && job.fence == claim.fence,
            Ok(Err(_)) | Err(_) => true,
        }
    }

    /// Records in the history of the plan that a sandbox is retained, and its path.
    async fn report_retained(self, call: Option<&ToolCall>, why: &str, dir: &Path) {
        let Self { engine, job, .. } = self;
        let phase = job.job().phase;
        let step = match call {
            Some(call) => StepId { attempt: call.new.attempt, node: call.new.node.clone(), visit: 1 },
            None => {
                let plan = timeout(STORE_WAIT, engine.store.plan(job.claim().plan)).await;
                let attempt = plan.ok().and_then(Result::ok).map_or(1, |plan| plan.attempt);
                StepId { attempt, node: phase.to_string(), visit: 1 }
            }
        };
        let why = engine.redactor.redact_text(why);
        *lock(&engine.last_failure) = Some(why.clone());
        let id = ErrorId::from_u128(engine.ids.ulid());
        let detail = Detail::from([(KEPT_IN.to_owned(), dir.display().to_string().into())]);
        let mut error = NewError::new(id, phase, step, ErrorCategory::Resource, why).with_detail(detail);
        if let Some(call) = call {
            error = error.with_tool_call(call.no);
        }
        // If the store refuses it, `doctor` finds the sandbox and reports it.
        let _ = timeout(STORE_WAIT, engine.recovery.record_error(&job.claim(), error)).await;
    }

    /// Records a sandbox that an earlier owner of a cancelled job retained: the plan is not continued, so no
    /// later run records it.
    async fn report_left(self) {
        let Self { engine, job, .. } = self;
        let Ok(Ok(plan)) = timeout(STORE_WAIT, engine.store.plan(job.claim().plan)).await else { return };
        let first = engine.sandbox_home(&plan);
        let Ok(Some(dir)) = blocking(move || location::kept(&first)).await else { return };
        let history = timeout(STORE_WAIT, engine.recovery.history(plan.id)).await;
        let Ok(Ok(history)) = history else { return };
        let dir_text = dir.display().to_string();
        let is_told =
            history.records().any(|record| retained_dir_of(&record.error) == Some(dir_text.as_str()));
        if !is_told {
            let why = retained_message("the process that ran it is gone", &dir);
            self.report_retained(None, &why, &dir).await;
        }
    }
}

/// Returns true if something of the plan could change the user's tree. It uses the network, speaks to an
/// agent program, writes elsewhere, or has weaker walls.
fn reaches_out(plan: &Plan) -> bool {
    let speaks = plan.spec.steps.iter().any(|step| matches!(step.does, NodeKind::External(_)));
    let writes = plan.spec.commands().any(|command| !command.writable.is_empty());
    plan.spec.uses_network() || speaks || writes || !plan.spec.isolation_required
}

/// Deletes the sandbox of the run, unless it is retained. No task waits for it: if the process ends before
/// that, the next one sweeps the rest.
pub(crate) fn clear(state: Arc<RunState>) {
    drop(tokio::task::spawn_blocking(move || {
        if let Some(session) = Arc::clone(&state.session).blocking_lock_owned().take() {
            let _ = session.sandbox.close();
        }
    }));
}

/// Retains the sandbox although a call still works in it: that call is late, and is expected to end soon.
async fn retain_sandbox(shutdown: RunShutdown<'_>, reach: SandboxHandle) {
    let RunShutdown { engine, job, .. } = shutdown;
    reach.staging.end();
    let dir = reach.keeper.dir().to_owned();
    let _ = mark_kept(reach.keeper).await;
    let why = late(engine, &dir);
    let calls = timeout(STORE_WAIT, engine.store.calls(job.claim().plan)).await;
    let calls = calls.ok().and_then(Result::ok).unwrap_or_default();
    let is_it = |call: &&ToolCall| call.end.is_none() && call.new.tool != ASK_MODEL;
    let Some(call) = calls.iter().rfind(is_it) else {
        return shutdown.report_retained(None, &why, &dir).await;
    };
    let last = InterruptedCall { shutdown: RunShutdown { interrupted: None, ..shutdown }, call };
    last.end_kept(&why, &dir).await;
}

/// The outcome of the sandbox.
enum SandboxOutcome {
    /// Its changes are stored, or it is retained and the plan has a record of it.
    Done(SandboxSession),
    /// Another owner has the job.
    Lost(SandboxSession),
    /// It is retained; a late call still works in it.
    Kept,
}

/// The call that was interrupted.
struct InterruptedCall<'a> {
    shutdown: RunShutdown<'a>,
    call: &'a ToolCall,
}

impl InterruptedCall<'_> {
    /// Captures what it left, and stores its end.
    async fn end(&self, session: SandboxSession, mark: &CallMark, until: Instant) -> SandboxOutcome {
        let dir = session.sandbox.dir().to_owned();
        let (was_kept, staging) = (session.kept.is_some(), Arc::clone(&session.staging));
        let known = session.found.len();
        let captured = match timeout_at(until, capture_last(self.shutdown.engine, session, mark)).await {
            Ok(captured) => captured,
            Err(_) => {
                // Its thread is not waited for, and shall not work on for long.
                staging.end();
                None
            }
        };
        let Some((mut session, CallLeftovers { changes, outputs })) = captured else {
            self.end_kept(&late(self.shutdown.engine, &dir), &dir).await;
            return SandboxOutcome::Kept;
        };
        let end = self.call_end(session.kept.as_deref(), outputs);
        let contents = session.staging.contents();
        let has_more = changes.len() > known;
        match self.store(end, CallEndWrite::Changes { mark, changes, contents }).await {
            Ok(()) => session.unmark(),
            // The store took the end with all that was found by then, and its answer did not arrive.
            Err(CallEndError::Ended(_)) if !has_more => session.unmark(),
            Err(CallEndError::LeaseLost) => {
                if !was_kept {
                    session.kept = None;
                }
                return SandboxOutcome::Lost(session);
            }
            Err(CallEndError::Ended(why) | CallEndError::Failed(why)) => {
                // The sandbox of a run that ends: failures from here on can be reported only by the history.
                let kept = blocking(move || {
                    retain_interrupted(&mut session, &why);
                    session
                });
                match kept.await {
                    Ok(kept) => session = kept,
                    Err(_) => return SandboxOutcome::Kept,
                }
            }
        }
        if let Some(why) = session.kept.clone().filter(|_| !was_kept) {
            self.report_retained(&why, &dir).await;
        }
        SandboxOutcome::Done(session)
    }

    /// Stores that it ended, and that what it changed is in the sandbox only.
    async fn end_kept(&self, why: &str, dir: &Path) {
        let end = self.call_end(Some(why), [None, None]);
        let _ = self.store(end, CallEndWrite::End).await;
        self.report_retained(why, dir).await;
    }

    fn call_end(&self, kept: Option<&str>, [stdout, stderr]: [Option<StoredOutput>; 2]) -> CallEnd {
        let interrupted = self.shutdown.interrupted.map(|reason| reason.to_string());
        CallEnd {
            state: if kept.is_some() { CallState::Failed } else { CallState::Cancelled },
            duration_ms: self.shutdown.engine.wall().0.saturating_sub(self.call.started.0),
            exit: None,
            error: kept.map(str::to_owned).or(interrupted).or_else(|| Some(STOPPED.to_owned())),
            result: Value::Null,
            isolation: None,
            stdout,
            stderr,
        }
    }

    async fn store(&self, end: CallEnd, stores: CallEndWrite<'_>) -> Result<(), CallEndError> {
        let (by, context) = (CallAuthority::Finisher(self.shutdown.finisher), self.shutdown.job.context());
        let ended = EndedCall::new(self.call, end);
        let stored = async {
            match stores {
                CallEndWrite::End => context.end_call(by, ended).await,
                CallEndWrite::Changes { mark, changes, contents } => {
                    mark.store_end(self.shutdown.engine, context, by, ended.with_contents(contents), changes)
                        .await
                }
            }
        };
        match timeout(STORE_WAIT, stored).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(PlanError::LeaseLost(_))) => Err(CallEndError::LeaseLost),
            Ok(Err(error)) if error.is_call_ended() => Err(CallEndError::Ended(error.to_string())),
            Ok(Err(error)) => Err(CallEndError::Failed(error.to_string())),
            Err(_) => Err(CallEndError::Failed("the store does not answer".to_owned())),
        }
    }

    async fn report_retained(&self, why: &str, dir: &Path) {
        self.shutdown.report_retained(Some(self.call), why, dir).await;
    }
}

/// The write that stores the end of the call.
enum CallEndWrite<'a> {
    /// That it ended.
    End,
    /// The same, and what it changed.
    Changes { mark: &'a CallMark, changes: Vec<CapturedChange>, contents: Vec<StagedContent> },
}

/// Why the end of a call was not stored.
enum CallEndError {
    LeaseLost,
    /// It has ended already, and otherwise.
    Ended(String),
    Failed(String),
}

/// Marks the sandbox as retained, without waiting for any disk. Returns the handle that can remove the mark;
/// `None` if it was retained before.
async fn mark_kept(keeper: RetainHandle) -> Option<RetainHandle> {
    let marked = blocking(move || keeper.retain().is_ok_and(|is_new| is_new).then_some(keeper));
    marked.await.ok().flatten()
}

async fn unmark(marked: Option<RetainHandle>) {
    if let Some(keeper) = marked {
        // `gc` finds a sandbox that cannot be unmarked, which is no worse than before.
        let _ = blocking(move || keeper.unretain()).await;
    }
}

fn late(engine: &EngineInner, dir: &Path) -> String {
    let wait = domain::format_wait(engine.options.capture_wait);
    retained_message(&format!("it took longer than {wait}"), dir)
}

fn retained_message(why: &str, dir: &Path) -> String {
    let dir = dir.display();
    format!("its changes could not be captured: {why}; nothing is lost, its sandbox is retained in {dir}")
}

/// Retains the sandbox for the changes of an interrupted command. The end that the command would have had is
/// not known.
fn retain_interrupted(session: &mut SandboxSession, why: &str) {
    if session.kept.is_none() && session.sandbox.retain("").is_ok() {
        session.kept = Some(retained_message(why, session.sandbox.dir()));
    }
}

/// Captures the last changes of the call and its logs; what cannot be read any more is left out. `None` if
/// the capture panics.
async fn capture_last(
    engine: &Arc<EngineInner>,
    mut session: SandboxSession,
    mark: &CallMark,
) -> Option<(SandboxSession, CallLeftovers)> {
    let (engine, mark) = (Arc::clone(engine), mark.clone());
    let captured = tokio::task::spawn_blocking(move || {
        // Restored files go with the sandbox.
        if !mark.records() {
            let left = CallLeftovers::of_logs(&engine, &session, &mark);
            return (session, left);
        }
        let left = CallLeftovers::capture(&engine, &mut session, &mark).unwrap_or_else(|stopped| {
            retain_interrupted(&mut session, &stopped.shown());
            // A later capture captures all of it.
            CallLeftovers::of_logs(&engine, &session, &mark)
        });
        (session, left)
    });
    captured.await.ok()
}
