//! The configuration of breakers: how they count and cool down, within bounds.

use std::time::Duration;

/// The settings by which breakers count and cool down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// Consecutive failures that open a breaker; 1..=1000.
    pub threshold: u32,
    /// The time for which the breaker is open after the first trip; 10 ms..=24 h. It doubles with every
    /// further trip.
    pub cool_down: Duration,
    /// The bound of that growth; `cool_down`..=24 h.
    pub cool_down_max: Duration,
    /// The time that a probe may take before another one is let in; 10 ms..=24 h.
    pub probe_lease: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            threshold: 3,
            cool_down: Duration::from_secs(30),
            cool_down_max: Duration::from_secs(5 * 60),
            probe_lease: Duration::from_secs(60),
        }
    }
}

/// A value of [`BreakerConfig`] out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerConfigError {
    /// The field.
    pub key: &'static str,
    /// The value that it was set to.
    pub value: String,
    /// The allowed values.
    pub allowed: &'static str,
}

impl std::fmt::Display for BreakerConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "breaker {} is {}, allowed is {}", self.key, self.value, self.allowed)
    }
}

impl std::error::Error for BreakerConfigError {}

impl BreakerConfig {
    pub(super) fn checked(self) -> Result<Self, BreakerConfigError> {
        let shortest = Duration::from_millis(10);
        let longest = Duration::from_secs(24 * 60 * 60);
        let refuse = |key, value: &dyn std::fmt::Debug, allowed| {
            Err(BreakerConfigError { key, value: format!("{value:?}"), allowed })
        };
        if !(1..=1000).contains(&self.threshold) {
            return refuse("threshold", &self.threshold, "1..=1000");
        }
        if !(shortest..=longest).contains(&self.cool_down) {
            return refuse("cool_down", &self.cool_down, "10ms..=24h");
        }
        if !(self.cool_down..=longest).contains(&self.cool_down_max) {
            return refuse("cool_down_max", &self.cool_down_max, "cool_down..=24h");
        }
        if !(shortest..=longest).contains(&self.probe_lease) {
            return refuse("probe_lease", &self.probe_lease, "10ms..=24h");
        }
        Ok(self)
    }

    /// `min(cool_down * 2^(trips - 1), cool_down_max)`.
    pub(super) fn cool_down_of(&self, trips: u64) -> Duration {
        let doublings = trips.saturating_sub(1).min(15) as u32;
        self.cool_down.saturating_mul(1 << doublings).min(self.cool_down_max)
    }
}
