//! A job, one phase of one plan, and the lease protocol by which exactly one worker owns it.
//!
//! # How it goes
//! 1. A worker asks [`pick`] for the next job and applies the event it gets: the job is running under a new
//!    fence.
//! 2. It renews its lease by heartbeats and sends its fence with every write. A stale fence is refused.
//! 3. It ends the job, or releases it. If it dies, its lease runs out and another worker takes over under the
//!    next fence.
//!
//! # Invariants
//! 1. The fence only grows, by one with each new owner; a running job has exactly one owner.
//! 2. Only the owner, identified by its fence, moves a running job; others can ask for a cancel, and take
//!    over a dead lease.
//! 3. Final states stay. `finished_at` is set exactly in them.
//! 4. A requested cancel wins over success and failure, unless the apply was sealed before; a seal admits no
//!    cancel, until recovery breaks it.
//!
//! # Not here
//! Clocks and stores: `now` is passed in, and the caller makes reading, `next` and writing one atomic step.
//! The consequences of a final job or a new owner for the plan's changesets:
//! [`PlanRecord`](crate::PlanRecord).

mod claim_order;
mod rejection;
mod table;
mod transition;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

pub use claim_order::{ClaimRequest, pick};
pub use rejection::{JobTransitionRejection, LeaseLost};
pub use table::table_markdown;

use crate::failure::detail::Detail;
use crate::failure::{ErrorCategory, NewError, StepId};
use crate::id::{BootId, Claim, ErrorId, Fence, JobId, PlanId, WorkerId};
use crate::plan::phase::Phase;
use crate::time::Ms;

/// Limits how many leases of a job may be lost before it is given up with the next.
pub const LOST_LEASES_MAX: u8 = 3;

/// The detail of an error of a plan whose workers died: how many of them.
pub const LOST_LEASES: &str = "lost_leases";

/// The `not_before` of a job that is held for the process that serves its plan. That process is a command in
/// the foreground, or one that a person will start. No worker that takes any plan claims it. Queuing it again
/// for an earlier moment releases it.
pub const HELD: Ms = Ms(u64::MAX);

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// In by enqueue, and again when its owner releases it. A worker takes it out by claiming it, once
    /// `not_before` has come and a slot is free. Anyone takes it out by cancelling it, which is acknowledged
    /// at once.
    Queued,
    /// In by a claim. Its owner takes it out by succeeding, failing, acknowledging a cancel or releasing it.
    /// If the owner dies, a worker takes it over when the lease is dead, and it stays in. On the fourth death
    /// it is given up.
    Running,
    /// In when its owner finished the phase and no cancel was requested before. Final.
    Succeeded,
    /// In when its owner could not finish the phase, or when its workers died four times. Final.
    Failed,
    /// In when a queued job is cancelled, or when the owner of a running one has stopped everything after a
    /// requested cancel. This is the acknowledgement, after which the plan has no further effect. Final.
    Cancelled,
}

impl JobState {
    /// All of them.
    pub const ALL: [JobState; 5] =
        [JobState::Queued, JobState::Running, JobState::Succeeded, JobState::Failed, JobState::Cancelled];

    /// Its name, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Succeeded => "succeeded",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Returns whether it stays for ever.
    pub const fn is_final(self) -> bool {
        match self {
            JobState::Queued | JobState::Running => false,
            JobState::Succeeded | JobState::Failed | JobState::Cancelled => true,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The reason of a cancel that stops a job so that its plan can begin again with another strategy. The plan
/// has failed by it, and is not cancelled.
pub const STOPPED_TO_REPLAN: &str = "it begins again with another strategy";

/// The reason of a cancel that stops an apply because the person who asked for it does not want it now. The
/// plan is as it was.
pub const APPLY_WITHDRAWN: &str = "the apply was withdrawn";

/// A signal that interrupts the work on a plan: Ctrl-C, a polite kill, or the end of the terminal. The plan
/// has failed by it, and is not cancelled: it can be resumed and revised. An apply that has written nothing is
/// withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanInterruption {
    /// Ctrl-C.
    CtrlC,
    /// A polite kill.
    Kill,
    /// The terminal is gone.
    HangUp,
}

impl PlanInterruption {
    const ALL: [PlanInterruption; 3] =
        [PlanInterruption::CtrlC, PlanInterruption::Kill, PlanInterruption::HangUp];

    /// Returns the reason with which the job is asked to stop.
    pub const fn reason(self) -> &'static str {
        match self {
            PlanInterruption::CtrlC => "interrupted by the user",
            PlanInterruption::Kill => "the program was told to end",
            PlanInterruption::HangUp => "the terminal was closed",
        }
    }

    /// Returns the interruption with this reason; `None` for any other cancel.
    pub fn from_reason(reason: &str) -> Option<PlanInterruption> {
        PlanInterruption::ALL.into_iter().find(|known| known.reason() == reason)
    }
}

/// A request to stop the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    /// The time of the request.
    pub at: Ms,
    /// The reason.
    pub reason: String,
}

/// A job to be queued, named by its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Queuing the same id again queues it once.
    pub id: JobId,
    /// The plan that it works on.
    pub plan: PlanId,
    /// The phase to run.
    pub phase: Phase,
    /// No worker claims it before; [`HELD`] when only who serves its plan may.
    pub not_before: Ms,
}

impl NewJob {
    /// The job of the next phase of the plan that `last` worked on: held as that was, else due at once.
    pub fn after(last: &Job, id: JobId, phase: Phase) -> NewJob {
        let not_before = if last.is_held() { HELD } else { Ms(0) };
        NewJob { id, plan: last.plan, phase, not_before }
    }

    /// Returns whether it waits for the workers only. A person waits for a job that is held, and an apply is
    /// the end of finished work. So neither is refused because many others wait.
    pub fn is_left_to_workers(&self) -> bool {
        self.not_before != HELD && self.phase != Phase::Apply
    }
}

/// One phase of one plan, to be run by a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name; jobs are served in the order of their names.
    pub id: JobId,
    /// The plan that it works on.
    pub plan: PlanId,
    /// The phase to run.
    pub phase: Phase,
    /// Its state.
    pub state: JobState,
    /// Of the present owner, or of the last one.
    pub fence: Fence,
    /// The present owner; of a final job, the last one.
    pub worker: Option<WorkerId>,
    /// The boot in which the lease counts.
    pub boot: Option<BootId>,
    /// The owner is taken for dead from this moment on. 0 if it has no owner.
    pub lease_until: Ms,
    /// The number of owners that died since a node was last settled.
    pub lost_leases: u8,
    /// No worker claims it before; [`HELD`] when only who serves its plan may.
    pub not_before: Ms,
    /// The variables that a worker has to have been started with: keys of the plan's models come from them.
    pub keys: BTreeSet<String>,
    /// The first request to stop it.
    pub cancel: Option<CancelRequest>,
    /// From here on an apply is carried through, or rolled back, but not cancelled.
    pub sealed_at: Option<Ms>,
    /// The reason of the failure.
    pub why: Option<String>,
    /// The time when it was queued first.
    pub created_at: Ms,
    /// The time when it was claimed first.
    pub started_at: Option<Ms>,
    /// The time when it became final.
    pub finished_at: Option<Ms>,
}

/// An event of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// A worker takes a queued job.
    Claim {
        /// The new owner.
        worker: WorkerId,
        /// The boot that it runs in.
        boot: BootId,
        /// The time for which it owns the job without a heartbeat.
        lease: Duration,
    },
    /// The owner is alive.
    Heartbeat {
        /// The owner's.
        fence: Fence,
        /// The time for which it owns the job without another heartbeat.
        lease: Duration,
    },
    /// The owner gives the job back, since it stops.
    Release {
        /// The owner's.
        fence: Fence,
    },
    /// Anyone wants the job to stop.
    Cancel {
        /// The reason.
        reason: String,
    },
    /// The owner is about to write the user's files.
    Seal {
        /// The owner's.
        fence: Fence,
    },
    /// The owner finished the phase.
    Succeed {
        /// The owner's.
        fence: Fence,
    },
    /// The owner could not finish the phase.
    Fail {
        /// The owner's.
        fence: Fence,
        /// The obstacle.
        why: String,
    },
    /// The owner has stopped everything after a cancel was requested.
    Cancelled {
        /// The owner's.
        fence: Fence,
    },
    /// A worker takes a running job whose owner is dead, or gives it up.
    TakeOver {
        /// The new owner.
        worker: WorkerId,
        /// The boot that it runs in.
        boot: BootId,
        /// The time for which it owns the job without a heartbeat.
        lease: Duration,
    },
    /// A process found this worker's lock file free: the worker is dead, whatever its lease says.
    FreeLease {
        /// The dead one.
        worker: WorkerId,
    },
    /// The recovery of the apply's journal found no commit mark in it: nothing was written, so the seal is
    /// off.
    BreakSeal,
    /// The owner got a node done, so the job does not kill its workers.
    SettledNode {
        /// The owner's.
        fence: Fence,
    },
}

impl Job {
    /// A job as it is queued.
    pub fn new(new: NewJob, now: Ms) -> Job {
        let NewJob { id, plan, phase, not_before } = new;
        Job {
            id,
            plan,
            phase,
            state: JobState::Queued,
            fence: Fence::NONE,
            worker: None,
            boot: None,
            lease_until: Ms(0),
            lost_leases: 0,
            not_before,
            keys: BTreeSet::new(),
            cancel: None,
            sealed_at: None,
            why: None,
            created_at: now,
            started_at: None,
            finished_at: None,
        }
    }

    /// Returns whether a worker that takes any plan may take this one, started with these variables.
    pub fn is_for_workers_with(&self, variables: &BTreeSet<String>) -> bool {
        !self.is_held() && self.keys.is_subset(variables)
    }

    /// The right to write for it, as its present owner has it.
    pub fn claim(&self) -> Claim {
        Claim { plan: self.plan, job: self.id, fence: self.fence }
    }

    /// Returns whether `claim` is that of its present owner: the guard of every write.
    pub fn is_owned_by(&self, claim: &Claim) -> bool {
        self.state == JobState::Running && self.claim() == *claim
    }

    /// Returns whether only who serves its plan may claim it.
    pub fn is_held(&self) -> bool {
        self.not_before == HELD
    }

    /// Asks for it earlier than it was queued for: a live job is due by then. Says whether that changed
    /// anything.
    pub fn be_due(&mut self, not_before: Ms) -> bool {
        let is_earlier = !self.state.is_final() && not_before < self.not_before;
        if is_earlier {
            self.not_before = not_before;
        }
        is_earlier
    }

    /// The error in the plan's history when the job was given up because its workers died; `None` for a job
    /// with another end.
    pub fn given_up_error(&self, attempt: u32) -> Option<NewError> {
        let is_given_up = self.state == JobState::Failed && self.lost_leases > LOST_LEASES_MAX;
        let why = self.why.clone().filter(|_| is_given_up)?;
        let step = StepId { attempt, node: self.phase.to_string(), visit: 1 };
        // A job is given up once, so its own number names the error. The usual cause of dead workers is a
        // lack of memory.
        let id = ErrorId::from_u128(self.id.as_u128());
        let detail = Detail::from([(LOST_LEASES.to_owned(), self.lost_leases.into())]);
        Some(NewError::new(id, self.phase, step, ErrorCategory::Resource, why).with_detail(detail))
    }

    /// Returns whether a running job's owner is taken for dead, as seen in `boot`.
    pub fn lease_is_dead(&self, now: Ms, boot: BootId) -> bool {
        self.lease_until <= now || self.boot != Some(boot)
    }
}
