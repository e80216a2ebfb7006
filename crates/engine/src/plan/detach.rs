//! Leaves a plan to the workers: its job is held no longer, and one of them comes for it.
//!
//! # Invariants
//! 1. The job is there for all before anybody is told of it, so that no worker looks too early for the last time.
//! 2. A plan that somebody works on is not left to others.
//! 3. A plan whose models want keys is for workers that were started with the variables that hold them: no other takes it
//!    up or over. Keys themselves are neither stored nor sent.

use std::collections::BTreeSet;

use domain::{GatePoint, JobState, Ms, NewJob, Phase, PlanId};

use super::execute::ExecuteOptions;
use super::gates::{Next, by_whom};
use crate::engine::Engine;
use crate::plan::execute::ExecuteError;
use crate::query::details::store_error;
use crate::workers::notify::Hint;
use crate::workers::registry::{Starting, own_variables, served};

impl Engine {
    /// Leaves the execution of a plan to the workers.
    ///
    /// # Errors
    /// It is not to be executed in its state, or somebody works on it.
    pub async fn leave(&self, id: PlanId, options: ExecuteOptions) -> Result<(), ExecuteError> {
        self.begin(id, options).await?;
        self.let_go(id).await
    }

    /// Leaves a plan that failed, or whose owner died, in the same way.
    ///
    /// # Errors
    /// It is final, has an owner that lives, or nothing of it failed.
    pub async fn leave_resumed(&self, id: PlanId) -> Result<(), ExecuteError> {
        self.retry(id).await?;
        self.let_go(id).await
    }

    pub(crate) async fn let_go(&self, id: PlanId) -> Result<(), ExecuteError> {
        let plan = self.house.store.plan(id).await?;
        match self.live_job(id).await? {
            Some(job) if job.state == JobState::Running && !self.house.owner_is_gone(&job) => {
                let worker = job.worker.map_or_else(String::new, |worker| format!("worker {worker}"));
                return Err(ExecuteError::Busy { plan: id, worker });
            }
            Some(job) => {
                let due = NewJob { id: job.id, plan: id, phase: job.phase, not_before: Ms(0) };
                self.house.store.enqueue(due).await.map_err(store_error)?;
            }
            None if self.next(&plan).await? == Next::Pass(GatePoint::Execute) => {
                let job = self.new_job(id, Phase::Execute, Ms(0));
                self.pass(&plan, GatePoint::Execute, job, by_whom(GatePoint::Execute)).await?;
            }
            None => return Err(ExecuteError::NotReady { plan: id, state: plan.state }),
        }
        self.house.send_hint(Hint::Work);
        Ok(())
    }

    /// Whether a worker lives that takes any plan that needs these variables.
    pub fn has_worker_for(&self, keys: &BTreeSet<String>) -> bool {
        served(&self.house.options.data_dir).has_for(keys)
    }

    /// Those of these variables that this process was not started with.
    pub fn lacks(&self, keys: &BTreeSet<String>) -> BTreeSet<String> {
        keys.difference(&own_variables()).cloned().collect()
    }

    /// The right to start a worker, which one process has at a time: so that of many who find none, one starts one.
    ///
    /// # Errors
    /// The lock cannot be made or taken.
    pub fn starting(&self) -> std::io::Result<Starting> {
        Starting::take(&self.house.options.data_dir)
    }
}
