//! Moves a plan by hand and queues the job that the move is for, in one step of the store.
//!
//! # Not here
//! The events that a state allows: `domain`. The decision to pass a gate: `gates`.

use domain::{Initiator, JobTransitionRejection, NewJob, Plan, PlanEvent};
use serde_json::Value;
use store::{PlanMove, PlanStoreError};

use super::execute::ExecuteError;
use crate::engine::Engine;

/// Returns the move of a plan as it was seen, without a selection and without decisions.
pub(crate) fn plan_move(plan: &Plan, event: PlanEvent, by: Initiator, job: Option<NewJob>) -> PlanMove {
    PlanMove {
        plan: plan.id,
        version: plan.version,
        event,
        by,
        job,
        request: Value::Null,
        decisions: Vec::new(),
        record: None,
        contents: Vec::new(),
        spec: None,
    }
}

impl Engine {
    /// Moves the plan.
    ///
    /// # Errors
    /// Returns an error if the plan has a live job, has moved since it was seen, or does not allow the event.
    pub(crate) async fn move_plan(&self, asked: PlanMove) -> Result<Plan, ExecuteError> {
        let id = asked.plan;
        match self.inner.store.move_plan(asked).await {
            Err(PlanStoreError::Job(JobTransitionRejection::PlanBusy { job })) => {
                Err(ExecuteError::Busy { plan: id, worker: format!("job {job}") })
            }
            Err(PlanStoreError::Moved { plan }) => {
                Err(ExecuteError::Busy { plan: plan.id, worker: "another process".to_owned() })
            }
            other => Ok(other?),
        }
    }
}
