//! The transitions of a job: one function from a job and an event to the next job.
//!
//! # Invariants
//! 1. [`Job::next`] is total: every state meets every event in one `match` without a default.
//! 2. A refused event changes nothing.

use std::time::Duration;

use super::{
    APPLY_WITHDRAWN, CancelRequest, Job, JobEvent, JobState, JobTransitionRejection, LOST_LEASES_MAX,
    LeaseLost, PlanInterruption, STOPPED_TO_REPLAN,
};
use crate::id::{BootId, Fence, WorkerId};
use crate::plan::phase::Phase;
use crate::time::Ms;

impl Job {
    /// The job after `event`, or why it cannot be.
    ///
    /// ```
    /// use std::time::Duration;
    /// use domain::*;
    ///
    /// let (id, plan) = (JobId::from_u128(1), PlanId::from_u128(2));
    /// let new = NewJob { id, plan, phase: Phase::Execute, not_before: Ms(0) };
    /// let (worker, boot, lease) = (WorkerId::from_u128(3), BootId::from_u128(4), Duration::from_secs(30));
    /// let running = Job::new(new, Ms(10)).next(&JobEvent::Claim { worker, boot, lease }, Ms(20))?;
    /// assert_eq!((running.state, running.fence), (JobState::Running, Fence(1)));
    /// assert_eq!(running.lease_until, Ms(30_020));
    /// assert!(running.next(&JobEvent::Succeed { fence: Fence::NONE }, Ms(30)).is_err());
    /// # Ok::<(), JobTransitionRejection>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the event's guard does not hold; the job stays as it is.
    pub fn next(&self, event: &JobEvent, now: Ms) -> Result<Job, JobTransitionRejection> {
        use JobEvent as E;
        use JobState as S;
        match (self.state, event) {
            (S::Queued, E::Claim { worker, boot, lease }) => self.claimed(*worker, *boot, *lease, now),
            // Nothing of it runs that could be stopped.
            (S::Queued, E::Cancel { reason }) if reason == STOPPED_TO_REPLAN => {
                Err(JobTransitionRejection::NotRunning)
            }
            (S::Queued, E::Cancel { reason }) => {
                Ok(self.cancel_requested(reason, now).ended(S::Cancelled, now))
            }
            (S::Queued, E::TakeOver { .. } | E::FreeLease { .. } | E::BreakSeal) => {
                Err(JobTransitionRejection::NotRunning)
            }

            (S::Running, E::Claim { .. }) => Err(JobTransitionRejection::AlreadyClaimed),
            (S::Running, E::Heartbeat { fence, lease }) => {
                self.check_owner(*fence)?;
                // Beats may overtake one another on their way to the store: none shortens a lease.
                let lease_until = now.saturating_add(*lease).max(self.lease_until);
                Ok(Job { lease_until, ..self.clone() })
            }
            (S::Running, E::Release { fence }) => self.released(*fence),
            (S::Running, E::Cancel { .. }) if self.sealed_at.is_some() => {
                Err(JobTransitionRejection::CancelTooLate)
            }
            (S::Running, E::Cancel { reason }) => Ok(self.cancel_requested(reason, now)),
            (S::Running, E::Seal { fence }) => self.sealed(*fence, now),
            (S::Running, E::Succeed { fence }) => {
                self.check_owner(*fence)?;
                self.check_no_cancel()?;
                Ok(self.clone().ended(S::Succeeded, now))
            }
            (S::Running, E::Fail { fence, why }) => {
                self.check_owner(*fence)?;
                self.check_no_cancel()?;
                Ok(self.clone().failed(why, now))
            }
            (S::Running, E::Cancelled { fence }) => {
                self.check_owner(*fence)?;
                self.cancel.as_ref().ok_or(JobTransitionRejection::CancelNotRequested)?;
                Ok(self.clone().ended(S::Cancelled, now))
            }
            (S::Running, E::TakeOver { worker, boot, lease }) => self.taken_over(*worker, *boot, *lease, now),
            (S::Running, E::FreeLease { worker }) if self.worker != Some(*worker) => {
                Err(JobTransitionRejection::OtherWorker)
            }
            (S::Running, E::FreeLease { .. }) => Ok(Job { lease_until: Ms(0), ..self.clone() }),
            (S::Running, E::BreakSeal) => Ok(Job { sealed_at: None, ..self.clone() }),
            (S::Running, E::SettledNode { fence }) => {
                self.check_owner(*fence)?;
                Ok(Job { lost_leases: 0, ..self.clone() })
            }

            // A queued job has no owner, not even the one whose fence it still shows.
            (
                S::Queued,
                E::Heartbeat { fence, .. }
                | E::Release { fence }
                | E::Seal { fence }
                | E::Succeed { fence }
                | E::Fail { fence, .. }
                | E::Cancelled { fence }
                | E::SettledNode { fence },
            ) => Err(LeaseLost { job: self.id, fence: *fence }.into()),
            (
                S::Succeeded | S::Failed | S::Cancelled,
                E::Heartbeat { fence, .. }
                | E::Release { fence }
                | E::Seal { fence }
                | E::Succeed { fence }
                | E::Fail { fence, .. }
                | E::Cancelled { fence }
                | E::SettledNode { fence },
            ) => {
                self.check_owner(*fence)?;
                Err(JobTransitionRejection::Final { state: self.state })
            }
            (
                S::Succeeded | S::Failed | S::Cancelled,
                E::Claim { .. } | E::Cancel { .. } | E::TakeOver { .. } | E::FreeLease { .. } | E::BreakSeal,
            ) => Err(JobTransitionRejection::Final { state: self.state }),
        }
    }

    /// Returns whether it is stopped, or was, so that its plan can begin again with another strategy.
    pub fn is_stopped_to_replan(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.reason == STOPPED_TO_REPLAN)
    }

    /// Returns whether it is an apply that was withdrawn, or interrupted, before it wrote anything.
    pub fn is_withdrawn(&self) -> bool {
        let is_asked = self.cancel.as_ref().is_some_and(|cancel| cancel.reason == APPLY_WITHDRAWN);
        (is_asked || self.interruption().is_some()) && self.phase == Phase::Apply
    }

    /// Returns the signal that interrupts it, or interrupted it; `None` if it was not asked to stop, or
    /// cancelled for good.
    pub fn interruption(&self) -> Option<PlanInterruption> {
        self.cancel.as_ref().and_then(|cancel| PlanInterruption::from_reason(&cancel.reason))
    }

    fn check_owner(&self, fence: Fence) -> Result<(), JobTransitionRejection> {
        if fence == self.fence { Ok(()) } else { Err(LeaseLost { job: self.id, fence }.into()) }
    }

    /// Returns whether a cancel was asked for and is still to be acknowledged.
    pub(super) fn cancel_pends(&self) -> bool {
        self.cancel.is_some() && self.sealed_at.is_none()
    }

    fn check_no_cancel(&self) -> Result<(), JobTransitionRejection> {
        if self.cancel_pends() { Err(JobTransitionRejection::CancelRequested) } else { Ok(()) }
    }

    fn claimed(
        &self,
        worker: WorkerId,
        boot: BootId,
        lease: Duration,
        now: Ms,
    ) -> Result<Job, JobTransitionRejection> {
        // The code that picks a held job decides who may claim it.
        if self.not_before > now && !self.is_held() {
            return Err(JobTransitionRejection::NotDue { not_before: self.not_before });
        }
        let started_at = Some(self.started_at.unwrap_or(now));
        Ok(Job { state: JobState::Running, started_at, ..self.owned(worker, boot, lease, now) })
    }

    fn taken_over(
        &self,
        worker: WorkerId,
        boot: BootId,
        lease: Duration,
        now: Ms,
    ) -> Result<Job, JobTransitionRejection> {
        if !self.lease_is_dead(now, boot) {
            return Err(JobTransitionRejection::LeaseAlive { until: self.lease_until });
        }
        let lost_leases = self.lost_leases.saturating_add(1);
        // A pending cancel is not run again, it is only brought to its end: that cannot kill another worker.
        if lost_leases <= LOST_LEASES_MAX || self.cancel_pends() {
            return Ok(Job { lost_leases, ..self.owned(worker, boot, lease, now) });
        }
        // Under a fence of its own, so that an owner which was only paused hears that it lost the job.
        let given_up = Job { lost_leases, fence: self.fence.next(), ..self.clone() };
        Ok(given_up.failed(&format!("its worker died {lost_leases} times"), now))
    }

    fn owned(&self, worker: WorkerId, boot: BootId, lease: Duration, now: Ms) -> Job {
        Job {
            fence: self.fence.next(),
            worker: Some(worker),
            boot: Some(boot),
            lease_until: now.saturating_add(lease),
            ..self.clone()
        }
    }

    fn released(&self, fence: Fence) -> Result<Job, JobTransitionRejection> {
        self.check_owner(fence)?;
        if self.sealed_at.is_some() {
            return Err(JobTransitionRejection::Sealed);
        }
        self.check_no_cancel()?;
        Ok(Job { state: JobState::Queued, worker: None, boot: None, lease_until: Ms(0), ..self.clone() })
    }

    fn sealed(&self, fence: Fence, now: Ms) -> Result<Job, JobTransitionRejection> {
        self.check_owner(fence)?;
        if self.phase != Phase::Apply {
            return Err(JobTransitionRejection::NotApply { phase: self.phase });
        }
        self.check_no_cancel()?;
        Ok(Job { sealed_at: Some(self.sealed_at.unwrap_or(now)), ..self.clone() })
    }

    /// The first request counts, except that a cancel for good replaces an interruption.
    fn cancel_requested(&self, reason: &str, now: Ms) -> Job {
        let is_replaced = self.interruption().is_some() && PlanInterruption::from_reason(reason).is_none();
        let first = || CancelRequest { at: now, reason: reason.to_owned() };
        let earlier = self.cancel.clone().filter(|_| !is_replaced);
        Job { cancel: Some(earlier.unwrap_or_else(first)), ..self.clone() }
    }

    fn failed(self, why: &str, now: Ms) -> Job {
        Job { why: Some(why.to_owned()), ..self.ended(JobState::Failed, now) }
    }

    fn ended(self, state: JobState, now: Ms) -> Job {
        Job { state, lease_until: Ms(0), finished_at: Some(now), ..self }
    }
}
