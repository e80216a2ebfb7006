//! `serve`: this process is a worker that takes any plan that was left to the workers, until it is told to stop or
//! nothing is left to do.
//!
//! # How it goes
//! The worker itself claims and runs ([`AsyncWorker`]). Here is what goes on around it: hints of other processes are
//! passed to it and its own to them, the jobs of workers that died are freed, plans are moved on to their next phase, and
//! the end is decided.
//!
//! # Invariants
//! 1. A dead worker is found by its life sign, within a second: nobody waits for its leases.
//! 2. It goes for want of work only under the lock of [`Starting`], after it looked once more: what was left to the
//!    workers before is seen by it, and who leaves something later sees it gone.
//! 3. Whoever runs a plan in the foreground is not overtaken for ever by plans that came later.
//! 4. A worker whose store was removed or replaced ends at its next look: it would serve nobody, and be counted on.
//! 5. What needs a key that this process was not started with is left alone, and keeps it from nothing.
//! 6. The first request to stop lets the running jobs finish for a while, the second gives them back at once. The report
//!    comes when nothing of the worker runs.

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

use super::notify::{Ear, Hearing, Hint};
use super::registry::{Presence, Serves, Starting, bury_the_dead, own_variables};
use crate::engine::Engine;
use crate::plan::advance::LeftBehind;
use crate::plan::execute::ExecuteError;
use crate::run::{ApplyAs, PhaseRunner};
use worker::TokioRuntime;
use worker::{
    AsyncWorker, Ports, RunningJob, Settled, StartError, Stop, StopReport, WorkerConfig, WorkerConfigError,
    WorkerNews,
};

/// How often the dead and the queue are looked at without a hint.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// When plans are looked at again that could not be moved on.
const STUCK_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// So many looks in a row at which the store gave no work, but errors, end the worker.
const BROKEN_LOOKS_MAX: u32 = 30;

/// How to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// How many jobs run at once in this process; 1..=1024. Fewer run if the open-file limit does not allow as many.
    pub max: usize,
    /// End when nothing was queued or running for so long; none: only when told to.
    pub until_idle: Option<Duration>,
    /// How long running jobs may take to finish after a request to stop.
    pub drain: Duration,
}

/// What happens meanwhile, for who shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServeNews {
    /// It takes jobs from now on.
    Ready {
        /// Who.
        worker: WorkerId,
    },
    /// It took a job up.
    Claimed(RunningJob),
    /// It has done with a job.
    Settled(RunningJob, Settled),
    /// It freed what workers held that died.
    Freed {
        /// How many of them.
        workers: usize,
        /// How many jobs.
        jobs: usize,
    },
    /// It was told to stop, and lets these finish.
    Draining {
        /// How many run.
        running: usize,
    },
    /// It gives back what still runs.
    Releasing {
        /// How many run.
        running: usize,
    },
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeEnd {
    /// There was nothing to do for long enough.
    Idle,
    /// It was told to.
    Stopped,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeReport {
    /// Who.
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
    /// Of all these, what became of those that ran when it was told to stop.
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
    Start(#[from] StartError),
    /// Others cannot be shown that it lives.
    #[error("the worker cannot show that it lives: {0}")]
    Presence(#[source] std::io::Error),
    /// The store gave errors and no work.
    #[error("the store failed for {} seconds in a row: {why}", BROKEN_LOOKS_MAX)]
    StoreFailed {
        /// What it said last.
        why: String,
    },
    /// The store was removed, or another was put in its place: what others ask for from now on is not seen here.
    #[error("{} was removed or replaced while the worker used it", path.display())]
    StoreGone {
        /// Where it was.
        path: PathBuf,
    },
    /// What others left could not be cleared.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
}

impl Engine {
    /// Serves all plans that are left to the workers. Each word from `stops` is a request to stop; `tell` hears what
    /// happens.
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
        let mut serving = Serving::begin(self, options, tell)?;
        let ended = serving.until_end(stops).await;
        serving.end(ended).await
    }
}

struct Serving<'a, T> {
    engine: &'a Engine,
    options: ServeOptions,
    worker: AsyncWorker,
    id: WorkerId,
    /// Those that this process was started with: what needs others is left to others.
    variables: Arc<BTreeSet<String>>,
    presence: Presence,
    hearing: Option<Hearing>,
    news: broadcast::Receiver<WorkerNews>,
    tell: T,
    is_stopping: bool,
    idle_since: Option<Instant>,
    /// Whether plans may have been left between two phases, by workers that died or because the store did not answer.
    may_be_left_behind: bool,
    /// When some of these were found and could not be moved.
    stuck_since: Option<Instant>,
    /// The store's errors at the last look, and at how many looks in a row there were more.
    errors: (u64, u32),
}

/// What woke the loop.
enum Woken {
    Heard(Hint),
    News(Result<WorkerNews, broadcast::error::RecvError>),
    Asked,
    Stopped(StopReport),
    Time,
}

impl<'a, T: FnMut(ServeNews) + Send> Serving<'a, T> {
    fn begin(engine: &'a Engine, options: ServeOptions, mut tell: T) -> Result<Self, ServeError> {
        let house = &engine.house;
        let mut config = WorkerConfig::new(house.boot);
        let variables = Arc::new(own_variables());
        config.max_workers = options.max.min(plans_at_once_max());
        config.variables = Arc::clone(&variables);
        config.plan_concurrency = house.options.plan_concurrency;
        config.lease = house.options.lease;
        config.wind_down_wait = house.wind_down_wait();
        let ports = Ports {
            store: Arc::clone(&house.store),
            runner: Arc::new(PhaseRunner::new(Arc::clone(house), ApplyAs::Asked)),
            runtime: Arc::new(TokioRuntime::new(tokio::runtime::Handle::current())),
            clock: Arc::clone(&house.clock),
            ids: Arc::clone(&house.ids),
            token: CancellationToken::new(),
        };
        let worker = AsyncWorker::new(config, ports)?;
        let id = worker.report().worker;
        let data_dir = &house.options.data_dir;
        // Heard before it is counted on.
        let hearing = Hearing::begin(data_dir, id, Ear::Any).ok();
        let presence = Presence::show(data_dir, id, Serves::Any).map_err(ServeError::Presence)?;
        let news = worker.news();
        worker.start()?;
        lock(&house.workers).push(worker.clone());
        tell(ServeNews::Ready { worker: id });
        Ok(Self {
            engine,
            options,
            worker,
            id,
            variables,
            presence,
            hearing,
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
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut can_be_asked = true;
        loop {
            let hint = async {
                match &mut self.hearing {
                    Some(hearing) => hearing.next().await,
                    None => std::future::pending().await,
                }
            };
            let woken = tokio::select! {
                stopped = &mut stopping => Woken::Stopped(stopped),
                asked = stops.recv(), if can_be_asked => match asked {
                    Some(()) => Woken::Asked,
                    None => { can_be_asked = false; continue }
                },
                hint = hint => Woken::Heard(hint),
                news = self.news.recv() => Woken::News(news),
                _ = look.tick() => Woken::Time,
            };
            match woken {
                Woken::Stopped(report) => {
                    while let Ok(news) = self.news.try_recv() {
                        self.pass_on(news).await;
                    }
                    return Ok((end, report));
                }
                Woken::Asked => stopping = self.stop_as_asked(),
                Woken::Heard(Hint::Cancel(job)) => self.worker.nudge(job),
                Woken::Heard(Hint::Work | Hint::Ended(_)) => {
                    self.make_room().await;
                    self.worker.look();
                }
                Woken::News(Ok(news)) => self.pass_on(news).await,
                Woken::News(Err(_)) => self.may_be_left_behind = true,
                Woken::Time => {
                    self.look_around().await?;
                    if !self.is_stopping && self.may_go().await {
                        end = ServeEnd::Idle;
                        stopping = self.stop(Stop::Release);
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
            return self.stop(Stop::Release);
        }
        (self.tell)(ServeNews::Draining { running });
        self.presence.serves_no_more();
        self.stop(Stop::Drain { deadline: self.options.drain })
    }

    fn stop(&mut self, how: Stop) -> BoxFuture<'static, StopReport> {
        self.is_stopping = true;
        let worker = self.worker.clone();
        Box::pin(async move { worker.stop(how).await })
    }

    /// Tells what the worker did, and moves the plan on that it did it for.
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
                    Settled::Succeeded | Settled::Failed => job.phase != Phase::Apply,
                    Settled::Cancelled => true,
                    Settled::Released | Settled::LeaseLost | Settled::Unsettled => false,
                };
                if may_go_on {
                    self.move_on(job.plan).await;
                }
            }
        }
    }

    /// Queues what comes next. What the store does not take now is found when it is looked for what was left behind.
    async fn move_on(&mut self, plan: PlanId) {
        match self.engine.advance(plan).await {
            Ok(false) => {}
            Err(_) => self.may_be_left_behind = true,
            Ok(true) => {
                self.worker.look();
                if self.is_stopping {
                    self.engine.house.send_hint(Hint::Work);
                }
            }
        }
    }

    /// A slot is free. This worker takes the next job itself, unless it stops.
    fn tell_others(&self, plan: PlanId) {
        if self.is_stopping {
            self.engine.house.tell_ended(plan);
        } else {
            self.engine.house.send_hint(Hint::Ended(plan));
        }
    }

    /// Leaves slots to plans that came first and have a process of their own. Unknown is as before.
    async fn make_room(&self) {
        if let Ok(first) = self.engine.house.waiting_first().await {
            self.worker.leave_free(u32::try_from(first).unwrap_or(u32::MAX));
        }
    }

    /// Frees what dead workers held, and ends when the store has failed for too long.
    async fn look_around(&mut self) -> Result<(), ServeError> {
        let house = &self.engine.house;
        if house.store_file.is_replaced() {
            return Err(ServeError::StoreGone { path: house.store_file.path().to_owned() });
        }
        let buried = bury_the_dead(&house.options.data_dir, house.store.as_ref()).await;
        if let Some(buried) = buried.ok().filter(|buried| buried.workers > 0) {
            (self.tell)(ServeNews::Freed { workers: buried.workers, jobs: buried.leases });
            self.worker.look();
            house.send_hint(Hint::Work);
            // Beside all else, since it may take long; what cannot be cleared is cleared by whoever comes next.
            let engine = self.engine.clone();
            tokio::spawn(async move { engine.clear_leftovers().await });
            self.may_be_left_behind = true;
        }
        self.look_for_left_behind().await;
        self.make_room().await;
        let report = self.worker.report();
        let looks = if report.store_errors > self.errors.0 { self.errors.1 + 1 } else { 0 };
        self.errors = (report.store_errors, looks);
        if looks < BROKEN_LOOKS_MAX {
            return Ok(());
        }
        Err(ServeError::StoreFailed { why: report.last_store_error.unwrap_or_default() })
    }

    /// Moves plans on that nobody moves. What cannot be moved is looked at again later, and keeps nobody from going.
    async fn look_for_left_behind(&mut self) {
        let is_due = self.stuck_since.is_some_and(|since| since.elapsed() >= STUCK_AGAIN_AFTER);
        if !self.may_be_left_behind && !is_due {
            return;
        }
        let Ok(LeftBehind { moved, stuck }) = self.engine.advance_left_behind().await else { return };
        self.may_be_left_behind = false;
        self.stuck_since = (stuck > 0).then(Instant::now);
        if moved > 0 {
            self.worker.look();
        }
    }

    /// Whether nothing was to be done for long enough, and nothing has come up to this moment: then it is said to serve
    /// nobody any more.
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
        let data_dir = self.engine.house.options.data_dir.clone();
        let starting = tokio::task::spawn_blocking(move || Starting::take(&data_dir)).await;
        // Without the lock nobody could be sure that it goes; the next look tries again.
        let Ok(Ok(_starting)) = starting else { return false };
        if self.has_work().await {
            return false;
        }
        self.presence.serves_no_more();
        true
    }

    /// Whether anything waits or runs that a worker may have to do. A store that does not answer may hide something.
    async fn has_work(&self) -> bool {
        if self.may_be_left_behind || !self.worker.report().running.is_empty() {
            return true;
        }
        let live = self.engine.house.store.live_jobs().await;
        live.map_or(true, |live| live.iter().any(|job| job.is_for_workers_with(&self.variables)))
    }

    async fn end(self, ended: Result<(ServeEnd, StopReport), ServeError>) -> Result<ServeReport, ServeError> {
        // However it came to its end: nothing of it runs on.
        self.worker.stop(Stop::Release).await;
        let house = &self.engine.house;
        lock(&house.workers).retain(|worker| worker.report().worker != self.id);
        let report = self.worker.report();
        if report.unsettled > 0 {
            self.presence.die();
        } else {
            drop(self.presence);
        }
        drop(self.hearing);
        house.send_hint(Hint::Work);
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
