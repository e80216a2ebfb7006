//! One node: admitted, done by its actor, recorded; and again, as often as the recovery says.

use std::time::Duration;

use domain::{
    Action, CallState, CountAs, Day, DayLimit, ErrorCategory, ErrorId, NewChange, NewError, NewSpend, Phase,
    Plan, Recorded, Recovery, SpendId, SpendKind, StepId, ToolCall,
};
use engine::{ChangesetHandle, JobRun, PlanError};
use store::{By, CallOutcome, CallStore, JobStore, LedgerStore, LedgerStoreError, StoreError};
use sync::Effect;

use super::execute::new_call;
use super::{SimRunner, Stopped, ended};
use crate::broken::Broken;
use crate::machine::Differs;
use crate::scenario::{Actor, NodeScript, Records};

/// Why a try did not succeed.
pub(super) enum Tried {
    Stopped(Stopped),
    Failed(Fail),
}

/// A failure that the recovery decides on.
pub(super) struct Fail {
    pub(super) category: ErrorCategory,
    pub(super) retry_after: Option<Duration>,
    pub(super) is_idempotent: bool,
}

impl Fail {
    pub(super) fn of(category: ErrorCategory) -> Self {
        Self { category, retry_after: None, is_idempotent: true }
    }
}

impl<E: Into<Stopped>> From<E> for Tried {
    fn from(error: E) -> Self {
        Self::Stopped(error.into())
    }
}

impl SimRunner {
    pub(super) async fn node(
        &self,
        run: &JobRun,
        plan: &Plan,
        script: &NodeScript,
        handle: &ChangesetHandle,
    ) -> Result<(), Stopped> {
        loop {
            self.world.alive(self.group).await;
            self.world.watch.tried(&run.claim(), &script.name);
            let fail = match self.try_node(run, plan, script, handle).await {
                Ok(()) => return Ok(()),
                Err(Tried::Stopped(stopped)) => return Err(stopped),
                Err(Tried::Failed(fail)) => fail,
            };
            let message = format!("{}: {}", script.name, fail.category);
            let recovery = self.recover(run, plan, script, &fail, &message).await?;
            let after = match recovery.action {
                Action::Retry { after, .. } => after,
                Action::Revert | Action::Ask | Action::GiveUp | Action::Told
                    if self.world.is_broken(Broken::RetryOverLimit) =>
                {
                    Duration::from_millis(100)
                }
                Action::Revert | Action::Ask | Action::GiveUp | Action::Told => {
                    return Err(Stopped::Told { message });
                }
            };
            tokio::select! {
                biased;
                _ = run.scope().cancelled() => return Err(Stopped::Cancelled),
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
        fail: &Fail,
        message: &str,
    ) -> Result<Recovery, Stopped> {
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
    ) -> Result<(), Tried> {
        let claim = run.claim();
        let effect = run.enter()?;
        let spend = self.reserve(run, &effect).await?;
        let new = new_call(plan, &script.name);
        let call = self.store.begin_counted(&effect, &claim, new, CountAs::Step).await?;
        let open = (plan.attempt, call.no, script.writes.clone());
        self.with_live(&claim, |live| live.calls.push(open.clone()));
        let acted = match script.actor {
            Actor::Tool => self.tool(run, script).await,
            Actor::Model => self.model(run, script).await,
        };
        let fail = match acted {
            Ok(()) => None,
            Err(Tried::Failed(fail)) => Some(fail),
            Err(stopped @ Tried::Stopped(_)) => return Err(stopped),
        };
        self.record(run, script, handle, &effect, &call, fail.is_none()).await?;
        self.with_live(&claim, |live| live.calls.retain(|call| *call != open));
        // What cannot be settled now is settled with the job's end.
        let _ = self.store.settle(By::Effect(&effect), &claim, spend, 1).await;
        match fail {
            Some(fail) => Err(Tried::Failed(fail)),
            None => Ok(self.store.settled_node(&effect, &claim).await?),
        }
    }

    /// Ends the call, with what it changed.
    async fn record(
        &self,
        run: &JobRun,
        script: &NodeScript,
        handle: &ChangesetHandle,
        effect: &Effect,
        call: &ToolCall,
        succeeded: bool,
    ) -> Result<(), Tried> {
        self.tick().await;
        let differs: Vec<Differs> = self.in_sandbox(run, |sandbox| sandbox.changed(&script.writes))?;
        let mut changes: Vec<_> =
            differs.iter().filter_map(|differs| self.new_change(call.no, *differs)).collect();
        if script.records != Records::WithTheCall {
            for change in std::mem::take(&mut changes) {
                self.record_one(run, script.records, handle, change).await?;
            }
        }
        let outcome = CallOutcome {
            attempt: call.new.attempt,
            no: call.no,
            end: ended(if succeeded { CallState::Ok } else { CallState::Failed }),
            changeset: Some(handle.id()),
            changes,
            contents: Vec::new(),
            settles: Vec::new(),
        };
        self.store.end_call(By::Effect(effect), &run.claim(), outcome).await?;
        Ok(self.in_sandbox(run, |sandbox| sandbox.is_recorded(&differs))?)
    }

    /// Records one change; an unknown outcome is asked for again, under the same id.
    async fn record_one(
        &self,
        run: &JobRun,
        records: Records,
        handle: &ChangesetHandle,
        change: NewChange,
    ) -> Result<(), Stopped> {
        match self.record_once(run, records, handle, change.clone()).await {
            Err(PlanError::Store(StoreError::Busy)) => {
                Ok(self.record_once(run, records, handle, change).await.map(drop)?)
            }
            answer => Ok(answer.map(drop)?),
        }
    }

    async fn record_once(
        &self,
        run: &JobRun,
        records: Records,
        handle: &ChangesetHandle,
        change: NewChange,
    ) -> Result<Recorded, PlanError> {
        match records {
            Records::IntoTheLatest => run.context().record_change(change).await,
            Records::WithTheCall | Records::ByHandle => handle.record(change).await,
        }
    }

    /// What a call costs is taken from what the plan, and the day, may spend.
    async fn reserve(&self, run: &JobRun, effect: &Effect) -> Result<SpendId, Tried> {
        let max = self.world.scenario.day_tokens;
        let day = max.map(|max| DayLimit { day: Day::of(self.world.wall()), max: Some(max) });
        let id = SpendId::from_u128(self.ids.ulid());
        let new = NewSpend { day, ..NewSpend::of(id, SpendKind::Tokens, 1) };
        match self.store.reserve(effect, &run.claim(), new).await {
            Ok(_) => Ok(id),
            Err(LedgerStoreError::Limit(_)) => Err(Tried::Failed(Fail::of(ErrorCategory::Budget))),
            Err(error) => Err(error.into()),
        }
    }
}
