//! Serves as a worker that takes any detached plan, until it is asked to stop or nothing is left to do.
//!
//! # How it goes
//! The worker itself claims and runs ([`AsyncWorker`]). The code here exchanges notifications with other
//! processes and releases the jobs of workers that died. It moves plans to their next phase, and decides when
//! to end.
//!
//! # Invariants
//! 1. A dead worker is found by its lock file, within a second: no process waits for its leases.
//! 2. It ends for want of work only under the lock of [`StartLock`], after it looked once more. It sees every
//!    plan that was detached before, and a process that detaches one later sees that the worker is gone.
//! 3. A process that runs a plan in the foreground is not overtaken for ever by plans that came later.
//! 4. A worker whose store was removed or replaced ends at its next look: it would serve no plan, and be
//!    counted on.
//! 5. A plan that needs a key that this process was not started with is left alone, and delays nothing else.
//! 6. The first request to stop lets the running jobs finish for a while, the second gives them back at once.
//!    The report comes when nothing of the worker runs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{Phase, PlanId, WorkerId};
use futures_util::future::BoxFuture;
use sandbox::descriptors::plans_at_once_max;
use sync::CancellationToken;
use sync::primitives::lock;
use tokio::sync::{broadcast, mpsc};

use super::notify::{ListenerKind, Notification, NotificationListener};
use super::registry::{StartLock, WorkerRegistration, WorkerScope, own_variables, release_dead_leases};
use crate::engine::Engine;
use crate::plan::advance::StrandedPlans;
use crate::plan::execute::ExecuteError;
use crate::run::{ApplyAs, PhaseRunner};
use worker::TokioRuntime;
use worker::{
    AsyncWorker, JobSettlement, Ports, RunningJob, StopMode, StopReport, WorkerConfig, WorkerConfigError,
    WorkerNews, WorkerStartError,
};

/// The interval at which the dead and the queue are looked at without a hint.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// When plans are looked at again that could not be moved on.
const STUCK_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// So many looks in a row at which the store gave no work, but errors, end the worker.
const BROKEN_LOOKS_MAX: u32 = 30;

/// The options of a worker that serves plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// The maximum number of concurrent jobs in this process; 1..=1024. Fewer run if the open-file limit does
    /// not allow as many.
    pub max: usize,
    /// The idle time after which it ends, with nothing queued or running. `None`: it ends only when it is
    /// stopped.
    pub until_idle: Option<Duration>,
    /// The time that running jobs may take to finish after a request to stop.
    pub drain: Duration,
}

/// An event of the serving worker, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeNews {
    /// It takes jobs from now on.
    Ready {
        /// The worker.
        worker: WorkerId,
    },
    /// It took a job up.
    Claimed(RunningJob),
    /// It has done with a job.
    Settled(RunningJob, JobSettlement),
    /// It freed what workers held that died.
    Freed {
        /// The number of those workers.
        workers: usize,
        /// The number of jobs.
        jobs: usize,
    },
    /// It received a request to stop, and lets these finish.
    Draining {
        /// The number of running jobs.
        running: usize,
    },
    /// It gives back what still runs.
    Releasing {
        /// The number of running jobs.
        running: usize,
    },
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeEnd {
    /// There was nothing to do for long enough.
    Idle,
    /// It received a request to stop.
    Stopped,
}

/// The report of a worker that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeReport {
    /// The worker.
    pub worker: WorkerId,
    /// Why it ended.
    pub end: ServeEnd,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs that were given back.
    pub released: u64,
    /// Jobs that another owner has, or whose end the store did not take.
    pub lost: u64,
    /// Of all these, the ends of those that ran when the worker received the request to stop.
    pub at_stop: StopReport,
}

/// Why this process cannot serve, or not any longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A value is out of its bounds.
    #[error(transparent)]
    Config(#[from] WorkerConfigError),
    /// The worker did not start.
    #[error(transparent)]
    Start(#[from] WorkerStartError),
    /// The worker cannot show to other processes that it is alive.
    #[error("the worker cannot be registered as running: {0}")]
    Presence(#[source] std::io::Error),
    /// The store gave errors and no work.
    #[error("the store failed for {} seconds in a row: {why}", BROKEN_LOOKS_MAX)]
    StoreFailed {
        /// The last error of the store.
        why: String,
    },
    /// The store was removed, or another was put in its place: what others ask for from now on is not seen
    /// here.
    #[error("{} was removed or replaced while the worker used it", path.display())]
    StoreGone {
        /// The earlier path.
        path: PathBuf,
    },
    /// The leftovers of other workers could not be cleared.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
}

impl Engine {
    /// Serves all plans that are left to the workers. Each word from `stops` is a request to stop; events are
    /// reported to `tell`.
    ///
    /// # Errors
    /// This process cannot be a worker, or the store fails for long.
    pub async fn serve(
        &self,
        options: ServeOptions,
        stops: mpsc::Receiver<()>,
        tell: impl FnMut(ServeNews) + Send,
    ) -> Result<ServeReport, ServeError> {
        self.clear_leftovers().await?;
        let mut serving = PoolWorker::begin(self, options, tell)?;
        let ended = serving.until_end(stops).await;
        serving.end(ended).await
    }
}

struct PoolWorker<'a, T> {
    engine: &'a Engine,
    options: ServeOptions,
    worker: AsyncWorker,
    id: WorkerId,
    /// Those that this process was started with: what needs others is left to others.
    variables: Arc<BTreeSet<String>>,
    registration: WorkerRegistration,
    listener: Option<NotificationListener>,
    news: broadcast::Receiver<WorkerNews>,
    tell: T,
    is_stopping: bool,
    idle_since: Option<Instant>,
    /// True if plans may have been left between two phases, by workers that died or because the store did not
    /// answer.
    may_be_left_behind: bool,
    /// When some of these were found and could not be moved.
    stuck_since: Option<Instant>,
    /// The store's errors at the last look, and at how many looks in a row there were more.
    errors: (u64, u32),
}

/// The event that woke the loop.
enum WakeReason {
    Heard(Notification),
    News(Result<WorkerNews, broadcast::error::RecvError>),
    Asked,
    Stopped(StopReport),
    Time,
}

impl<'a, T: FnMut(ServeNews) + Send> PoolWorker<'a, T> {
    fn begin(engine: &'a Engine, options: ServeOptions, mut tell: T) -> Result<Self, ServeError> {
        let inner = &engine.inner;
        let mut config = WorkerConfig::new(inner.boot, inner.options.lease);
        let variables = Arc::new(own_variables());
        config.max_workers = options.max.min(plans_at_once_max());
        config.variables = Arc::clone(&variables);
        config.plan_concurrency = inner.options.plan_concurrency;
        config.wind_down_wait = inner.wind_down_wait();
        let ports = Ports {
            store: Arc::clone(&inner.store),
            runner: Arc::new(PhaseRunner::new(Arc::clone(inner), ApplyAs::Asked)),
            runtime: Arc::new(TokioRuntime::new(tokio::runtime::Handle::current())),
            clock: Arc::clone(&inner.clock),
            ids: Arc::clone(&inner.ids),
            token: CancellationToken::new(),
        };
        let worker = AsyncWorker::new(config, ports)?;
        let id = worker.report().worker;
        let data_dir = &inner.options.data_dir;
        // Heard before it is counted on.
        let listener = NotificationListener::begin(data_dir, id, ListenerKind::Any).ok();
        let registration =
            WorkerRegistration::register(data_dir, id, WorkerScope::Any).map_err(ServeError::Presence)?;
        let news = worker.news();
        worker.start()?;
        lock(&inner.workers).push(worker.clone());
        tell(ServeNews::Ready { worker: id });
        Ok(Self {
            engine,
            options,
            worker,
            id,
            variables,
            registration,
            listener,
            news,
            tell,
            is_stopping: false,
            idle_since: None,
            may_be_left_behind: true,
            stuck_since: None,
            errors: (0, 0),
        })
    }

    async fn until_end(
        &mut self,
        mut stops: mpsc::Receiver<()>,
    ) -> Result<(ServeEnd, StopReport), ServeError> {
        let mut stopping: BoxFuture<'static, StopReport> = Box::pin(std::future::pending());
        let mut end = ServeEnd::Stopped;
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut can_be_asked = true;
        loop {
            let hint = async {
                match &mut self.listener {
                    Some(listener) => listener.next().await,
                    None => std::future::pending().await,
                }
            };
            let woken = tokio::select! {
                stopped = &mut stopping => WakeReason::Stopped(stopped),
                asked = stops.recv(), if can_be_asked => match asked {
                    Some(()) => WakeReason::Asked,
                    None => { can_be_asked = false; continue }
                },
                hint = hint => WakeReason::Heard(hint),
                news = self.news.recv() => WakeReason::News(news),
                _ = poll.tick() => WakeReason::Time,
            };
            match woken {
                WakeReason::Stopped(report) => {
                    while let Ok(news) = self.news.try_recv() {
                        self.pass_on(news).await;
                    }
                    return Ok((end, report));
                }
                WakeReason::Asked => stopping = self.stop_as_asked(),
                WakeReason::Heard(Notification::Cancel(job)) => self.worker.nudge(job),
                WakeReason::Heard(Notification::Work | Notification::Ended(_)) => {
                    self.make_room().await;
                    self.worker.poke();
                }
                WakeReason::News(Ok(news)) => self.pass_on(news).await,
                WakeReason::News(Err(_)) => self.may_be_left_behind = true,
                WakeReason::Time => {
                    self.poll_store().await?;
                    if !self.is_stopping && self.may_go().await {
                        end = ServeEnd::Idle;
                        stopping = self.stop(StopMode::Release);
                    }
                }
            }
        }
    }

    /// The first time what runs may finish, the second time it is given back.
    fn stop_as_asked(&mut self) -> BoxFuture<'static, StopReport> {
        let running = self.worker.report().running.len();
        if self.is_stopping {
            (self.tell)(ServeNews::Releasing { running });
            return self.stop(StopMode::Release);
        }
        (self.tell)(ServeNews::Draining { running });
        self.registration.stop_accepting();
        self.stop(StopMode::Drain { deadline: self.options.drain })
    }

    fn stop(&mut self, how: StopMode) -> BoxFuture<'static, StopReport> {
        self.is_stopping = true;
        let worker = self.worker.clone();
        Box::pin(async move { worker.stop(how).await })
    }

    /// Reports the work of the worker, and advances its plan.
    async fn pass_on(&mut self, news: WorkerNews) {
        match news {
            WorkerNews::Claimed(job) => {
                self.idle_since = None;
                (self.tell)(ServeNews::Claimed(job));
            }
            WorkerNews::Settled(job, how) => {
                self.tell_others(job.plan);
                (self.tell)(ServeNews::Settled(job, how));
                // One that failed, or was stopped for it, may begin again with another strategy.
                let may_go_on = match how {
                    JobSettlement::Succeeded | JobSettlement::Failed => job.phase != Phase::Apply,
                    JobSettlement::Cancelled => true,
                    JobSettlement::Released | JobSettlement::LeaseLost | JobSettlement::Unsettled => false,
                };
                if may_go_on {
                    self.move_on(job.plan).await;
                }
            }
        }
    }

    /// Queues the next job. If the store refuses it now, the next search for stranded plans finds the plan.
    async fn move_on(&mut self, plan: PlanId) {
        match self.engine.advance(plan).await {
            Ok(false) => {}
            Err(_) => self.may_be_left_behind = true,
            Ok(true) => {
                self.worker.poke();
                if self.is_stopping {
                    self.engine.inner.send_notification(Notification::Work);
                }
            }
        }
    }

    /// A slot is free. This worker takes the next job itself, unless it stops.
    fn tell_others(&self, plan: PlanId) {
        if self.is_stopping {
            self.engine.inner.notify_ended(plan);
        } else {
            self.engine.inner.send_notification(Notification::Ended(plan));
        }
    }

    /// Leaves slots to plans that came first and have a process of their own. Unknown is as before.
    async fn make_room(&self) {
        if let Ok(first) = self.engine.inner.waiting_first().await {
            self.worker.leave_free(u32::try_from(first).unwrap_or(u32::MAX));
        }
    }

    /// Frees what dead workers held, and ends when the store has failed for too long.
    async fn poll_store(&mut self) -> Result<(), ServeError> {
        let inner = &self.engine.inner;
        if inner.store_file.is_replaced() {
            return Err(ServeError::StoreGone { path: inner.store_file.path().to_owned() });
        }
        let buried = release_dead_leases(&inner.options.data_dir, inner.store.as_ref()).await;
        if let Some(buried) = buried.ok().filter(|buried| buried.workers > 0) {
            (self.tell)(ServeNews::Freed { workers: buried.workers, jobs: buried.leases });
            self.worker.poke();
            inner.send_notification(Notification::Work);
            // Concurrently with all else, because it may take long. The next process clears what cannot be
            // cleared now.
            let engine = self.engine.clone();
            tokio::spawn(async move { engine.clear_leftovers().await });
            self.may_be_left_behind = true;
        }
        self.find_stranded_plans().await;
        self.make_room().await;
        let report = self.worker.report();
        let looks = if report.store_errors > self.errors.0 { self.errors.1 + 1 } else { 0 };
        self.errors = (report.store_errors, looks);
        if looks < BROKEN_LOOKS_MAX {
            return Ok(());
        }
        Err(ServeError::StoreFailed { why: report.last_store_error.unwrap_or_default() })
    }

    /// Advances plans that no process advances. A plan that cannot be advanced is tried again later, and does
    /// not keep the worker from ending.
    async fn find_stranded_plans(&mut self) {
        let is_due = self.stuck_since.is_some_and(|since| since.elapsed() >= STUCK_AGAIN_AFTER);
        if !self.may_be_left_behind && !is_due {
            return;
        }
        let Ok(StrandedPlans { moved, stuck }) = self.engine.advance_stranded().await else { return };
        self.may_be_left_behind = false;
        self.stuck_since = (stuck > 0).then(Instant::now);
        if moved > 0 {
            self.worker.poke();
        }
    }

    /// Returns true if the worker was idle for long enough and no work has come up to this moment. It then
    /// stops accepting plans.
    async fn may_go(&mut self) -> bool {
        let Some(until_idle) = self.options.until_idle else { return false };
        if self.has_work().await {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() < until_idle {
            return false;
        }
        let data_dir = self.engine.inner.options.data_dir.clone();
        let starting = tokio::task::spawn_blocking(move || StartLock::take(&data_dir)).await;
        // Without the lock no process could be sure that it ends; the next look tries again.
        let Ok(Ok(_starting)) = starting else { return false };
        if self.has_work().await {
            return false;
        }
        self.registration.stop_accepting();
        true
    }

    /// Returns whether anything waits or runs that a worker may have to do; true if the store does not
    /// answer.
    async fn has_work(&self) -> bool {
        if self.may_be_left_behind || !self.worker.report().running.is_empty() {
            return true;
        }
        let jobs = self.engine.inner.store.live_jobs().await;
        jobs.map_or(true, |jobs| jobs.iter().any(|job| job.is_for_workers_with(&self.variables)))
    }

    async fn end(self, ended: Result<(ServeEnd, StopReport), ServeError>) -> Result<ServeReport, ServeError> {
        // However it came to its end: nothing of it runs on.
        self.worker.stop(StopMode::Release).await;
        let inner = &self.engine.inner;
        lock(&inner.workers).retain(|worker| worker.report().worker != self.id);
        let report = self.worker.report();
        if report.unsettled > 0 {
            self.registration.leave_as_dead();
        } else {
            drop(self.registration);
        }
        drop(self.listener);
        inner.send_notification(Notification::Work);
        let (end, at_stop) = ended?;
        Ok(ServeReport {
            worker: self.id,
            end,
            succeeded: report.succeeded,
            failed: report.failed,
            cancelled: report.cancelled,
            released: report.released,
            lost: report.leases_lost + report.unsettled,
            at_stop,
        })
    }
}
