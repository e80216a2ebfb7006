//! All failures of one plan: the newest stored whole, the older ones counted, the retries counted exactly.
//!
//! # Invariants
//! 1. Everything recorded is retained or folded: `recorded() == records + folded`, and `seq` runs 1, 2, 3…
//!    without gaps.
//! 2. At most [`RECORDS_MAX`] records are retained, the newest. Errors that were handled inside their node
//!    are folded first.
//! 3. A retry is counted exactly when [`RecoveryAction::Retry`] was answered: per step for the newest
//!    attempt, and per plan.
//! 4. An error that was handled inside its node changes nothing but its own record.
//! 5. The same id again, while its record is retained, is not counted again and gets the first answer.
//!
//! # Not here
//! The decision itself ([`decide`]), which only reads this history. The right to write:
//! [`PlanRecord`](crate::PlanRecord) checks the claim first, in the same step.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::detail::{Detail, Details, merge_detail};
use super::retry::{RecoveryAction, RecoveryAdvice, RecoveryPolicy, decide};
use super::{ErrorCategory, NewError, StepId};
use crate::id::PlanId;
use crate::time::Ms;

/// The limit of records of a plan that are retained whole.
pub const RECORDS_MAX: usize = 100;

/// A failure as it was recorded, with the answer that was given.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorRecord {
    /// The first error that was reported under this id.
    pub error: NewError,
    /// The time when it was recorded.
    pub at: Ms,
    /// The answer; it carries the record's `seq`.
    pub recovery: RecoveryAdvice,
    /// The details of all reports under this id.
    pub details: Details,
}

/// The summary of the records of one category that are no longer stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedErrors {
    /// The number of errors.
    pub count: u64,
    /// The time when the first of them was recorded.
    pub first: Ms,
    /// The time when the last of them was recorded.
    pub last: Ms,
}

/// All failures of one plan.
///
/// ```
/// use domain::*;
///
/// let mut history = ErrorHistory::new(PlanId::from_u128(1));
/// let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
/// let id = ErrorId::from_u128(9);
/// let error = NewError::new(id, Phase::Execute, step, ErrorCategory::Timeout, "no answer");
/// let recovery = history.record(&RecoveryPolicy::default(), error, Ms(5), 0);
/// assert_eq!(recovery.action, RecoveryAction::Retry { after: std::time::Duration::from_millis(500), attempt: 1 });
/// assert_eq!((history.recorded(), history.retries_total()), (1, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorHistory {
    plan: Option<PlanId>,
    records: VecDeque<ErrorRecord>,
    folded: BTreeMap<ErrorCategory, FoldedErrors>,
    newest_attempt: u32,
    retries: BTreeMap<StepId, u32>,
    retries_total: u32,
}

impl ErrorHistory {
    /// The empty history of a plan.
    pub fn new(plan: PlanId) -> ErrorHistory {
        ErrorHistory { plan: Some(plan), ..ErrorHistory::default() }
    }

    /// Names the plan of a history that was made by default; one that has a plan retains it.
    pub(crate) fn belongs_to(&mut self, plan: PlanId) {
        self.plan.get_or_insert(plan);
    }

    /// Appends, counts and decides in one step.
    ///
    /// `jitter` is drawn by the caller from all its values alike; it spreads retries that failed together.
    pub fn record(
        &mut self,
        policy: &RecoveryPolicy,
        error: NewError,
        now: Ms,
        jitter: u16,
    ) -> RecoveryAdvice {
        if let Some(known) = self.records.iter_mut().find(|record| record.error.id() == error.id()) {
            known.details.merge_within_bound(error.detail());
            return known.recovery.clone();
        }
        let verdict = decide(policy, self, &error, jitter);
        let recovery = verdict.recovery(self.next_seq(), self.plan, &error);
        self.enter_attempt(error.step().attempt);
        if let RecoveryAction::Retry { .. } = recovery.action {
            self.count_retry(error.step());
        }
        let mut details = Details::default();
        merge_detail(&mut details, error.detail());
        self.records.push_back(ErrorRecord { error, at: now, recovery: recovery.clone(), details });
        self.fold_beyond_bound();
        recovery
    }

    /// Restores a stored history: the parts are those that the methods of the same names returned.
    pub fn restore(
        plan: PlanId,
        records: impl IntoIterator<Item = ErrorRecord>,
        folded: BTreeMap<ErrorCategory, FoldedErrors>,
        newest_attempt: u32,
        step_retries: impl IntoIterator<Item = (StepId, u32)>,
        retries_total: u32,
    ) -> ErrorHistory {
        ErrorHistory {
            plan: Some(plan),
            records: records.into_iter().collect(),
            folded,
            newest_attempt,
            retries: step_retries.into_iter().collect(),
            retries_total,
        }
    }

    /// The plan; `None` until the first error of a history made by default.
    pub fn plan(&self) -> Option<PlanId> {
        self.plan
    }

    /// The records that are retained whole, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &ErrorRecord> + DoubleEndedIterator {
        self.records.iter()
    }

    /// The newest error that was not handled inside its node: the one at which a plan stopped.
    pub fn last_failure(&self) -> Option<&ErrorRecord> {
        self.records.iter().rev().find(|record| record.recovery.action != RecoveryAction::Told)
    }

    /// The counts of the older errors.
    pub fn folded(&self) -> &BTreeMap<ErrorCategory, FoldedErrors> {
        &self.folded
    }

    /// Returns the number of recorded errors: those retained and those folded.
    pub fn recorded(&self) -> u64 {
        self.folded.values().map(|folded| folded.count).sum::<u64>() + self.records.len() as u64
    }

    /// The number that the next record gets.
    pub fn next_seq(&self) -> u64 {
        self.recorded() + 1
    }

    /// The newest attempt of the plan that an error was recorded for; 0 before the first.
    pub fn newest_attempt(&self) -> u32 {
        self.newest_attempt
    }

    /// Returns how often a step of the newest attempt was retried.
    pub fn retries(&self, step: &StepId) -> u32 {
        self.retries.get(step).copied().unwrap_or(0)
    }

    /// The steps of the newest attempt that were retried, and how often.
    pub fn step_retries(&self) -> impl ExactSizeIterator<Item = (&StepId, u32)> {
        self.retries.iter().map(|(step, retries)| (step, *retries))
    }

    /// Returns how often steps of the plan were retried, over all attempts.
    pub fn retries_total(&self) -> u32 {
        self.retries_total
    }

    /// The details of all retained records, merged in their order, as shown.
    pub fn details(&self) -> Detail {
        let mut details = Details::default();
        for record in &self.records {
            details.merge(&record.details);
        }
        details.to_json()
    }

    /// A newer attempt begins with fresh steps; those of older ones are never retried again.
    fn enter_attempt(&mut self, attempt: u32) {
        if attempt > self.newest_attempt {
            self.newest_attempt = attempt;
            self.retries.clear();
        }
    }

    fn count_retry(&mut self, step: &StepId) {
        let retries = self.retries.entry(step.clone()).or_default();
        *retries = retries.saturating_add(1);
        self.retries_total = self.retries_total.saturating_add(1);
    }

    /// Folds errors that were handled inside their node first, so that they push no failure out; the newest
    /// always stays.
    fn fold_beyond_bound(&mut self) {
        while self.records.len() > RECORDS_MAX {
            let older = self.records.iter().take(RECORDS_MAX);
            let told = older.enumerate().find(|(_, record)| record.recovery.action == RecoveryAction::Told);
            let oldest = told.map_or(0, |(at, _)| at);
            let Some(ErrorRecord { error, at, .. }) = self.records.remove(oldest) else { return };
            let folded =
                self.folded.entry(error.category()).or_insert(FoldedErrors { count: 0, first: at, last: at });
            folded.count += 1;
            folded.first = folded.first.min(at);
            folded.last = folded.last.max(at);
        }
    }
}
