//! One node: admitted, done by its actor, recorded; and again, as often as the recovery says.

use std::time::Duration;

use ::worker::{ChangesetHandle, JobRun, PlanError};
use domain::{
    CallState, Day, DayLimit, ErrorCategory, ErrorId, NewChange, NewError, NewSpend, Phase, Plan,
    RecordedChange, RecoveryAction, RecoveryAdvice, SpendId, SpendKind, StepId,
};
use store::{CallAuthority, JobStore, LedgerStore, LedgerStoreError, StoreError};
use sync::{CancelReason, CancellationToken, Effect};

use super::execute::new_call;
use super::sandbox_call::SimAccess;
use super::{PhaseStop, SimRunner};
use crate::broken_programs::BrokenProgram;
use crate::fault::Fault;
use crate::scenario::{ChangeRecording, NodeActor, NodeScript};

/// The reason why a try did not succeed.
pub(super) enum TryError {
    Stopped(PhaseStop),
    Failed(TryFailure),
}

/// A failure that the recovery decides on.
pub(super) struct TryFailure {
    pub(super) category: ErrorCategory,
    pub(super) retry_after: Option<Duration>,
    pub(super) is_idempotent: bool,
}

/// The tokens that stop a node while its run continues.
#[derive(Clone, Copy)]
struct NodeStopTokens<'a> {
    /// A sibling that failed.
    node: &'a CancellationToken,
    /// Its time limit. It is stopped by the other too.
    time_limit: &'a CancellationToken,
}

impl NodeStopTokens<'_> {
    fn is_over_time(self) -> bool {
        self.time_limit.is_cancelled() && !self.node.is_cancelled()
    }
}

/// The fate of the call of a stopped node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallAfterStop {
    /// It captures and ends it, before it hears of the stop.
    Ended,
    /// It leaves early, or panics: the call is dropped.
    Dropped,
}

impl TryFailure {
    pub(super) fn new(category: ErrorCategory) -> Self {
        Self { category, retry_after: None, is_idempotent: true }
    }
}

impl<E: Into<PhaseStop>> From<E> for TryError {
    fn from(error: E) -> Self {
        Self::Stopped(error.into())
    }
}

impl SimRunner {
    /// Does a node until it has succeeded, or is stopped. One that is stopped with `stop` while its run goes
    /// on has ended.
    pub(super) async fn node(
        &self,
        run: &JobRun,
        plan: &Plan,
        script: &NodeScript,
        handle: &ChangesetHandle,
        stop: &CancellationToken,
    ) -> Result<(), PhaseStop> {
        loop {
            self.world.alive(self.group).await;
            self.world.watch.observe_try(&run.claim(), &script.name);
            let stops = NodeStopTokens { node: stop, time_limit: &stop.child() };
            let fail = match self.try_node(run, plan, script, handle, stops).await {
                Ok(()) => return Ok(()),
                Err(TryError::Failed(fail)) => fail,
                Err(TryError::Stopped(PhaseStop::Failed { category, .. })) => TryFailure::new(category),
                Err(TryError::Stopped(PhaseStop::Cancelled)) if stops.is_over_time() => {
                    TryFailure::new(ErrorCategory::Timeout)
                }
                Err(TryError::Stopped(PhaseStop::Cancelled))
                    if !run.scope().is_cancelled() && stop.is_cancelled() =>
                {
                    return Ok(());
                }
                Err(TryError::Stopped(stopped)) => return Err(stopped),
            };
            let message = format!("{}: {}", script.name, fail.category);
            let recovery = self.recover(run, plan, script, &fail, &message).await?;
            let after = match recovery.action {
                RecoveryAction::Retry { after, .. } => after,
                RecoveryAction::Revert
                | RecoveryAction::Ask
                | RecoveryAction::GiveUp
                | RecoveryAction::Told
                    if self.world.is_broken(BrokenProgram::RetryOverLimit) =>
                {
                    Duration::from_millis(100)
                }
                RecoveryAction::Revert
                | RecoveryAction::Ask
                | RecoveryAction::GiveUp
                | RecoveryAction::Told => {
                    return Err(PhaseStop::Told { message });
                }
            };
            tokio::select! {
                biased;
                _ = run.scope().cancelled() => return Err(PhaseStop::Cancelled),
                _ = stop.cancelled() => return Ok(()),
                () = self.world.clock.sleep(after) => {}
            }
        }
    }

    /// Records the failure; an unknown outcome is asked for again, under the same id.
    async fn recover(
        &self,
        run: &JobRun,
        plan: &Plan,
        script: &NodeScript,
        fail: &TryFailure,
        message: &str,
    ) -> Result<RecoveryAdvice, PhaseStop> {
        let step = StepId { attempt: plan.attempt, node: script.name.clone(), visit: 1 };
        let id = ErrorId::from_u128(self.ids.ulid());
        let mut error = NewError::new(id, Phase::Execute, step, fail.category, message);
        if let Some(wait) = fail.retry_after {
            error = error.with_retry_after(wait);
        }
        if fail.is_idempotent {
            error = error.idempotent();
        }
        match self.recovery.record_error(&run.claim(), error.clone()).await {
            Err(StoreError::Busy) => Ok(self.recovery.record_error(&run.claim(), error).await?),
            answer => Ok(answer?),
        }
    }

    async fn try_node(
        &self,
        run: &JobRun,
        plan: &Plan,
        script: &NodeScript,
        handle: &ChangesetHandle,
        stops: NodeStopTokens<'_>,
    ) -> Result<(), TryError> {
        let claim = run.claim();
        let spend = self.reserve(run, &run.enter()?).await?;
        let done = self.do_node(run, plan, script, handle, stops).await;
        if let Ok(effect) = run.enter() {
            // A spend that cannot be settled now is settled with the job's end.
            let _ = self.store.settle(CallAuthority::Effect(&effect), &claim, spend, 1).await;
        }
        done?;
        Ok(self.store.settled_node(&run.enter()?, &claim).await?)
    }

    async fn do_node(
        &self,
        run: &JobRun,
        plan: &Plan,
        script: &NodeScript,
        handle: &ChangesetHandle,
        stops: NodeStopTokens<'_>,
    ) -> Result<(), TryError> {
        let scope = stops.time_limit.observe();
        if script.actor == NodeActor::Model {
            self.think(&scope, script).await?;
        }
        let access = match script.writes.is_empty() {
            true => SimAccess::Look,
            false => SimAccess::Record(handle.id()),
        };
        let call = self.begin_call(run, &scope, access, new_call(plan, &script.name)).await?;
        let acted = match script.actor {
            NodeActor::Tool => self.tool(run, &scope, script).await,
            NodeActor::Model => self.write(run, script).await,
        };
        let state = match &acted {
            Ok(()) => CallState::Ok,
            Err(TryError::Failed(_)) => CallState::Failed,
            Err(TryError::Stopped(_)) if scope.is_cancelled() && !run.scope().is_cancelled() => {
                CallState::Cancelled
            }
            Err(TryError::Stopped(_)) => return acted,
        };
        let state = match self.stop_writer(run, stops)? {
            None => state,
            Some(CallAfterStop::Ended) => CallState::Cancelled,
            // Dropped: its mark stays.
            Some(CallAfterStop::Dropped) => return Err(PhaseStop::Cancelled.into()),
        };
        self.end_call(run, call, state, (script.records, handle)).await?;
        acted?;
        Ok(scope.check()?)
    }

    /// Between the change and the capture: the node may be stopped, by its time limit or with a sibling that
    /// failed, while the run continues. Returns what the node does then about its call; `None` if it is not
    /// stopped.
    fn stop_writer(
        &self,
        run: &JobRun,
        stops: NodeStopTokens<'_>,
    ) -> Result<Option<CallAfterStop>, PhaseStop> {
        let has_changed = self.in_sandbox(run, |sandbox| !sandbox.changed().is_empty())?;
        if !has_changed || !self.world.strikes(Fault::WriterStopped, 2_000) {
            return Ok(None);
        }
        let (is_over_time, is_dropped) = {
            let mut random = self.world.random();
            (random.chance(5_000), random.chance(5_000))
        };
        match is_over_time {
            true => stops.time_limit.cancel(CancelReason::Timeout),
            false => stops.node.cancel(CancelReason::Sibling),
        };
        Ok(Some(if is_dropped { CallAfterStop::Dropped } else { CallAfterStop::Ended }))
    }

    /// Records one change; an unknown outcome is asked for again, under the same id.
    pub(super) async fn record_one(
        &self,
        run: &JobRun,
        records: (ChangeRecording, &ChangesetHandle),
        change: NewChange,
    ) -> Result<(), PhaseStop> {
        match self.record_once(run, records, change.clone()).await {
            Err(PlanError::Store(StoreError::Busy)) => {
                Ok(self.record_once(run, records, change).await.map(drop)?)
            }
            answer => Ok(answer.map(drop)?),
        }
    }

    async fn record_once(
        &self,
        run: &JobRun,
        (records, handle): (ChangeRecording, &ChangesetHandle),
        change: NewChange,
    ) -> Result<RecordedChange, PlanError> {
        match records {
            ChangeRecording::IntoTheLatest => run.context().record_change(change).await,
            ChangeRecording::WithTheCall | ChangeRecording::ByHandle => handle.record(change).await,
        }
    }

    /// Reserves the cost of a call from the limits of the plan and of the day.
    async fn reserve(&self, run: &JobRun, effect: &Effect) -> Result<SpendId, TryError> {
        let max = self.world.scenario.day_tokens;
        let day = max.map(|max| DayLimit { day: Day::from_wall(self.world.wall()), max: Some(max) });
        let id = SpendId::from_u128(self.ids.ulid());
        let new = NewSpend { day, ..NewSpend::new(id, SpendKind::Tokens, 1) };
        match self.store.reserve(effect, &run.claim(), new).await {
            Ok(_) => Ok(id),
            Err(LedgerStoreError::Limit(_)) => Err(TryError::Failed(TryFailure::new(ErrorCategory::Budget))),
            Err(error) => Err(error.into()),
        }
    }
}
