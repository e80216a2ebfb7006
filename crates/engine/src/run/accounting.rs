//! Accounts for a run: counts every call and every step in the transaction that admits it, and the time of
//! every run.
//!
//! # Invariants
//! 1. Nothing that has an effect begins unless the limits let it, and what is refused leaves no trace in the
//!    accounts.
//! 2. A step counts once in its attempt, however often it is tried; a call counts each time. A check is a
//!    call of the plan and no step of it. A question to a model is no call of a tool, and begins its node's
//!    step.
//! 3. The time of a run is added when it winds down. The working time of a run whose process died is not
//!    known: it counts for nothing.

use std::time::Duration;

use domain::{
    Account, CallCategory, CallEnd, CallNumber, ErrorCategory, ErrorId, LedgerScope, LimitReached, Ms,
    NewCall, NewError, NodeRun, SettledCall, SpendKind, StepId, ToolCall,
};
use store::{CallAuthority, LedgerStoreError};
use sync::primitives::{Mutex, lock};
use sync::{Effect, Finisher};

use super::RunError;
use super::context::RunContext;
use crate::engine::EngineInner;
use crate::query::details::{ASK_MODEL, VALIDATE};
use worker::{JobRun, RunFailure};

/// The most time that one run takes, where the plan has no limit of it.
const RUN_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Admits a call and counts it.
pub(crate) async fn begin(run: RunContext<'_>, effect: &Effect, new: NewCall) -> Result<ToolCall, RunError> {
    let (node, count_as) = (new.node.clone(), counts_as(&new));
    let begun = run.engine.store.begin_counted(effect, &run.job.claim(), new, count_as).await;
    begun.map_err(|error| stopped(error, &node))
}

/// Records and counts a call that has ended and changed nothing.
pub(crate) async fn keep(
    run: RunContext<'_>,
    effect: &Effect,
    new: NewCall,
    end: CallEnd,
) -> Result<CallNumber, RunError> {
    let node = new.node.clone();
    let kept = run.engine.store.keep_calls(effect, &run.job.claim(), vec![settled_call(new, end)]).await;
    let kept = kept.map_err(|error| stopped(error, &node))?;
    kept.first()
        .map(|call| call.no)
        .ok_or_else(|| RunError::failed(ErrorCategory::Internal, "a call was not recorded"))
}

/// A call that has ended, changed nothing and is not stored yet.
pub(crate) struct UnrecordedCall {
    effect: Effect,
    call: SettledCall,
}

impl UnrecordedCall {
    pub(crate) fn new(effect: Effect, new: NewCall, end: CallEnd) -> Self {
        Self { effect, call: settled_call(new, end) }
    }

    /// The same with the end of the node whose only call it is.
    pub(crate) fn settling(mut self, settles: Option<NodeRun>) -> Self {
        self.call.settles.extend(settles);
        self
    }
}

/// Records and counts such calls: all of them, or none if a limit refuses one.
pub(crate) async fn record_all(run: RunContext<'_>, unkept: &[&UnrecordedCall]) -> Result<(), RunError> {
    let Some(UnrecordedCall { effect, call }) = unkept.first() else { return Ok(()) };
    let calls = unkept.iter().map(|unkept| unkept.call.clone()).collect();
    let kept = run.engine.store.keep_calls(effect, &run.job.claim(), calls).await;
    kept.map(drop).map_err(|error| stopped(error, &call.call.node))
}

fn settled_call(call: NewCall, end: CallEnd) -> SettledCall {
    let count_as = counts_as(&call);
    SettledCall { call, count_as, end, settles: Vec::new() }
}

fn counts_as(new: &NewCall) -> CallCategory {
    match new.tool.as_str() {
        VALIDATE => CallCategory::Call,
        ASK_MODEL => CallCategory::Turn,
        _ => CallCategory::Step,
    }
}

/// Returns the error that ends a node whose accounts refuse.
pub(crate) fn stopped(error: LedgerStoreError, node: &str) -> RunError {
    match error {
        LedgerStoreError::Limit(reached) => RunError::Limit { node: node.to_owned(), reached },
        LedgerStoreError::Store(error) => error.into(),
        LedgerStoreError::TooLow(_)
        | LedgerStoreError::IdTaken { .. }
        | LedgerStoreError::NotReserved { .. }
        | LedgerStoreError::NotFound { .. } => RunError::failed(ErrorCategory::Internal, error),
    }
}

/// The time that a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLeft {
    /// The time that is left of the limit.
    pub(crate) left: Duration,
    /// The limit that is reported when that time has passed.
    pub(crate) reached: LimitReached,
}

/// The time of a run, from its beginning to its end, without its long waits for a provider.
#[derive(Default)]
pub(crate) struct RunTime {
    began: Mutex<Option<Ms>>,
    /// The long waits so far, in milliseconds, and the part of them that the end of the run was put off for.
    waited: Mutex<(u64, u64)>,
}

impl RunTime {
    /// Begins to count, if any time is left to the plan.
    pub(crate) async fn begin(&self, run: RunContext<'_>) -> Result<TimeLeft, RunError> {
        let RunContext { engine, plan, .. } = run;
        let account = engine.store.ledger(plan.id).await?.account(SpendKind::Time);
        let max = account.max.unwrap_or(u64::MAX);
        let Account { used, reserved, .. } = account;
        let reached = LimitReached {
            scope: LedgerScope::Plan(plan.id),
            kind: SpendKind::Time,
            max,
            used,
            reserved,
            asked: 1,
        };
        let left = max.saturating_sub(account.taken()).min(ms(RUN_MAX));
        if left == 0 {
            return Err(RunError::Limit { node: run.phase().to_string(), reached });
        }
        *lock(&self.began) = Some(Ms::from(engine.clock.now()));
        let reached = LimitReached { used: max, ..reached };
        Ok(TimeLeft { left: Duration::from_millis(left), reached })
    }

    /// A wait begins that does not count.
    pub(crate) fn add_wait(&self, wait: Duration) {
        let mut waited = lock(&self.waited);
        waited.0 = waited.0.saturating_add(ms(wait));
    }

    /// Returns the time by which the end of the run is put off: all waits since the last question.
    pub(crate) fn take_extension(&self) -> Option<Duration> {
        let mut waited = lock(&self.waited);
        let more = waited.0.saturating_sub(waited.1);
        waited.1 = waited.0;
        (more > 0).then_some(Duration::from_millis(more))
    }

    /// Adds what the run took.
    pub(crate) async fn end(&self, engine: &EngineInner, job: &JobRun, finisher: &Finisher) {
        let Some(began) = lock(&self.began).take() else { return };
        let (waited, _) = *lock(&self.waited);
        let took = ms(Ms::from(engine.clock.now()).since(began)).saturating_sub(waited).max(1);
        // A run that lost its lease adds nothing more.
        let _ = engine
            .store
            .add_spent(CallAuthority::Finisher(finisher), &job.claim(), SpendKind::Time, took)
            .await;
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Reports to the recovery that a limit is reached. `node` is the node that would have begun.
pub(crate) async fn report_limit(run: RunContext<'_>, node: String, reached: &LimitReached) -> RunFailure {
    let RunContext { engine, job, plan, .. } = run;
    let message = reached.to_string();
    *lock(&engine.last_failure) = Some(message.clone());
    let step = StepId { attempt: plan.attempt, node, visit: 1 };
    let id = ErrorId::from_u128(engine.ids.ulid());
    let error = NewError::new(id, run.phase(), step, ErrorCategory::Budget, message.clone())
        .with_detail(reached.detail());
    // If the store refuses it, the job's own end reports the failure.
    let _ = engine.recovery.record_error(&job.claim(), error).await;
    RunFailure::failed(message)
}
