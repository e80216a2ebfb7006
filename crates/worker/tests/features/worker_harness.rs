//! What the workers of a scenario share: a store, jobs that do what a script says, tasks and a clock that
//! stands still unless a scenario moves it.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::worker::{
    AsyncWorker, JobRun, JobRunner, PlanExecutionContext, Ports, RandomIds, RunFailure, Runtime, TaskKind,
    WorkerConfig,
};
use async_trait::async_trait;
use domain::{BootId, Changeset, Job, JobId, Ms, NewJob, Phase, PlanId};
use futures_util::future::BoxFuture;
use store::{ChangesetStore, JobStore};
use sync::{CancelReason, CancellationToken, ManualClock};
use tokio::runtime::Handle;

use crate::changesets::change;
use crate::pausing_store::PausingStore;
use crate::threads::{Pauses, apart, block_on};

/// The one job of most scenarios, and that of its plan.
pub(crate) const JOB: u128 = 1;
pub(crate) const OTHER_JOB: u128 = 2;
/// Like no other time that a worker waits for.
const LEASE: Duration = Duration::from_secs(30);
pub(crate) const CANCEL_WAIT: Duration = Duration::from_secs(3);

/// All that the workers of a scenario share.
pub(crate) struct WorkerHarness {
    pub(crate) store: Arc<PausingStore>,
    pub(crate) clock: ManualClock,
    /// How long somebody was going to sleep, in order.
    pub(crate) sleeps: Receiver<Duration>,
    runtime: Arc<ManualRuntime>,
    pub(crate) runner: Arc<Runner>,
    pub(crate) told: Receiver<RunnerEvent>,
    pub(crate) token: CancellationToken,
}

impl WorkerHarness {
    pub(crate) fn new(script: Script) -> Self {
        let clock = ManualClock::new();
        let (sleeps_sender, sleeps) = mpsc::channel();
        let (told_sender, told) = mpsc::channel();
        Self {
            store: PausingStore::new(Arc::new(clock.clone())),
            clock: clock.clone(),
            sleeps,
            runtime: Arc::new(ManualRuntime { handle: Handle::current(), clock, sleeps: sleeps_sender }),
            runner: Arc::new(Runner {
                script: Mutex::new(script),
                pauses: Pauses::default(),
                told: told_sender,
                left_behind: Mutex::default(),
            }),
            told,
            token: CancellationToken::new(),
        }
    }

    pub(crate) fn queue(&self, number: u128) {
        let new = NewJob {
            id: JobId::from_u128(number),
            plan: PlanId::from_u128(number),
            phase: Phase::Execute,
            not_before: Ms(0),
        };
        let store = Arc::clone(&self.store);
        let queued = apart("queuing a job", move || block_on(store.enqueue(new)));
        queued.expect("the job is queued");
    }

    /// A worker that has not started.
    pub(crate) fn worker(&self) -> AsyncWorker {
        let config = WorkerConfig {
            plan_concurrency: 64,
            cancel_wait: CANCEL_WAIT,
            ..WorkerConfig::new(BootId::from_u128(1), LEASE)
        };
        let ports = Ports {
            store: Arc::clone(&self.store) as Arc<dyn store::Store>,
            runner: Arc::clone(&self.runner) as Arc<dyn JobRunner>,
            runtime: Arc::clone(&self.runtime) as Arc<dyn Runtime>,
            clock: Arc::new(self.clock.clone()),
            ids: Arc::new(RandomIds::new()),
            token: self.token.clone(),
        };
        AsyncWorker::new(config, ports).expect("within its bounds")
    }

    pub(crate) fn job(&self, number: u128) -> Job {
        let store = Arc::clone(&self.store);
        let job = apart("a look at a job", move || block_on(store.job(JobId::from_u128(number))));
        job.expect("the job is known")
    }

    pub(crate) fn changesets(&self, number: u128) -> Vec<Changeset> {
        let store = Arc::clone(&self.store);
        let plan = PlanId::from_u128(number);
        let changesets = apart("a look at changesets", move || block_on(store.changesets(plan)));
        changesets.expect("the store answers")
    }
}

/// Tasks on the run's threads, sleeps on a clock by hand.
struct ManualRuntime {
    handle: Handle,
    clock: ManualClock,
    sleeps: Sender<Duration>,
}

impl Runtime for ManualRuntime {
    fn spawn(&self, _: TaskKind, task: BoxFuture<'static, ()>) -> io::Result<()> {
        drop(self.handle.spawn(task));
        Ok(())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let sleep = self.clock.sleep(duration);
        // A scenario that is over no longer listens.
        let _ = self.sleeps.send(duration);
        Box::pin(sleep)
    }
}

/// What a job tells the scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RunnerEvent {
    /// It begins, and its scope is live or not.
    Begun { job: JobId, is_cancelled: bool },
    /// It was told to stop.
    Stopped(CancelReason),
    /// It comes to its end, and its scope is live or not.
    Ending { job: JobId, is_cancelled: bool },
}

/// What a job does.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// Waits until the scenario lets it go on, and ends well.
    WaitAndEnd,
    /// Nothing, and ends well.
    End,
    /// Records a change, and ends well.
    RecordAndEnd(String),
    /// Records a change, waits until it is told to stop, and stops.
    RecordAndListen(String),
    /// Records a change, and never ends by itself.
    RecordAndHang(String),
}

/// A job is where it waits.
#[derive(Debug, PartialEq)]
pub(crate) struct WaitPause;

pub(crate) struct Runner {
    pub(crate) script: Mutex<Script>,
    pub(crate) pauses: Pauses<WaitPause>,
    told: Sender<RunnerEvent>,
    /// What a part of the job keeps that outlives it.
    pub(crate) left_behind: Mutex<Option<PlanExecutionContext>>,
}

impl Runner {
    fn tell(&self, told: RunnerEvent) {
        // A scenario that is over no longer listens.
        let _ = self.told.send(told);
    }

    async fn record(&self, run: &JobRun, file: &str) {
        *self.left_behind.lock().unwrap() = Some(run.context().clone());
        let changeset = run.context().start_changeset().await.expect("it is started");
        changeset.record(change(file)).await.expect("it is recorded");
    }
}

#[async_trait]
impl JobRunner for Runner {
    async fn run(&self, run: &JobRun) -> Result<(), RunFailure> {
        self.tell(RunnerEvent::Begun { job: run.job().id, is_cancelled: run.scope().is_cancelled() });
        let script = self.script.lock().unwrap().clone();
        match script {
            Script::End => Ok(()),
            Script::WaitAndEnd => {
                self.pauses.at_async(WaitPause).await;
                self.tell(RunnerEvent::Ending {
                    job: run.job().id,
                    is_cancelled: run.scope().is_cancelled(),
                });
                Ok(())
            }
            Script::RecordAndEnd(file) => {
                self.record(run, &file).await;
                Ok(())
            }
            Script::RecordAndListen(file) => {
                self.record(run, &file).await;
                self.pauses.at_async(WaitPause).await;
                let reason = run.scope().cancelled().await;
                self.tell(RunnerEvent::Stopped(reason));
                // As careless code does: that it did not do its job is for its worker to know.
                Ok(())
            }
            Script::RecordAndHang(file) => {
                self.record(run, &file).await;
                self.pauses.at_async(WaitPause).await;
                std::future::pending().await
            }
        }
    }
}
