//! What a run may use: every call and every step is counted in the step that admits it, and the time of every run.
//!
//! # Invariants
//! 1. Nothing begins that a limit does not let begin, and what is refused leaves no trace in the accounts.
//! 2. A step counts once in its attempt, however often it is tried; a call counts each time. A check is a call of the plan
//!    and no step of it.
//! 3. The time of a run is settled when it winds down. Of a run whose process died nobody knows how long it worked: it
//!    counts for nothing.
//!
//! # Not here
//! Settling what a dead owner left: the store's doing, in the step in which the job changes hands.

use std::time::Duration;

use domain::{
    ErrorCategory, ErrorId, LimitReached, Ms, NewCall, NewError, NewSpend, Plan, SpendId, SpendKind, StepId,
    ToolCall,
};
use store::{By, LedgerStoreError};
use sync::primitives::{Mutex, lock};
use sync::{Effect, Finisher};

use super::super::House;
use super::super::facts::VALIDATE;
use super::Stopped;
use crate::worker::{JobRun, RunFailure};

/// The most time that one run reserves, where the plan has no limit of it.
const RUN_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Admits a call, and counts it and the step that it is of, if that was not begun before.
pub(super) async fn begin(
    house: &House,
    run: &JobRun,
    effect: &Effect,
    plan: &Plan,
    new: NewCall,
) -> Result<ToolCall, Stopped> {
    let node = new.node.clone();
    let mut counted = vec![NewSpend::tool_call(SpendId::from_u128(house.ids.ulid()))];
    if new.tool != VALIDATE {
        counted.push(NewSpend::step(plan.id, plan.attempt, &node));
    }
    let begun = house.store.begin_counted(effect, &run.claim(), new, counted).await;
    begun.map_err(|error| stopped(error, &node))
}

fn stopped(error: LedgerStoreError, node: &str) -> Stopped {
    match error {
        LedgerStoreError::Limit(reached) => Stopped::Limit { node: node.to_owned(), reached },
        LedgerStoreError::Store(error) => error.into(),
        LedgerStoreError::TooLow(_)
        | LedgerStoreError::IdTaken { .. }
        | LedgerStoreError::NotReserved { .. }
        | LedgerStoreError::NotFound { .. } => Stopped::failed(ErrorCategory::Internal, error),
    }
}

/// The time that a run may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLeft {
    /// What is left of the limit.
    pub(super) left: Duration,
    /// What is told when that has passed.
    pub(super) reached: LimitReached,
}

/// The time of a run, from its beginning to its end.
#[derive(Default)]
pub(super) struct RunTime(Mutex<Option<(SpendId, Ms)>>);

impl RunTime {
    /// Reserves all the time that is left to the plan.
    pub(super) async fn begin(&self, house: &House, run: &JobRun, plan: &Plan) -> Result<TimeLeft, Stopped> {
        let node = run.job().phase.to_string();
        let account = house.store.ledger(plan.id).await?.account(SpendKind::Time);
        let max_ms = account.max.unwrap_or(u64::MAX);
        let left_ms = max_ms.saturating_sub(account.taken()).min(ms(RUN_MAX));
        let id = SpendId::from_u128(house.ids.ulid());
        let scope = domain::Scope::Plan(plan.id);
        // A run that may take no time at all is refused by the store: it asks for the least.
        let amount = left_ms.max(1);
        let new = NewSpend { id, kind: SpendKind::Time, amount, model: None, day: None };
        let effect = run.enter()?;
        let reserved = house.store.reserve(&effect, &run.claim(), new).await;
        reserved.map_err(|error| stopped(error, &node))?;
        *lock(&self.0) = Some((id, Ms::from(house.clock.now())));
        let reached =
            LimitReached { scope, kind: SpendKind::Time, max: max_ms, used: max_ms, reserved: 0, asked: 1 };
        Ok(TimeLeft { left: Duration::from_millis(left_ms), reached })
    }

    /// Settles what the run took.
    pub(super) async fn end(&self, house: &House, run: &JobRun, finisher: &Finisher) {
        let Some((id, began)) = lock(&self.0).take() else { return };
        let took = ms(Ms::from(house.clock.now()).since(began));
        // Who lost the lease settles nothing more; the store has done it.
        let _ = house.store.settle(By::Finisher(finisher), &run.claim(), id, took.max(1)).await;
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Tells the recovery that a limit is reached. `node` is what would have begun.
pub(super) async fn told(
    house: &House,
    run: &JobRun,
    plan: &Plan,
    node: String,
    reached: &LimitReached,
) -> RunFailure {
    let message = reached.to_string();
    *lock(&house.last_failure) = Some(message.clone());
    let step = StepId { attempt: plan.attempt, node, visit: 1 };
    let id = ErrorId::from_u128(house.ids.ulid());
    let error = NewError::new(id, run.job().phase, step, ErrorCategory::Budget, message.clone())
        .with_detail(reached.detail());
    // What the store does not take is told by the job's own end.
    let _ = house.recovery.record_error(&run.claim(), error).await;
    RunFailure::failed(message)
}
