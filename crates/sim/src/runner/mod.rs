//! Runs a claimed job in the simulation: the phases as the engine does them, on the simulated machine.
//!
//! # Where to look
//! `execute` opens the sandbox, resumes where an earlier owner was, walks the graph and checks the result;
//! `node` is one node with its retries; `sandbox_call` is the right to change the sandbox and the duty to
//! record what changed; `actors` are the tools and the model; `apply` brings the result to the user's files.
//!
//! # Invariants
//! 1. Nothing of a run outlives it: its processes are killed when it is interrupted, and its sandbox is
//!    closed when it winds down.
//! 2. Whatever an earlier owner of the job left is killed and swept before this one begins, or ends it.
//! 3. Nothing is done to the machine by a process that is dead: `tick` comes before.

mod actors;
mod apply;
mod execute;
mod node;
mod sandbox_call;

pub(crate) use apply::SimRootLock;
pub(crate) use execute::{TAKE_BACK, file_of};

use std::collections::BTreeMap;
use std::sync::Arc;

use ::worker::{ErrorRecoveryService, Ids, JobRun, JobRunner, PlanError, RunFailure};
use async_trait::async_trait;
use domain::{
    CallEnd, CallState, Claim, DecisionKind, ErrorCategory, ErrorId, Fence, JobId, NewDecision, NewError,
    Phase, Plan, SandboxRecord, StepId,
};
use serde_json::Value;
use store::{
    CallStore, ChangesetStoreError, DecisionStoreError, JobStoreError, LedgerStoreError, LockStoreError,
    PlanStore, PlanStoreError, StoreError,
};
use sync::primitives::{Mutex, lock};
use sync::{CancelReason, CancellationToken, Cancelled, CircuitBreaker, Finisher};

use crate::broken_programs::BrokenProgram;
use crate::executor::{TaskGroup, yield_now};
use crate::faulty::FaultyStore;
use crate::world::SimWorld;
use sandbox_call::UnfinishedCall;

/// Does the jobs of one worker's process.
pub(crate) struct SimRunner {
    pub(crate) world: Arc<SimWorld>,
    pub(crate) group: TaskGroup,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) breakers: CircuitBreaker,
    recovery: ErrorRecoveryService,
    live: Mutex<BTreeMap<(JobId, Fence), LiveRun>>,
}

/// The open resources of one run.
#[derive(Default)]
struct LiveRun {
    token: Option<CancellationToken>,
    sandbox: Option<(u64, SandboxRecord)>,
    /// The right to work in the sandbox: one call alone, or any number that only look; served in order.
    turns: Arc<tokio::sync::RwLock<()>>,
    /// The call that may have changed the sandbox and whose end is not stored.
    mark: Option<UnfinishedCall>,
    /// Calls that were admitted, change nothing and have not ended.
    looking: Vec<UnfinishedCall>,
    is_killed: bool,
}

/// The reason for which a phase ends early.
#[derive(Debug)]
enum PhaseStop {
    /// The run is over: there is nothing to report.
    Cancelled,
    /// It failed, and the error is to be recorded.
    Failed { category: ErrorCategory, message: String },
    /// It failed, and the error is recorded.
    Told { message: String },
    /// A gate or a conflict prevents an apply.
    Constrained(Vec<domain::ConstraintReason>),
}

impl PhaseStop {
    fn failed(category: ErrorCategory, message: impl std::fmt::Display) -> Self {
        Self::Failed { category, message: message.to_string() }
    }
}

impl From<Cancelled> for PhaseStop {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<StoreError> for PhaseStop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LeaseLost(_) => Self::Cancelled,
            StoreError::Full => Self::failed(ErrorCategory::Resource, error),
            StoreError::Busy => Self::failed(ErrorCategory::Overloaded, error),
            StoreError::TooNew { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Damaged { .. }
            | StoreError::Broken { .. } => Self::failed(ErrorCategory::Internal, error),
        }
    }
}

impl From<PlanStoreError> for PhaseStop {
    fn from(error: PlanStoreError) -> Self {
        if let PlanStoreError::Store(error) = error {
            return error.into();
        }
        Self::failed(ErrorCategory::Internal, error)
    }
}

impl From<DecisionStoreError> for PhaseStop {
    fn from(error: DecisionStoreError) -> Self {
        if let DecisionStoreError::Store(error) = error {
            return error.into();
        }
        Self::failed(ErrorCategory::Internal, error)
    }
}

impl From<ChangesetStoreError> for PhaseStop {
    fn from(error: ChangesetStoreError) -> Self {
        match error {
            ChangesetStoreError::Store(error) => error.into(),
            other @ ChangesetStoreError::Changeset(_) => Self::failed(ErrorCategory::Internal, other),
        }
    }
}

impl From<JobStoreError> for PhaseStop {
    fn from(error: JobStoreError) -> Self {
        match error {
            JobStoreError::Store(error) => error.into(),
            other @ (JobStoreError::Refused(_) | JobStoreError::QueueFull { .. }) => {
                Self::failed(ErrorCategory::Internal, other)
            }
        }
    }
}

impl From<LedgerStoreError> for PhaseStop {
    fn from(error: LedgerStoreError) -> Self {
        match error {
            LedgerStoreError::Store(error) => error.into(),
            LedgerStoreError::Limit(_) => Self::failed(ErrorCategory::Budget, error),
            LedgerStoreError::TooLow(_)
            | LedgerStoreError::IdTaken { .. }
            | LedgerStoreError::NotReserved { .. }
            | LedgerStoreError::NotFound { .. } => Self::failed(ErrorCategory::Internal, error),
        }
    }
}

impl From<LockStoreError> for PhaseStop {
    fn from(error: LockStoreError) -> Self {
        match error {
            LockStoreError::Store(error) => error.into(),
            other @ LockStoreError::Held(_) => Self::failed(ErrorCategory::Sandbox, other),
        }
    }
}

impl From<PlanError> for PhaseStop {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Cancelled { .. } | PlanError::LeaseLost(_) => Self::Cancelled,
            PlanError::Store(error) => error.into(),
            PlanError::NoActiveChangeset | PlanError::ChangesetClosed { .. } | PlanError::InvalidEntry(_) => {
                Self::failed(ErrorCategory::Internal, error)
            }
        }
    }
}

impl SimRunner {
    pub(crate) fn new(
        world: &Arc<SimWorld>,
        group: TaskGroup,
        store: &Arc<FaultyStore>,
        ids: &Arc<dyn Ids>,
        breakers: CircuitBreaker,
    ) -> Self {
        Self {
            world: Arc::clone(world),
            group,
            store: Arc::clone(store),
            ids: Arc::clone(ids),
            breakers,
            recovery: ErrorRecoveryService::new(Arc::clone(store) as _, world.scenario.policy),
            live: Mutex::default(),
        }
    }

    /// Cancels one of the runs from inside the process; whether one was there. With `resets` the token is
    /// reset at once.
    pub(crate) fn cancel_inside(&self, resets: bool) -> bool {
        let token = lock(&self.live).values().find_map(|live| live.token.clone());
        let Some(token) = token else { return false };
        token.cancel(CancelReason::User);
        if resets {
            token.reset();
        }
        true
    }

    /// Lets others run first; does not return if the process died meanwhile.
    async fn tick(&self) {
        yield_now().await;
        self.world.alive(self.group).await;
    }

    fn with_live<R>(&self, claim: &Claim, change: impl FnOnce(&mut LiveRun) -> R) -> R {
        change(lock(&self.live).entry((claim.job, claim.fence)).or_default())
    }

    async fn phase(&self, run: &JobRun, plan: &Plan) -> Result<(), PhaseStop> {
        match run.job().phase {
            Phase::Strategize => self.strategize(run, plan).await,
            Phase::Execute => self.execute(run, plan).await,
            Phase::Apply => self.apply(run, plan).await,
        }
    }

    async fn strategize(&self, run: &JobRun, plan: &Plan) -> Result<(), PhaseStop> {
        let known = self.store.decisions(plan.id).await?;
        let is_this = |new: &NewDecision| new.kind == DecisionKind::Strategy && new.attempt == plan.attempt;
        if known.iter().any(|decision| is_this(&decision.new)) {
            return Ok(());
        }
        let decision = NewDecision {
            parent: known.first().map(|prompt| prompt.seq),
            attempt: plan.attempt,
            phase: Phase::Strategize,
            kind: DecisionKind::Strategy,
            question: "how?".to_owned(),
            chosen: "so".to_owned(),
            rationale: String::new(),
            confidence: None,
            alternatives: Vec::new(),
            depends_on: Vec::new(),
            node: None,
            at_entry: 0,
            supersedes: Vec::new(),
        };
        let effect = run.enter()?;
        self.store.decide(&effect, &run.claim(), decision).await?;
        Ok(())
    }

    /// Reports the failure to the recovery, and returns its decision for the worker.
    async fn tell(&self, run: &JobRun, plan: &Plan, category: ErrorCategory, message: String) -> RunFailure {
        let step = StepId { attempt: plan.attempt, node: run.job().phase.to_string(), visit: 1 };
        let id = ErrorId::from_u128(self.ids.ulid());
        let error = NewError::new(id, run.job().phase, step, category, message.clone());
        let _ = self.recovery.record_error(&run.claim(), error).await;
        RunFailure::failed(message)
    }
}

fn ended(state: CallState) -> CallEnd {
    CallEnd {
        state,
        duration_ms: 0,
        exit: None,
        error: None,
        result: Value::Null,
        isolation: None,
        stdout: None,
        stderr: None,
    }
}

#[async_trait]
impl JobRunner for SimRunner {
    async fn run(&self, run: &JobRun) -> Result<(), RunFailure> {
        let claim = run.claim();
        self.with_live(&claim, |live| live.token = Some(run.token().clone()));
        self.tick().await;
        self.world.sweep_job(claim.job, claim.fence);
        self.world.tree_is_dead(claim.job, Fence(claim.fence.0.saturating_sub(1))).await;
        let plan = match self.store.plan(claim.plan).await {
            Ok(plan) => plan,
            Err(error) => return Err(RunFailure::failed(error.to_string())),
        };
        match self.phase(run, &plan).await {
            Ok(()) => Ok(()),
            Err(PhaseStop::Cancelled) => Err(RunFailure::failed("the run was stopped")),
            Err(PhaseStop::Told { message }) => Err(RunFailure::failed(message)),
            Err(PhaseStop::Failed { category, message }) => {
                Err(self.tell(run, &plan, category, message).await)
            }
            Err(PhaseStop::Constrained(reasons)) => Err(RunFailure::constrained(reasons)),
        }
    }

    fn kill(&self, run: &JobRun, reason: CancelReason) {
        let claim = run.claim();
        self.with_live(&claim, |live| live.is_killed = true);
        if self.world.is_broken(BrokenProgram::EarlyAcknowledgement) {
            return;
        }
        if reason == CancelReason::LeaseLost {
            self.world.kill_processes(|process| process.claim == claim);
        } else {
            self.world.kill_processes(|process| {
                process.claim.job == claim.job && process.claim.fence <= claim.fence
            });
            self.world.machine().sweep_job(claim.job, claim.fence);
        }
    }

    async fn wind_down(&self, run: &JobRun, finisher: &Finisher, interrupted: Option<CancelReason>) {
        let claim = run.claim();
        let live = lock(&self.live).remove(&(claim.job, claim.fence)).unwrap_or_default();
        self.tick().await;
        if !matches!(
            self.world.broken,
            Some(BrokenProgram::EarlyAcknowledgement | BrokenProgram::AbandonedCall)
        ) {
            self.world.kill_processes(|process| process.claim == claim);
            self.world.tree_is_dead(claim.job, claim.fence).await;
        }
        if interrupted != Some(CancelReason::LeaseLost) {
            self.end_open_calls(run, &live, finisher).await;
        }
        if let Some((sandbox, mut record)) = live.sandbox {
            self.tick().await;
            self.world.machine().sandboxes.remove(&sandbox);
            record.closed = Some(self.world.wall());
            let _ = self.store.sandbox_closed(record).await;
        }
    }
}
