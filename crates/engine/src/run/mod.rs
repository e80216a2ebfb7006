//! Does the phases of plans: what a claimed job means.
//!
//! # Where to look
//! `strategize` and `execute` run an actor's `graph`, whose `node`s do `steps`, with what `brief` tells them, in the sandbox
//! that `ground` opens; then come `checks`, and `mend`. `sandbox_call` is the right to change the sandbox and the duty to
//! record what changed, `command` the gate that every command passes, `tools` the same for every call of a tool, `model` lets a model work, `choices` is what nodes decide,
//! `kept` is what becomes of changes that could not be captured, `spending` what a run may use,
//! `earlier` what a job's former owners left, `apply` brings the result to the user's files, and `recheck` runs checks on
//! what these would become.
//!
//! # Invariants
//! 1. Nothing of a run outlives it: its processes are killed when it is interrupted, and its sandbox goes when its end is
//!    stored, whatever became of it.
//! 2. What a command had changed is captured before its sandbox goes, also when the command was interrupted; a sandbox
//!    whose changes could not be captured stays on the disk.

mod accounting;
pub(crate) mod call;
mod context;
mod graph;
mod node;
pub(crate) mod phase;
pub(crate) mod plan_sandbox;
mod shutdown;
mod stale_processes;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    CallNo, ErrorCategory, ErrorId, Fence, JobId, LimitReached, NewError, Phase, Plan, Recovery, Step, StepId,
};
use sync::primitives::{Mutex, lock};
use sync::{CancelReason, Cancelled, Finisher};

use crate::engine::House;
use node::Left;
use worker::ErrorRecoveryService;
use worker::PlanError;
use worker::{JobRun, JobRunner, RunFailure};

pub(crate) use phase::recheck::{Recheck, Rechecked, red, required};
pub(crate) use shutdown::STORE_WAIT;
pub(crate) use state::LiveRun;

/// How long a store that is busy is left alone before it is asked again.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// Does the jobs of this process.
pub(crate) struct PhaseRunner {
    house: Arc<House>,
    apply: ApplyAs,
    live: Mutex<BTreeMap<(JobId, Fence), Arc<LiveRun>>>,
}

/// What is to be done with an apply that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyAs {
    /// As it was asked for.
    Asked,
    /// Nothing: another choice takes its place.
    Replaced,
}

/// What ends a phase early.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The run is over: somebody cancelled it, or the lease is lost. There is nothing to tell.
    Cancelled,
    /// It failed; the error is told to the recovery, which decides. `left` is what a node left that failed, `call` the call
    /// that failed, if it was one.
    Failed { category: ErrorCategory, message: String, left: Option<Box<Left>>, call: Option<CallNo> },
    /// The same, and the recovery knows.
    Told(String),
    /// A limit of the plan does not let `node` begin, or go on.
    Limit { node: String, reached: LimitReached },
    /// A gate or a conflict stands in the way of an apply.
    Constrained(Vec<domain::Reason>),
}

impl Stopped {
    /// In one sentence.
    fn shown(&self) -> String {
        match self {
            Self::Cancelled => "the run was stopped".to_owned(),
            Self::Failed { message, .. } | Self::Told(message) => message.clone(),
            Self::Limit { reached, .. } => reached.to_string(),
            Self::Constrained(reasons) => domain::why_constrained(reasons),
        }
    }

    fn failed(category: ErrorCategory, message: impl std::fmt::Display) -> Self {
        Self::Failed { category, message: message.to_string(), left: None, call: None }
    }

    /// The same, of a failure: this call is the one that failed, unless another is named.
    fn of_call(self, no: CallNo) -> Self {
        match self {
            Self::Failed { category, message, left, call } => {
                Self::Failed { category, message, left, call: call.or(Some(no)) }
            }
            other @ (Self::Cancelled | Self::Told(_) | Self::Limit { .. } | Self::Constrained(_)) => other,
        }
    }
}

/// What kind of failure this is: one of space, or of the sandbox.
fn sandbox_category(error: &(dyn Error + 'static)) -> ErrorCategory {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(io, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
            return ErrorCategory::Resource;
        }
        cause = error.source();
    }
    ErrorCategory::Sandbox
}

impl From<Cancelled> for Stopped {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<store::StoreError> for Stopped {
    fn from(error: store::StoreError) -> Self {
        match error {
            store::StoreError::LeaseLost(_) => Self::Cancelled,
            store::StoreError::Full => Self::failed(ErrorCategory::Resource, error),
            // Whoever keeps it will let go: a passing failure.
            store::StoreError::Busy => Self::failed(ErrorCategory::Overloaded, error),
            store::StoreError::TooNew { .. }
            | store::StoreError::Unreadable { .. }
            | store::StoreError::Damaged { .. }
            | store::StoreError::Broken { .. } => Self::failed(ErrorCategory::Internal, error),
        }
    }
}

impl From<store::PlanStoreError> for Stopped {
    fn from(error: store::PlanStoreError) -> Self {
        if let store::PlanStoreError::Store(error) = error {
            return error.into();
        }
        Self::failed(ErrorCategory::Internal, error)
    }
}

impl From<store::DecisionStoreError> for Stopped {
    fn from(error: store::DecisionStoreError) -> Self {
        match error {
            store::DecisionStoreError::Store(error) => error.into(),
            other @ (store::DecisionStoreError::Invalid(_)
            | store::DecisionStoreError::NotFound { .. }
            | store::DecisionStoreError::Final { .. }) => Self::failed(ErrorCategory::Internal, other),
        }
    }
}

impl From<store::ChangesetStoreError> for Stopped {
    fn from(error: store::ChangesetStoreError) -> Self {
        match error {
            store::ChangesetStoreError::Store(error) => error.into(),
            other @ store::ChangesetStoreError::Changeset(_) => Self::failed(ErrorCategory::Internal, other),
        }
    }
}

impl From<PlanError> for Stopped {
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

impl PhaseRunner {
    pub(crate) fn new(house: Arc<House>, apply: ApplyAs) -> Self {
        Self { house, apply, live: Mutex::default() }
    }

    fn live_of(&self, run: &JobRun) -> Arc<LiveRun> {
        let claim = run.claim();
        Arc::clone(lock(&self.live).entry((claim.job, claim.fence)).or_default())
    }

    fn known_live(&self, run: &JobRun) -> Option<Arc<LiveRun>> {
        let claim = run.claim();
        lock(&self.live).get(&(claim.job, claim.fence)).cloned()
    }

    fn take_live(&self, run: &JobRun) -> Option<Arc<LiveRun>> {
        let claim = run.claim();
        lock(&self.live).remove(&(claim.job, claim.fence))
    }

    async fn phase(&self, run: &JobRun, plan: &Plan) -> Result<(), Stopped> {
        stale_processes::kill(run, &self.live_of(run)).await?;
        if run.job().phase != Phase::Apply {
            self.house.models.renew(&plan.spec, &self.house.redactor);
        }
        match run.job().phase {
            Phase::Strategize => {
                phase::strategize::strategize(&self.house, run, &self.live_of(run), plan).await
            }
            Phase::Execute => phase::execute::execute(&self.house, run, &self.live_of(run), plan).await,
            Phase::Apply => match self.apply {
                ApplyAs::Asked => phase::apply::apply(&self.house, run, &self.live_of(run), plan).await,
                ApplyAs::Replaced => Err(Stopped::Constrained(vec![phase::apply::replaced()])),
            },
        }
    }

    /// How a phase that stopped ends its run; what was not told yet is told to the recovery.
    async fn failure(&self, run: &JobRun, plan: &Plan, stopped: Stopped) -> RunFailure {
        match stopped {
            Stopped::Cancelled => RunFailure::failed("the run was stopped".to_owned()),
            Stopped::Told(message) => RunFailure::failed(message),
            Stopped::Failed { category, message, call, .. } => {
                let failure = Failure { category, message, call };
                RunFailure::failed(tell(&self.house, run, plan, None, failure).await.message)
            }
            Stopped::Limit { node, reached } => {
                accounting::told(&self.house, run, plan, node, &reached).await
            }
            Stopped::Constrained(reasons) => RunFailure::constrained(reasons),
        }
    }
}

/// A failure that is to be told to the recovery.
pub(crate) struct Failure {
    category: ErrorCategory,
    message: String,
    /// The call that failed.
    call: Option<CallNo>,
}

/// A failure that was told to the recovery.
struct Told {
    message: String,
    /// What is done about it; none when that could not be stored.
    recovery: Option<Recovery>,
}

/// Tells a failure to the recovery. `at` is the step that failed; none when it was the phase itself.
async fn tell(house: &House, run: &JobRun, plan: &Plan, at: Option<&Step>, failure: Failure) -> Told {
    tell_and_wait(house, run, plan, at, failure, None).await
}

/// The same, of somebody who asks us to wait for `retry_after`.
async fn tell_and_wait(
    house: &House,
    run: &JobRun,
    plan: &Plan,
    at: Option<&Step>,
    failure: Failure,
    retry_after: Option<Duration>,
) -> Told {
    let Failure { category, message, call } = failure;
    let phase = run.job().phase;
    let node = at.map_or_else(|| phase.to_string(), |step| step.node.clone());
    let id = ErrorId::from_u128(house.ids.ulid());
    let message = house.redactor.redact_text(&message);
    *lock(&house.last_failure) = Some(message.clone());
    let step = StepId { attempt: plan.attempt, node, visit: 1 };
    let mut error = NewError::new(id, phase, step, category, message.clone());
    let retries = at.and_then(|step| step.retries);
    if retries.is_some() {
        error = error.idempotent();
    }
    if let Some(wait) = retry_after {
        error = error.with_retry_after(wait);
    }
    if let Some(call) = call {
        error = error.with_tool_call(call);
    }
    let recovery = recorded(&house.recovery.of_step(retries), run, error).await.ok();
    Told { message, recovery }
}

/// Records an error. A store that others keep busy is asked again, as long as the run has its lease.
async fn recorded(
    recovery: &ErrorRecoveryService,
    run: &JobRun,
    error: NewError,
) -> Result<Recovery, store::StoreError> {
    loop {
        let answer = recovery.record_error(&run.claim(), error.clone()).await;
        let is_busy = answer == Err(store::StoreError::Busy);
        if !is_busy || node::command::pause(run, BUSY_PAUSE).await.is_err() {
            return answer;
        }
    }
}

#[async_trait]
impl JobRunner for PhaseRunner {
    async fn run(&self, run: &JobRun) -> Result<(), RunFailure> {
        let plan = match self.house.store.plan(run.claim().plan).await {
            Ok(plan) => plan,
            Err(error) => return Err(RunFailure::failed(error.to_string())),
        };
        let live = self.live_of(run);
        let time = match live.time.begin(&self.house, run, &plan).await {
            Ok(time) => time,
            Err(stopped) => return Err(self.failure(run, &plan, stopped).await),
        };
        let mut phase = std::pin::pin!(self.phase(run, &plan));
        let phase = tokio::select! {
            phase = &mut phase => phase,
            () = tokio::time::sleep(time.left) => {
                let node = run.job().phase.to_string();
                let failure = accounting::told(&self.house, run, &plan, node, &time.reached).await;
                run.token().cancel(CancelReason::Timeout);
                // Its processes are killed by now; what it had in hand comes to an end, or is dropped by the worker.
                let _ = phase.await;
                return Err(failure);
            }
        };
        match phase {
            Ok(()) => Ok(()),
            Err(stopped) => Err(self.failure(run, &plan, stopped).await),
        }
    }

    fn kill(&self, run: &JobRun, reason: CancelReason) {
        self.live_of(run).kill(reason);
    }

    async fn wind_down(&self, run: &JobRun, finisher: &Finisher, interrupted: Option<CancelReason>) {
        if let Some(live) = self.known_live(run) {
            // A cancel that was taken over had no phase that did it. What will not die does not hold the cancel up.
            let _ = stale_processes::kill(run, &live).await;
            live.time.end(&self.house, run, finisher).await;
            shutdown::wind_down(&self.house, run, &live, finisher, interrupted).await;
        }
    }

    fn over(&self, run: &JobRun) {
        if let Some(live) = self.take_live(run) {
            shutdown::clear(live);
        }
    }
}
