//! The retry decision: one pure function of the policy, the history and the error.
//!
//! | category | first | limit | then | backoff base |
//! |---|---|---|---|---|
//! | timeout, connection, overloaded, rate_limit | retry | per step | ask | 1 s, 500 ms, 2 s, 5 s |
//! | tool | retry if idempotent, else ask | per step | ask | none |
//! | model_output | retry, the fault shown to the model | per step | revert | none |
//! | sandbox | retry in a new sandbox | 1 per step | give up | 1 s |
//! | validation | revert if the replan gate is auto, else ask | | | |
//! | resource, auth, budget, merge_conflict | ask | | | |
//! | invalid_input, internal | give up | | | |
//! | any, dealt with inside its node | reported to the model | | | |
//!
//! # Invariants
//! 1. A step is retried at most `max_retries_per_step` times and a plan at most `max_retries_per_plan` times;
//!    beyond the latter it asks. With no reversion left it asks instead of reverting.
//! 2. Nothing is retried in the apply phase, whose way back is the journal, nor in an attempt that is over.
//! 3. Without a hint of the other side, a backoff `d` becomes a wait of at least `d / 2` and less than `d`.
//! 4. Whole milliseconds, no floating point: the same input gives the same answer everywhere.
//!
//! # Not here
//! Counting: [`ErrorHistory::record`] does it in the same step. Waiting, and ending the wait on a cancel.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::advice;
use super::error_history::ErrorHistory;
use super::{ErrorCategory, NewError, StepId};
use crate::id::PlanId;
use crate::plan::phase::Phase;

/// The longest backoff.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The longest wait that is not worth asking a person about, unless the policy says otherwise: a person waits
/// for the plan.
pub const WAIT_MAX: Duration = Duration::from_secs(10 * 60);

const SANDBOX_RETRIES_PER_STEP: usize = 1;

/// The most that a step can be retried.
pub const RETRIES_PER_STEP_MAX: u32 = 100;

/// The decision of a gate: continue, or ask the user first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateDecision {
    /// A person decides.
    Ask,
    /// The plan continues by itself.
    Auto,
}

/// The limits of automatic recovery.
///
/// ```
/// use domain::{GateDecision, RecoveryPolicy};
///
/// let policy = RecoveryPolicy::new(5, 30, GateDecision::Auto, 3)?;
/// assert_eq!(policy.max_retries_per_step(), 5);
/// assert_eq!(
///     RecoveryPolicy::new(101, 30, GateDecision::Auto, 3).unwrap_err().to_string(),
///     "recovery.max_retries_per_step is 101, allowed is 0..=100",
/// );
/// # Ok::<(), domain::RecoveryPolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryPolicy {
    max_retries_per_step: u32,
    max_retries_per_plan: u32,
    replan: GateDecision,
    reversions_left: u8,
    wait_max: Duration,
}

/// A value that the policy cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}, allowed is 0..={max}")]
pub struct RecoveryPolicyError {
    /// The setting.
    pub key: &'static str,
    /// The value that was set.
    pub value: u32,
    /// The largest allowed.
    pub max: u32,
}

impl RecoveryPolicy {
    /// A policy of these values.
    ///
    /// # Errors
    /// Returns an error if there are more than 100 retries per step, or more than 1000 per plan.
    pub fn new(
        max_retries_per_step: u32,
        max_retries_per_plan: u32,
        replan: GateDecision,
        reversions_left: u8,
    ) -> Result<RecoveryPolicy, RecoveryPolicyError> {
        at_most("recovery.max_retries_per_step", max_retries_per_step, RETRIES_PER_STEP_MAX)?;
        at_most("recovery.max_retries_per_plan", max_retries_per_plan, 1000)?;
        let wait_max = WAIT_MAX;
        Ok(RecoveryPolicy { max_retries_per_step, max_retries_per_plan, replan, reversions_left, wait_max })
    }

    /// The same with another bound for the wait that the other side asks for: no person waits for the plan.
    #[must_use]
    pub fn with_wait_max(self, wait_max: Duration) -> RecoveryPolicy {
        RecoveryPolicy { wait_max, ..self }
    }

    /// The same, for a step that says itself how often it is retried; no more than a step can be.
    #[must_use]
    pub fn with_retries_per_step(self, retries: u32) -> RecoveryPolicy {
        RecoveryPolicy { max_retries_per_step: retries.min(RETRIES_PER_STEP_MAX), ..self }
    }

    /// Returns how often one step is retried.
    pub fn max_retries_per_step(&self) -> u32 {
        self.max_retries_per_step
    }

    /// Returns how often all steps of a plan together are retried.
    pub fn max_retries_per_plan(&self) -> u32 {
        self.max_retries_per_plan
    }

    /// Returns whether a plan may go back to strategize by itself.
    pub fn replan(&self) -> GateDecision {
        self.replan
    }

    /// Returns how often this plan can still go back.
    pub fn reversions_left(&self) -> u8 {
        self.reversions_left
    }
}

/// 3 retries per step, 30 per plan, replanning by itself, none of the 3 reversions used.
impl Default for RecoveryPolicy {
    fn default() -> RecoveryPolicy {
        RecoveryPolicy {
            max_retries_per_step: 3,
            max_retries_per_plan: 30,
            replan: GateDecision::Auto,
            reversions_left: 3,
            wait_max: WAIT_MAX,
        }
    }
}

fn at_most(key: &'static str, value: u32, max: u32) -> Result<(), RecoveryPolicyError> {
    if value <= max { Ok(()) } else { Err(RecoveryPolicyError { key, value, max }) }
}

/// The action that follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// The step runs again.
    Retry {
        /// After this wait.
        after: Duration,
        /// The number of the retry of the step, from 1.
        attempt: u32,
    },
    /// The plan goes back to strategize.
    Revert,
    /// The plan stops, errored, until a person did something.
    Ask,
    /// The plan stops, errored: to continue as it is makes no sense.
    GiveUp,
    /// Nothing more: the model of the node has the error, and continues.
    Told,
}

/// The reason for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryReason {
    /// The category says so.
    Category,
    /// There are retries left.
    RetriesLeft,
    /// The step used up its retries.
    StepRetriesSpent,
    /// The plan used up its retries, this many.
    PlanRetriesSpent {
        /// Per plan.
        limit: u32,
    },
    /// The other side asks for a wait that is too long for the policy.
    WaitTooLong {
        /// The wait.
        wait: Duration,
    },
    /// An apply is never retried.
    Apply,
    /// The tool might do harm when run again.
    NotIdempotent,
    /// A person decides about replanning.
    ReplanGate,
    /// The plan went back as often as it may.
    ReversionsSpent,
    /// It was dealt with inside its node.
    Handled,
    /// The error belongs to an attempt that is over.
    AttemptOver {
        /// The attempt that runs now.
        newest: u32,
    },
}

/// A decision, before it has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryDecision {
    /// The action.
    pub action: RecoveryAction,
    /// The reason for this action.
    pub why: RecoveryReason,
}

/// The answer to a recorded error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryAdvice {
    /// The number of the record.
    pub seq: u64,
    /// The action.
    pub action: RecoveryAction,
    /// Advice for a person.
    pub hint: String,
    /// The command to type.
    pub command: String,
}

impl RecoveryDecision {
    fn new(action: RecoveryAction, why: RecoveryReason) -> RecoveryDecision {
        RecoveryDecision { action, why }
    }

    /// The verdict as it is answered and stored. Without a plan's id the command says `@last`.
    pub fn recovery(self, seq: u64, plan: Option<PlanId>, error: &NewError) -> RecoveryAdvice {
        RecoveryAdvice {
            seq,
            action: self.action,
            hint: advice::hint(self, error),
            command: advice::command(self, error, plan),
        }
    }
}

/// Decides about `error`, which `history` does not hold yet. `jitter` is drawn from all its values alike.
pub fn decide(
    policy: &RecoveryPolicy,
    history: &ErrorHistory,
    error: &NewError,
    jitter: u16,
) -> RecoveryDecision {
    if error.is_handled() {
        return RecoveryDecision::new(RecoveryAction::Told, RecoveryReason::Handled);
    }
    let newest = history.newest_attempt();
    if error.step().attempt < newest {
        return RecoveryDecision::new(RecoveryAction::GiveUp, RecoveryReason::AttemptOver { newest });
    }
    let ask = |why| RecoveryDecision::new(RecoveryAction::Ask, why);
    let retry_within = |limit, then| retry(policy, history, error, jitter, limit, then);
    match error.category() {
        ErrorCategory::Timeout
        | ErrorCategory::Connection
        | ErrorCategory::Overloaded
        | ErrorCategory::RateLimit => {
            retry_within(policy.max_retries_per_step, ask(RecoveryReason::StepRetriesSpent))
        }
        ErrorCategory::Tool if error.is_idempotent() => {
            retry_within(policy.max_retries_per_step, ask(RecoveryReason::StepRetriesSpent))
        }
        ErrorCategory::Tool => ask(RecoveryReason::NotIdempotent),
        ErrorCategory::ModelOutput => {
            retry_within(policy.max_retries_per_step, revert(policy, RecoveryReason::StepRetriesSpent))
        }
        ErrorCategory::Sandbox => {
            let renewed = sandbox_retries(history, error.step()) >= SANDBOX_RETRIES_PER_STEP;
            let limit = if renewed { 0 } else { policy.max_retries_per_step };
            retry_within(
                limit,
                RecoveryDecision::new(RecoveryAction::GiveUp, RecoveryReason::StepRetriesSpent),
            )
        }
        ErrorCategory::Validation => match policy.replan {
            GateDecision::Auto => revert(policy, RecoveryReason::Category),
            GateDecision::Ask => ask(RecoveryReason::ReplanGate),
        },
        ErrorCategory::Resource
        | ErrorCategory::Auth
        | ErrorCategory::Budget
        | ErrorCategory::MergeConflict => ask(RecoveryReason::Category),
        ErrorCategory::InvalidInput | ErrorCategory::Internal => {
            RecoveryDecision::new(RecoveryAction::GiveUp, RecoveryReason::Category)
        }
    }
}

/// Retries the step if it may be retried, else what its category does `then`.
fn retry(
    policy: &RecoveryPolicy,
    history: &ErrorHistory,
    error: &NewError,
    jitter: u16,
    limit: u32,
    then: RecoveryDecision,
) -> RecoveryDecision {
    if error.phase() == Phase::Apply {
        return RecoveryDecision::new(RecoveryAction::Ask, RecoveryReason::Apply);
    }
    let retries = history.retries(error.step());
    if retries >= limit {
        return then;
    }
    if history.retries_total() >= policy.max_retries_per_plan {
        let limit = policy.max_retries_per_plan;
        return RecoveryDecision::new(RecoveryAction::Ask, RecoveryReason::PlanRetriesSpent { limit });
    }
    let attempt = retries + 1;
    let wait = error.retry_after().unwrap_or_default();
    let after = backoff(error.category(), attempt, jitter).max(wait);
    if after > policy.wait_max.max(BACKOFF_MAX) {
        return RecoveryDecision::new(RecoveryAction::Ask, RecoveryReason::WaitTooLong { wait });
    }
    RecoveryDecision::new(RecoveryAction::Retry { after, attempt }, RecoveryReason::RetriesLeft)
}

fn revert(policy: &RecoveryPolicy, why: RecoveryReason) -> RecoveryDecision {
    if policy.reversions_left > 0 {
        RecoveryDecision::new(RecoveryAction::Revert, why)
    } else {
        RecoveryDecision::new(RecoveryAction::Ask, RecoveryReason::ReversionsSpent)
    }
}

/// Returns how often the step was given a new sandbox, as far as the retained records show. The step's own
/// limit holds anyway.
fn sandbox_retries(history: &ErrorHistory, step: &StepId) -> usize {
    let renewed = |action| matches!(action, RecoveryAction::Retry { .. });
    history
        .records()
        .filter(|record| record.error.category() == ErrorCategory::Sandbox && record.error.step() == step)
        .filter(|record| renewed(record.recovery.action))
        .count()
}

/// The wait before retry number `attempt`: doubling from the category's base up to [`BACKOFF_MAX`], of which
/// `jitter` leaves between a half and all.
///
/// ```
/// use std::time::Duration;
/// use domain::{ErrorCategory, backoff};
///
/// assert_eq!(backoff(ErrorCategory::RateLimit, 1, 0), Duration::from_millis(2_500));
/// assert_eq!(backoff(ErrorCategory::RateLimit, 2, u16::MAX), Duration::from_millis(9_999));
/// assert_eq!(backoff(ErrorCategory::RateLimit, 100, 0), Duration::from_secs(30));
/// assert_eq!(backoff(ErrorCategory::Tool, 1, 0), Duration::ZERO);
/// ```
pub fn backoff(category: ErrorCategory, attempt: u32, jitter: u16) -> Duration {
    let doublings = attempt.saturating_sub(1);
    let full_ms = base_ms(category).saturating_mul(2_u64.saturating_pow(doublings));
    let half_ms = full_ms.min(BACKOFF_MAX.as_secs() * 1000) / 2;
    Duration::from_millis(half_ms + half_ms * u64::from(jitter) / 65_536)
}

fn base_ms(category: ErrorCategory) -> u64 {
    match category {
        ErrorCategory::Timeout | ErrorCategory::Sandbox => 1_000,
        ErrorCategory::Connection => 500,
        ErrorCategory::Overloaded => 2_000,
        ErrorCategory::RateLimit => 5_000,
        ErrorCategory::Resource
        | ErrorCategory::Auth
        | ErrorCategory::InvalidInput
        | ErrorCategory::Tool
        | ErrorCategory::ModelOutput
        | ErrorCategory::Validation
        | ErrorCategory::MergeConflict
        | ErrorCategory::Budget
        | ErrorCategory::Internal => 0,
    }
}
