//! Runs the checks of a finished plan once more, without doing its work again.
//!
//! # How
//! The changes of the plan are merged with the user's files as they are now, in a fresh sandbox. The checks
//! run there as they do before an apply. Each result is recorded as an ended call of the plan, with its
//! output.
//!
//! # Invariants
//! 1. The user's files are not written, and the work of the plan is not touched. Stopped at any moment, the
//!    plan is as it was, with the results that are recorded by then.
//! 2. A result counts for exactly the changes that it ran on: if the plan was changed meanwhile, it is
//!    refused.
//!
//! # Not here
//! The run of the checks: `run::recheck`. The meaning of their results: `domain::ValidationSummary`.

use domain::{
    CallState, ChangesetId, Initiator, MoveRecord, NewCall, NodePath, PlanEvent, PlanId, PlanState,
    Validation, ValidationOutcome, ValidationResult, net_hash,
};
use serde_json::{Value, json};
use store::{PlanMove, PlanStoreError, StoreError};
use sync::Observed;

use super::merge::Conflict;
use super::selection::what_breaks;
use super::transaction::{Authority, TransactionError};
use super::{ApplyError, ApplyRequest};
use crate::engine::Engine;
use crate::plan::execute::ExecuteError;
use crate::plan::transition::plan_move;
use crate::query::details::VALIDATE;
use crate::run::{CheckRun, Recheck, RecordedCheck};

/// The reason why the checks of a plan were not run.
#[derive(Debug, thiserror::Error)]
pub enum CheckAgainError {
    /// The plan has no checks.
    #[error("plan {plan} has no checks")]
    NoChecks {
        /// The plan.
        plan: PlanId,
    },
    /// It has no check with this name.
    #[error("plan {plan} has no check {name}")]
    NoSuchCheck {
        /// The plan.
        plan: PlanId,
        /// The name.
        name: String,
        /// The names of its checks.
        known: Vec<String>,
    },
    /// It waits, is worked on, or is applied.
    #[error("plan {plan} is {state}")]
    NotFinished {
        /// The plan.
        plan: PlanId,
        /// Its state.
        state: PlanState,
    },
    /// Another process works on it, or moved it meanwhile.
    #[error("plan {plan} was moved by another process")]
    Busy {
        /// The plan.
        plan: PlanId,
    },
    /// Its changes cannot be merged with the user's files.
    #[error("{} conflicts", conflicts.len())]
    Conflicts {
        /// The plan.
        plan: PlanId,
        /// The conflicts.
        conflicts: Vec<Conflict>,
    },
    /// It was stopped.
    #[error("the checks of plan {plan} were stopped")]
    Stopped {
        /// The plan.
        plan: PlanId,
    },
    /// The checks could not be run.
    #[error("{why}")]
    Failed {
        /// The plan.
        plan: PlanId,
        /// The cause.
        why: String,
    },
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
}

impl From<StoreError> for CheckAgainError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl Engine {
    /// Runs the checks of a plan again: all, or those with these names. `begins` is called with the name of each
    /// check before it runs.
    ///
    /// # Errors
    /// Returns an error if the plan is not finished or has no such check, if its changes conflict with the user's
    /// files, if it was stopped, or if a result cannot be recorded.
    pub async fn check_again(
        &self,
        id: PlanId,
        only: &[String],
        stop: &Observed,
        begins: &(dyn Fn(&str) + Sync),
    ) -> Result<(), CheckAgainError> {
        let plan = self.inner.store.plan(id).await?;
        if plan.moved(PlanEvent::Amend, Vec::new(), plan.updated).is_err() {
            return Err(CheckAgainError::NotFinished { plan: id, state: plan.state });
        }
        if self.live_job(id).await?.is_some() {
            return Err(CheckAgainError::Busy { plan: id });
        }
        let (rules, all) = (plan.spec.invariant_checks(), plan.spec.all_checks());
        if all.is_empty() {
            return Err(CheckAgainError::NoChecks { plan: id });
        }
        if let Some(name) = only.iter().find(|name| !all.iter().any(|check| check.name == **name)) {
            let known = all.into_iter().map(|check| check.name).collect();
            return Err(CheckAgainError::NoSuchCheck { plan: id, name: name.clone(), known });
        }
        let is_wanted = |check: &Validation| only.is_empty() || only.contains(&check.name);
        let chosen = match self.inner.select_changes(&plan, &ApplyRequest::default()).await {
            Ok(chosen) => chosen,
            Err(ApplyError::Plan(error)) => return Err(error.into()),
            Err(other) => return Err(CheckAgainError::Failed { plan: id, why: other.to_string() }),
        };
        let present = net_hash(&chosen.net);
        let broken = self.inner.broken_invariants(&plan, &chosen.net);
        for rule in rules.iter().filter(|rule| is_wanted(rule)) {
            let judged = self.judged_rule(rule, what_breaks(&rule.name, &broken), plan.attempt, &present);
            self.record_check(id, plan.attempt, &present, judged).await?;
        }
        let mut checks: Vec<&Validation> =
            plan.spec.validations.iter().filter(|check| is_wanted(check)).collect();
        checks.sort_by(|a, b| (a.mode, &a.name).cmp(&(b.mode, &b.name)));
        if checks.is_empty() {
            return Ok(());
        }
        let authority = Authority::LockHolder { stop };
        let recheck = Recheck {
            engine: &self.inner,
            plan: &plan,
            authority: &authority,
            wanted: &chosen.wanted,
            net_hash: present,
            when: CheckRun::ByUser,
        };
        let ran = match recheck.run_checks(&checks, begins).await {
            Ok(ran) => ran,
            Err(TransactionError::Conflicts { conflicts, .. }) => {
                return Err(CheckAgainError::Conflicts { plan: id, conflicts });
            }
            Err(TransactionError::Cancelled { .. }) => return Err(CheckAgainError::Stopped { plan: id }),
            Err(other) => return Err(CheckAgainError::Failed { plan: id, why: other.to_string() }),
        };
        for recorded in ran.recorded {
            self.record_check(id, plan.attempt, &present, recorded).await?;
        }
        Ok(())
    }

    /// The result of a rule, which needs no process.
    fn judged_rule(
        &self,
        rule: &Validation,
        what: Option<String>,
        attempt: u32,
        present: &domain::Hash,
    ) -> RecordedCheck {
        let outcome = if what.is_some() { ValidationOutcome::Failed } else { ValidationOutcome::Passed };
        let state = if what.is_some() { CallState::Failed } else { CallState::Ok };
        let result = ValidationResult {
            validation: rule.name.clone(),
            mode: rule.mode,
            outcome,
            message: what.clone().unwrap_or_default(),
            duration_ms: 0,
            attempt,
            call: domain::CallNumber(0),
            net_hash: present.to_string(),
            base_stamp: Value::Null,
        };
        let call = NewCall {
            attempt,
            node: NodePath::Check(&rule.name).to_string(),
            tool: VALIDATE.to_owned(),
            requested: json!({ "invariant": rule.name }),
            effective: Value::Null,
        };
        let result = serde_json::to_value(result).unwrap_or_default();
        RecordedCheck {
            call,
            end: self.inner.ended(self.inner.wall(), (state, what, result)),
            contents: Vec::new(),
        }
    }

    /// Records the result of a check, if the plan still has the changes that it ran on.
    async fn record_check(
        &self,
        id: PlanId,
        attempt: u32,
        present: &domain::Hash,
        check: RecordedCheck,
    ) -> Result<(), CheckAgainError> {
        let plan = self.inner.store.plan(id).await?;
        if plan.attempt != attempt || net_hash(&self.inner.net_changes(&plan).await?) != *present {
            return Err(CheckAgainError::Busy { plan: id });
        }
        let RecordedCheck { call, end, contents } = check;
        let changeset = ChangesetId::from_u128(self.inner.ids.ulid());
        let record = Some(MoveRecord { changeset, call, end, changes: Vec::new() });
        let amend = plan_move(&plan, PlanEvent::Amend, Initiator::User, None);
        match self.move_plan(PlanMove { record, contents, ..amend }).await {
            Ok(_) => Ok(()),
            Err(ExecuteError::Busy { .. }) => Err(CheckAgainError::Busy { plan: id }),
            Err(ExecuteError::Plan(error)) => Err(error.into()),
            Err(other) => Err(CheckAgainError::Failed { plan: id, why: other.to_string() }),
        }
    }
}
