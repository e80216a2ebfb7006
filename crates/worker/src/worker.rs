//! Runs jobs of a store in this process: claims them, renews their leases, cancels them, stops.
//!
//! Four kinds of task make a worker ([`TaskKind`]), in three files:
//! - `claim_loop`: takes a free slot, claims a job, begins its run;
//! - `job_run`: two tasks per job, one that works and one that sees it to its end, settled in the store
//!   exactly once;
//! - `heartbeat`: one for all; renews the leases and observes cancels, on a thread of its own.
//!
//! # Invariants
//! 1. A job runs here only under a claim, and every write shows that claim's fence.
//! 2. Only the owner moves a running job. A cancel asks the owner; its commit of the end is the
//!    acknowledgement.
//! 3. `stop` returns when nothing of the worker runs any more, but for work that was abandoned because it
//!    blocks its thread. Its gate is closed and its claim refused. It may be called twice, concurrently, or
//!    before `start`.
//! 4. The list of runs is changed under one lock, with the decision that changes it. A job whose claim
//!    returns after the stop began is released.
//!
//! # Not here
//! The work of a job ([`JobRunner`]), and the storage of jobs ([`store::JobStore`]).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use domain::{Claim, Fence, Job, JobId, Phase, PlanId, WorkerId};
use store::Store;
use sync::primitives::{Mutex, lock};
use sync::{CancelReason, CancellationToken, Clock, Observed};
use tokio::sync::{Notify, broadcast, mpsc};

use crate::config::{WorkerConfig, WorkerConfigError};
use crate::ids::Ids;
use crate::job_run::{ClaimedRun, JobRunner, JobSettlement};
use crate::runtime::{Runtime, TaskKind};
use crate::{claim_loop, heartbeat};

/// Returns the number of news items that can wait for a slow listener. No job is claimed while more than half
/// of them wait, and each run that is claimed by then has two more.
fn news_max(max_workers: usize) -> usize {
    4 * max_workers + 64
}

/// The ports of a worker.
#[derive(Clone)]
pub struct Ports {
    /// The store of jobs and changesets.
    pub store: Arc<dyn Store>,
    /// The runner of the jobs.
    pub runner: Arc<dyn JobRunner>,
    /// The runtime of the tasks.
    pub runtime: Arc<dyn Runtime>,
    /// The worker's own time.
    pub clock: Arc<dyn Clock>,
    /// Ids for the worker and for changesets.
    pub ids: Arc<dyn Ids>,
    /// The process's token: each run is a child of it. Cancelled, for whatever reason, the worker claims no
    /// more and gives back what it runs.
    pub token: CancellationToken,
}

/// An error of starting a worker.
#[derive(Debug, thiserror::Error)]
pub enum WorkerStartError {
    /// It was started before.
    #[error("the worker has already started")]
    AlreadyStarted,
    /// It was stopped before.
    #[error("the worker has stopped and cannot be started again")]
    Stopped,
    /// The system had no thread for it.
    #[error("no thread could be started for the worker: {0}")]
    NoThread(#[source] io::Error),
}

/// The way to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Let the running jobs finish; what is not done by then is released.
    Drain {
        /// The time that they have.
        deadline: Duration,
    },
    /// Give all running jobs back at once.
    Release,
}

/// The outcome of the jobs that ran when the stop began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// They came to an end of their own.
    pub finished: u64,
    /// They are queued again.
    pub released: u64,
}

/// A worker as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerReport {
    /// Its id, fresh for every worker.
    pub worker: WorkerId,
    /// The running jobs, in order of job id.
    pub running: Vec<RunningJob>,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs given back.
    pub released: u64,
    /// Jobs lost to another owner, or given up before that.
    pub leases_lost: u64,
    /// Jobs whose end a broken store did not take.
    pub unsettled: u64,
    /// Claims that the store failed.
    pub store_errors: u64,
    /// The last error of the store.
    pub last_store_error: Option<String>,
}

/// A job in a [`WorkerReport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningJob {
    /// The job.
    pub job: JobId,
    /// Its plan.
    pub plan: PlanId,
    /// The phase it does.
    pub phase: Phase,
}

impl RunningJob {
    pub(crate) fn new(job: &Job) -> Self {
        Self { job: job.id, plan: job.plan, phase: job.phase }
    }
}

/// An event of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerNews {
    /// It took up a job.
    Claimed(RunningJob),
    /// It has done with a job.
    Settled(RunningJob, JobSettlement),
}

/// A worker of this process. `Clone` is the same worker; dropping it stops nothing, [`stop`](Self::stop)
/// does.
#[derive(Clone)]
pub struct AsyncWorker {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) id: WorkerId,
    pub(crate) config: WorkerConfig,
    pub(crate) ports: Ports,
    state: Mutex<State>,
    /// Cancelled when no more jobs are to be claimed.
    pub(crate) stopping: CancellationToken,
    /// The process's token, as it was when the worker was made: cancelled, nothing more is claimed.
    pub(crate) process: Observed,
    /// There may be work.
    pub(crate) hint: Notify,
    /// Something of the worker has ended.
    pub(crate) ended: Notify,
    /// The news of the worker. Nothing depends on a listener.
    pub(crate) news: broadcast::Sender<WorkerNews>,
}

#[derive(Default)]
struct State {
    stage: WorkerStage,
    /// By job and fence: a worker that was paused past a lease may take its own job over while the old run
    /// ends.
    runs: BTreeMap<(JobId, Fence), Arc<ClaimedRun>>,
    /// The number of the two long-lived tasks that are alive.
    tasks: u8,
    /// The number of slots of the store that it leaves to others.
    left_free: u32,
    counts: RunCounts,
    last_store_error: Option<String>,
    at_stop: StopReport,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum WorkerStage {
    #[default]
    New,
    Started,
    Stopping,
}

#[derive(Clone, Copy, Default)]
struct RunCounts {
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    released: u64,
    leases_lost: u64,
    unsettled: u64,
    store_errors: u64,
}

impl RunCounts {
    fn settled(&self) -> u64 {
        let RunCounts { succeeded, failed, cancelled, released, leases_lost, unsettled, store_errors: _ } =
            self;
        succeeded + failed + cancelled + released + leases_lost + unsettled
    }
}

impl AsyncWorker {
    /// A worker that has not started.
    ///
    /// # Errors
    /// A value of `config` out of its bounds.
    pub fn new(config: WorkerConfig, ports: Ports) -> Result<Self, WorkerConfigError> {
        let process = ports.token.observe();
        if !process.is_cancelled() && process.child().is_cancelled() {
            let value = "too deep".to_owned();
            return Err(WorkerConfigError { key: "token", value, allowed: "one that can have children" });
        }
        let config = config.checked()?;
        let max_workers = config.max_workers;
        let shared = Shared {
            id: WorkerId::from_u128(ports.ids.ulid()),
            config,
            ports,
            state: Mutex::default(),
            stopping: CancellationToken::new(),
            process,
            hint: Notify::new(),
            ended: Notify::new(),
            news: broadcast::Sender::new(news_max(max_workers)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Starts to claim jobs.
    ///
    /// # Errors
    /// It was started or stopped before, or the system has no thread for it.
    pub fn start(&self) -> Result<(), WorkerStartError> {
        let [heartbeat_alive, claims_alive] = self.shared.enter_started()?;
        let (begun, receiver) = mpsc::channel(self.shared.config.max_workers);
        let heartbeats = Arc::clone(&self.shared);
        self.spawn(TaskKind::Heartbeat, heartbeat_alive, async move {
            let mut unbeaten = LoseAllLeases { shared: &heartbeats, is_over: false };
            heartbeat::renew_leases(&heartbeats.ports, &heartbeats.config, receiver).await;
            unbeaten.is_over = true;
        })?;
        self.spawn(TaskKind::Claims, claims_alive, claim_loop::claim_jobs(Arc::clone(&self.shared), begun))
    }

    fn spawn(
        &self,
        kind: TaskKind,
        alive: TaskGuard,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), WorkerStartError> {
        let task = Box::pin(async move {
            task.await;
            drop(alive);
        });
        self.shared.ports.runtime.spawn(kind, task).map_err(WorkerStartError::NoThread)
    }

    /// Stops: claims nothing more, drains or releases what runs, and returns when nothing of the worker runs.
    pub async fn stop(&self, how: StopMode) -> StopReport {
        let shared = &self.shared;
        // In this order: a caller that is refused because the worker stops knows that the worker claims
        // nothing more.
        shared.stopping.cancel(CancelReason::Shutdown);
        shared.enter_stopping();
        if let StopMode::Drain { deadline } = how {
            tokio::select! {
                biased;
                () = shared.idle() => {}
                () = shared.ports.runtime.sleep(deadline) => {}
            }
        }
        for run in shared.running() {
            run.interrupt(CancelReason::Shutdown);
        }
        shared.idle().await;
        lock(&shared.state).at_stop
    }

    /// There may be a job to claim, or a cancel to hear of: look now instead of at the next poll.
    pub fn hint(&self) {
        self.poke();
        for run in self.shared.running() {
            run.nudged.notify_one();
        }
    }

    /// There may be a job to claim: look now instead of at the next poll.
    pub fn poke(&self) {
        self.shared.hint.notify_one();
    }

    /// Leaves so many slots of the store to others from now on: to plans that came first and have a worker of
    /// their own.
    pub fn leave_free(&self, slots: u32) {
        lock(&self.shared.state).left_free = slots;
    }

    /// There may be a cancel of this job to hear of: look at its row now. Nothing, when it does not run here.
    pub fn nudge(&self, job: JobId) {
        let runs = self.shared.running();
        runs.iter().filter(|run| run.public.job().id == job).for_each(|run| run.nudged.notify_one());
    }

    /// Returns the news of claimed and ended jobs from now on. A slow listener delays further claims and
    /// misses nothing.
    pub fn news(&self) -> broadcast::Receiver<WorkerNews> {
        self.shared.news.subscribe()
    }

    /// Completes when more than `seen` runs have been settled since the worker was made; says how many.
    pub async fn settled(&self, seen: u64) -> u64 {
        loop {
            let ended = self.shared.ended.notified();
            let settled = lock(&self.shared.state).counts.settled();
            if settled > seen {
                return settled;
            }
            ended.await;
        }
    }

    /// Returns the past and present work of the worker.
    pub fn report(&self) -> WorkerReport {
        let state = lock(&self.shared.state);
        let running = state.runs.values().map(|run| run.public.job());
        let RunCounts { succeeded, failed, cancelled, released, leases_lost, unsettled, store_errors } =
            state.counts;
        WorkerReport {
            worker: self.shared.id,
            running: running.map(RunningJob::new).collect(),
            succeeded,
            failed,
            cancelled,
            released,
            leases_lost,
            unsettled,
            store_errors,
            last_store_error: state.last_store_error.clone(),
        }
    }
}

impl std::fmt::Debug for AsyncWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncWorker").field("report", &self.report()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Counts both long-lived tasks in the step that starts them: a stop that comes next waits for them.
    fn enter_started(self: &Arc<Self>) -> Result<[TaskGuard; 2], WorkerStartError> {
        let mut state = lock(&self.state);
        match state.stage {
            WorkerStage::New => {
                state.stage = WorkerStage::Started;
                state.tasks = 2;
                Ok([TaskGuard { shared: Arc::clone(self) }, TaskGuard { shared: Arc::clone(self) }])
            }
            WorkerStage::Started => Err(WorkerStartError::AlreadyStarted),
            WorkerStage::Stopping => Err(WorkerStartError::Stopped),
        }
    }

    pub(crate) fn enter_stopping(&self) {
        lock(&self.state).stage = WorkerStage::Stopping;
    }

    /// Lists a run, unless the worker is stopping: then the job is listed to be given back, and not to be
    /// run.
    pub(crate) fn admit(&self, run: &Arc<ClaimedRun>) -> bool {
        let mut state = lock(&self.state);
        let Claim { job, fence, .. } = run.public.claim();
        state.runs.insert((job, fence), Arc::clone(run));
        state.stage == WorkerStage::Started
    }

    pub(crate) fn publish(&self, news: WorkerNews) {
        // An error means that no receiver listens.
        let _ = self.news.send(news);
    }

    /// Returns true if so little news waits that all runs of now and of the next claim find room for theirs.
    pub(crate) fn has_room_for_news(&self) -> bool {
        self.news.len() <= news_max(self.config.max_workers) / 2
    }

    pub(crate) fn running(&self) -> Vec<Arc<ClaimedRun>> {
        lock(&self.state).runs.values().cloned().collect()
    }

    pub(crate) fn note_settled(&self, job: &Job, settled: JobSettlement) {
        let claim = job.claim();
        {
            let mut state = lock(&self.state);
            state.runs.remove(&(claim.job, claim.fence));
            let counts = &mut state.counts;
            match settled {
                JobSettlement::Succeeded => counts.succeeded += 1,
                JobSettlement::Failed => counts.failed += 1,
                JobSettlement::Cancelled => counts.cancelled += 1,
                JobSettlement::Released => counts.released += 1,
                JobSettlement::LeaseLost => counts.leases_lost += 1,
                JobSettlement::Unsettled => counts.unsettled += 1,
            }
            if state.stage == WorkerStage::Stopping {
                match settled {
                    JobSettlement::Succeeded | JobSettlement::Failed | JobSettlement::Cancelled => {
                        state.at_stop.finished += 1
                    }
                    JobSettlement::Released => state.at_stop.released += 1,
                    JobSettlement::LeaseLost | JobSettlement::Unsettled => {}
                }
            }
        }
        self.ended.notify_waiters();
        self.publish(WorkerNews::Settled(RunningJob::new(job), settled));
        // A slot of the store is free, which may be one that this worker waits for.
        self.hint.notify_one();
    }

    pub(crate) fn left_free(&self) -> u32 {
        lock(&self.state).left_free
    }

    pub(crate) fn note_store_error(&self, why: String) {
        let mut state = lock(&self.state);
        state.counts.store_errors += 1;
        state.last_store_error = Some(why);
    }

    /// Completes when no task and no run is left.
    async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.is_idle() {
                return;
            }
            ended.await;
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.tasks == 0 && state.runs.is_empty()
    }
}

/// Without heartbeats no job may continue. When their task is torn down before it is over, this gives up all
/// runs and claims no more.
struct LoseAllLeases<'a> {
    shared: &'a Shared,
    is_over: bool,
}

impl Drop for LoseAllLeases<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.stopping.cancel(CancelReason::LeaseLost);
            self.shared.running().iter().for_each(|run| run.mark_lost());
        }
    }
}

/// One long-lived task, counted as alive until this is dropped, however that comes about.
struct TaskGuard {
    shared: Arc<Shared>,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        lock(&self.shared.state).tasks -= 1;
        self.shared.ended.notify_waiters();
    }
}
