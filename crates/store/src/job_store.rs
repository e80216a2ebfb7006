//! The port for jobs: queued, claimed with a lease and a fence, ended once.

use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Claim, ClaimRequest, ConstraintReason, ErrorClass, Fence, Job, JobId, JobState, JobTransitionRejection,
    NewJob, PlanId, WorkerId, why_constrained,
};
use sync::{Effect, Finisher};

use crate::StoreError;

/// Limits how many jobs may be queued in one store, before one that is left to the workers is refused.
pub const QUEUED_JOBS_MAX: usize = 10_000;

/// The reason why a job did not move.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobStoreError {
    /// The job's rules said no.
    #[error(transparent)]
    Refused(JobTransitionRejection),
    /// Too many jobs wait already.
    #[error("the queue is full: {queued} jobs wait")]
    QueueFull {
        /// The number of queued jobs.
        queued: usize,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl JobStoreError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused(refused) => refused.class(),
            Self::QueueFull { .. } => ErrorClass::Permanent,
            Self::Store(error) => error.class(),
        }
    }
}

impl From<JobTransitionRejection> for JobStoreError {
    /// A lost lease is the same to the caller whichever call met it.
    fn from(refused: JobTransitionRejection) -> Self {
        if let JobTransitionRejection::LeaseLost(lost) = refused {
            Self::Store(lost.into())
        } else {
            Self::Refused(refused)
        }
    }
}

/// The end that an owner gives a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// The phase is done.
    Succeeded,
    /// The phase could not be done.
    Failed {
        /// The reason.
        why: String,
    },
    /// A gate or a conflict prevents an apply; nothing was written. The job failed, the plan is
    /// constrained.
    Constrained {
        /// The gates or conflicts that prevent it.
        reasons: Vec<ConstraintReason>,
    },
    /// Everything of it has stopped, as was asked for. The commit of this is the acknowledgement of the
    /// cancel.
    Cancelled,
}

impl JobEnd {
    /// Returns whether the owner of this claim ended the job so before: then it asks again, because the
    /// outcome was unknown.
    pub(crate) fn was_said_before(&self, job: &Job, claim: &Claim) -> bool {
        let (state, why) = match self {
            JobEnd::Succeeded => (JobState::Succeeded, None),
            JobEnd::Failed { why } => (JobState::Failed, Some(why.clone())),
            JobEnd::Constrained { reasons } => (JobState::Failed, Some(why_constrained(reasons))),
            JobEnd::Cancelled => (JobState::Cancelled, None),
        };
        let by_an_owner = job.worker.is_some();
        job.fence == claim.fence && by_an_owner && job.state == state && job.why == why
    }
}

/// Returns whether the owner of this claim released the job before. No other process can have: the fence of a
/// queued job is that of its last owner, if it had one.
pub(crate) fn was_released(job: &Job, claim: &Claim) -> bool {
    job.state == JobState::Queued && job.fence == claim.fence && claim.fence != Fence::NONE
}

/// Stores the jobs, and decides which worker runs each.
///
/// The store reads its own clock: with several machines on one store, theirs do not agree.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Queues a job. The same id again is the same job, due by the earlier of both moments. A plan that was
    /// made has to wait for it: to be queued, in the job's phase; else the answer is
    /// [`JobTransitionRejection::PlanNotReady`].
    async fn enqueue(&self, new: NewJob) -> Result<Job, JobStoreError>;

    /// Gives the worker a job that is due, if a slot is free: first one whose owner died, else the first
    /// queued.
    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Job>, JobStoreError>;

    /// The same for at most so many jobs; a store does it in one write. This default is for a store
    /// that wraps another one: what was claimed before an error is not lost by it.
    async fn claim_some(&self, request: &ClaimRequest, most: usize) -> Result<Vec<Job>, JobStoreError> {
        let mut claimed = Vec::new();
        while claimed.len() < most {
            match self.claim(request).await {
                Ok(Some(job)) => claimed.push(job),
                Ok(None) => break,
                Err(error) if claimed.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(claimed)
    }

    /// Renews the owner's lease. The answer is the job, in which a requested cancel shows.
    async fn heartbeat(&self, claim: &Claim, lease: Duration) -> Result<Job, JobStoreError>;

    /// The owner got a node done: the job does not kill its workers.
    async fn settled_node(&self, effect: &Effect, claim: &Claim) -> Result<(), JobStoreError>;

    /// Asks for a cancel. A queued job is cancelled by it at once; a running one by its owner, later.
    async fn cancel(&self, job: JobId, reason: &str) -> Result<Job, JobStoreError>;

    /// The same, and true if no caller asked for it before: of all callers at once, one gets true.
    async fn cancel_first(&self, job: JobId, reason: &str) -> Result<(Job, bool), JobStoreError> {
        let is_first = self.job(job).await?.cancel.is_none();
        Ok((self.cancel(job, reason).await?, is_first))
    }

    /// The owner itself asks for the cancel of its job, as a run does that is cancelled from inside its
    /// process.
    async fn cancel_own(&self, claim: &Claim, reason: &str) -> Result<Job, JobStoreError>;

    /// From here on no cancel is accepted until the job ends. Refused when one was requested before.
    async fn seal(&self, effect: &Effect, claim: &Claim) -> Result<(), JobStoreError>;

    /// Ends the job. Asked again after an unknown outcome, the answer is the same.
    async fn end(&self, finisher: &Finisher, claim: &Claim, end: JobEnd) -> Result<Job, JobStoreError>;

    /// Gives the job back to the queue. Asked again after an unknown outcome, the answer is the same.
    async fn release(&self, finisher: &Finisher, claim: &Claim) -> Result<Job, JobStoreError>;

    /// Ends the leases of a worker that is known to be dead; says how many.
    async fn free_leases(&self, worker: WorkerId) -> Result<usize, JobStoreError>;

    /// One job.
    async fn job(&self, id: JobId) -> Result<Job, JobStoreError>;

    /// All jobs, or those of one plan, in order of id.
    async fn jobs(&self, plan: Option<PlanId>) -> Result<Vec<Job>, JobStoreError>;

    /// The jobs that wait or run, in order of id.
    async fn live_jobs(&self) -> Result<Vec<Job>, JobStoreError> {
        let mut jobs = self.jobs(None).await?;
        jobs.retain(|job| !job.state.is_final());
        Ok(jobs)
    }
}
