//! Moves detached plans to their next phase, as far as their gates allow it.
//!
//! # Invariants
//! 1. A plan whose last job was held is not moved here: the process that serves it does that.
//! 2. A gate that waits for the user is never passed.
//! 3. Two workers that move one plan move it once: the store knows which version each has seen.

use std::collections::BTreeSet;

use domain::{GateDecision, NewJob, Plan, PlanId, PlanState, WorkState};
use store::{PlanFilter, StoreError};

use super::gates::{NextAction, gate_initiator, gated_phase};
use crate::engine::Engine;
use crate::plan::execute::ExecuteError;
use crate::plan::gates::GateStatus;
use crate::query::details::store_error;

/// The number of plans that are looked at that may have been left behind.
const LEFT_BEHIND_MAX: usize = 10_000;

/// Plans that were between two phases without a process to move them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StrandedPlans {
    /// The number of plans that continue now.
    pub(crate) moved: usize,
    /// The number of plans that could not be moved: the queue is full, or the store did not answer.
    pub(crate) stuck: usize,
}

impl Engine {
    /// Queues the plan's next phase, if it continues by itself; returns whether it does.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn advance(&self, id: PlanId) -> Result<bool, ExecuteError> {
        let plan = self.inner.store.plan(id).await?;
        let jobs = self.inner.store.jobs(Some(id)).await.map_err(store_error)?;
        let Some(last) = jobs.last().filter(|job| !job.is_held() && job.state.is_final()) else {
            return Ok(false);
        };
        let NextAction::Pass(point) = self.next_action(&plan).await? else { return Ok(false) };
        let phase = gated_phase(point);
        let job = NewJob::after(last, self.new_job(id, phase, domain::Ms(0)).id, phase);
        match self.pass_gate(&plan, point, job, gate_initiator(point)).await {
            // Another process was faster.
            Err(ExecuteError::Busy { .. }) => Ok(false),
            moved => moved.map(|_| true),
        }
    }

    /// Moves on all plans whose worker died between two phases. One that cannot be moved does not prevent the
    /// others.
    ///
    /// # Errors
    /// The store failed as a whole.
    pub(crate) async fn advance_stranded(&self) -> Result<StrandedPlans, ExecuteError> {
        let mut found = StrandedPlans::default();
        // Those that failed may have been about to begin again with another strategy.
        let places = [("strategize", "complete"), ("execute", "complete")];
        let failed = ["strategize", "execute", "apply"].map(|phase| (phase, "errored"));
        for (phase, state) in places.into_iter().chain(failed) {
            let filter = PlanFilter {
                phase: Some(phase.to_owned()),
                state: Some(state.to_owned()),
                root: None,
                limit: LEFT_BEHIND_MAX,
                batch: None,
            };
            let plans = self.inner.store.newest_plans(&filter).await?;
            for plan in plans.iter().filter(|plan| may_go_on(plan)) {
                match self.advance(plan.id).await {
                    Ok(is_moved) => found.moved += usize::from(is_moved),
                    Err(_) => found.stuck += 1,
                }
            }
        }
        Ok(found)
    }

    /// Returns whether a live worker is about to queue the next phase of a plan that has no job, and is at
    /// this gate.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn goes_on(&self, plan: &Plan, gate: Option<GateStatus>) -> Result<bool, StoreError> {
        let goes = gate.is_some_and(|gated| gated.goes());
        if !goes || !self.has_worker_for(&BTreeSet::new()) {
            return Ok(false);
        }
        let jobs = self.inner.store.jobs(Some(plan.id)).await.map_err(store_error)?;
        Ok(jobs.last().is_some_and(|job| !job.is_held() && job.state.is_final()))
    }
}

/// Returns whether the plan may continue by itself: one whose work is done does so only if a yes to applying
/// it was given before.
pub(crate) fn may_go_on(plan: &Plan) -> bool {
    let has_a_yes = plan.spec.apply == GateDecision::Auto || plan.spec.automation.apply == GateDecision::Auto;
    plan.state != PlanState::Execute(WorkState::Complete) || has_a_yes
}
