//! Sends a plan that is being worked on back to a new strategy.
//!
//! # How it goes
//! Its job is asked to stop as by a cancel, with a reason of its own ([`STOPPED_TO_REPLAN`]). The owner does what it does
//! for every cancel: it closes its gate, kills what lives, captures what was changed, and ends the job; the plan has failed
//! by that. Then whoever comes first, the owner or the person's process, moves it back: reversion, guidance, counters, state
//! and the next job are one step.
//!
//! # Invariants
//! 1. Nothing of the old attempt has an effect once the plan begins again: its job is over, and nobody has its fence.
//! 2. The request is stored before anything is stopped, and the plan is sent back by whoever finds it stopped: should this
//!    process die, it is the owner, a worker, or the next `plan resume`.
//! 3. A plan that ended meanwhile, or was cancelled before, is not sent back by this.

use std::time::Duration;

use domain::{
    HELD, JobRefused, JobState, NewJob, Phase, Plan, PlanEvent, PlanId, PlanRefused, PlanState,
    STOPPED_TO_REPLAN, Work,
};
use serde_json::Value;
use store::{JobStoreError, PlanStoreError};

use super::built_in_decisions;
use super::cancel::CancelError;
use super::guidance::{GuideError, Guided};
use crate::engine::Engine;
use crate::plan::execute::ExecuteError;
use crate::query::details::store_error;
use crate::workers::notify::Hint;
use crate::workers::registry::{bury_the_dead, served};

/// How often a plan is looked at that moves meanwhile.
const LOOKS_MAX: u32 = 3;

impl Engine {
    /// Stops a plan that is worked on, and has it begin again.
    ///
    /// # Errors
    /// It came to an end before, cannot be stopped any more, or its owner does not answer.
    pub(crate) async fn stop_to_replan(&self, id: PlanId, wait: Duration) -> Result<Guided, GuideError> {
        let before = self.house.store.plan(id).await?;
        for _ in 0..LOOKS_MAX {
            let plan = self.house.store.plan(id).await?;
            if plan.attempt > before.attempt {
                return Ok(Guided::HandedOn);
            }
            if plan.state.is_final() {
                return Err(GuideError::Final { plan: id, state: plan.state });
            }
            let Some(job) = self.live_job(id).await? else {
                match self.send_back(&plan).await? {
                    Some(guided) => return Ok(guided),
                    None => continue,
                }
            };
            if job.state != JobState::Running {
                return Err(GuideError::Busy { plan: id, state: plan.state });
            }
            let waiter = self.waiter(id);
            match self.house.store.cancel(job.id, STOPPED_TO_REPLAN).await {
                Ok(_) => {}
                Err(JobStoreError::Refused(JobRefused::CancelTooLate)) => {
                    return Err(GuideError::Busy { plan: id, state: plan.state });
                }
                // It has ended or was given back meanwhile.
                Err(JobStoreError::Refused(_)) => continue,
                Err(other) => return Err(store_error(other).into()),
            }
            self.hint();
            self.house.send_hint(Hint::Cancel(job.id));
            let buried = bury_the_dead(&self.house.options.data_dir, self.house.store.as_ref()).await;
            buried.map_err(store_error)?;
            self.await_end(&job, waiter, wait).await.map_err(|error| not_stopped(id, error))?;
        }
        let plan = self.house.store.plan(id).await?;
        Err(GuideError::Busy { plan: id, state: plan.state })
    }

    /// Moves a plan back that has no job any more; none when somebody else moved it first.
    async fn send_back(&self, plan: &Plan) -> Result<Option<Guided>, GuideError> {
        let jobs = self.house.store.jobs(Some(plan.id)).await.map_err(store_error)?;
        let Some(last) = jobs.last() else { return Ok(None) };
        let is_served = served(&self.house.options.data_dir).has_for_job(last);
        let guided = if is_served { Guided::HandedOn } else { Guided::Replanned };
        // Held for who served the last one, or left to the workers as that was.
        let id = self.new_job(plan.id, Phase::Strategize, HELD).id;
        let job = NewJob::after(last, id, Phase::Strategize);
        let decisions = self.house.going_back_by(plan, built_in_decisions::reversion_by_person()).await?;
        match self.move_for(plan, PlanEvent::Revert, job, "person", Value::Null, decisions).await {
            Ok(_) => {
                self.house.send_hint(Hint::Work);
                Ok(Some(guided))
            }
            Err(ExecuteError::Busy { .. }) => Ok(None),
            Err(ExecuteError::Plan(PlanStoreError::Refused(PlanRefused::ReversionsSpent))) => {
                Err(GuideError::ReversionsSpent { plan: plan.id })
            }
            Err(other) => Err(other.into()),
        }
    }
}

fn not_stopped(plan: PlanId, error: CancelError) -> GuideError {
    match error {
        CancelError::Unconfirmed { .. } => GuideError::NotStopped { plan },
        CancelError::TooLate { .. } => GuideError::Busy { plan, state: PlanState::Execute(Work::Processing) },
        CancelError::Final { plan, state } => GuideError::Final { plan, state },
        CancelError::Plan(error) => GuideError::Plan(error),
        CancelError::Execute(error) => (*error).into(),
    }
}
