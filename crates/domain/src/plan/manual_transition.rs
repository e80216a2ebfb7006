//! The moves of a plan that no job makes: a gate's, recovery's or a person's.
//!
//! # Invariants
//! 1. A caller that moves a plan by hand has seen its present version: an older version is refused, and the
//!    answer shows the plan.
//! 2. A plan with a live job is not moved by hand: its job is cancelled instead.
//! 3. The job that a move queues is one that the moved plan waits for.
//! 4. A move that is asked for again is known by its job, and done once.
//! 5. A decision that comes with a move is recorded in its step, for the attempt and the phase that it leads
//!    to. A revert always records a reversion, which supersedes all decisions before it but the prompt.
//!    A decision of another move supersedes those that it names.
//! 6. Changes that come with a move are recorded in its step, as one ended call of the attempt that it leads
//!    to. A revision starts with the changes of the last attempt; a person rolls changes back or edits them.
//! 7. A plan is not moved while an apply of it is sealed and has not ended. The process that writes the files
//!    may be slow, or be taken for dead, and comes to an end all the same.
//!
//! # Not here
//! The table of states and events: `transitions`. The checks that the id of the job names none of another
//! plan, and that the queue is not full: the stores.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::phase::Phase;
use super::spec::PlanSpec;
use super::{BadTransition, Initiator, Plan, PlanEvent, PlanTransitionRejection};
use crate::change::NewChange;
use crate::change::changeset::ChangesetError;
use crate::decision::{DecisionInvalid, DecisionKind, NewDecision};
use crate::id::{CallNumber, ChangesetId, PlanId};
use crate::job::{Job, JobTransitionRejection, NewJob};
use crate::record::tool_call::{CallEnd, NewCall, ToolCall};
use crate::time::{Ms, WallMs};

/// The reason why a plan was not made or not moved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanMoveError {
    /// There is no such plan.
    #[error("there is no such plan")]
    NotFound,
    /// The plan was moved since it was looked at.
    #[error("plan {} has moved to {} meanwhile", plan.id, plan.state)]
    Moved {
        /// The present plan.
        plan: Box<Plan>,
    },
    /// Its rules said no.
    #[error(transparent)]
    Refused(#[from] PlanTransitionRejection),
    /// A job of it is in the way, or the one that was to be queued.
    #[error(transparent)]
    Job(#[from] JobTransitionRejection),
    /// The id names another plan already.
    #[error("plan {plan} already exists with another task")]
    IdTaken {
        /// The id.
        plan: PlanId,
    },
    /// The changes that come with it cannot be recorded.
    #[error(transparent)]
    Changes(#[from] ChangesetError),
}

impl From<DecisionInvalid> for PlanMoveError {
    fn from(invalid: DecisionInvalid) -> Self {
        PlanTransitionRejection::from(invalid).into()
    }
}

/// A move as a gate or a person asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ManualTransition {
    /// The version that the mover has seen.
    pub version: u64,
    /// Advance, Reapply, Retry, Again, Revert, Revise, Amend, Accept; or Cancel of a plan without a live job.
    pub event: PlanEvent,
    /// The job that the move queues.
    pub job: Option<NewJob>,
    /// Becomes [`Plan::request`] with the move.
    pub request: Value,
    /// The decisions that go with the move: a reversion, a person's guidance.
    pub decisions: Vec<NewDecision>,
    /// The changes that go with the move.
    pub record: Option<MoveRecord>,
    /// Becomes [`Plan::spec`] with the move: a revision by another actor, or with more checks.
    pub spec: Option<Arc<PlanSpec>>,
}

/// Changes that are recorded with a move, as a call that has ended. No job makes them.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveRecord {
    /// The name of their changeset, which is new.
    pub changeset: ChangesetId,
    /// The call; its attempt is the one that the move leads to.
    pub call: NewCall,
    /// The end of the call.
    pub end: CallEnd,
    /// The changes, in order; their call is the one that is recorded.
    pub changes: Vec<NewChange>,
}

impl MoveRecord {
    /// Returns the call under its number, and the changes as they are recorded for the moved plan.
    pub fn resolve(&self, moved: &Plan, no: CallNumber, wall: WallMs) -> (ToolCall, Vec<NewChange>) {
        let call = NewCall { attempt: moved.attempt, ..self.call.clone() };
        let changes = self.changes.iter().cloned().map(|change| NewChange { call: no, ..change });
        (ToolCall::ended(moved.id, no, call, self.end.clone(), wall), changes.collect())
    }
}

/// The decisions that come with a transition.
#[derive(Clone, Debug, PartialEq)]
pub struct TransitionDecisions {
    /// In order.
    pub new: Vec<NewDecision>,
    /// The place among them of the one to which decisions before the move give way; never the prompt.
    pub superseding: Option<usize>,
    /// The numbers of those that give way; `None` means all but the prompt.
    pub giving_way: Option<BTreeSet<u32>>,
}

/// The result of a transition.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one is made for each move and taken apart at once")]
pub enum TransitionResult {
    /// It was done before; nothing is to be written.
    Before,
    /// These are to be written in one step.
    Now {
        /// The plan after the move.
        plan: Box<Plan>,
        /// The job that is queued with it.
        job: Option<Job>,
    },
}

impl ManualTransition {
    /// Returns the result of the move for `plan`. `live` is its job that waits or runs, `known` the one of it
    /// that already has the id of the job to be queued.
    ///
    /// # Errors
    /// Returns an error if the plan has moved meanwhile, does not allow the event or has a live job; or it
    /// does not wait for the job.
    pub fn resolve(
        &self,
        plan: &Plan,
        live: Option<&Job>,
        known: Option<&Job>,
        now: Ms,
        wall: WallMs,
    ) -> Result<TransitionResult, PlanMoveError> {
        if self.job.is_some_and(|job| job.plan != plan.id) {
            return Err(JobTransitionRejection::OtherPlan { plan: plan.id }.into());
        }
        if let (Some(job), Some(known)) = (self.job, known) {
            let is_the_same = job.phase == known.phase && self.version < plan.version;
            let taken = JobTransitionRejection::IdTaken { job: job.id };
            return if is_the_same { Ok(TransitionResult::Before) } else { Err(taken.into()) };
        }
        if self.version != plan.version {
            return Err(PlanMoveError::Moved { plan: Box::new(plan.clone()) });
        }
        if !self.event.is_by_hand() {
            let refused = BadTransition { state: plan.state, event: self.event };
            return Err(PlanTransitionRejection::from(refused).into());
        }
        let spec = self.spec.as_ref().unwrap_or(&plan.spec);
        let (request, spec) = (self.request.clone(), Arc::clone(spec));
        let moved = Plan { request, spec, ..plan.moved(self.event, Vec::new(), wall)? };
        if let Some(live) = live {
            return Err(JobTransitionRejection::PlanBusy { job: live.id }.into());
        }
        if let Some(job) = &self.job {
            moved.waits_for(job)?;
        }
        let job = self.job.map(|job| moved.queued(job, now));
        Ok(TransitionResult::Now { plan: Box::new(moved), job })
    }
}

impl ManualTransition {
    /// Returns what is decided with the move that `by` asked for and that led to `moved`.
    pub fn decisions(&self, moved: &Plan, by: Initiator) -> TransitionDecisions {
        let (attempt, phase) = (moved.attempt, moved.state.phase());
        let mut new: Vec<NewDecision> =
            self.decisions.iter().cloned().map(|new| NewDecision { attempt, phase, ..new }).collect();
        if self.event != PlanEvent::Revert {
            let superseding = new.iter().position(|new| !new.supersedes.is_empty());
            let giving_way = superseding.map(|place| new[place].supersedes.iter().copied().collect());
            return TransitionDecisions { new, superseding, giving_way };
        }
        let carried = new.iter().position(|new| new.kind == DecisionKind::Reversion);
        if carried.is_none() {
            let chosen = format!("back to strategize, by {by}");
            new.insert(0, NewDecision::new(attempt, phase, DecisionKind::Reversion, chosen));
        }
        TransitionDecisions { new, superseding: carried.or(Some(0)), giving_way: None }
    }

    /// Returns why it is refused while an apply of the plan is open: that is carried through or rolled back
    /// first.
    pub const fn refused_by_open_apply(&self) -> JobTransitionRejection {
        match self.event {
            PlanEvent::Cancel => JobTransitionRejection::CancelTooLate,
            PlanEvent::Start
            | PlanEvent::Release
            | PlanEvent::Complete
            | PlanEvent::Fail
            | PlanEvent::Advance
            | PlanEvent::Applied
            | PlanEvent::Constrain
            | PlanEvent::Reapply
            | PlanEvent::Withdraw
            | PlanEvent::Retry
            | PlanEvent::Again
            | PlanEvent::Revert
            | PlanEvent::Revise
            | PlanEvent::Amend
            | PlanEvent::Accept => JobTransitionRejection::Sealed,
        }
    }
}

impl PlanEvent {
    /// Returns whether a gate, recovery or a person brings it about; the others are the doing of a job.
    pub const fn is_by_hand(self) -> bool {
        match self {
            PlanEvent::Advance
            | PlanEvent::Reapply
            | PlanEvent::Retry
            | PlanEvent::Again
            | PlanEvent::Revert
            | PlanEvent::Revise
            | PlanEvent::Amend
            | PlanEvent::Accept
            | PlanEvent::Cancel => true,
            PlanEvent::Start
            | PlanEvent::Release
            | PlanEvent::Complete
            | PlanEvent::Fail
            | PlanEvent::Applied
            | PlanEvent::Withdraw
            | PlanEvent::Constrain => false,
        }
    }
}

impl Plan {
    /// Checks whether the job is the one that the plan waits for: of its phase, while that is queued.
    ///
    /// # Errors
    /// Returns an error if it is not.
    pub fn waits_for(&self, job: &NewJob) -> Result<(), JobTransitionRejection> {
        if job.plan != self.id {
            return Err(JobTransitionRejection::OtherPlan { plan: self.id });
        }
        if self.state.is_queued() && self.state.phase() == job.phase {
            Ok(())
        } else {
            Err(JobTransitionRejection::PlanNotReady { state: self.state })
        }
    }

    /// The job as it is queued for this plan: where models may be asked, a worker has to have the keys for
    /// them.
    pub fn queued(&self, job: NewJob, now: Ms) -> Job {
        let keys = if job.phase == Phase::Apply { BTreeSet::new() } else { self.spec.keys.clone() };
        Job { keys, ..Job::new(job, now) }
    }
}
