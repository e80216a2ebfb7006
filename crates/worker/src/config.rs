//! The configuration of a worker, and its bounds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::{BootId, PlanId};

/// The configuration of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The number of jobs that this worker runs at once (`async.max_workers`); 1..=1024.
    pub max_workers: usize,
    /// The time for which a job stays owned without a heartbeat. Its default and its bounds are those of the
    /// setting `async.lease`.
    pub lease: Duration,
    /// The number of jobs that may run at once in the whole store (`plan.concurrency`); 1..=1024.
    pub plan_concurrency: u32,
    /// Serve only this plan, as a command in the foreground does.
    pub only: Option<PlanId>,
    /// The variables that it was started with: jobs that want others are left to others.
    pub variables: Arc<BTreeSet<String>>,
    /// The boot of this machine: a lease of an earlier boot is dead.
    pub boot: BootId,
    /// The interval at which an idle worker looks for jobs without a hint; 10 ms..=1 min.
    pub idle_poll: Duration,
    /// The time for which an ending run waits for its work and its effects before it continues without them;
    /// 0..=1 min.
    pub cancel_wait: Duration,
    /// The time that a runner has to wind down; 0..=10 min.
    pub wind_down_wait: Duration,
}

/// A value of [`WorkerConfig`] out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {key} is {value}, allowed is {allowed}")]
pub struct WorkerConfigError {
    /// The field.
    pub key: &'static str,
    /// The value that was set.
    pub value: String,
    /// The allowed values.
    pub allowed: &'static str,
}

impl WorkerConfig {
    /// The defaults, in the boot `boot` and with this lease.
    pub fn new(boot: BootId, lease: Duration) -> Self {
        Self {
            max_workers: 4,
            lease,
            plan_concurrency: 4,
            only: None,
            variables: Arc::default(),
            boot,
            idle_poll: Duration::from_secs(1),
            cancel_wait: Duration::from_secs(5),
            wind_down_wait: Duration::from_secs(30),
        }
    }

    pub(crate) fn checked(self) -> Result<Self, WorkerConfigError> {
        let refuse = |key, value: &dyn std::fmt::Debug, allowed| {
            Err(WorkerConfigError { key, value: format!("{value:?}"), allowed })
        };
        let minute = Duration::from_secs(60);
        if !(1..=1024).contains(&self.max_workers) {
            return refuse("max_workers", &self.max_workers, "1..=1024");
        }
        if !(1..=1024).contains(&self.plan_concurrency) {
            return refuse("plan_concurrency", &self.plan_concurrency, "1..=1024");
        }
        if !(Duration::from_millis(10)..=minute).contains(&self.idle_poll) {
            return refuse("idle_poll", &self.idle_poll, "10ms..=1min");
        }
        if self.cancel_wait > minute {
            return refuse("cancel_wait", &self.cancel_wait, "0..=1min");
        }
        if self.wind_down_wait > 10 * minute {
            return refuse("wind_down_wait", &self.wind_down_wait, "0..=10min");
        }
        Ok(self)
    }
}
