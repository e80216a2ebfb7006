//! The port for plans: made with their first job, moved one event at a time, listed with their decisions and
//! events.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    ApplyId, ChangesetError, Claim, DecideError, Decision, DecisionInvalid, ErrorClass, EventKind,
    EventRecord, Initiator, JobTransitionRejection, MoveRecord, NewDecision, NewJob, NewPlan, Plan,
    PlanEvent, PlanId, PlanSpec, PlanState, PlanTransitionRejection, StepDecision, WallMs,
};
use serde_json::Value;
use sync::Effect;

use crate::{JobStoreError, StagedContent, StoreError};

/// The reason why a plan was not made, moved or found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanStoreError {
    /// There is no such plan.
    #[error("there is no plan {plan}")]
    NotFound {
        /// The one that was asked for.
        plan: PlanId,
    },
    /// Another process moved it since the caller looked at it.
    #[error("plan {} has moved to {} in the meantime", plan.id, plan.state)]
    Moved {
        /// The present plan.
        plan: Box<Plan>,
    },
    /// Its rules said no.
    #[error(transparent)]
    Refused(#[from] PlanTransitionRejection),
    /// A job of it is in the way.
    #[error(transparent)]
    Job(JobTransitionRejection),
    /// Too many jobs wait already.
    #[error("the queue is full: {queued} jobs wait")]
    QueueFull {
        /// The number of queued jobs.
        queued: usize,
    },
    /// The id names another plan already.
    #[error("plan {plan} already exists with another task")]
    IdTaken {
        /// The id.
        plan: PlanId,
    },
    /// The changes that come with a move cannot be recorded.
    #[error(transparent)]
    Changes(#[from] ChangesetError),
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PlanStoreError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotFound { .. }
            | Self::QueueFull { .. }
            | Self::Refused(PlanTransitionRejection::Decision(_)) => ErrorClass::Permanent,
            Self::Moved { .. } => ErrorClass::Transient,
            Self::Refused(
                PlanTransitionRejection::BadTransition(_) | PlanTransitionRejection::ReversionsSpent,
            )
            | Self::IdTaken { .. } => ErrorClass::Bug,
            Self::Job(refused) => refused.class(),
            Self::Changes(error) => error.class(),
            Self::Store(error) => error.class(),
        }
    }
}

/// The reason why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecisionStoreError {
    /// The decision may not be recorded.
    #[error("a decision is not valid: {0}")]
    Invalid(#[from] DecisionInvalid),
    /// There is no such plan.
    #[error("there is no plan {plan}")]
    NotFound {
        /// The one that was asked for.
        plan: PlanId,
    },
    /// The plan has come to its end.
    #[error("plan {plan} is {state}")]
    Final {
        /// The plan.
        plan: PlanId,
        /// The state of the plan.
        state: PlanState,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DecisionStoreError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Invalid(_) | Self::NotFound { .. } | Self::Final { .. } => ErrorClass::Permanent,
            Self::Store(error) => error.class(),
        }
    }

    /// Returns why nothing was decided for this plan.
    pub(crate) fn from_decide(plan: PlanId, error: DecideError) -> Self {
        match error {
            DecideError::LeaseLost(lost) => Self::Store(lost.into()),
            DecideError::Invalid(invalid) => Self::Invalid(invalid),
            DecideError::NotFound => Self::NotFound { plan },
            DecideError::Final { state } => Self::Final { plan, state },
        }
    }
}

/// A move that is not the doing of a job: a gate's or a person's.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanMove {
    /// The plan.
    pub plan: PlanId,
    /// The version that the mover has seen.
    pub version: u64,
    /// Advance, Reapply, Retry, Again, Revert, Revise, Amend, Accept; or Cancel of a plan without a live job.
    pub event: PlanEvent,
    /// The initiator, for the record.
    pub by: Initiator,
    /// The job that the move queues, in the same step.
    pub job: Option<NewJob>,
    /// Becomes [`Plan::request`] with this move, whatever it is.
    pub request: Value,
    /// The decisions that are recorded with the move, in the same step; see
    /// [`ManualTransition::decisions`](domain::ManualTransition::decisions).
    pub decisions: Vec<NewDecision>,
    /// The changes that are recorded with the move, in the same step.
    pub record: Option<MoveRecord>,
    /// The contents of these changes that are not stored yet.
    pub contents: Vec<StagedContent>,
    /// Becomes [`Plan::spec`] with this move; `None` leaves it.
    pub spec: Option<Arc<PlanSpec>>,
}

/// A filter for listing plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFilter {
    /// Of this phase, by name.
    pub phase: Option<String>,
    /// Of this state, by its word.
    pub state: Option<String>,
    /// With a project at this root, as bytes of a path.
    pub root: Option<Vec<u8>>,
    /// Of the batch with this name.
    pub batch: Option<String>,
    /// At most so many, newest first.
    pub limit: usize,
}

/// Plans that came to their end, by name only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinishedPlans {
    /// The plans.
    pub plans: Vec<PlanId>,
    /// All their applies.
    pub applies: Vec<ApplyId>,
}

/// Stores plans, their decisions and their events.
///
/// A plan follows its job: [`JobStore`](crate::JobStore) moves both in one step, by [`domain::follow`]. Here
/// are the moves that no job makes. Every call that changes something writes the [`EventRecord`]s of the
/// change in the same step.
#[async_trait]
pub trait PlanStore: Send + Sync {
    /// Makes a plan with its first decisions (the prompt before all others) and queues its first job, in one
    /// step. A plan whose strategy is among them needs no strategist: its first job is that of execute. The
    /// same id again is the same plan, if it is asked to do the same and has such decisions and such a job.
    /// Otherwise the id is taken.
    async fn create(
        &self,
        new: NewPlan,
        decisions: Vec<NewDecision>,
        job: NewJob,
    ) -> Result<Plan, PlanStoreError>;

    /// Moves a plan, records what is decided with the move and queues the job that it is for, in one step.
    /// The rules are those of [`ManualTransition::resolve`](domain::ManualTransition::resolve). A revert
    /// supersedes every decision before it but the prompt. Asked again, it is known by its job and done once.
    async fn move_plan(&self, request: PlanMove) -> Result<Plan, PlanStoreError>;

    /// One plan; `None` if there is no such plan.
    async fn find_plan(&self, id: PlanId) -> Result<Option<Plan>, StoreError>;

    /// One plan, for callers that cannot continue without it.
    ///
    /// # Errors
    /// Returns [`PlanStoreError::NotFound`] if there is no such plan.
    async fn plan(&self, id: PlanId) -> Result<Plan, PlanStoreError> {
        self.find_plan(id).await?.ok_or(PlanStoreError::NotFound { plan: id })
    }

    /// Plans, newest first by id, and how many match in all.
    async fn plans(&self, filter: &PlanFilter) -> Result<(Vec<Plan>, usize), StoreError>;

    /// The same without the count, for which all of them have to be looked at.
    async fn newest_plans(&self, filter: &PlanFilter) -> Result<Vec<Plan>, StoreError>;

    /// The plan with the last id, of those with a project at `root` if one is given; `None` if there is no
    /// such plan.
    async fn newest_plan(&self, root: Option<&[u8]>) -> Result<Option<PlanId>, StoreError>;

    /// The plans whose id ends with one of these texts, in upper case; in order of id.
    async fn plans_ending(&self, ends: &BTreeSet<String>) -> Result<Vec<PlanId>, StoreError>;

    /// The final plans that did not change since `before`, and of which no apply is open.
    async fn ended_plans(&self, before: WallMs) -> Result<FinishedPlans, StoreError>;

    /// The plans whose id begins so, in upper case; at most `limit`, in order of id.
    async fn plans_like(&self, prefix: &str, limit: usize) -> Result<Vec<PlanId>, StoreError>;

    /// Records a decision of the owner, bounded by [`Decision::new`], if [`NewDecision::check`] allows
    /// it.
    async fn decide(
        &self,
        effect: &Effect,
        claim: &Claim,
        decision: NewDecision,
    ) -> Result<Decision, DecisionStoreError>;

    /// Records decisions of the owner in one step, all or none, under numbers that follow each other. They
    /// may rest upon each other.
    async fn decide_all(
        &self,
        effect: &Effect,
        claim: &Claim,
        decisions: Vec<StepDecision>,
    ) -> Result<Vec<Decision>, DecisionStoreError>;

    /// Records a message of a person to a plan that has not come to its end, in the plan's present attempt
    /// and phase. This needs no claim. The same message again is another decision.
    async fn add_guidance(&self, plan: PlanId, guidance: NewDecision)
    -> Result<Decision, DecisionStoreError>;

    /// The decisions of a plan in their order; none for an unknown plan.
    async fn decisions(&self, plan: PlanId) -> Result<Vec<Decision>, StoreError>;

    /// Returns the events of a plan after its record `after`, in order, at most `limit`. There are none of a
    /// plan that was never made, also when jobs ran for it.
    async fn events(&self, plan: PlanId, after: u64, limit: usize) -> Result<Vec<EventRecord>, StoreError>;

    /// All of one kind among them.
    async fn events_of(&self, plan: PlanId, kind: EventKind) -> Result<Vec<EventRecord>, StoreError>;

    /// The number of the last of them; 0 when there is none.
    async fn last_event(&self, plan: PlanId) -> Result<u64, StoreError>;

    /// Forgets final plans with all that is stored of them, in one step; locks, which outlive their plans,
    /// and contents, which are collected, excepted. Returns those that were there and final.
    async fn forget(&self, plans: Vec<PlanId>) -> Result<Vec<PlanId>, StoreError>;
}

/// The state that a plan has to be in to be forgotten.
pub(crate) fn may_be_forgotten(state: PlanState) -> bool {
    state.is_final()
}

impl From<JobStoreError> for PlanStoreError {
    /// An error that prevents a plan's job from being queued also prevents the plan.
    fn from(error: JobStoreError) -> Self {
        match error {
            JobStoreError::Refused(refused) => Self::Job(refused),
            JobStoreError::QueueFull { queued } => Self::QueueFull { queued },
            JobStoreError::Store(error) => Self::Store(error),
        }
    }
}
