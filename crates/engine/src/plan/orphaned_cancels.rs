//! Finishes cancels that were requested and never acknowledged, because the process that owned the job died:
//! the next process that opens the data directory finishes them.
//!
//! # Invariants
//! 1. Only a plan whose cancel was requested is cancelled: a plan whose owner just died waits for the user. A
//!    plan that was to be stopped to begin again does that.
//! 2. Without a worker that is gone this costs one look at a directory.
//! 3. It never blocks the command: a cancel that cannot be finished now is left as it was, and reported as
//!    interrupted.
//!
//! # Not here
//! Taking the place of a dead owner: `cancel`.

use std::time::Duration;

use domain::{APPLY_WITHDRAWN, CancelRequest, Job, JobState, PlanId, STOPPED_TO_REPLAN};

use crate::engine::Engine;
use crate::workers::registry::dead_worker_ids;

/// The time that one of them may take.
const FINISH_WAIT: Duration = Duration::from_secs(30);

impl Engine {
    /// Finishes what was left of cancels; says of which plans.
    pub async fn finish_cancels(&self) -> Vec<PlanId> {
        let gone = dead_worker_ids(&self.inner.options.data_dir);
        if gone.is_empty() {
            return Vec::new();
        }
        let jobs = self.inner.store.jobs(None).await.unwrap_or_default();
        let asked = |job: Job| {
            let is_left =
                job.state == JobState::Running && job.worker.is_some_and(|worker| gone.contains(&worker));
            job.cancel.filter(|_| is_left).map(|cancel| (job.plan, cancel))
        };
        let mut finished = Vec::new();
        for (plan, CancelRequest { reason, .. }) in jobs.into_iter().filter_map(asked) {
            let is_finished = match reason.as_str() {
                STOPPED_TO_REPLAN => self.stop_to_replan(plan, FINISH_WAIT).await.is_ok(),
                APPLY_WITHDRAWN => self.withdraw_apply(plan, FINISH_WAIT).await.is_ok(),
                _ => self.cancel(plan, &reason, FINISH_WAIT).await.is_ok(),
            };
            if is_finished {
                finished.push(plan);
            }
        }
        finished
    }
}
