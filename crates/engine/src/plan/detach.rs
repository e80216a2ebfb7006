//! Detaches a plan: releases its job to all workers, one of which claims it.
//!
//! # Invariants
//! 1. The job is released before any worker is notified of it, so that no worker looks too early for the last
//!    time.
//! 2. A plan that a process works on is not released to others.
//! 3. A plan whose models want keys is for workers that were started with the variables that hold them: no
//!    other takes it up or over. Keys themselves are neither stored nor sent.

use std::collections::BTreeSet;

use domain::{GatePoint, JobState, Ms, NewJob, Phase, PlanId};

use super::execute::ExecuteOptions;
use super::gates::{NextAction, gate_initiator};
use crate::engine::Engine;
use crate::plan::execute::ExecuteError;
use crate::query::details::store_error;
use crate::workers::notify::Notification;
use crate::workers::registry::{StartLock, live_workers, own_variables};

impl Engine {
    /// Leaves the execution of a plan to the workers.
    ///
    /// # Errors
    /// Returns an error if the plan is not to be executed in its state, or a process works on it.
    pub async fn detach_plan(&self, id: PlanId, options: ExecuteOptions) -> Result<(), ExecuteError> {
        self.begin(id, options).await?;
        self.release_to_workers(id).await
    }

    /// Leaves a plan that failed, or whose owner died, in the same way.
    ///
    /// # Errors
    /// Returns an error if the plan is final, has a live owner, or nothing of it failed.
    pub async fn detach_resumed(&self, id: PlanId) -> Result<(), ExecuteError> {
        self.retry(id).await?;
        self.release_to_workers(id).await
    }

    pub(crate) async fn release_to_workers(&self, id: PlanId) -> Result<(), ExecuteError> {
        let plan = self.inner.store.plan(id).await?;
        match self.live_job(id).await? {
            Some(job) if job.state == JobState::Running && !self.inner.owner_is_gone(&job) => {
                let worker = job.worker.map_or_else(String::new, |worker| format!("worker {worker}"));
                return Err(ExecuteError::Busy { plan: id, worker });
            }
            Some(job) => {
                let due = NewJob { id: job.id, plan: id, phase: job.phase, not_before: Ms(0) };
                self.inner.store.enqueue(due).await.map_err(store_error)?;
            }
            None if self.next_action(&plan).await? == NextAction::Pass(GatePoint::Execute) => {
                let job = self.new_job(id, Phase::Execute, Ms(0));
                self.pass_gate(&plan, GatePoint::Execute, job, gate_initiator(GatePoint::Execute)).await?;
            }
            None => return Err(ExecuteError::NotReady { plan: id, state: plan.state }),
        }
        self.inner.send_notification(Notification::Work);
        Ok(())
    }

    /// Returns true if a live worker takes any plan that needs these variables.
    pub fn has_worker_for(&self, keys: &BTreeSet<String>) -> bool {
        live_workers(&self.inner.options.data_dir).has_for(keys)
    }

    /// Those of these variables that this process was not started with.
    pub fn missing_keys(&self, keys: &BTreeSet<String>) -> BTreeSet<String> {
        keys.difference(&own_variables()).cloned().collect()
    }

    /// The right to start a worker, which one process has at a time: so that of many who find none, one
    /// starts one.
    ///
    /// # Errors
    /// The lock cannot be made or taken.
    pub fn starting(&self) -> std::io::Result<StartLock> {
        StartLock::take(&self.inner.options.data_dir)
    }
}
