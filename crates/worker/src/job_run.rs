//! One run of one job: worked on, interrupted or not, and settled in the store exactly once.
//!
//! # How a run ends
//! 1. The work returns; or the run is interrupted: the gate closes, the scope is cancelled, the runner kills
//!    the live processes. From that moment work and effects have [`WorkerConfig::cancel_wait`] to end.
//! 2. The gate is closed, so that no effect begins, and drained. Work that is late is dropped. An effect that
//!    is late fails a run that had succeeded; an interrupted run continues without it, because its writes
//!    will be refused.
//! 3. The runner winds down: what is left is captured.
//! 4. The job is ended or released, together with its open changesets, by the holder of the gate's one
//!    `Finisher`. For a cancel, the commit of that is the acknowledgement.
//! 5. The runner is notified of the end, and removes the resources that are not needed any more.
//!
//! # Invariants
//! 1. `interrupt` closes the gate before it cancels the scope: a task that sees the cancel cannot begin an
//!    effect any more.
//! 2. Once the lease is lost nothing more is asked of the store: the new owner decides.
//! 3. A write whose outcome is unknown is asked for again, until it is answered or the lease is lost.
//! 4. The work is a task of its own: one that blocks its thread delays no other run.
//! 5. Nothing foreign is waited for without a bound, and none of its panics leaves here.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Claim, ConstraintReason, ErrorClass, Job, JobState, JobTransitionRejection, why_constrained};
use futures_util::future::abortable;
use store::{JobEnd, JobStoreError, StoreError};
use sync::primitives::{Mutex, lock};
use sync::{CancelReason, CancellationToken, Cancelled, Effect, EffectGate, Finisher, Observed, Panicked};
use tokio::sync::{Notify, oneshot};

use crate::config::WorkerConfig;
use crate::plan_context::PlanExecutionContext;
use crate::runtime::TaskKind;
use crate::runtime::contained;
use crate::worker::Ports;

/// The pause before a failed write of the end is repeated.
const SETTLE_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// The maximum number of tries with a store that is full: writing the end needs little space, which may soon
/// be free.
const SETTLE_FULL_TRIES_MAX: u32 = 10;
/// The longest wait for an answer to the write of the end before it is asked for again.
const SETTLE_ANSWER_WAIT: Duration = Duration::from_secs(10);

/// The reason for which a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct RunFailure {
    /// The obstacle.
    pub why: String,
    /// The reasons why a gate or a conflict refused an apply, and nothing was written. Empty for a failure.
    pub constrained_by: Vec<ConstraintReason>,
}

impl RunFailure {
    /// It could not be done.
    pub fn failed(why: impl Into<String>) -> Self {
        Self { why: why.into(), constrained_by: Vec::new() }
    }

    /// Creates the failure of an apply that a gate or a conflict blocks.
    pub fn constrained(reasons: Vec<ConstraintReason>) -> Self {
        Self { why: why_constrained(&reasons), constrained_by: reasons }
    }

    /// Returns the end of the job for this failure.
    fn end(self) -> JobEnd {
        if self.constrained_by.is_empty() {
            JobEnd::Failed { why: self.why }
        } else {
            JobEnd::Constrained { reasons: self.constrained_by }
        }
    }
}

/// Does the jobs.
#[async_trait]
pub trait JobRunner: Send + Sync {
    /// Does the job's phase. It should return soon after `run.scope()` is cancelled; later it is dropped.
    async fn run(&self, run: &JobRun) -> Result<(), RunFailure>;

    /// Kills the live processes of the job, without waiting for their death: the run was interrupted, or
    /// taken over to be interrupted.
    fn kill(&self, _run: &JobRun, _reason: CancelReason) {}

    /// The last effects, after the gate has closed and before the end is stored: capture what is left.
    /// `interrupted` says why the run did not come to its own end. If it takes longer than
    /// [`WorkerConfig::wind_down_wait`], it is dropped.
    async fn wind_down(&self, _run: &JobRun, _finisher: &Finisher, _interrupted: Option<CancelReason>) {}

    /// The end is stored, or given up: what is left of the run can be cleared away. It must not block.
    fn over(&self, _run: &JobRun) {}
}

/// A job being run, as its runner sees it.
#[derive(Debug)]
pub struct JobRun {
    job: Job,
    token: CancellationToken,
    scope: Observed,
    gate: EffectGate,
    context: PlanExecutionContext,
}

impl JobRun {
    /// The job as it was claimed.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The claim that every write shows.
    pub fn claim(&self) -> Claim {
        self.job.claim()
    }

    /// Cancelled when the run has to stop.
    pub fn scope(&self) -> &Observed {
        &self.scope
    }

    /// The run's own token: children of it end with the run, and cancelling it interrupts the run. With the
    /// reason `User` the job ends as cancelled, with any other that names a limit it fails.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// The right to one effect.
    ///
    /// # Errors
    /// The gate is closed: the run is over, or about to be.
    pub fn enter(&self) -> Result<Effect, Cancelled> {
        self.scope.check()?;
        self.gate.enter()
    }

    /// Returns the context through which changes are recorded.
    pub fn context(&self) -> &PlanExecutionContext {
        &self.context
    }
}

/// A job being run, as its worker sees it.
pub(crate) struct ClaimedRun {
    pub(crate) public: JobRun,
    finisher: Mutex<Option<Finisher>>,
    /// When the last acknowledged renewal was sent, by the worker's clock.
    renewed_at: Mutex<Duration>,
    /// Cancelled when the lease is lost.
    pub(crate) lost: CancellationToken,
    /// Cancelled when the end is stored, or given up.
    pub(crate) over: CancellationToken,
    /// A hint: look at the job's row now.
    pub(crate) nudged: Notify,
}

impl ClaimedRun {
    pub(crate) fn new(job: Job, claimed_at: Duration, ports: &Ports) -> Self {
        let token = ports.token.child();
        let (scope, gate) = (token.observe(), EffectGate::new());
        let context = PlanExecutionContext::new(
            job.claim(),
            scope.clone(),
            gate.clone(),
            Arc::clone(&ports.store) as _,
            Arc::clone(&ports.ids),
        );
        Self {
            public: JobRun { job, token, scope, gate, context },
            finisher: Mutex::new(None),
            renewed_at: Mutex::new(claimed_at),
            lost: CancellationToken::new(),
            over: CancellationToken::new(),
            nudged: Notify::new(),
        }
    }

    /// Closes the gate, then cancels the scope. The first reason stays.
    pub(crate) fn interrupt(&self, reason: CancelReason) {
        self.close(reason);
        // Wakers of tasks that wait for the scope are foreign code.
        let _ = sync::contained(|| self.public.token.cancel(reason));
    }

    /// The lease is lost: nothing may be written any more.
    pub(crate) fn mark_lost(&self) {
        self.lost.cancel(CancelReason::LeaseLost);
        self.interrupt(CancelReason::LeaseLost);
    }

    /// Returns true if the gate is closed: the run is coming to its end, or is interrupted.
    pub(crate) fn is_ending(&self) -> bool {
        self.public.gate.closed().is_some()
    }

    pub(crate) fn renewed_at(&self) -> Duration {
        *lock(&self.renewed_at)
    }

    pub(crate) fn renew(&self, sent_at: Duration) {
        let mut renewed_at = lock(&self.renewed_at);
        *renewed_at = sent_at.max(*renewed_at);
    }

    /// Closes the gate and stores its finisher, as one step: a later call finds it.
    fn close(&self, reason: CancelReason) {
        let mut kept = lock(&self.finisher);
        if let Some(finisher) = self.public.gate.close(reason) {
            *kept = Some(finisher);
        }
    }

    /// Why the run was interrupted. The gate knows of it first: it is closed before the scope is cancelled.
    fn interruption(&self) -> Option<Interruption> {
        let JobRun { gate, scope, .. } = &self.public;
        match gate.closed().or(scope.own_reason()) {
            Some(reason) => Some(Interruption { reason, is_own: true }),
            None => scope.reason().map(|reason| Interruption { reason, is_own: false }),
        }
    }
}

/// The reason for which a run did not come to its own end.
#[derive(Clone, Copy, Debug)]
struct Interruption {
    reason: CancelReason,
    /// False when the whole process was cancelled, which says nothing about this job.
    is_own: bool,
}

/// The end of the work, before the store was asked.
#[derive(Clone, Debug)]
enum WorkEnd {
    Done,
    Failed(RunFailure),
    Interrupted(Interruption),
}

/// The outcome of a run, as it was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobSettlement {
    /// The phase is done.
    Succeeded,
    /// The phase could not be done.
    Failed,
    /// As was asked for.
    Cancelled,
    /// It is queued again.
    Released,
    /// Another owner has it, or may have it.
    LeaseLost,
    /// The job's row stays as it is, for another worker to take over. The reason is a broken store, a lost
    /// task, or a sealed apply whose journal the next owner finishes.
    Unsettled,
}

/// Runs the job to its settled end.
pub(crate) async fn drive(run: &Arc<ClaimedRun>, ports: &Ports, config: &WorkerConfig) -> JobSettlement {
    let mut time_to_end = TimeToEnd::new(ports, config);
    let ended = work(run, ports, &mut time_to_end).await;
    let settled = settle(run, ended, ports, config, time_to_end).await;
    let _ = sync::contained(|| ports.runner.over(&run.public));
    settled
}

/// Gives a job back that was claimed and not begun.
pub(crate) async fn give_back(run: &ClaimedRun, ports: &Ports, config: &WorkerConfig) -> JobSettlement {
    run.interrupt(CancelReason::Shutdown);
    let interruption = Interruption { reason: CancelReason::Shutdown, is_own: true };
    settle(run, WorkEnd::Interrupted(interruption), ports, config, TimeToEnd::new(ports, config)).await
}

/// One span of time for all that an ending run waits for, from the moment it begins to end.
struct TimeToEnd<'a> {
    ports: &'a Ports,
    wait: Duration,
    until: Option<Duration>,
}

impl<'a> TimeToEnd<'a> {
    fn new(ports: &'a Ports, config: &WorkerConfig) -> Self {
        Self { ports, wait: config.cancel_wait, until: None }
    }

    /// Waits for `end`, as long as there is time; `None` when there is none left.
    async fn wait_for<T>(&mut self, end: impl Future<Output = T>) -> Option<T> {
        let now = self.ports.clock.now();
        let until = *self.until.get_or_insert(now.saturating_add(self.wait));
        tokio::select! {
            biased;
            ended = end => Some(ended),
            () = self.ports.runtime.sleep(until.saturating_sub(now)) => None,
        }
    }
}

async fn work(run: &Arc<ClaimedRun>, ports: &Ports, time_to_end: &mut TimeToEnd<'_>) -> WorkEnd {
    let job = &run.public.job;
    if job.cancel.is_some() && job.sealed_at.is_none() {
        // Taken over from an owner that died in the middle of a cancel: all that is left to do is to finish that.
        run.interrupt(CancelReason::User);
    }
    if let Some(interruption) = run.interruption() {
        return interrupted(run, interruption, ports);
    }
    let (sender, mut returned) = oneshot::channel();
    let (task, abort) = abortable({
        let (run, runner) = (Arc::clone(run), Arc::clone(&ports.runner));
        async move {
            let result = contained(runner.run(&run.public)).await;
            // No task waits any more if the run continued without it.
            let _ = sender.send(result);
        }
    });
    let task = Box::pin(async move {
        let _ = contained(task).await;
    });
    if let Err(error) = ports.runtime.spawn(TaskKind::Work, task) {
        return WorkEnd::Failed(RunFailure::failed(format!(
            "no thread could be started for the job: {error}"
        )));
    }
    let done = tokio::select! {
        biased;
        reason = run.public.scope.cancelled() => {
            let is_own = run.is_ending() || run.public.scope.own_reason().is_some();
            run.close(reason);
            let ended = interrupted(run, Interruption { reason, is_own }, ports);
            time_to_end.wait_for(&mut returned).await;
            abort.abort();
            return ended;
        }
        done = &mut returned => done,
    };
    // A runner that returned because it was interrupted reports a failure of its own; the interruption is what happened.
    match (run.interruption(), done) {
        (Some(interruption), _) => interrupted(run, interruption, ports),
        (None, Ok(Ok(Ok(())))) => WorkEnd::Done,
        (None, Ok(Ok(Err(failure)))) => WorkEnd::Failed(failure),
        (None, Ok(Err(panicked))) => WorkEnd::Failed(RunFailure::failed(format!("the runner {panicked}"))),
        (None, Err(_)) => WorkEnd::Failed(RunFailure::failed("the runner's task is gone")),
    }
}

/// Kills the live processes of an interrupted run first, whatever interrupted it.
fn interrupted(run: &ClaimedRun, interruption: Interruption, ports: &Ports) -> WorkEnd {
    let _ = sync::contained(|| ports.runner.kill(&run.public, interruption.reason));
    WorkEnd::Interrupted(interruption)
}

async fn settle(
    run: &ClaimedRun,
    ended: WorkEnd,
    ports: &Ports,
    config: &WorkerConfig,
    mut time_to_end: TimeToEnd<'_>,
) -> JobSettlement {
    run.interrupt(CancelReason::Superseded);
    let is_drained = time_to_end.wait_for(run.public.gate.drained()).await.is_some();
    let Some(finisher) = lock(&run.finisher).take() else { return JobSettlement::Unsettled };
    wind_down(run, &finisher, &ended, ports, config).await;
    let last_word = match ended {
        WorkEnd::Interrupted(Interruption { reason: CancelReason::LeaseLost, is_own: true }) => {
            return JobSettlement::LeaseLost;
        }
        WorkEnd::Interrupted(interruption) => FinalWrite::from_interruption(interruption),
        WorkEnd::Failed(failure) => FinalWrite::End(failure.end()),
        WorkEnd::Done if is_drained => FinalWrite::End(JobEnd::Succeeded),
        WorkEnd::Done => {
            let why =
                format!("the job returned, but {} of its effects had not ended", run.public.gate.inside());
            FinalWrite::End(JobEnd::Failed { why })
        }
    };
    write_final_until_settled(run, &finisher, last_word, ports).await
}

async fn wind_down(
    run: &ClaimedRun,
    finisher: &Finisher,
    ended: &WorkEnd,
    ports: &Ports,
    config: &WorkerConfig,
) {
    let interrupted = match ended {
        WorkEnd::Done | WorkEnd::Failed(_) => None,
        WorkEnd::Interrupted(interruption) => Some(interruption.reason),
    };
    tokio::select! {
        biased;
        _ = contained(ports.runner.wind_down(&run.public, finisher, interrupted)) => {}
        () = ports.runtime.sleep(config.wind_down_wait) => {}
    }
}

async fn write_final_until_settled(
    run: &ClaimedRun,
    finisher: &Finisher,
    mut last_word: FinalWrite,
    ports: &Ports,
) -> JobSettlement {
    let mut full = 0;
    loop {
        let said = tokio::select! {
            biased;
            _ = run.lost.cancelled() => return JobSettlement::LeaseLost,
            said = write_final(run, finisher, &last_word, ports) => said,
            () = ports.runtime.sleep(SETTLE_ANSWER_WAIT) => Err(FinalWriteError::AskAgain),
        };
        match said {
            Ok(job) => return settled_as(job.state),
            Err(FinalWriteError::LeaseLost) => return JobSettlement::LeaseLost,
            Err(FinalWriteError::Instead(other)) => last_word = other,
            Err(FinalWriteError::Never) => return JobSettlement::Unsettled,
            Err(FinalWriteError::Full) if full == SETTLE_FULL_TRIES_MAX => return JobSettlement::Unsettled,
            Err(unsaid @ (FinalWriteError::AskAgain | FinalWriteError::Full)) => {
                full += u32::from(matches!(unsaid, FinalWriteError::Full));
                tokio::select! {
                    biased;
                    _ = run.lost.cancelled() => {}
                    () = ports.runtime.sleep(SETTLE_AGAIN_AFTER) => {}
                }
            }
        }
    }
}

fn settled_as(state: JobState) -> JobSettlement {
    match state {
        JobState::Succeeded => JobSettlement::Succeeded,
        JobState::Failed => JobSettlement::Failed,
        JobState::Cancelled => JobSettlement::Cancelled,
        JobState::Queued => JobSettlement::Released,
        // No final write leaves a job running.
        JobState::Running => JobSettlement::Unsettled,
    }
}

/// The final write of the owner.
#[derive(Clone, Debug)]
enum FinalWrite {
    End(JobEnd),
    Release,
}

impl FinalWrite {
    /// The final write of an interrupted run; a lost lease has none.
    fn from_interruption(interruption: Interruption) -> Self {
        match interruption {
            Interruption { is_own: false, .. } => Self::Release,
            Interruption { reason: CancelReason::User, .. } => Self::End(JobEnd::Cancelled),
            Interruption { reason: CancelReason::Shutdown | CancelReason::LeaseLost, .. } => Self::Release,
            Interruption {
                reason:
                    reason @ (CancelReason::Timeout
                    | CancelReason::Sibling
                    | CancelReason::Limit
                    | CancelReason::Superseded),
                ..
            } => Self::End(JobEnd::Failed { why: reason.to_string() }),
        }
    }
}

/// The reason for which the store did not accept the final write.
enum FinalWriteError {
    LeaseLost,
    /// The store is busy, or the outcome is unknown.
    AskAgain,
    /// The disk of the store is full.
    Full,
    /// Another write came first, so that this one is due.
    Instead(FinalWrite),
    Never,
}

impl From<JobStoreError> for FinalWriteError {
    fn from(error: JobStoreError) -> Self {
        match error {
            JobStoreError::Store(StoreError::LeaseLost(_)) => Self::LeaseLost,
            JobStoreError::Refused(JobTransitionRejection::CancelRequested) => {
                Self::Instead(FinalWrite::End(JobEnd::Cancelled))
            }
            JobStoreError::Refused(JobTransitionRejection::CancelTooLate) => {
                let why = "cancelled after its apply was sealed".to_owned();
                Self::Instead(FinalWrite::End(JobEnd::Failed { why }))
            }
            JobStoreError::Store(StoreError::Full) => Self::Full,
            other if other.class() == ErrorClass::Transient => Self::AskAgain,
            JobStoreError::Refused(_) | JobStoreError::QueueFull { .. } | JobStoreError::Store(_) => {
                Self::Never
            }
        }
    }
}

impl From<Panicked> for FinalWriteError {
    /// A store that panicked may have written or not.
    fn from(_: Panicked) -> Self {
        Self::AskAgain
    }
}

async fn write_final(
    run: &ClaimedRun,
    finisher: &Finisher,
    word: &FinalWrite,
    ports: &Ports,
) -> Result<Job, FinalWriteError> {
    let claim = run.public.claim();
    match word {
        FinalWrite::Release => Ok(contained(ports.store.release(finisher, &claim)).await??),
        FinalWrite::End(end) => match contained(ports.store.end(finisher, &claim, end.clone())).await? {
            Err(JobStoreError::Refused(JobTransitionRejection::CancelNotRequested)) => {
                // Cancelled from inside this process: the row is cancelled first, so that all processes see
                // the same order.
                let reason = CancelReason::User.to_string();
                contained(ports.store.cancel_own(&claim, &reason)).await??;
                Err(FinalWriteError::Instead(FinalWrite::End(JobEnd::Cancelled)))
            }
            ended => Ok(ended?),
        },
    }
}
