//! `execute` and `resume`: take a plan through its phases in this process, as far as its gates allow.
//!
//! This process is a worker that claims only this plan's jobs. If all slots are in use, it waits for its
//! turn.
//!
//! # Invariants
//! 1. A phase runs only as a claimed job; two processes that execute one plan run one of them.
//! 2. Finished work is never thrown away: executing again makes a new attempt and retains the old one.

use std::sync::Arc;
use std::time::Duration;

use domain::{
    ApplyState, GatePoint, HELD, Initiator, JobState, Phase, Plan, PlanEvent, PlanId, PlanState, WorkState,
};
use store::{PlanMove, PlanStoreError, StoreError};
use sync::CancellationToken;
use sync::primitives::lock;
use tokio::sync::broadcast;

use super::gates::{NextAction, gate_initiator, gated_phase};
use super::transition::plan_move;
use crate::engine::{Engine, EngineInner};
use crate::query::details::{PlanDetails, store_error};
use crate::run::{ApplyAs, PhaseRunner};
use crate::workers::notify::{ListenerKind, Notification, NotificationListener};
use crate::workers::registry::{WorkerRegistration, WorkerScope, release_dead_leases};
use worker::TokioRuntime;
use worker::{AsyncWorker, Ports, StopMode, WorkerConfig, WorkerConfigError, WorkerNews, WorkerStartError};

/// The interval at which a plan is looked at that another process may have moved.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After so many failures the store is not asked for work any more.
const STORE_ERRORS_MAX: u64 = 25;

/// The options of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecuteOptions {
    /// A plan that is complete is executed once more, as a new attempt.
    pub again: bool,
    /// Stop where execute is complete, also when the plan could be applied by itself.
    pub stop_before_apply: bool,
}

/// Why a plan was not executed.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// Another process works on it.
    #[error("plan {plan} is being worked on by {worker}")]
    Busy {
        /// The plan.
        plan: PlanId,
        /// Its owner.
        worker: String,
    },
    /// Its work is done.
    #[error("plan {plan} is complete")]
    Complete {
        /// The plan.
        plan: PlanId,
    },
    /// It has to be moved by something else first.
    #[error("plan {plan} is {state}")]
    NotReady {
        /// The plan.
        plan: PlanId,
        /// Its state.
        state: PlanState,
    },
    /// It has ended for good.
    #[error("plan {plan} is {state}, which is final")]
    Final {
        /// The plan.
        plan: PlanId,
        /// Its end.
        state: PlanState,
    },
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
    /// It failed, and the store did not take that either.
    #[error("plan {plan} failed, and the failure could not be stored: {why}")]
    Unstored {
        /// The plan.
        plan: PlanId,
        /// The failure.
        why: String,
    },
    /// No worker could be started in this process.
    #[error("this process cannot run plans: {0}")]
    NoWorker(String),
}

impl From<StoreError> for ExecuteError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl From<WorkerStartError> for ExecuteError {
    fn from(error: WorkerStartError) -> Self {
        Self::NoWorker(error.to_string())
    }
}

impl From<WorkerConfigError> for ExecuteError {
    fn from(error: WorkerConfigError) -> Self {
        Self::NoWorker(error.to_string())
    }
}

impl Engine {
    /// Takes the plan through its phases: to the end of execute, or of apply when it goes there by itself.
    ///
    /// # Errors
    /// Returns an error if the plan is not to be executed in its state, another process has it, or this
    /// process cannot work.
    pub async fn execute(&self, id: PlanId, options: ExecuteOptions) -> Result<PlanDetails, ExecuteError> {
        self.begin(id, options).await?;
        self.go_on(id, options).await
    }

    /// Refuses a plan that is not to be executed; one that is complete begins once more, when that is asked
    /// for. A user who executes a plan that waits with its strategy approves the strategy.
    pub(crate) async fn begin(&self, id: PlanId, options: ExecuteOptions) -> Result<(), ExecuteError> {
        let plan = self.inner.store.plan(id).await?;
        if options.again && plan.state == PlanState::Execute(WorkState::Complete) {
            let job = self.new_job(id, Phase::Execute, HELD);
            self.move_plan(plan_move(&plan, PlanEvent::Again, Initiator::User, Some(job))).await?;
            return Ok(());
        }
        if plan.state == PlanState::Strategize(WorkState::Complete) {
            let job = self.new_job(id, Phase::Execute, HELD);
            self.pass_gate(&plan, GatePoint::Execute, job, Initiator::User).await?;
            return Ok(());
        }
        may_execute(&plan)
    }

    /// Resumes a plan that failed, or whose owner died.
    ///
    /// # Errors
    /// Returns an error if the plan is final, has a live owner, or nothing of it failed.
    pub async fn resume(&self, id: PlanId) -> Result<PlanDetails, ExecuteError> {
        self.retry(id).await?;
        self.go_on(id, ExecuteOptions { again: false, stop_before_apply: true }).await
    }

    /// Queues the phase of a plan that failed once more; one that waits or runs stays as it is.
    pub(crate) async fn retry(&self, id: PlanId) -> Result<(), ExecuteError> {
        let plan = self.inner.store.plan(id).await?;
        // A plan that was to begin again, and was left before it did, is not retried with the old strategy.
        if self.next_action(&plan).await? == NextAction::Pass(GatePoint::Replan) {
            let job = self.new_job(id, Phase::Strategize, HELD);
            self.pass_gate(&plan, GatePoint::Replan, job, gate_initiator(GatePoint::Replan)).await?;
            return Ok(());
        }
        let again =
            |phase| plan_move(&plan, PlanEvent::Retry, Initiator::User, Some(self.new_job(id, phase, HELD)));
        match plan.state {
            state if state.is_final() => return Err(ExecuteError::Final { plan: id, state }),
            PlanState::Strategize(WorkState::Errored) => {
                self.move_plan(again(Phase::Strategize)).await?;
            }
            PlanState::Execute(WorkState::Errored) => {
                self.move_plan(again(Phase::Execute)).await?;
            }
            PlanState::Apply(ApplyState::Errored) => {
                let request = plan.request.clone();
                self.move_plan(PlanMove { request, ..again(Phase::Apply) }).await?;
            }
            PlanState::Apply(ApplyState::Constrained) | PlanState::Execute(WorkState::Complete) => {
                return Err(ExecuteError::NotReady { plan: id, state: plan.state });
            }
            // Queued, processing under an owner that may be dead, or waiting for its next phase.
            PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => {}
        }
        Ok(())
    }

    pub(crate) async fn go_on(
        &self,
        id: PlanId,
        options: ExecuteOptions,
    ) -> Result<PlanDetails, ExecuteError> {
        self.clear_leftovers().await?;
        let working = SinglePlanWorker::begin(&self.inner, id, ApplyAs::Asked)?;
        let mut settled = 0;
        let outcome = loop {
            let plan = match self.inner.store.plan(id).await {
                Ok(plan) => plan,
                Err(error) => break Err(error.into()),
            };
            let next = match self.next_action(&plan).await {
                Ok(next) => next,
                Err(error) => break Err(error.into()),
            };
            match next {
                NextAction::Stop => break Ok(()),
                NextAction::Pass(GatePoint::Apply) if options.stop_before_apply => break Ok(()),
                NextAction::Pass(point) => {
                    let job = self.new_job(id, gated_phase(point), HELD);
                    match self.pass_gate(&plan, point, job, gate_initiator(point)).await {
                        // Another process moved it on: it is looked at again.
                        Ok(_) | Err(ExecuteError::Busy { .. }) => working.worker.hint(),
                        Err(error) => break Err(error),
                    }
                }
                NextAction::Run => {
                    if let Err(error) = self.refuse_live_owner(&plan, &working).await {
                        break Err(error);
                    }
                    match working.poll(settled).await {
                        Ok(now) => settled = now,
                        Err(error) => break Err(error),
                    }
                }
            }
        };
        working.end().await;
        outcome?;
        Ok(self.plan_details(id).await?)
    }

    /// Runs the job of the plan that waits or lost its owner, to its end, and no further.
    pub(crate) async fn run_live_job(&self, id: PlanId, apply: ApplyAs) -> Result<(), ExecuteError> {
        self.clear_leftovers().await?;
        let Some(job) = self.live_job(id).await? else { return Ok(()) };
        let working = SinglePlanWorker::begin(&self.inner, id, apply)?;
        let mut settled = 0;
        let outcome = loop {
            match self.inner.store.job(job.id).await {
                Err(error) => break Err(store_error(error).into()),
                Ok(now) if now.state.is_final() => break Ok(()),
                Ok(_) => {}
            }
            let plan = match self.inner.store.plan(id).await {
                Ok(plan) => plan,
                Err(error) => break Err(error.into()),
            };
            if let Err(error) = self.refuse_live_owner(&plan, &working).await {
                break Err(error);
            }
            match working.poll(settled).await {
                Ok(now) => settled = now,
                Err(error) => break Err(error),
            }
        };
        working.end().await;
        outcome
    }

    /// Ends the leases of dead workers and removes their sandboxes, so that no process waits for them.
    pub(crate) async fn clear_leftovers(&self) -> Result<(), ExecuteError> {
        release_dead_leases(&self.inner.options.data_dir, self.inner.store.as_ref())
            .await
            .map_err(store_error)?;
        let dir = self.inner.options.sandbox_dir.clone();
        // `doctor` reports sandboxes that cannot be removed.
        let _ = tokio::task::spawn_blocking(move || sandbox::sweep(&dir)).await;
        Ok(())
    }

    /// Returns an error if another live process works on the plan: it is not waited for.
    async fn refuse_live_owner(&self, plan: &Plan, working: &SinglePlanWorker) -> Result<(), ExecuteError> {
        let Some(job) = self.live_job(plan.id).await? else { return Ok(()) };
        let lives = job.state == JobState::Running && !self.inner.owner_is_gone(&job);
        match job.worker {
            Some(worker) if lives && !working.is(worker) => {
                Err(ExecuteError::Busy { plan: plan.id, worker: format!("worker {worker}") })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns an error if `execute` may not begin in this state.
fn may_execute(plan: &Plan) -> Result<(), ExecuteError> {
    let (id, state) = (plan.id, plan.state);
    match state {
        PlanState::Strategize(WorkState::Queued | WorkState::Processing | WorkState::Complete)
        | PlanState::Execute(WorkState::Queued | WorkState::Processing) => Ok(()),
        PlanState::Execute(WorkState::Complete) => Err(ExecuteError::Complete { plan: id }),
        PlanState::Strategize(WorkState::Errored)
        | PlanState::Execute(WorkState::Errored)
        | PlanState::Apply(
            ApplyState::Queued | ApplyState::Processing | ApplyState::Constrained | ApplyState::Errored,
        ) => Err(ExecuteError::NotReady { plan: id, state }),
        PlanState::Strategize(WorkState::Cancelled)
        | PlanState::Execute(WorkState::Cancelled)
        | PlanState::Apply(ApplyState::Applied | ApplyState::Cancelled) => {
            Err(ExecuteError::Final { plan: id, state })
        }
    }
}

/// A worker of this process that serves one plan.
pub(crate) struct SinglePlanWorker {
    pub(crate) worker: AsyncWorker,
    plan: PlanId,
    engine: Arc<EngineInner>,
    registration: WorkerRegistration,
    relay: AbortOnDrop,
}

/// A task that ends with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Passes hints on: from other processes to the worker, and from the worker to who waits elsewhere.
async fn forward_news(
    engine: Arc<EngineInner>,
    worker: AsyncWorker,
    mut news: broadcast::Receiver<WorkerNews>,
    mut listener: Option<NotificationListener>,
) {
    loop {
        let hint = async {
            match &mut listener {
                Some(listener) => listener.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            hint = hint => match hint {
                Notification::Cancel(job) => worker.nudge(job),
                Notification::Work | Notification::Ended(_) => worker.poke(),
            },
            news = news.recv() => match news {
                Ok(WorkerNews::Settled(job, _)) => engine.notify_ended(job.plan),
                Ok(WorkerNews::Claimed(_)) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            },
        }
    }
}

impl SinglePlanWorker {
    fn begin(engine: &Arc<EngineInner>, plan: PlanId, apply: ApplyAs) -> Result<Self, ExecuteError> {
        let mut config = WorkerConfig::new(engine.boot, engine.options.lease);
        config.max_workers = 1;
        config.only = Some(plan);
        config.plan_concurrency = engine.options.plan_concurrency;
        config.wind_down_wait = engine.wind_down_wait();
        let ports = Ports {
            store: Arc::clone(&engine.store),
            runner: Arc::new(PhaseRunner::new(Arc::clone(engine), apply)),
            runtime: Arc::new(TokioRuntime::new(tokio::runtime::Handle::current())),
            clock: Arc::clone(&engine.clock),
            ids: Arc::clone(&engine.ids),
            token: CancellationToken::new(),
        };
        let worker = AsyncWorker::new(config, ports)?;
        let id = worker.report().worker;
        let registration = WorkerRegistration::register(&engine.options.data_dir, id, WorkerScope::One(plan))
            .map_err(|error| ExecuteError::NoWorker(error.to_string()))?;
        // Without it others are heard of later, by looking.
        let listener = NotificationListener::begin(&engine.options.data_dir, id, ListenerKind::One).ok();
        let relay = tokio::spawn(forward_news(Arc::clone(engine), worker.clone(), worker.news(), listener));
        worker.start()?;
        // Workers that take any plan make room for it.
        engine.send_notification(Notification::Work);
        lock(&engine.workers).push(worker.clone());
        Ok(Self { worker, plan, engine: Arc::clone(engine), registration, relay: AbortOnDrop(relay) })
    }

    /// Completes when a run of this worker was settled, or when it is time to look at the store again.
    /// Another process may have ended the job.
    async fn poll(&self, settled: u64) -> Result<u64, ExecuteError> {
        self.worker.hint();
        let now = tokio::select! {
            now = self.worker.settled(settled) => now,
            () = tokio::time::sleep(LOOK_EVERY) => settled,
        };
        let report = self.worker.report();
        let failure = lock(&self.engine.last_failure).clone();
        if let Some(why) = failure.filter(|_| report.unsettled > 0) {
            return Err(ExecuteError::Unstored { plan: self.plan, why });
        }
        match report.store_errors {
            0..STORE_ERRORS_MAX => Ok(now),
            errors => {
                let why = report.last_store_error.unwrap_or_default();
                Err(ExecuteError::NoWorker(format!(
                    "the store failed {errors} times when it was asked for a job: {why}"
                )))
            }
        }
    }

    fn is(&self, worker: domain::WorkerId) -> bool {
        self.worker.report().worker == worker
    }

    pub(crate) async fn end(self) {
        self.worker.stop(StopMode::Release).await;
        drop(self.relay);
        self.engine.notify_ended(self.plan);
        let report = self.worker.report();
        lock(&self.engine.workers).retain(|worker| worker.report().worker != report.worker);
        if report.unsettled > 0 {
            self.registration.leave_as_dead();
        }
    }
}
