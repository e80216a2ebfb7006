//! Sends a plan that is being worked on back to a new strategy.
//!
//! # How it goes
//! Its job is asked to stop as by a cancel, with a reason of its own ([`STOPPED_TO_REPLAN`]). The owner does
//! the same as for every cancel: it closes its gate, kills the live processes, captures the changes, and ends
//! the job. The plan has failed by that. Then the owner or the person's process, whichever is first, moves it
//! back: reversion, guidance, counters, state and the next job are one step.
//!
//! # Invariants
//! 1. Nothing of the old attempt has an effect once the plan begins again: its job is over, and no process
//!    has its fence.
//! 2. The request is stored before anything is stopped, and the first process that finds the plan stopped
//!    sends it back. If this process dies, that is the owner, a worker, or the next `plan resume`.
//! 3. A plan that ended meanwhile, or was cancelled before, is not sent back by this.

use std::time::Duration;

use domain::{
    HELD, Initiator, JobState, JobTransitionRejection, NewJob, Phase, Plan, PlanEvent, PlanId, PlanState,
    PlanTransitionRejection, STOPPED_TO_REPLAN, WorkState,
};
use store::{JobStoreError, PlanMove, PlanStoreError};

use super::built_in_decisions;
use super::cancel::CancelError;
use super::guidance::{GuidanceError, GuidanceOutcome};
use super::transition::plan_move;
use crate::engine::Engine;
use crate::plan::execute::ExecuteError;
use crate::query::details::store_error;
use crate::workers::notify::Notification;
use crate::workers::registry::{live_workers, release_dead_leases};

/// The number of times that a plan is looked at that moves meanwhile.
const LOOKS_MAX: u32 = 3;

impl Engine {
    /// Stops a plan that is worked on, and has it begin again.
    ///
    /// # Errors
    /// It came to an end before, cannot be stopped any more, or its owner does not answer.
    pub(crate) async fn stop_to_replan(
        &self,
        id: PlanId,
        wait: Duration,
    ) -> Result<GuidanceOutcome, GuidanceError> {
        let before = self.inner.store.plan(id).await?;
        for _ in 0..LOOKS_MAX {
            let plan = self.inner.store.plan(id).await?;
            if plan.attempt > before.attempt {
                return Ok(GuidanceOutcome::HandedOn);
            }
            if plan.state.is_final() {
                return Err(GuidanceError::Final { plan: id, state: plan.state });
            }
            let Some(job) = self.live_job(id).await? else {
                match self.send_back(&plan).await? {
                    Some(guided) => return Ok(guided),
                    None => continue,
                }
            };
            if job.state != JobState::Running {
                return Err(GuidanceError::Busy { plan: id, state: plan.state });
            }
            let waiter = self.plan_waiter(id);
            match self.inner.store.cancel(job.id, STOPPED_TO_REPLAN).await {
                Ok(_) => {}
                Err(JobStoreError::Refused(JobTransitionRejection::CancelTooLate)) => {
                    return Err(GuidanceError::Busy { plan: id, state: plan.state });
                }
                // It has ended or was given back meanwhile.
                Err(JobStoreError::Refused(_)) => continue,
                Err(other) => return Err(store_error(other).into()),
            }
            self.hint();
            self.inner.send_notification(Notification::Cancel(job.id));
            let buried = release_dead_leases(&self.inner.options.data_dir, self.inner.store.as_ref()).await;
            buried.map_err(store_error)?;
            self.await_end(&job, waiter, wait).await.map_err(|error| not_stopped(id, error))?;
        }
        let plan = self.inner.store.plan(id).await?;
        Err(GuidanceError::Busy { plan: id, state: plan.state })
    }

    /// Moves a plan back that has no job any more; `None` if another process moved it first.
    async fn send_back(&self, plan: &Plan) -> Result<Option<GuidanceOutcome>, GuidanceError> {
        let jobs = self.inner.store.jobs(Some(plan.id)).await.map_err(store_error)?;
        let Some(last) = jobs.last() else { return Ok(None) };
        let is_served = live_workers(&self.inner.options.data_dir).has_for_job(last);
        let guided = if is_served { GuidanceOutcome::HandedOn } else { GuidanceOutcome::Replanned };
        // Held for who served the last one, or left to the workers as that was.
        let id = self.new_job(plan.id, Phase::Strategize, HELD).id;
        let job = NewJob::after(last, id, Phase::Strategize);
        let decisions = self.inner.going_back_by(plan, built_in_decisions::reversion_by_person()).await?;
        let back = plan_move(plan, PlanEvent::Revert, Initiator::User, Some(job));
        match self.move_plan(PlanMove { decisions, ..back }).await {
            Ok(_) => {
                self.inner.send_notification(Notification::Work);
                Ok(Some(guided))
            }
            Err(ExecuteError::Busy { .. }) => Ok(None),
            Err(ExecuteError::Plan(PlanStoreError::Refused(PlanTransitionRejection::ReversionsSpent))) => {
                Err(GuidanceError::ReversionsSpent { plan: plan.id })
            }
            Err(other) => Err(other.into()),
        }
    }
}

fn not_stopped(plan: PlanId, error: CancelError) -> GuidanceError {
    match error {
        CancelError::Unconfirmed { .. } => GuidanceError::NotStopped { plan },
        CancelError::TooLate { .. } => {
            GuidanceError::Busy { plan, state: PlanState::Execute(WorkState::Processing) }
        }
        CancelError::Final { plan, state } => GuidanceError::Final { plan, state },
        CancelError::Plan(error) => GuidanceError::Plan(error),
        CancelError::Execute(error) => (*error).into(),
    }
}
