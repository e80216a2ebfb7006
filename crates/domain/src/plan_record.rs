//! All that is kept of one plan's run: its jobs, its changesets, its errors; and every write to them.
//!
//! # Invariants
//! 1. A plan has at most one live job, and so at most one owner.
//! 2. Every write of an owner shows its claim, and is refused unless the job runs under that very fence:
//!    check and write are one call, so nothing can come between.
//! 3. No open changeset outlives its owner: success closes what is still open; release, takeover, failure and
//!    cancel interrupt it; in the same step that moves the job.
//!
//! # Not here
//! Locks: whoever keeps a record calls one method of it in one critical section.

use std::collections::BTreeMap;

use crate::change::NewChange;
use crate::changeset::{ChangesetError, Changesets, Closed, Ending, Recorded, Started};
use crate::class::ErrorClass;
use crate::error::NewError;
use crate::error_history::ErrorHistory;
use crate::id::{ChangesetId, Claim, JobId, PlanId};
use crate::job::{Job, JobEvent, JobRefused, JobState, LeaseLost, NewJob};
use crate::recovery::{Policy, Recovery};
use crate::time::Ms;

/// Why an owner's write to a changeset was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is not, or no longer, the owner.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// The changeset said no.
    #[error(transparent)]
    Changeset(#[from] ChangesetError),
}

impl RecordError {
    /// How to take it.
    pub fn class(&self) -> ErrorClass {
        match self {
            RecordError::LeaseLost(lost) => lost.class(),
            RecordError::Changeset(error) => error.class(),
        }
    }
}

/// The jobs, changesets and errors of one plan. The plan is named by its first job.
///
/// ```
/// use std::time::Duration;
/// use domain::*;
///
/// let (plan, job) = (PlanId::from_u128(1), JobId::from_u128(2));
/// let (worker, boot, lease) = (WorkerId::from_u128(3), BootId::from_u128(4), Duration::from_secs(30));
/// let mut record = PlanRecord::default();
/// record.enqueue(NewJob { id: job, plan, phase: Phase::Execute, not_before: Ms(0) }, Ms(0))?;
/// let old = record.apply_job_event(job, &JobEvent::Claim { worker, boot, lease }, Ms(0))?.claim();
/// let new = record.apply_job_event(job, &JobEvent::TakeOver { worker, boot, lease }, Ms(30_000))?.claim();
/// assert_eq!(record.start_changeset(&new, ChangesetId::from_u128(5)).map(|started| started.ordinal), Ok(1));
/// assert_eq!(record.guard(&old), Err(LeaseLost { job, fence: Fence(1) }));
/// # Ok::<(), JobRefused>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanRecord {
    plan: Option<PlanId>,
    jobs: BTreeMap<JobId, Job>,
    changesets: Changesets,
    errors: ErrorHistory,
}

impl PlanRecord {
    /// Queues a job; the same one again gives the job as it stands.
    ///
    /// # Errors
    /// The plan has another live job, or the id or the record belongs to another plan.
    pub fn enqueue(&mut self, new: NewJob, now: Ms) -> Result<Job, JobRefused> {
        let plan = self.plan.unwrap_or(new.plan);
        if plan != new.plan {
            return Err(JobRefused::OtherPlan { plan });
        }
        if let Some(known) = self.jobs.get(&new.id) {
            let same = known.phase == new.phase;
            return if same { Ok(known.clone()) } else { Err(JobRefused::IdTaken { job: new.id }) };
        }
        if let Some(live) = self.live_job() {
            return Err(JobRefused::PlanBusy { job: live.id });
        }
        let job = Job::new(new, now);
        self.plan = Some(plan);
        self.errors.belongs_to(plan);
        self.jobs.insert(job.id, job.clone());
        Ok(job)
    }

    /// Moves a job, and ends the changesets that lost their owner by it.
    ///
    /// # Errors
    /// There is no such job, or the event's guard does not hold.
    pub fn apply_job_event(&mut self, id: JobId, event: &JobEvent, now: Ms) -> Result<&Job, JobRefused> {
        let job = self.jobs.get_mut(&id).ok_or(JobRefused::NotFound { job: id })?;
        let owner = job.claim();
        *job = job.next(event, now)?;
        if !job.is_owned_by(&owner) {
            let succeeded = job.state == JobState::Succeeded;
            self.changesets.finish(if succeeded { Ending::Closed } else { Ending::Interrupted });
        }
        Ok(job)
    }

    /// Whether `claim` is that of the present owner.
    ///
    /// # Errors
    /// It is not: the job is not running, or under another fence.
    pub fn guard(&self, claim: &Claim) -> Result<(), LeaseLost> {
        match self.jobs.get(&claim.job) {
            Some(job) if job.is_owned_by(claim) => Ok(()),
            Some(_) | None => Err(LeaseLost { job: claim.job, fence: claim.fence }),
        }
    }

    /// Starts a changeset for the owner; see [`Changesets::start`].
    ///
    /// # Errors
    /// The claim is not the owner's, or the changeset says no.
    pub fn start_changeset(&mut self, claim: &Claim, id: ChangesetId) -> Result<Started, RecordError> {
        self.guard(claim)?;
        Ok(self.changesets.start(id)?)
    }

    /// Records a change of the owner; see [`Changesets::record`].
    ///
    /// # Errors
    /// The claim is not the owner's, or the changeset says no.
    pub fn record(
        &mut self,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<Recorded, RecordError> {
        self.guard(claim)?;
        Ok(self.changesets.record(id, change)?)
    }

    /// Records a change of the owner into its latest open changeset; see [`Changesets::record_latest`].
    ///
    /// # Errors
    /// The claim is not the owner's, or no changeset is open.
    pub fn record_latest(&mut self, claim: &Claim, change: NewChange) -> Result<Recorded, RecordError> {
        self.guard(claim)?;
        Ok(self.changesets.record_latest(change)?)
    }

    /// Closes a changeset for the owner; see [`Changesets::close`].
    ///
    /// # Errors
    /// The claim is not the owner's, or there is no such changeset.
    pub fn close(&mut self, claim: &Claim, id: ChangesetId) -> Result<Closed, RecordError> {
        self.guard(claim)?;
        Ok(self.changesets.close(id)?)
    }

    /// Ends every open changeset for the owner; see [`Changesets::finish`].
    ///
    /// # Errors
    /// The claim is not the owner's.
    pub fn finish(&mut self, claim: &Claim, how: Ending) -> Result<Vec<Closed>, LeaseLost> {
        self.guard(claim)?;
        Ok(self.changesets.finish(how))
    }

    /// Records an error of the owner and decides what is done about it; see [`ErrorHistory::record`].
    ///
    /// # Errors
    /// The claim is not the owner's.
    pub fn record_error(
        &mut self,
        claim: &Claim,
        policy: &Policy,
        error: NewError,
        now: Ms,
        jitter: u16,
    ) -> Result<Recovery, LeaseLost> {
        self.guard(claim)?;
        Ok(self.errors.record(policy, error, now, jitter))
    }

    /// The plan; none before its first job.
    pub fn plan(&self) -> Option<PlanId> {
        self.plan
    }

    /// The job of this name.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// The one that is queued or running.
    pub fn live_job(&self) -> Option<&Job> {
        self.jobs.values().rev().find(|job| !job.state.is_final())
    }

    /// All jobs, in order of id.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &Job> {
        self.jobs.values()
    }

    /// The changesets.
    pub fn changesets(&self) -> &Changesets {
        &self.changesets
    }

    /// The errors.
    pub fn errors(&self) -> &ErrorHistory {
        &self.errors
    }
}
