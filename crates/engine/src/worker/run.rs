//! One run of one job: worked on, interrupted or not, and settled in the store exactly once.
//!
//! # How a run ends
//! 1. The runner returns, or the scope is cancelled and the runner gets [`WorkerConfig::cancel_wait`] to return.
//! 2. The gate is closed, so that no effect begins, and drained.
//! 3. The runner winds down: what lives is killed, what is left is captured.
//! 4. The job is ended or released, and with it what changesets are still open, by whoever holds the gate's one
//!    `Finisher`. For a cancel, the commit of that is the acknowledgement.
//!
//! # Invariants
//! 1. `interrupt` closes the gate before it cancels the scope: who sees the cancel cannot begin an effect any more.
//! 2. Once the lease is lost nothing is written: the new owner decides.
//! 3. A write whose outcome is unknown is asked for again, until it is answered or the lease is lost.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{Claim, ErrorClass, Job, JobRefused, JobState};
use store::{JobEnd, JobStoreError, StoreError};
use sync::primitives::{Mutex, lock};
use sync::{CancelReason, CancellationToken, Cancelled, Effect, EffectGate, Finisher, Observed, Panicked};
use tokio::sync::Notify;

use super::{Ports, WorkerConfig};
use crate::contain::contained;
use crate::plan_context::PlanExecutionContext;

/// How long to wait before a failed write of the end is asked for again.
const SETTLE_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Why a run did not do its job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct RunFailure {
    /// What stood in the way.
    pub why: String,
}

/// Does the jobs.
#[async_trait]
pub trait JobRunner: Send + Sync {
    /// Does the job's phase. It should return soon after `run.scope()` is cancelled; later it is dropped.
    async fn run(&self, run: &JobRun) -> Result<(), RunFailure>;

    /// The last effects, after the gate has closed and before the end is stored: kill what lives, capture what is
    /// left. `interrupted` says why the run did not come to its own end.
    async fn wind_down(&self, _run: &JobRun, _finisher: &Finisher, _interrupted: Option<CancelReason>) {}
}

/// A job being run, as its runner sees it.
#[derive(Debug)]
pub struct JobRun {
    job: Job,
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

    /// The right to one effect.
    ///
    /// # Errors
    /// The gate is closed: the run is over, or about to be.
    pub fn enter(&self) -> Result<Effect, Cancelled> {
        self.scope.check()?;
        self.gate.enter()
    }

    /// What changes are recorded through.
    pub fn context(&self) -> &PlanExecutionContext {
        &self.context
    }
}

/// A job being run, as its worker sees it.
pub(super) struct Run {
    pub(super) public: JobRun,
    token: CancellationToken,
    finisher: Mutex<Option<Finisher>>,
    /// When the last acknowledged renewal was sent, by the worker's clock.
    renewed_at: Mutex<Duration>,
    /// Cancelled when the lease is lost.
    pub(super) lost: CancellationToken,
    /// Cancelled when the end is stored, or given up.
    pub(super) over: CancellationToken,
    /// A hint: look at the job's row now.
    pub(super) nudged: Notify,
}

impl Run {
    pub(super) fn new(job: Job, claimed_at: Duration, ports: &Ports) -> Self {
        let token = ports.token.child();
        let (scope, gate) = (token.observe(), EffectGate::new());
        let changesets = Arc::clone(&ports.store);
        let context = PlanExecutionContext::new(
            job.claim(),
            scope.clone(),
            gate.clone(),
            changesets,
            Arc::clone(&ports.ids),
        );
        Self {
            public: JobRun { job, scope, gate, context },
            token,
            finisher: Mutex::new(None),
            renewed_at: Mutex::new(claimed_at),
            lost: CancellationToken::new(),
            over: CancellationToken::new(),
            nudged: Notify::new(),
        }
    }

    /// Closes the gate, then cancels the scope. The first reason stays.
    pub(super) fn interrupt(&self, reason: CancelReason) {
        self.close(reason);
        self.token.cancel(reason);
    }

    /// The lease is lost: nothing may be written any more.
    pub(super) fn lose(&self) {
        self.lost.cancel(CancelReason::LeaseLost);
        self.interrupt(CancelReason::LeaseLost);
    }

    pub(super) fn renewed_at(&self) -> Duration {
        *lock(&self.renewed_at)
    }

    pub(super) fn renew(&self, sent_at: Duration) {
        let mut renewed_at = lock(&self.renewed_at);
        *renewed_at = sent_at.max(*renewed_at);
    }

    /// Closes the gate and keeps its finisher, as one step: whoever comes later finds it.
    fn close(&self, reason: CancelReason) {
        let mut kept = lock(&self.finisher);
        if let Some(finisher) = self.public.gate.close(reason) {
            *kept = Some(finisher);
        }
    }
}

/// How the work ended, before the store was asked.
#[derive(Clone, Debug)]
enum Ended {
    Done,
    Failed { why: String },
    Interrupted(CancelReason),
}

/// How a run was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Succeeded,
    Failed,
    Cancelled,
    Released,
    LeaseLost,
    /// The store is broken: the job keeps its row, and another worker will take it over.
    Unsettled,
}

/// Runs the job to its settled end.
pub(super) async fn drive(run: &Run, ports: &Ports, config: &WorkerConfig) -> Settled {
    let ended = work(run, ports, config).await;
    settle(run, ended, ports, config).await
}

/// Gives a job back that was claimed and not begun.
pub(super) async fn give_back(run: &Run, ports: &Ports, config: &WorkerConfig) -> Settled {
    run.interrupt(CancelReason::Shutdown);
    settle(run, Ended::Interrupted(CancelReason::Shutdown), ports, config).await
}

async fn work(run: &Run, ports: &Ports, config: &WorkerConfig) -> Ended {
    let job = &run.public.job;
    if job.cancel.is_some() && job.sealed_at.is_none() {
        // Taken over from an owner that died in the middle of a cancel: all that is left to do is to finish that.
        run.interrupt(CancelReason::User);
        return Ended::Interrupted(CancelReason::User);
    }
    let scope = &run.public.scope;
    let mut work = pin!(contained(ports.runner.run(&run.public)));
    let done = tokio::select! {
        biased;
        reason = scope.cancelled() => {
            run.close(reason);
            tokio::select! {
                biased;
                _ = &mut work => {}
                () = ports.runtime.sleep(config.cancel_wait) => {}
            }
            return Ended::Interrupted(reason);
        }
        done = &mut work => done,
    };
    // A runner that returned because it was interrupted reports a failure of its own; the interruption is what
    // happened. The gate knows of it first: it is closed before the scope is cancelled.
    match (run.public.gate.closed().or(scope.reason()), done) {
        (Some(reason), _) => Ended::Interrupted(reason),
        (None, Ok(Ok(()))) => Ended::Done,
        (None, Ok(Err(RunFailure { why }))) => Ended::Failed { why },
        (None, Err(panicked)) => Ended::Failed { why: format!("the runner {panicked}") },
    }
}

async fn settle(run: &Run, ended: Ended, ports: &Ports, config: &WorkerConfig) -> Settled {
    run.close(CancelReason::Superseded);
    tokio::select! {
        biased;
        () = run.public.gate.drained() => {}
        () = ports.runtime.sleep(config.cancel_wait) => {}
    }
    let Some(finisher) = lock(&run.finisher).take() else {
        return Settled::Unsettled;
    };
    let interrupted = match &ended {
        Ended::Done | Ended::Failed { .. } => None,
        Ended::Interrupted(reason) => Some(*reason),
    };
    drop(contained(ports.runner.wind_down(&run.public, &finisher, interrupted)).await);
    let mut last_word = match ended {
        Ended::Done => LastWord::End(JobEnd::Succeeded),
        Ended::Failed { why } => LastWord::End(JobEnd::Failed { why }),
        Ended::Interrupted(CancelReason::User) => LastWord::End(JobEnd::Cancelled),
        Ended::Interrupted(CancelReason::Shutdown) => LastWord::Release,
        Ended::Interrupted(CancelReason::LeaseLost) => return Settled::LeaseLost,
        Ended::Interrupted(
            reason @ (CancelReason::Timeout
            | CancelReason::Sibling
            | CancelReason::Limit
            | CancelReason::Superseded),
        ) => LastWord::End(JobEnd::Failed { why: reason.to_string() }),
    };
    loop {
        if run.lost.is_cancelled() {
            return Settled::LeaseLost;
        }
        match say(run, &finisher, &last_word, ports).await {
            Ok(job) => return settled_as(job.state),
            Err(Unsaid::LeaseLost) => return Settled::LeaseLost,
            Err(Unsaid::Instead(other)) => last_word = other,
            Err(Unsaid::Never) => return Settled::Unsettled,
            Err(Unsaid::AskAgain) => {
                tokio::select! {
                    biased;
                    _ = run.lost.cancelled() => {}
                    () = ports.runtime.sleep(SETTLE_AGAIN_AFTER) => {}
                }
            }
        }
    }
}

fn settled_as(state: JobState) -> Settled {
    match state {
        JobState::Succeeded => Settled::Succeeded,
        JobState::Failed => Settled::Failed,
        JobState::Cancelled => Settled::Cancelled,
        JobState::Queued => Settled::Released,
        // No last word leaves a job running.
        JobState::Running => Settled::Unsettled,
    }
}

/// What the owner writes last.
#[derive(Clone, Debug)]
enum LastWord {
    End(JobEnd),
    Release,
}

/// Why the last word was not taken.
enum Unsaid {
    LeaseLost,
    /// The store is busy, or the outcome is unknown.
    AskAgain,
    /// Somebody else's word came first, so that this one is due.
    Instead(LastWord),
    Never,
}

impl From<JobStoreError> for Unsaid {
    fn from(error: JobStoreError) -> Self {
        match error {
            JobStoreError::Store(StoreError::LeaseLost(_)) => Self::LeaseLost,
            JobStoreError::Refused(JobRefused::CancelRequested) => {
                Self::Instead(LastWord::End(JobEnd::Cancelled))
            }
            JobStoreError::Refused(JobRefused::CancelTooLate) => {
                let why = "cancelled after its apply was sealed".to_owned();
                Self::Instead(LastWord::End(JobEnd::Failed { why }))
            }
            other if other.class() == ErrorClass::Transient => Self::AskAgain,
            JobStoreError::Refused(_) | JobStoreError::QueueFull { .. } | JobStoreError::Store(_) => {
                Self::Never
            }
        }
    }
}

impl From<Panicked> for Unsaid {
    /// A store that panicked may have written or not.
    fn from(_: Panicked) -> Self {
        Self::AskAgain
    }
}

async fn say(run: &Run, finisher: &Finisher, word: &LastWord, ports: &Ports) -> Result<Job, Unsaid> {
    let claim = run.public.claim();
    match word {
        LastWord::Release => Ok(contained(ports.store.release(finisher, &claim)).await??),
        LastWord::End(end) => match contained(ports.store.end(finisher, &claim, end.clone())).await? {
            Err(JobStoreError::Refused(JobRefused::CancelNotRequested)) => {
                // Cancelled from inside this process: the row is told first, so that all see the same story.
                let reason = CancelReason::User.to_string();
                contained(ports.store.cancel(claim.job, &reason)).await??;
                Err(Unsaid::Instead(LastWord::End(JobEnd::Cancelled)))
            }
            ended => Ok(ended?),
        },
    }
}
