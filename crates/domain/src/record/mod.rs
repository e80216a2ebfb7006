//! All that is stored of one plan: the plan itself, its jobs, changesets, calls, errors, applies and events;
//! and every write to them.
//!
//! # Where to look
//! Here are the jobs and the check of the owner; `moves` makes and moves the plan, `decisions` has its
//! decisions, `work` the records of its owner, `nodes` the outcomes of its actors' nodes, `contexts` their
//! contexts, `spending` its ledger, `applies` its applies to the user's files.
//!
//! # Invariants
//! 1. A plan has at most one live job, and so at most one owner.
//! 2. Every write of an owner shows its claim, and is refused unless the job runs under that very fence.
//!    Check and write are one call, so nothing can come between.
//! 3. No open changeset and no running call outlives its owner. In the step that moves the job, success
//!    closes the open changesets; release, takeover, failure and cancel interrupt them. A call that is still
//!    running then is cancelled. Amounts that the owner had reserved and not settled are settled as if all
//!    had been spent.
//! 4. A plan follows its job in the step that moves the job, by [`follow`]: it is processing exactly while
//!    one runs.
//! 5. The events of a step are recorded in that step, numbered from 1 without gaps. Jobs may run for a plan
//!    that was never made; such a plan has no events.
//! 6. A refused call changes nothing.
//!
//! # Not here
//! Locks: the store of a record calls one method of it in one critical section. Wall time: it is taken to be
//! the `now` that is passed in.

mod applies;
pub mod apply;
mod contexts;
mod decisions;
pub mod event;
pub mod event_draft;
mod moves;
pub mod node_run;
mod nodes;
mod owner_records;
pub mod sandbox;
mod spending;
pub mod tool_call;

use std::collections::BTreeMap;

pub use decisions::DecideError;
pub use spending::ReserveError;

use crate::change::changeset::{ChangesetEnding, ChangesetError, Changesets, ClosedChangeset};
use crate::change::file_state::Hash;
use crate::context::ContextRecord;
use crate::decision::Decision;
use crate::failure::ErrorClass;
use crate::failure::error_history::ErrorHistory;
use crate::failure::retry::RecoveryPolicy;
use crate::id::{ApplyId, CallNumber, Claim, JobId, PlanId};
use crate::job::{Job, JobEvent, JobState, JobTransitionRejection, LeaseLost, NewJob};
use crate::ledger::PlanLedger;
use crate::plan::{ConstraintReason, Initiator, Plan, follow};
use crate::time::{Ms, WallMs};
use apply::ApplyRecord;
use event::EventRecord;
use event_draft::EventDraft;
use node_run::NodeRun;
use sandbox::SandboxRecord;
use tool_call::ToolCall;

/// The reason why an owner's write to a changeset was refused.
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
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            RecordError::LeaseLost(lost) => lost.class(),
            RecordError::Changeset(error) => error.class(),
        }
    }
}

/// The whole record of one plan. It is named by its first job.
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
/// # Ok::<(), JobTransitionRejection>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanRecord {
    id: Option<PlanId>,
    plan: Option<Plan>,
    decisions: Vec<Decision>,
    jobs: BTreeMap<JobId, Job>,
    changesets: Changesets,
    calls: BTreeMap<(u32, CallNumber), ToolCall>,
    nodes: Vec<NodeRun>,
    contexts: Vec<ContextRecord>,
    sandboxes: BTreeMap<u32, SandboxRecord>,
    applies: BTreeMap<ApplyId, ApplyRecord>,
    errors: ErrorHistory,
    ledger: PlanLedger,
    events: Vec<EventRecord>,
}

impl PlanRecord {
    /// Queues a job; the same one again returns the present job, due earlier if that is asked for.
    ///
    /// # Errors
    /// Returns an error if the plan has another live job or does not wait for this one, or the id or the
    /// record belongs to another plan.
    pub fn enqueue(&mut self, new: NewJob, now: Ms) -> Result<Job, JobTransitionRejection> {
        let plan = self.id.unwrap_or(new.plan);
        if plan != new.plan {
            return Err(JobTransitionRejection::OtherPlan { plan });
        }
        if let Some(known) = self.jobs.get_mut(&new.id) {
            if known.phase != new.phase {
                return Err(JobTransitionRejection::IdTaken { job: new.id });
            }
            known.be_due(new.not_before);
            return Ok(known.clone());
        }
        if let Some(live) = self.live_job() {
            return Err(JobTransitionRejection::PlanBusy { job: live.id });
        }
        let job = match &self.plan {
            None => Job::new(new, now),
            Some(plan) => {
                plan.waits_for(&new)?;
                plan.queued(new, now)
            }
        };
        self.keep_queued(job.clone(), now);
        Ok(job)
    }

    /// Moves a job and the plan with it, and ends the changesets that lost their owner by it.
    ///
    /// # Errors
    /// Returns an error if there is no such job, or the event's guard does not hold.
    pub fn apply_job_event(
        &mut self,
        id: JobId,
        event: &JobEvent,
        now: Ms,
    ) -> Result<&Job, JobTransitionRejection> {
        self.move_job(id, event, None, now)
    }

    /// Checks whether `claim` is that of the present owner.
    ///
    /// # Errors
    /// Returns an error if it is not: the job is not running, or runs under another fence.
    pub fn guard(&self, claim: &Claim) -> Result<(), LeaseLost> {
        match self.jobs.get(&claim.job) {
            Some(job) if job.is_owned_by(claim) => Ok(()),
            Some(_) | None => Err(LeaseLost { job: claim.job, fence: claim.fence }),
        }
    }

    /// Moves a job as [`apply_job_event`](Self::apply_job_event) does. With `constrained_by`, a job that
    /// fails leaves its plan constrained by these.
    fn move_job(
        &mut self,
        id: JobId,
        event: &JobEvent,
        constrained_by: Option<Vec<ConstraintReason>>,
        now: Ms,
    ) -> Result<&Job, JobTransitionRejection> {
        let job = self.jobs.get_mut(&id).ok_or(JobTransitionRejection::NotFound { job: id })?;
        let after = job.next(event, now)?;
        let followed = match (&self.plan, follow(job, &after, constrained_by.is_some())) {
            (Some(plan), Some(event)) => {
                let reasons = constrained_by.unwrap_or_default();
                let not_ready = JobTransitionRejection::PlanNotReady { state: plan.state };
                let moved = plan.moved(event, reasons, wall(now)).map_err(|_| not_ready)?;
                Some((moved, event))
            }
            (Some(_) | None, _) => None,
        };
        let before = std::mem::replace(job, after.clone());
        if !after.is_owned_by(&before.claim()) {
            self.end_calls(now);
            let succeeded = after.state == JobState::Succeeded;
            self.end_changesets(
                if succeeded { ChangesetEnding::Closed } else { ChangesetEnding::Interrupted },
                now,
            );
            self.ledger.assume_all();
        }
        if let Some(error) = after.given_up_error(self.plan.as_ref().map_or(1, |plan| plan.attempt)) {
            self.keep_error(&RecoveryPolicy::default(), error, now, 0);
        }
        if self.plan.is_some() {
            self.tell(event_draft::job_moved(&before, &after), now);
        }
        if let Some((moved, event)) = followed {
            self.keep_moved(moved, event, Initiator::Job, now);
        }
        self.jobs.get(&id).ok_or(JobTransitionRejection::NotFound { job: id })
    }

    /// Stores a job that may be queued.
    fn keep_queued(&mut self, job: Job, now: Ms) {
        self.id = Some(job.plan);
        self.errors.belongs_to(job.plan);
        self.tell([event_draft::job_queued(&job)], now);
        self.jobs.insert(job.id, job);
    }

    /// Ends every call that still runs: its owner cannot say any more how it ended.
    fn end_calls(&mut self, now: Ms) {
        let running = self.calls.values_mut().filter(|call| call.end.is_none());
        let told: Vec<EventDraft> =
            running.flat_map(|call| event_draft::tool_finished(call.interrupt(wall(now)), 0)).collect();
        self.tell(told, now);
    }

    /// Ends every open changeset.
    fn end_changesets(&mut self, how: ChangesetEnding, now: Ms) -> Vec<ClosedChangeset> {
        let closed = self.changesets.finish(how);
        self.tell(closed.iter().map(|closed| event_draft::changeset_closed(closed, how)), now);
        closed
    }

    /// Numbers and stores the events of a plan that was made.
    fn tell(&mut self, told: impl IntoIterator<Item = EventDraft>, now: Ms) {
        if self.plan.is_none() {
            return;
        }
        for (kind, data) in told {
            let n = self.events.len() as u64 + 1;
            self.events.push(EventRecord { n, at: wall(now), kind, data });
        }
    }

    /// The plan's name; `None` before its first job.
    pub fn plan(&self) -> Option<PlanId> {
        self.id
    }

    /// The plan itself; `None` if only jobs were queued for it.
    pub fn row(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// The decisions, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
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

    /// The calls, in order of attempt and number.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = &ToolCall> {
        self.calls.values()
    }

    /// The nodes that were settled, in the order in which they were first stored.
    pub fn node_runs(&self) -> &[NodeRun] {
        &self.nodes
    }

    /// Returns the stored contexts of its nodes.
    pub fn contexts(&self) -> &[ContextRecord] {
        &self.contexts
    }

    /// The sandboxes, in order of attempt.
    pub fn sandboxes(&self) -> impl ExactSizeIterator<Item = &SandboxRecord> {
        self.sandboxes.values()
    }

    /// The applies and undos, in order of id.
    pub fn applies(&self) -> impl ExactSizeIterator<Item = &ApplyRecord> {
        self.applies.values()
    }

    /// The apply of this name.
    pub fn apply(&self, id: ApplyId) -> Option<&ApplyRecord> {
        self.applies.get(&id)
    }

    /// The errors.
    pub fn errors(&self) -> &ErrorHistory {
        &self.errors
    }

    /// Returns what happened, in order.
    pub fn events(&self) -> &[EventRecord] {
        &self.events
    }

    /// Every content that something of the plan names, some more than once.
    pub fn named_contents(&self) -> impl Iterator<Item = Hash> {
        let entries = self.changesets.iter().flat_map(|set| &set.entries);
        let of_entries =
            entries.flat_map(|entry| [entry.before, entry.after]).flatten().map(|state| state.hash);
        let ends = self.calls.values().filter_map(|call| call.end.as_ref());
        let of_calls = ends.flat_map(|end| [end.stdout, end.stderr]).flatten().map(|output| output.hash);
        let of_contexts = self.contexts.iter().map(|context| context.text);
        of_entries.chain(of_calls).chain(of_contexts)
    }
}

/// Wall time of a record that has no other clock.
const fn wall(now: Ms) -> WallMs {
    WallMs(now.0)
}
