//! The bounds of an executor.
//!
//! # Invariants
//! 1. An executor never holds a configuration that was not checked.

use std::fmt;
use std::time::Duration;

const WORKERS_MAX: usize = 32;
const DEADLINE_MIN: Duration = Duration::from_millis(50);
const DEADLINE_MAX: Duration = Duration::from_secs(60);
const STRATEGY_DEADLINE_MIN: Duration = Duration::from_millis(1);

/// The limits of an executor: how many strategies run at once, and how long.
///
/// ```
/// use std::time::Duration;
/// use context::ExecutorConfig;
///
/// let config = ExecutorConfig { max_workers: 8, ..ExecutorConfig::default() };
/// assert_eq!(config.strategy_deadline, Duration::from_secs(2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// Strategies that run at once, over all calls; 1..=32.
    pub max_workers: usize,
    /// The time limit of a batch; 50 ms..=60 s. A request may ask for less.
    pub deadline: Duration,
    /// The time limit of one strategy from its start; 1 ms..=`deadline`.
    pub strategy_deadline: Duration,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        Self { max_workers: 4, deadline: Duration::from_secs(3), strategy_deadline: Duration::from_secs(2) }
    }
}

/// A value of [`ExecutorConfig`] out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("executor {key} is {value}, allowed is {allowed}")]
pub struct ExecutorConfigError {
    /// The field.
    pub key: &'static str,
    /// The rejected value.
    pub value: String,
    /// The allowed values.
    pub allowed: &'static str,
}

impl ExecutorConfig {
    pub(super) fn checked(self) -> Result<Self, ExecutorConfigError> {
        let refuse = |key, value: &dyn fmt::Debug, allowed| {
            Err(ExecutorConfigError { key, value: format!("{value:?}"), allowed })
        };
        if !(1..=WORKERS_MAX).contains(&self.max_workers) {
            return refuse("max_workers", &self.max_workers, "1..=32");
        }
        if !(DEADLINE_MIN..=DEADLINE_MAX).contains(&self.deadline) {
            return refuse("deadline", &self.deadline, "50ms..=60s");
        }
        if !(STRATEGY_DEADLINE_MIN..=self.deadline).contains(&self.strategy_deadline) {
            return refuse("strategy_deadline", &self.strategy_deadline, "1ms..=deadline");
        }
        Ok(self)
    }
}
