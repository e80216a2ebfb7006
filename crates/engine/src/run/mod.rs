//! Runs the phases of plans: the work of a claimed job.
//!
//! # Where to look
//! `phase::strategize` and `phase::execute` run an actor's `graph`. Its nodes (`node`) get their prompt from
//! `node::prompt` and work in the sandbox that `plan_sandbox` opens; then come `phase::checks` and
//! `phase::repair`. `call` has the calls. Each goes through the same four steps, and `call::sandbox_call` is
//! the right to change the sandbox together with the duty to record the changes. `node::model` lets a model
//! work, and `node::decisions` records decisions of nodes. `plan_sandbox::retained` handles changes that
//! could not be captured. `accounting` counts what a run uses, and `stale_processes` kills processes of
//! former owners of the job. `phase::apply` brings the result to the user's files, and `recheck` runs checks
//! on what these would become.
//!
//! # Invariants
//! 1. Nothing of a run outlives it. Its processes are killed when it is interrupted, and its sandbox goes
//!    when its end is stored, whatever became of it.
//! 2. The changes of a command are captured before its sandbox is removed, also if the command was
//!    interrupted. A sandbox whose changes could not be captured stays on the disk.

mod accounting;
pub(crate) mod call;
mod context;
mod graph;
mod node;
pub(crate) mod phase;
pub(crate) mod plan_sandbox;
mod recheck;
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
    CallNumber, ErrorCategory, ErrorId, Fence, JobId, LimitReached, NewError, Phase, PlanStep,
    RecoveryAdvice, StepId,
};
use sync::primitives::{Mutex, lock};
use sync::{CancelReason, Cancelled, Finisher};

use crate::engine::EngineInner;
use node::NodeOutput;
use worker::ErrorRecoveryService;
use worker::PlanError;
use worker::{JobRun, JobRunner, RunFailure};

pub(crate) use phase::checks::CheckRun;
pub(crate) use recheck::{Recheck, RecheckResult, RecordedCheck, red, required};
use shutdown::RunShutdown;

pub(crate) use context::RunContext;
pub(crate) use shutdown::STORE_WAIT;
pub(crate) use state::RunState;

/// The pause before a busy store is asked again.
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// Does the jobs of this process.
pub(crate) struct PhaseRunner {
    engine: Arc<EngineInner>,
    apply: ApplyAs,
    states: Mutex<BTreeMap<(JobId, Fence), Arc<RunState>>>,
}

/// The treatment of an apply that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyAs {
    /// As it was asked for.
    Asked,
    /// Nothing: another choice takes its place.
    Replaced,
}

/// The reason for which a phase ends early.
#[derive(Debug)]
pub(crate) enum RunError {
    /// The run is over: it was cancelled, or the lease is lost. There is nothing to report.
    Cancelled,
    /// It failed; the recovery records the error and decides. `left` is the output of a failed node, `call`
    /// the call that failed, if it was one.
    Failed {
        category: ErrorCategory,
        message: String,
        left: Option<Box<NodeOutput>>,
        call: Option<CallNumber>,
    },
    /// It failed, and the failure was reported to the recovery.
    Reported(String),
    /// A limit of the plan does not let `node` begin or continue.
    Limit { node: String, reached: LimitReached },
    /// A gate or a conflict blocks an apply.
    Constrained(Vec<domain::ConstraintReason>),
}

impl RunError {
    /// In one sentence.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Cancelled => "the run was stopped".to_owned(),
            Self::Failed { message, .. } | Self::Reported(message) => message.clone(),
            Self::Limit { reached, .. } => reached.to_string(),
            Self::Constrained(reasons) => domain::why_constrained(reasons),
        }
    }

    fn failed(category: ErrorCategory, message: impl std::fmt::Display) -> Self {
        Self::Failed { category, message: message.to_string(), left: None, call: None }
    }

    /// The same, of a failure: this call is the one that failed, unless another is named.
    fn of_call(self, no: CallNumber) -> Self {
        match self {
            Self::Failed { category, message, left, call } => {
                Self::Failed { category, message, left, call: call.or(Some(no)) }
            }
            other @ (Self::Cancelled | Self::Reported(_) | Self::Limit { .. } | Self::Constrained(_)) => {
                other
            }
        }
    }
}

/// Returns the category of a sandbox failure: lack of space, or the sandbox itself.
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

impl From<Cancelled> for RunError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<store::StoreError> for RunError {
    fn from(error: store::StoreError) -> Self {
        match error {
            store::StoreError::LeaseLost(_) => Self::Cancelled,
            store::StoreError::Full => Self::failed(ErrorCategory::Resource, error),
            // The process that holds it will release it: a transient failure.
            store::StoreError::Busy => Self::failed(ErrorCategory::Overloaded, error),
            store::StoreError::TooNew { .. }
            | store::StoreError::Unreadable { .. }
            | store::StoreError::Damaged { .. }
            | store::StoreError::Broken { .. } => Self::failed(ErrorCategory::Internal, error),
        }
    }
}

impl From<store::PlanStoreError> for RunError {
    fn from(error: store::PlanStoreError) -> Self {
        if let store::PlanStoreError::Store(error) = error {
            return error.into();
        }
        Self::failed(ErrorCategory::Internal, error)
    }
}

impl From<store::DecisionStoreError> for RunError {
    fn from(error: store::DecisionStoreError) -> Self {
        match error {
            store::DecisionStoreError::Store(error) => error.into(),
            other @ (store::DecisionStoreError::Invalid(_)
            | store::DecisionStoreError::NotFound { .. }
            | store::DecisionStoreError::Final { .. }) => Self::failed(ErrorCategory::Internal, other),
        }
    }
}

impl From<store::ChangesetStoreError> for RunError {
    fn from(error: store::ChangesetStoreError) -> Self {
        match error {
            store::ChangesetStoreError::Store(error) => error.into(),
            other @ store::ChangesetStoreError::Changeset(_) => Self::failed(ErrorCategory::Internal, other),
        }
    }
}

impl From<PlanError> for RunError {
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
    pub(crate) fn new(engine: Arc<EngineInner>, apply: ApplyAs) -> Self {
        Self { engine, apply, states: Mutex::default() }
    }

    fn state_of(&self, job: &JobRun) -> Arc<RunState> {
        let claim = job.claim();
        Arc::clone(lock(&self.states).entry((claim.job, claim.fence)).or_default())
    }

    fn known_state(&self, job: &JobRun) -> Option<Arc<RunState>> {
        let claim = job.claim();
        lock(&self.states).get(&(claim.job, claim.fence)).cloned()
    }

    fn take_state(&self, job: &JobRun) -> Option<Arc<RunState>> {
        let claim = job.claim();
        lock(&self.states).remove(&(claim.job, claim.fence))
    }

    async fn phase(&self, run: RunContext<'_>) -> Result<(), RunError> {
        stale_processes::kill(run.job, run.state).await?;
        if run.phase() != Phase::Apply {
            self.engine.models.renew(&run.plan.spec, &self.engine.redactor);
        }
        match run.phase() {
            Phase::Strategize => phase::strategize::strategize(run).await,
            Phase::Execute => phase::execute::execute(run).await,
            Phase::Apply => match self.apply {
                ApplyAs::Asked => phase::apply::apply(run).await,
                ApplyAs::Replaced => Err(RunError::Constrained(vec![phase::apply::replaced()])),
            },
        }
    }
}

/// Returns the failure of a run whose phase stopped; the recovery records an error that it has not recorded
/// yet.
async fn failure_of(run: RunContext<'_>, stopped: RunError) -> RunFailure {
    match stopped {
        RunError::Cancelled => RunFailure::failed("the run was stopped".to_owned()),
        RunError::Reported(message) => RunFailure::failed(message),
        RunError::Failed { category, message, call, .. } => {
            let failure = PhaseFailure { category, message, call, retry_after: None };
            RunFailure::failed(report_failure(run, None, failure).await.message)
        }
        RunError::Limit { node, reached } => accounting::report_limit(run, node, &reached).await,
        RunError::Constrained(reasons) => RunFailure::constrained(reasons),
    }
}

/// A failure that is to be reported to the recovery.
pub(crate) struct PhaseFailure {
    category: ErrorCategory,
    message: String,
    /// The call that failed.
    call: Option<CallNumber>,
    /// The wait that the source of the failure asks for.
    retry_after: Option<Duration>,
}

/// A failure that was reported to the recovery.
struct ReportedFailure {
    message: String,
    /// The advice of the recovery; `None` if that could not be stored.
    recovery: Option<RecoveryAdvice>,
}

/// Reports a failure to the recovery. `at` is the step that failed; `None` if it was the phase itself.
async fn report_failure(
    run: RunContext<'_>,
    at: Option<&PlanStep>,
    failure: PhaseFailure,
) -> ReportedFailure {
    let RunContext { engine, plan, .. } = run;
    let PhaseFailure { category, message, call, retry_after } = failure;
    let phase = run.phase();
    let node = at.map_or_else(|| phase.to_string(), |step| step.node.clone());
    let id = ErrorId::from_u128(engine.ids.ulid());
    let message = engine.redactor.redact_text(&message);
    *lock(&engine.last_failure) = Some(message.clone());
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
    let recovery = record_until_stored(&engine.recovery.of_step(retries), run.job, error).await.ok();
    ReportedFailure { message, recovery }
}

/// Records an error. A store that others keep busy is asked again, as long as the run has its lease.
async fn record_until_stored(
    recovery: &ErrorRecoveryService,
    job: &JobRun,
    error: NewError,
) -> Result<RecoveryAdvice, store::StoreError> {
    loop {
        let answer = recovery.record_error(&job.claim(), error.clone()).await;
        let is_busy = answer == Err(store::StoreError::Busy);
        if !is_busy || node::command::pause(job, BUSY_PAUSE).await.is_err() {
            return answer;
        }
    }
}

#[async_trait]
impl JobRunner for PhaseRunner {
    async fn run(&self, job: &JobRun) -> Result<(), RunFailure> {
        let plan = match self.engine.store.plan(job.claim().plan).await {
            Ok(plan) => plan,
            Err(error) => return Err(RunFailure::failed(error.to_string())),
        };
        let state = self.state_of(job);
        let run = RunContext { engine: &self.engine, job, state: &state, plan: &plan };
        let time = match state.time.begin(run).await {
            Ok(time) => time,
            Err(stopped) => return Err(failure_of(run, stopped).await),
        };
        let mut phase = std::pin::pin!(self.phase(run));
        let mut left = time.left;
        let phase = loop {
            tokio::select! {
                phase = &mut phase => break phase,
                () = tokio::time::sleep(left) => {}
            }
            if let Some(more) = state.time.take_extension() {
                left = more;
                continue;
            }
            let failure = accounting::report_limit(run, run.phase().to_string(), &time.reached).await;
            job.token().cancel(CancelReason::Timeout);
            // Its processes are killed by now; what it had in hand comes to an end, or is dropped by the worker.
            let _ = phase.await;
            return Err(failure);
        };
        match phase {
            Ok(()) => Ok(()),
            Err(stopped) => Err(failure_of(run, stopped).await),
        }
    }

    fn kill(&self, job: &JobRun, reason: CancelReason) {
        self.state_of(job).kill(reason);
    }

    async fn wind_down(&self, job: &JobRun, finisher: &Finisher, interrupted: Option<CancelReason>) {
        if let Some(state) = self.known_state(job) {
            // A cancel that was taken over had no phase that did it. A process that does not die does not
            // delay the cancel.
            let _ = stale_processes::kill(job, &state).await;
            state.time.end(&self.engine, job, finisher).await;
            let shutdown = RunShutdown { engine: &self.engine, job, finisher, interrupted };
            shutdown::wind_down(shutdown, &state).await;
        }
    }

    fn over(&self, job: &JobRun) {
        if let Some(state) = self.take_state(job) {
            shutdown::clear(state);
        }
    }
}
