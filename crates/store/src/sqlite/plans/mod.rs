//! Plans in SQLite: made, moved, listed, forgotten.
//!
//! # Invariants
//! 1. Every move is a pure function of `domain` between a read and a write of one transaction.
//! 2. Forgetting a plan removes, by the foreign keys, all rows that refer to it.

mod decisions;
mod port;
mod queries;
mod spec_cache;

use domain::record::event_draft;
use domain::{
    Decision, Initiator, JobTransitionRejection, ManualTransition, NewDecision, NewJob, NewPlan, Plan,
    PlanEvent, PlanId, PlanMoveError, TransitionResult,
};

use super::jobs::{WriteTime, keep_queued, known_of, live_of, may_be_queued};
use super::plan_heads;
use super::plan_heads::{PlanHead, tell};
use super::transaction::Tx;
use super::{calls, contents as content_rows, ledger};
use crate::plan_store::may_be_forgotten;
use crate::{ChangesetStoreError, DecisionStoreError, PlanMove, PlanStoreError, StoreError};
use decisions::decide_one;
pub(super) use queries::{attempt_of, of_head};

/// Stores a plan after `event`, and records the event.
pub(super) fn keep_moved(
    tx: &Tx<'_>,
    head: PlanHead,
    before: &Plan,
    moved: &Plan,
    event: PlanEvent,
    by: Initiator,
    at: WriteTime,
) -> Result<(), StoreError> {
    queries::save(tx, head, moved)?;
    tell(tx, head, [event_draft::plan_moved(before, moved, event, by)], at.wall)
}

/// Stores a plan whose apply was undone or is valid again.
pub(super) fn keep_undone(tx: &Tx<'_>, head: PlanHead, plan: &Plan) -> Result<(), StoreError> {
    queries::save(tx, head, plan)
}

fn create(
    tx: &Tx<'_>,
    new: NewPlan,
    decisions: Vec<NewDecision>,
    job: NewJob,
    at: WriteTime,
) -> Result<Plan, PlanStoreError> {
    let head = plan_heads::find(tx, new.id)?;
    let known = head.map_or(Ok(None), |head| of_head(tx, head))?;
    if let (Some(head), Some(plan)) = (head, known) {
        let is_the_same = plan.was_made_by(&new) && began_with(tx, head, &decisions, &job)?;
        return if is_the_same { Ok(plan) } else { Err(PlanStoreError::IdTaken { plan: new.id }) };
    }
    may_be_queued(tx, &job)?;
    let head = plan_heads::find_or_make(tx, new.id)?;
    if known_of(tx, head, job.id)?.is_some() {
        return Err(PlanStoreError::Job(JobTransitionRejection::IdTaken { job: job.id }));
    }
    if let Some(live) = live_of(tx, head)? {
        return Err(PlanStoreError::Job(JobTransitionRejection::PlanBusy { job: live.id }));
    }
    let (first, moves) = Plan::made_for(new, job.phase, at.wall);
    let plan = moves.last().map_or(&first, |(plan, _)| plan).clone();
    plan.waits_for(&job).map_err(PlanStoreError::Job)?;
    queries::insert(tx, head, &plan)?;
    ledger::open_accounts(tx, head, &plan)?;
    tell(tx, head, [event_draft::plan_created(&first)], at.wall)?;
    for decision in decisions {
        decide_one(tx, head, plan.id, decision, at).map_err(from_decide)?;
    }
    tell(tx, head, event_draft::plan_made(&first, &moves), at.wall)?;
    keep_queued(tx, head, &plan.queued(job, at.now), at)?;
    Ok(plan)
}

/// Returns whether these were the first decisions and a job of the plan.
fn began_with(
    tx: &Tx<'_>,
    head: PlanHead,
    decisions: &[NewDecision],
    job: &NewJob,
) -> Result<bool, StoreError> {
    let has_job = known_of(tx, head, job.id)?.is_some_and(|known| known.phase == job.phase);
    Ok(has_job && Decision::are(&queries::decisions(tx, head, job.plan)?, decisions))
}

fn move_plan(tx: &Tx<'_>, request: PlanMove, at: WriteTime) -> Result<Plan, PlanStoreError> {
    let PlanMove { plan: id, version, event, by, job, request, decisions, record, contents, spec } = request;
    let not_found = || PlanStoreError::NotFound { plan: id };
    let head = plan_heads::find(tx, id)?.ok_or_else(not_found)?;
    let plan = of_head(tx, head)?.ok_or_else(not_found)?;
    if let Some(job) = &job {
        may_be_queued(tx, job)?;
    }
    let known = job.map_or(Ok(None), |job| known_of(tx, head, job.id))?;
    let live = live_of(tx, head)?;
    let asked = ManualTransition { version, event, job, request, decisions, record, spec };
    let moved = asked.resolve(&plan, live.as_ref(), known.as_ref(), at.now, at.wall);
    match moved.map_err(|refused| from_move(id, refused))? {
        TransitionResult::Before => Ok(plan),
        TransitionResult::Now { .. } if has_open_apply(tx, head)? => {
            Err(PlanStoreError::Job(asked.refused_by_open_apply()))
        }
        TransitionResult::Now { plan: moved, job } => {
            keep_moved(tx, head, &plan, &moved, event, by, at)?;
            if asked.spec.is_some() {
                queries::save_spec(tx, head, &moved)?;
            }
            let decided = asked.decisions(&moved, by);
            decisions::keep_by_hand(tx, head, id, decided, at).map_err(from_decide)?;
            if let Some(record) = &asked.record {
                contents.iter().try_for_each(|staged| content_rows::keep(tx, staged))?;
                calls::keep_recorded(tx, head, &moved, record, at).map_err(from_changes)?;
            }
            if let Some(job) = job {
                keep_queued(tx, head, &job, at)?;
            }
            Ok(*moved)
        }
    }
}

fn has_open_apply(tx: &Tx<'_>, head: PlanHead) -> Result<bool, StoreError> {
    let open = "SELECT 1 FROM applies WHERE head = ?1 AND stage = 'sealed' LIMIT 1";
    Ok(tx.one(open, [head.0], |_| Ok(()))?.is_some())
}

fn from_move(plan: PlanId, error: PlanMoveError) -> PlanStoreError {
    match error {
        PlanMoveError::NotFound => PlanStoreError::NotFound { plan },
        PlanMoveError::Moved { plan } => PlanStoreError::Moved { plan },
        PlanMoveError::Refused(refused) => PlanStoreError::Refused(refused),
        PlanMoveError::Job(refused) => PlanStoreError::Job(refused),
        PlanMoveError::IdTaken { plan } => PlanStoreError::IdTaken { plan },
        PlanMoveError::Changes(error) => PlanStoreError::Changes(error),
    }
}

fn from_changes(error: ChangesetStoreError) -> PlanStoreError {
    match error {
        ChangesetStoreError::Changeset(error) => PlanStoreError::Changes(error),
        ChangesetStoreError::Store(error) => PlanStoreError::Store(error),
    }
}

fn from_decide(error: DecisionStoreError) -> PlanStoreError {
    match error {
        DecisionStoreError::Invalid(invalid) => PlanStoreError::Refused(invalid.into()),
        DecisionStoreError::NotFound { plan } => PlanStoreError::NotFound { plan },
        DecisionStoreError::Final { state, .. } => {
            PlanStoreError::Job(JobTransitionRejection::PlanNotReady { state })
        }
        DecisionStoreError::Store(error) => PlanStoreError::Store(error),
    }
}

fn forget(tx: &Tx<'_>, id: PlanId) -> Result<bool, StoreError> {
    let Some(head) = plan_heads::find(tx, id)? else { return Ok(false) };
    // Its state is enough: a plan that a newer program made can be forgotten, too.
    if !queries::state_of(tx, head)?.is_some_and(may_be_forgotten) {
        return Ok(false);
    }
    tx.run("DELETE FROM plan_heads WHERE no = ?1", [head.0])?;
    Ok(true)
}
