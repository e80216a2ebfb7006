//! How a run is left: what its interrupted command had changed is captured, within a bound, and what its sandbox held
//! goes when the end of the run is stored.
//!
//! # Invariants
//! 1. Nothing is deleted unless what it held is stored. The sandbox of an interrupted run is marked as kept before
//!    anything else is done, and unmarked when the store has taken the end of the call. So it stays, however this is
//!    broken off: by its bound, by a store that refuses, by the end of the process.
//! 2. The last capture takes [`capture_wait`](super::super::EngineOptions::capture_wait) at most, and so the run comes to
//!    its end. What was not captured by then is told in the history of the plan, with the place of the sandbox.
//! 3. A run whose job has another owner by now stores nothing, and keeps nothing for later: the other one does the work.
//! 4. No thread of the runtime is blocked, and nobody waits for the deletion: see [`clear`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    CallEnd, CallState, Detail, Does, ErrorCategory, ErrorId, JobState, KeptOutput, NewError, Phase, Plan,
    StepId, ToolCall, TreeCompared,
};
use sandbox::{CapturedChange, Keeper, Rung};
use serde_json::Value;
use store::{By, Staged};
use sync::primitives::lock;
use sync::{CancelReason, Finisher};
use tokio::time::{Instant, timeout, timeout_at};

use super::call::sandbox_call::{CallMark, Leftover, STOPPED};
use super::plan_sandbox::blocking;
use super::plan_sandbox::location;
use super::state::{LiveRun, Open, Reach};
use crate::apply::check_validity::{PlanTrees, named_places};
use crate::engine::House;
use crate::maintenance::retained_sandboxes::{KEPT_IN, kept_in};
use crate::query::details::ASK_MODEL;
use worker::JobRun;
use worker::{EndedCall, PlanError};

/// How many entries of the user's tree are compared at the end of a plan that can reach nothing outside.
const ENTRIES_MAX: usize = 1000;
/// How long the comparison of a whole tree may take.
const COMPARE_WAIT: Duration = Duration::from_secs(10);
/// How many changed files are named.
const NAMED_MAX: usize = 20;

/// How long the store may take for each of the last words about a sandbox.
pub(crate) const STORE_WAIT: Duration = Duration::from_secs(20);

/// Captures what an interrupted command had changed. One whose changes are not stored by then is kept.
pub(crate) async fn wind_down(
    house: &Arc<House>,
    run: &JobRun,
    live: &LiveRun,
    finisher: &Finisher,
    interrupted: Option<CancelReason>,
) {
    let until = Instant::now() + house.options.capture_wait;
    let is_lost = interrupted == Some(CancelReason::LeaseLost);
    let reach = live.reach().filter(|_| !is_lost);
    let mut marked = match reach.clone().filter(|_| interrupted.is_some()) {
        Some(reach) => mark_kept(reach.keeper).await,
        None => None,
    };
    let Ok(mut place) = timeout_at(until, Arc::clone(&live.open).lock_owned()).await else {
        if let Some(reach) = reach {
            leave_kept(house, run, finisher, reach).await;
        }
        return;
    };
    let Some(mut open) = place.take() else {
        unmark(marked).await;
        if interrupted == Some(CancelReason::User) {
            tell_left(house, run).await;
        }
        return;
    };
    let is_owner = !is_lost && still_owns(house, run).await;
    for call in std::mem::take(&mut open.looking).iter().filter(|_| is_owner) {
        // It changed nothing: there is nothing to capture, and nothing is lost if the store does not take its end.
        let last = LastCall { house, run, finisher, interrupted, call };
        let _ = last.store(last.call_end(None, [None, None]), Stores::End).await;
    }
    let left = match open.mark.clone() {
        Some(mark) if is_owner => {
            if marked.is_none()
                && let Some(keeper) = open.sandbox.keeper()
            {
                marked = mark_kept(keeper).await;
            }
            let last = LastCall { house, run, finisher, interrupted, call: mark.call() };
            last.end(open, &mark, until).await
        }
        Some(_) | None => Left::Done(open),
    };
    match left {
        Left::Done(open) => {
            let (is_kept, mut record) = (open.kept.is_some(), open.record.clone());
            record.tree = compare_tree(house, run, &open).await;
            *place = Some(open);
            if !is_kept {
                unmark(marked).await;
            }
            // The record is that of the present owner's sandbox.
            if !is_kept && is_owner {
                record.closed = Some(house.wall());
                let _ = timeout(STORE_WAIT, house.store.sandbox_closed(record)).await;
            }
        }
        Left::Lost(open) => {
            let was_kept = open.kept.is_some();
            *place = Some(open);
            if !was_kept {
                unmark(marked).await;
            }
        }
        Left::Kept => {}
    }
}

/// What changed in the user's tree while the plan worked, and not by it. Of a plan that can reach nothing outside only so much
/// is looked at that its end does not depend on how large the tree is.
async fn compare_tree(house: &House, run: &JobRun, open: &Open) -> Option<TreeCompared> {
    if run.job().phase != Phase::Execute || open.sandbox.rung() == Rung::InPlace {
        return None;
    }
    let stamp = open.sandbox.stamp().ok()?;
    let (trees, plan) = (PlanTrees::new(house, &open.plan), open.plan.clone());
    let until = std::time::Instant::now() + COMPARE_WAIT;
    let compared = blocking(move || {
        let (entries_max, asks_git) =
            if reaches_out(&plan) { (usize::MAX, true) } else { (ENTRIES_MAX, false) };
        let moves = trees.compare(&stamp, entries_max, asks_git, &|| std::time::Instant::now() > until);
        let named: Vec<String> = named_places(&plan, &moves).take(NAMED_MAX).collect();
        let more = moves.more + moves.places.len().saturating_sub(named.len());
        TreeCompared { moved: named, more: u64::try_from(more).unwrap_or(u64::MAX), is_whole: moves.is_whole }
    });
    compared.await.ok()
}

/// Whether something of the plan could change the user's tree: it uses the network, speaks to an agent program, writes
/// elsewhere, or has weaker walls.
fn reaches_out(plan: &Plan) -> bool {
    let speaks = plan.spec.steps.iter().any(|step| matches!(step.does, Does::External(_)));
    let writes = plan.spec.commands().any(|command| !command.writable.is_empty());
    plan.spec.uses_network() || speaks || writes || !plan.spec.isolation_required
}

/// Deletes what the run had open, unless it is kept. Nobody waits for it: what a process that ends does not get done is
/// swept by the next.
pub(crate) fn clear(live: Arc<LiveRun>) {
    drop(tokio::task::spawn_blocking(move || {
        if let Some(open) = Arc::clone(&live.open).blocking_lock_owned().take() {
            let _ = open.sandbox.close();
        }
    }));
}

/// Who works in the sandbox is late: it stays when they have done, which shall be soon.
async fn leave_kept(house: &Arc<House>, run: &JobRun, finisher: &Finisher, reach: Reach) {
    reach.staging.end();
    let dir = reach.keeper.dir().to_owned();
    let _ = mark_kept(reach.keeper).await;
    let why = late(house, &dir);
    let calls = timeout(STORE_WAIT, house.store.calls(run.claim().plan)).await;
    let calls = calls.ok().and_then(Result::ok).unwrap_or_default();
    let is_it = |call: &&ToolCall| call.end.is_none() && call.new.tool != ASK_MODEL;
    let Some(call) = calls.iter().rfind(is_it) else {
        return tell(house, run, None, &why, &dir).await;
    };
    let last = LastCall { house, run, finisher, interrupted: None, call };
    last.end_kept(&why, &dir).await;
}

/// What became of the sandbox.
enum Left {
    /// What it held is stored, or it is kept and the plan knows.
    Done(Open),
    /// Another owner has the job.
    Lost(Open),
    /// It is kept; who works in it has it still.
    Kept,
}

/// The call that was interrupted.
struct LastCall<'a> {
    house: &'a Arc<House>,
    run: &'a JobRun,
    finisher: &'a Finisher,
    interrupted: Option<CancelReason>,
    call: &'a ToolCall,
}

impl LastCall<'_> {
    /// Captures what it left, and stores its end.
    async fn end(&self, open: Open, mark: &CallMark, until: Instant) -> Left {
        let dir = open.sandbox.dir().to_owned();
        let (was_kept, staging) = (open.kept.is_some(), Arc::clone(&open.staging));
        let known = open.found.len();
        let captured = match timeout_at(until, captured_last(self.house, open, mark)).await {
            Ok(captured) => captured,
            Err(_) => {
                // Its thread is not waited for, and shall not work on for long.
                staging.end();
                None
            }
        };
        let Some((mut open, Leftover { changes, outputs })) = captured else {
            self.end_kept(&late(self.house, &dir), &dir).await;
            return Left::Kept;
        };
        let end = self.call_end(open.kept.as_deref(), outputs);
        let contents = open.staging.contents();
        let has_more = changes.len() > known;
        match self.store(end, Stores::Changes { mark, changes, contents }).await {
            Ok(()) => open.unmark(),
            // The store took the end with all that was found by then, and its answer did not arrive.
            Err(Unstored::Ended(_)) if !has_more => open.unmark(),
            Err(Unstored::LeaseLost) => {
                if !was_kept {
                    open.kept = None;
                }
                return Left::Lost(open);
            }
            Err(Unstored::Ended(why) | Unstored::Failed(why)) => {
                // The place of a run that ends: what follows cannot be told to anybody but by the history.
                let kept = blocking(move || {
                    keep_interrupted(&mut open, &why);
                    open
                });
                match kept.await {
                    Ok(kept) => open = kept,
                    Err(_) => return Left::Kept,
                }
            }
        }
        if let Some(why) = open.kept.clone().filter(|_| !was_kept) {
            self.tell(&why, &dir).await;
        }
        Left::Done(open)
    }

    /// Stores that it ended, and that what it changed is in the sandbox only.
    async fn end_kept(&self, why: &str, dir: &Path) {
        let end = self.call_end(Some(why), [None, None]);
        let _ = self.store(end, Stores::End).await;
        self.tell(why, dir).await;
    }

    fn call_end(&self, kept: Option<&str>, [stdout, stderr]: [Option<KeptOutput>; 2]) -> CallEnd {
        let interrupted = self.interrupted.map(|reason| reason.to_string());
        CallEnd {
            state: if kept.is_some() { CallState::Failed } else { CallState::Cancelled },
            duration_ms: self.house.wall().0.saturating_sub(self.call.started.0),
            exit: None,
            error: kept.map(str::to_owned).or(interrupted).or_else(|| Some(STOPPED.to_owned())),
            result: Value::Null,
            isolation: None,
            stdout,
            stderr,
        }
    }

    async fn store(&self, end: CallEnd, stores: Stores<'_>) -> Result<(), Unstored> {
        let (by, context) = (By::Finisher(self.finisher), self.run.context());
        let ended = EndedCall::new(self.call, end);
        let stored = async {
            match stores {
                Stores::End => context.end_call(by, ended).await,
                Stores::Changes { mark, changes, contents } => {
                    mark.store_end(self.house, context, by, ended.with_contents(contents), changes).await
                }
            }
        };
        match timeout(STORE_WAIT, stored).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(PlanError::LeaseLost(_))) => Err(Unstored::LeaseLost),
            Ok(Err(error)) if error.is_call_ended() => Err(Unstored::Ended(error.to_string())),
            Ok(Err(error)) => Err(Unstored::Failed(error.to_string())),
            Err(_) => Err(Unstored::Failed("the store does not answer".to_owned())),
        }
    }

    async fn tell(&self, why: &str, dir: &Path) {
        tell(self.house, self.run, Some(self.call), why, dir).await;
    }
}

/// What is stored of the call.
enum Stores<'a> {
    /// That it ended.
    End,
    /// The same, and what it changed.
    Changes { mark: &'a CallMark, changes: Vec<CapturedChange>, contents: Vec<Staged> },
}

/// Why the end of a call was not stored.
enum Unstored {
    LeaseLost,
    /// It has ended already, and otherwise.
    Ended(String),
    Failed(String),
}

/// Marks the sandbox as kept, without waiting for any disk. Gives back who can take that back; none when it was kept
/// before.
async fn mark_kept(keeper: Keeper) -> Option<Keeper> {
    let marked = blocking(move || keeper.keep_meanwhile().is_ok_and(|is_new| is_new).then_some(keeper));
    marked.await.ok().flatten()
}

async fn unmark(marked: Option<Keeper>) {
    if let Some(keeper) = marked {
        // What cannot be unmarked is found by `gc`, and is no worse than before.
        let _ = blocking(move || keeper.keep_no_more()).await;
    }
}

/// Whether the store knows of no other owner. One that does not answer is asked again by what is to be stored.
async fn still_owns(house: &House, run: &JobRun) -> bool {
    let claim = run.claim();
    match timeout(STORE_WAIT, house.store.job(claim.job)).await {
        Ok(Ok(job)) => job.state == JobState::Running && job.fence == claim.fence,
        Ok(Err(_)) | Err(_) => true,
    }
}

fn late(house: &House, dir: &Path) -> String {
    let wait = domain::shown_wait(house.options.capture_wait);
    kept_words(&format!("it took longer than {wait}"), dir)
}

fn kept_words(why: &str, dir: &Path) -> String {
    let dir = dir.display();
    format!("what it changed could not be captured: {why}; nothing is lost, its sandbox is kept in {dir}")
}

/// Tells in the history of the plan that a sandbox is kept, and where.
async fn tell(house: &House, run: &JobRun, call: Option<&ToolCall>, why: &str, dir: &Path) {
    let phase = run.job().phase;
    let step = match call {
        Some(call) => StepId { attempt: call.new.attempt, node: call.new.node.clone(), visit: 1 },
        None => {
            let plan = timeout(STORE_WAIT, house.store.plan(run.claim().plan)).await;
            let attempt = plan.ok().and_then(Result::ok).map_or(1, |plan| plan.attempt);
            StepId { attempt, node: phase.to_string(), visit: 1 }
        }
    };
    let why = house.redactor.redact_text(why);
    *lock(&house.last_failure) = Some(why.clone());
    let id = ErrorId::from_u128(house.ids.ulid());
    let detail = Detail::from([(KEPT_IN.to_owned(), dir.display().to_string().into())]);
    let mut error = NewError::new(id, phase, step, ErrorCategory::Resource, why).with_detail(detail);
    if let Some(call) = call {
        error = error.with_tool_call(call.no);
    }
    // What the store does not take is told by `doctor`, which finds the sandbox.
    let _ = timeout(STORE_WAIT, house.recovery.record_error(&run.claim(), error)).await;
}

/// Tells of a sandbox that an earlier owner of a cancelled job kept: nobody goes on with the plan, so nobody else does.
async fn tell_left(house: &Arc<House>, run: &JobRun) {
    let Ok(Ok(plan)) = timeout(STORE_WAIT, house.store.plan(run.claim().plan)).await else { return };
    let first = house.sandbox_home(&plan);
    let Ok(Some(dir)) = blocking(move || location::kept(&first)).await else { return };
    let history = timeout(STORE_WAIT, house.recovery.history(plan.id)).await;
    let Ok(Ok(history)) = history else { return };
    let dir_text = dir.display().to_string();
    let is_told = history.records().any(|record| kept_in(&record.error) == Some(dir_text.as_str()));
    if !is_told {
        let why = kept_words("the process that was at it is gone", &dir);
        tell(house, run, None, &why, &dir).await;
    }
}

/// Keeps the sandbox for what an interrupted command had changed. How the command would have ended nobody knows.
fn keep_interrupted(open: &mut Open, why: &str) {
    if open.kept.is_none() && open.sandbox.keep("").is_ok() {
        open.kept = Some(kept_words(why, open.sandbox.dir()));
    }
}

/// What the call left in the sandbox and in its logs. What cannot be read any more is not there.
async fn captured_last(house: &Arc<House>, mut open: Open, mark: &CallMark) -> Option<(Open, Leftover)> {
    let (house, mark) = (Arc::clone(house), mark.clone());
    let captured = tokio::task::spawn_blocking(move || {
        // What is put back goes with the sandbox.
        if !mark.records() {
            let left = Leftover::of_logs(&house, &open, &mark);
            return (open, left);
        }
        let left = Leftover::capture(&house, &mut open, &mark).unwrap_or_else(|stopped| {
            keep_interrupted(&mut open, &stopped.shown());
            // What is captured later is captured whole.
            Leftover::of_logs(&house, &open, &mark)
        });
        (open, left)
    });
    captured.await.ok()
}
