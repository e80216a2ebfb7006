//! Cancels or interrupts a plan, whichever process runs it, and reports when nothing of it can happen any
//! more.
//!
//! # Invariants
//! 1. A plan whose job runs is cancelled by that job's owner; its commit of the end is the acknowledgement.
//! 2. An owner that is dead is replaced by this process, which finishes the cancel.
//! 3. Everything that was recorded is retained.
//! 4. A requested cancel stays unacknowledged if the process that owned the job died. The next process that
//!    opens the data directory finishes it. Only a plan whose cancel was requested is cancelled: a plan whose
//!    owner just died waits for the user. A plan that was to be stopped to begin again does that. Without a
//!    dead worker this costs one look at a directory. It never blocks the command: a cancel that cannot be
//!    finished now is left as it was, and reported as interrupted.
//! 5. A plan that is interrupted has failed: it can be resumed, revised, or applied in part. A cancel that
//!    comes before the interruption is finished replaces it.

use std::path::PathBuf;
use std::time::Duration;

use domain::{
    APPLY_WITHDRAWN, CancelRequest, GatePoint, Initiator, Job, JobState, JobTransitionRejection, Phase, Plan,
    PlanEvent, PlanId, PlanInterruption, PlanState, STOPPED_TO_REPLAN,
};
use store::{JobStoreError, PlanStoreError, StoreError};
use sync::primitives::lock;
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::maintenance::retained_sandboxes::retained_dir_of;
use crate::plan::execute::ExecuteError;
use crate::plan::gates::NextAction;
use crate::plan::transition::plan_move;
use crate::query::details::store_error;
use crate::run::ApplyAs;
use crate::workers::notify::{Notification, PlanWaiter};
use crate::workers::registry::{dead_worker_ids, release_dead_leases};

const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_LAST: Duration = Duration::from_millis(100);
/// The time that one cancel of a dead owner may take to be finished.
const FINISH_WAIT: Duration = Duration::from_secs(30);

/// A cancel that is acknowledged.
#[derive(Clone, Debug)]
pub struct CancelReport {
    /// The present plan.
    pub plan: Plan,
    /// True if it was cancelled before.
    pub already: bool,
    /// The number of entries that it retains.
    pub entries_kept: usize,
    /// The path of its retained sandbox, if the changes of its command could not be captured.
    pub kept_in: Option<PathBuf>,
}

/// Why a plan was not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// Its apply cannot be stopped any more; it can be undone.
    #[error("the apply of plan {plan} has begun to write and will be finished")]
    TooLate {
        /// The plan.
        plan: PlanId,
    },
    /// It has come to another end.
    #[error("plan {plan} is {state}")]
    Final {
        /// The plan.
        plan: PlanId,
        /// Its end.
        state: PlanState,
    },
    /// Its owner has not answered in time.
    #[error("the cancel of plan {plan} is requested and not confirmed yet")]
    Unconfirmed {
        /// The plan.
        plan: PlanId,
        /// The known facts about the owner.
        worker: String,
    },
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
    /// Its dead owner could not be replaced.
    #[error(transparent)]
    Execute(#[from] Box<ExecuteError>),
}

impl From<StoreError> for CancelError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

/// The run of a job that was taken over.
type TakeoverTask = JoinHandle<Result<(), ExecuteError>>;

impl Engine {
    /// Cancels a plan and waits, as long as `wait`, until nothing of it can happen any more.
    ///
    /// # Errors
    /// It is too late, the plan has come to another end, or its owner does not answer.
    pub async fn cancel(
        &self,
        id: PlanId,
        reason: &str,
        wait: Duration,
    ) -> Result<CancelReport, CancelError> {
        let plan = self.inner.store.plan(id).await?;
        if plan.state.is_cancelled() {
            return self.report(plan, true).await;
        }
        if plan.state.is_final() {
            return Err(CancelError::Final { plan: id, state: plan.state });
        }
        // A plan that moves meanwhile is looked at again, a few times.
        for _ in 0..3 {
            let plan = self.inner.store.plan(id).await?;
            let moved = match self.live_job(id).await? {
                Some(job) => self.cancel_job(&plan, &job, reason, wait).await,
                None => self.cancel_idle(&plan).await,
            };
            match moved {
                Err(CancelError::Plan(PlanStoreError::Moved { .. })) => {}
                other => return other,
            }
        }
        let plan = self.inner.store.plan(id).await?;
        Err(CancelError::Plan(PlanStoreError::Moved { plan: Box::new(plan) }))
    }

    /// No job is in the way: the plan's row moves at once.
    async fn cancel_idle(&self, plan: &Plan) -> Result<CancelReport, CancelError> {
        if plan.state.is_cancelled() {
            return self.report(plan.clone(), true).await;
        }
        if plan.state.is_final() {
            return Err(CancelError::Final { plan: plan.id, state: plan.state });
        }
        let request = plan_move(plan, PlanEvent::Cancel, Initiator::User, None);
        match self.inner.store.move_plan(request).await {
            Err(PlanStoreError::Job(JobTransitionRejection::CancelTooLate)) => {
                Err(CancelError::TooLate { plan: plan.id })
            }
            moved => self.report(moved?, false).await,
        }
    }

    /// Stops an apply that waits, and leaves the plan as it was before it. Waits, as long as `wait`, until
    /// nothing of it can happen any more.
    ///
    /// # Errors
    /// It has begun to write, or its owner does not answer.
    pub async fn withdraw_apply(&self, id: PlanId, wait: Duration) -> Result<(), CancelError> {
        let plan = self.inner.store.plan(id).await?;
        match self.live_job(id).await?.filter(|job| job.phase == Phase::Apply) {
            Some(job) => self.end_job(&plan, &job, APPLY_WITHDRAWN, wait).await.map(drop),
            None => Ok(()),
        }
    }

    /// Interrupts the work on a plan and waits, as long as `wait`, until nothing of it can happen any more. A
    /// plan that no process works on stays as it is.
    ///
    /// # Errors
    /// Returns an error if its apply has begun to write, or if its owner does not answer.
    pub async fn interrupt(
        &self,
        id: PlanId,
        by: PlanInterruption,
        wait: Duration,
    ) -> Result<(), CancelError> {
        let deadline = self.inner.clock.now().saturating_add(wait);
        loop {
            let plan = self.inner.store.plan(id).await?;
            if let Some(job) = self.live_job(id).await? {
                match self.end_job(&plan, &job, by.reason(), wait).await {
                    Err(CancelError::Plan(PlanStoreError::Moved { .. })) => {}
                    ended => return ended.map(drop),
                }
            } else {
                let next = self.next_action(&plan).await?;
                let is_at_rest = matches!(next, NextAction::Stop | NextAction::Pass(GatePoint::Apply));
                if is_at_rest || self.inner.clock.now() >= deadline {
                    return Ok(());
                }
            }
            // It is between two phases: the process that works on it queues the next one at once.
            tokio::time::sleep(LOOK_FIRST).await;
        }
    }

    async fn cancel_job(
        &self,
        plan: &Plan,
        job: &Job,
        reason: &str,
        wait: Duration,
    ) -> Result<CancelReport, CancelError> {
        let is_first = self.end_job(plan, job, reason, wait).await?;
        let plan = self.inner.store.plan(plan.id).await?;
        match plan.state {
            state if state.is_cancelled() => self.report(plan, !is_first).await,
            state if state.is_final() => Err(CancelError::Final { plan: plan.id, state }),
            _ => Err(CancelError::Plan(PlanStoreError::Moved { plan: Box::new(plan) })),
        }
    }

    /// Asks the owner of a job to end it, and waits until it has; returns whether this is the first such
    /// request.
    async fn end_job(
        &self,
        plan: &Plan,
        job: &Job,
        reason: &str,
        wait: Duration,
    ) -> Result<bool, CancelError> {
        let moved = || CancelError::Plan(PlanStoreError::Moved { plan: Box::new(plan.clone()) });
        let waiter = self.plan_waiter(plan.id);
        let is_first = match self.inner.store.cancel_first(job.id, reason).await {
            Ok((_, is_first)) => is_first,
            Err(JobStoreError::Refused(JobTransitionRejection::CancelTooLate)) => {
                return Err(CancelError::TooLate { plan: plan.id });
            }
            Err(JobStoreError::Refused(_)) => return Err(moved()),
            Err(other) => return Err(store_error(other).into()),
        };
        self.hint();
        self.inner.send_notification(Notification::Cancel(job.id));
        release_dead_leases(&self.inner.options.data_dir, self.inner.store.as_ref())
            .await
            .map_err(store_error)?;
        self.await_end(job, waiter, wait).await?;
        Ok(is_first)
    }

    /// Waits until the owner has ended the job: for its hint, and should that get lost, for what the store
    /// says. An owner that is gone, or goes meanwhile, is replaced by this process.
    pub(crate) async fn await_end(
        &self,
        job: &Job,
        mut waiter: PlanWaiter,
        wait: Duration,
    ) -> Result<(), CancelError> {
        let deadline = self.inner.clock.now().saturating_add(wait);
        let (mut pause, mut taking) = (LOOK_FIRST, None);
        loop {
            let now = self.inner.store.job(job.id).await.map_err(store_error)?;
            if now.state.is_final() {
                return Ok(());
            }
            taking = self.take_over(&now, taking).await?;
            if self.inner.clock.now() >= deadline {
                let worker = now.worker.map_or_else(|| "nobody".to_owned(), |worker| worker.to_string());
                return Err(CancelError::Unconfirmed { plan: now.plan, worker });
            }
            waiter.wait(pause).await;
            // Said again, should the owner not have heard it.
            self.inner.send_notification(Notification::Cancel(job.id));
            pause = (pause * 2).min(LOOK_LAST);
        }
    }

    /// Takes the job of an owner that is dead; the run that this begins finds the cancel and finishes it.
    /// This runs on a task of its own. It comes to its end, and is visibly alive until then, also when no
    /// caller waits any longer.
    async fn take_over(
        &self,
        job: &Job,
        taking: Option<TakeoverTask>,
    ) -> Result<Option<TakeoverTask>, CancelError> {
        match taking {
            Some(task) if task.is_finished() => {
                if let Ok(outcome) = task.await {
                    outcome.map_err(Box::new)?;
                }
                Ok(None)
            }
            None if self.inner.owner_is_gone(job) => {
                let (engine, id) = (self.clone(), job.plan);
                let run = async move { engine.run_live_job(id, ApplyAs::Asked).await.map(drop) };
                Ok(Some(tokio::spawn(run)))
            }
            still @ (Some(_) | None) => Ok(still),
        }
    }

    async fn report(&self, plan: Plan, already: bool) -> Result<CancelReport, CancelError> {
        let entries_kept = self.inner.entries(&plan).await?.len();
        let errors = self.inner.recovery.history(plan.id).await?;
        let retained =
            errors.records().rev().find_map(|record| retained_dir_of(&record.error)).map(PathBuf::from);
        // One that was captured since is gone.
        let kept_in = retained.filter(|dir| dir.exists());
        Ok(CancelReport { plan, already, entries_kept, kept_in })
    }

    /// The workers of this process look at their jobs now.
    pub(crate) fn hint(&self) {
        let workers = lock(&self.inner.workers).clone();
        workers.iter().for_each(crate::AsyncWorker::hint);
    }
}

impl Engine {
    /// Finishes what was left of cancels; says of which plans.
    pub async fn finish_cancels(&self) -> Vec<PlanId> {
        let gone = dead_worker_ids(&self.inner.options.data_dir);
        if gone.is_empty() {
            return Vec::new();
        }
        let jobs = self.inner.store.jobs(None).await.unwrap_or_default();
        let asked = |job: Job| {
            let is_left =
                job.state == JobState::Running && job.worker.is_some_and(|worker| gone.contains(&worker));
            job.cancel.filter(|_| is_left).map(|cancel| (job.plan, cancel))
        };
        let mut finished = Vec::new();
        for (plan, CancelRequest { reason, .. }) in jobs.into_iter().filter_map(asked) {
            let is_finished = match (reason.as_str(), PlanInterruption::from_reason(&reason)) {
                (STOPPED_TO_REPLAN, _) => self.stop_to_replan(plan, FINISH_WAIT).await.is_ok(),
                (APPLY_WITHDRAWN, _) => self.withdraw_apply(plan, FINISH_WAIT).await.is_ok(),
                (_, Some(by)) => self.interrupt(plan, by, FINISH_WAIT).await.is_ok(),
                (_, None) => self.cancel(plan, &reason, FINISH_WAIT).await.is_ok(),
            };
            if is_finished {
                finished.push(plan);
            }
        }
        finished
    }
}
