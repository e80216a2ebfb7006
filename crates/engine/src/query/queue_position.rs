//! The position of a plan in the queue: the number of busy slots, and of plans before it.
//!
//! # Invariants
//! A plan that waits for a person is no part of the queue: a held job counts when a live process serves its
//! plan.

use domain::{Job, JobState, Ms, Phase};
use store::StoreError;

use super::details::store_error;
use crate::engine::EngineInner;
use crate::workers::registry::{LiveWorkers, live_workers};

/// The position of a queued plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// The number of plans that may work at once (`plan.concurrency`).
    pub slots: u32,
    /// The number of these slots that are busy.
    pub busy: usize,
    /// The number of plans that wait and come first.
    pub before: usize,
    /// True if a live process will take it up.
    pub is_served: bool,
    /// True if it waits for a process of its own, and not for a worker.
    pub is_held: bool,
}

impl QueuePlace {
    /// Returns true if it has to wait for a slot.
    pub fn waits_for_slot(&self) -> bool {
        usize::try_from(self.slots).is_ok_and(|slots| self.busy >= slots)
    }
}

impl EngineInner {
    /// Returns the number of plans that wait before all that were left to the workers, each with a live
    /// process of its own. A worker that takes any plan leaves as many slots to them: they would never be
    /// faster than one that is at work already.
    pub(crate) async fn waiting_first(&self) -> Result<usize, StoreError> {
        let served = live_workers(&self.options.data_dir);
        if served.plans.is_empty() {
            return Ok(0);
        }
        let live_jobs = self.store.live_jobs().await.map_err(store_error)?;
        let queued = live_jobs.iter().filter(|job| job.state == JobState::Queued);
        // They come in order of id.
        let first = queued.take_while(|job| job.is_held());
        Ok(first.filter(|job| served.plans.contains(&job.plan)).count())
    }

    /// Returns the position of this job in the queue; `None` if it does not wait.
    pub(crate) async fn queue_place(&self, job: &Job) -> Result<Option<QueuePlace>, StoreError> {
        if job.state != JobState::Queued {
            return Ok(None);
        }
        let served = live_workers(&self.options.data_dir);
        let live_jobs = self.store.live_jobs().await.map_err(store_error)?;
        Ok(self.position_in_queue(job, &live_jobs, &served))
    }

    /// The same, among these jobs.
    pub(crate) fn position_in_queue(
        &self,
        job: &Job,
        live_jobs: &[Job],
        served: &LiveWorkers,
    ) -> Option<QueuePlace> {
        // An apply that is held for a process of its own waits for no slot.
        if job.state != JobState::Queued || (job.phase == Phase::Apply && job.is_held()) {
            return None;
        }
        let now = Ms::from(self.clock.now());
        let is_busy = |other: &&Job| other.state == JobState::Running && !other.lease_is_dead(now, self.boot);
        let waits = |other: &&Job| {
            let is_wanted = !other.is_held() || served.plans.contains(&other.plan);
            other.state == JobState::Queued && other.id < job.id && is_wanted
        };
        Some(QueuePlace {
            slots: self.options.plan_concurrency,
            busy: live_jobs.iter().filter(is_busy).count(),
            before: live_jobs.iter().filter(waits).count(),
            is_served: served.has_for_job(job),
            is_held: job.is_held(),
        })
    }
}
