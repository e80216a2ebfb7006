//! Leaves a plan to the workers: its job is held no longer, and one of them comes for it.
//!
//! # Invariants
//! 1. The job is there for all before anybody is told of it, so that no worker looks too early for the last time.
//! 2. A plan that somebody works on is not left to others.
//! 3. A plan whose models want keys that a worker was not started with is not left to it: it stays held, for a worker of
//!    its own that has the environment of whoever leaves it. Keys themselves are neither stored nor sent.

use std::collections::BTreeSet;

use domain::{GatePoint, HELD, JobState, Ms, NewJob, Phase, PlanId, PlanSpec};

use super::execute::ExecuteOptions;
use super::facts::store_error;
use super::hints::Hint;
use super::presence::{Starting, served};
use super::verdict::{Next, by_whom};
use super::{Engine, ExecuteError};

impl Engine {
    /// Leaves the execution of a plan to the workers; or, when these variables are named, to one of its own, since not
    /// every worker that lives has them.
    ///
    /// # Errors
    /// It is not to be executed in its state, or somebody works on it.
    pub async fn leave(&self, id: PlanId, options: ExecuteOptions) -> Result<BTreeSet<String>, ExecuteError> {
        self.begin(id, options).await?;
        self.let_go(id).await
    }

    /// Leaves a plan that failed, or whose owner died, in the same way.
    ///
    /// # Errors
    /// It is final, has an owner that lives, or nothing of it failed.
    pub async fn leave_resumed(&self, id: PlanId) -> Result<BTreeSet<String>, ExecuteError> {
        self.retry(id).await?;
        self.let_go(id).await
    }

    pub(super) async fn let_go(&self, id: PlanId) -> Result<BTreeSet<String>, ExecuteError> {
        let plan = self.house.store.plan(id).await?;
        let lacking = self.workers_lack(&plan.spec);
        let not_before = if lacking.is_empty() { Ms(0) } else { HELD };
        match self.live_job(id).await? {
            Some(job) if job.state == JobState::Running && !self.house.owner_is_gone(&job) => {
                let worker = job.worker.map_or_else(String::new, |worker| format!("worker {worker}"));
                return Err(ExecuteError::Busy { plan: id, worker });
            }
            Some(job) => {
                if lacking.is_empty() {
                    let due = NewJob { id: job.id, plan: id, phase: job.phase, not_before };
                    self.house.store.enqueue(due).await.map_err(store_error)?;
                }
            }
            None if self.next(&plan).await? == Next::Pass(GatePoint::Execute) => {
                let job = self.new_job(id, Phase::Execute, not_before);
                self.pass(&plan, GatePoint::Execute, job, by_whom(GatePoint::Execute)).await?;
            }
            None => return Err(ExecuteError::NotReady { plan: id, state: plan.state }),
        }
        self.house.send_hint(Hint::Work);
        Ok(lacking)
    }

    /// The variables from which keys for the plan's models come here, and which not every worker that lives has.
    fn workers_lack(&self, spec: &PlanSpec) -> BTreeSet<String> {
        let Some(theirs) = served(&self.house.options.data_dir).variables else { return BTreeSet::new() };
        let mut lacking = self.house.key_variables(spec);
        lacking.retain(|name| !theirs.contains(name));
        lacking
    }

    /// Whether a worker lives that serves this plan and no other.
    pub fn has_own_worker(&self, plan: PlanId) -> bool {
        served(&self.house.options.data_dir).plans.contains(&plan)
    }

    /// Whether a worker lives that takes any plan.
    pub fn has_worker(&self) -> bool {
        served(&self.house.options.data_dir).any
    }

    /// The right to start a worker, which one process has at a time: so that of many who find none, one starts one.
    ///
    /// # Errors
    /// The lock cannot be made or taken.
    pub fn starting(&self) -> std::io::Result<Starting> {
        Starting::take(&self.house.options.data_dir)
    }
}
