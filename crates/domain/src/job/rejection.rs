//! Errors of a job that did not move.

use super::JobState;
use crate::failure::ErrorClass;
use crate::id::{ApplyId, Fence, JobId, PlanId};
use crate::plan::PlanState;
use crate::plan::phase::Phase;
use crate::time::Ms;

/// The writer is not, or no longer, the owner of a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease of job {job} is lost: fence {} is not the one it runs under", fence.0)]
pub struct LeaseLost {
    /// The job that was to be written for.
    pub job: JobId,
    /// The fence that was shown.
    pub fence: Fence,
}

impl LeaseLost {
    /// Returns the class of the error: another process continues.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Cancelled
    }
}

/// The reason why a job did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobTransitionRejection {
    /// The event is the owner's, and this is not the owner.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// Final states stay.
    #[error("the job is {state} already")]
    Final {
        /// The final state.
        state: JobState,
    },
    /// A cancel was requested: all that its owner can still do is to acknowledge it.
    #[error("a cancel of the job was requested")]
    CancelRequested,
    /// No cancel was requested that could be acknowledged.
    #[error("no cancel of the job was requested")]
    CancelNotRequested,
    /// The user's files are being written: that is finished or rolled back, not cancelled.
    #[error("the job is sealed: its apply can no longer be cancelled")]
    CancelTooLate,
    /// A sealed job is finished by an owner, not given back.
    #[error("an apply of the plan has begun to write: it must be finished or rolled back first")]
    Sealed,
    /// Only an apply is sealed.
    #[error("a job of phase {phase} is not sealed")]
    NotApply {
        /// The phase that it is of.
        phase: Phase,
    },
    /// The owner is alive.
    #[error("the owner of the job is alive")]
    LeaseAlive {
        /// As long as this at least.
        until: Ms,
    },
    /// The dead worker is not the owner of this job.
    #[error("the job belongs to another worker")]
    OtherWorker,
    /// It is not its turn yet.
    #[error("the job is not due yet")]
    NotDue {
        /// The time of its turn.
        not_before: Ms,
    },
    /// Another worker was faster.
    #[error("the job is claimed already")]
    AlreadyClaimed,
    /// It has no owner, so there is none to replace.
    #[error("the job is not running")]
    NotRunning,
    /// The plan has a live job.
    #[error("the plan is busy with job {job}")]
    PlanBusy {
        /// Its live job.
        job: JobId,
    },
    /// The id names another job already.
    #[error("job {job} was queued before for another plan or phase")]
    IdTaken {
        /// The id that was used twice.
        job: JobId,
    },
    /// The plan does not wait for such a job.
    #[error("a plan that is {state} has no such job to queue")]
    PlanNotReady {
        /// The state of the plan.
        state: PlanState,
    },
    /// The id names another apply, or one that has ended.
    #[error("apply {apply} was sealed before, as another one or to its end")]
    ApplyTaken {
        /// The id that was used twice.
        apply: ApplyId,
    },
    /// The record belongs to another plan.
    #[error("these are the jobs of plan {plan}")]
    OtherPlan {
        /// The plan of the record.
        plan: PlanId,
    },
    /// The plan has no such job.
    #[error("there is no job {job}")]
    NotFound {
        /// The one that was asked for.
        job: JobId,
    },
}

impl JobTransitionRejection {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            JobTransitionRejection::LeaseLost(lost) => lost.class(),
            JobTransitionRejection::CancelRequested => ErrorClass::Cancelled,
            JobTransitionRejection::LeaseAlive { .. }
            | JobTransitionRejection::NotDue { .. }
            | JobTransitionRejection::AlreadyClaimed
            | JobTransitionRejection::PlanBusy { .. } => ErrorClass::Transient,
            JobTransitionRejection::Final { .. }
            | JobTransitionRejection::CancelTooLate
            | JobTransitionRejection::OtherWorker
            | JobTransitionRejection::NotRunning
            | JobTransitionRejection::NotFound { .. } => ErrorClass::Permanent,
            JobTransitionRejection::CancelNotRequested
            | JobTransitionRejection::Sealed
            | JobTransitionRejection::NotApply { .. }
            | JobTransitionRejection::IdTaken { .. }
            | JobTransitionRejection::PlanNotReady { .. }
            | JobTransitionRejection::ApplyTaken { .. }
            | JobTransitionRejection::OtherPlan { .. } => ErrorClass::Bug,
        }
    }
}
