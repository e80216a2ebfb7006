//! Decisions in SQLite.
//!
//! # Invariants
//! 1. A number is given in the transaction that uses it, and one that is refused rolls the transaction back.
//!    So there are no gaps, and no count without its rows.
//! 2. A decision that depends on the prompt alone is stored without reading the others.

use domain::record::event_draft;
use domain::{Claim, Decision, NewDecision, PlanId, StepDecision, TransitionDecisions};

use super::{of_head, queries};
use crate::DecisionStoreError;
use crate::sqlite::jobs::{WriteTime, guard};
use crate::sqlite::plan_heads;
use crate::sqlite::plan_heads::{PlanHead, tell};
use crate::sqlite::transaction::Tx;

pub(super) fn decide(
    tx: &Tx<'_>,
    claim: &Claim,
    new: NewDecision,
    at: WriteTime,
) -> Result<Decision, DecisionStoreError> {
    decide_one(tx, guard(tx, claim)?, claim.plan, new, at)
}

pub(super) fn decide_all(
    tx: &Tx<'_>,
    claim: &Claim,
    new: Vec<StepDecision>,
    at: WriteTime,
) -> Result<Vec<Decision>, DecisionStoreError> {
    let head = guard(tx, claim)?;
    let first = queries::count_decisions(tx, head)?.saturating_add(1);
    let one = |(place, new): (usize, StepDecision)| {
        decide_one(tx, head, claim.plan, new.assign_numbers(place, first)?, at)
    };
    new.into_iter().enumerate().map(one).collect()
}

pub(super) fn add_guidance(
    tx: &Tx<'_>,
    id: PlanId,
    new: NewDecision,
    at: WriteTime,
) -> Result<Decision, DecisionStoreError> {
    let not_found = || DecisionStoreError::NotFound { plan: id };
    let head = plan_heads::find(tx, id)?.ok_or_else(not_found)?;
    let plan = of_head(tx, head)?.ok_or_else(not_found)?;
    if plan.state.is_final() {
        return Err(DecisionStoreError::Final { plan: id, state: plan.state });
    }
    let new = NewDecision { attempt: plan.attempt, phase: plan.state.phase(), ..new };
    decide_one(tx, head, id, new, at)
}

/// Stores the decision that comes with a manual move, and supersedes those before it.
pub(super) fn keep_by_hand(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    decided: TransitionDecisions,
    at: WriteTime,
) -> Result<(), DecisionStoreError> {
    let superseding = match decided.superseding {
        None => None,
        Some(place) => {
            let first = queries::count_decisions(tx, head)?.saturating_add(1);
            let by = first.saturating_add(u32::try_from(place).unwrap_or(u32::MAX));
            Some((by, queries::supersede(tx, head, by, decided.giving_way.as_ref())?))
        }
    };
    for new in decided.new {
        decide_one(tx, head, plan, new, at)?;
    }
    if let Some((by, gave_way)) = superseding.filter(|(_, gave_way)| !gave_way.is_empty()) {
        tell(tx, head, [event_draft::decision_superseded(&gave_way, by)], at.wall)?;
    }
    Ok(())
}

pub(super) fn decide_one(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    new: NewDecision,
    at: WriteTime,
) -> Result<Decision, DecisionStoreError> {
    let next = "UPDATE plan_heads SET decisions = decisions + 1 WHERE no = ?1 RETURNING decisions";
    let seq = tx.the(next, [head.0], |row| row.get(0))?;
    new.check(seq, |other| Ok::<_, DecisionStoreError>(queries::stands(tx, head, other)?))?;
    let decision = Decision::new(plan, seq, new, at.wall);
    queries::insert_decision(tx, head, &decision)?;
    tell(tx, head, [event_draft::decision_recorded(&decision)], at.wall)?;
    Ok(decision)
}
