//! Time as the rules see it: a count of milliseconds that the caller passes in.
//!
//! # Invariants
//! Arithmetic saturates: no duration, however odd, makes a deadline wrap into the past.
//!
//! # Not here
//! Clocks. Wall time, [`WallMs`], is for display only.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A monotonic millisecond, counted from a moment that only its clock knows.
///
/// ```
/// use std::time::Duration;
/// use domain::Ms;
///
/// let lease_until = Ms(1_000).saturating_add(Duration::from_secs(30));
/// assert_eq!(lease_until, Ms(31_000));
/// assert_eq!(lease_until.since(Ms(1_000)), Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ms(pub u64);

impl Ms {
    /// The moment `duration` later, in whole milliseconds.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Ms {
        Ms(self.0.saturating_add(Ms::from(duration).0))
    }

    /// Returns how long ago `earlier` was; nothing, when it is yet to come.
    #[must_use]
    pub fn since(self, earlier: Ms) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// The moment this long after the clock's beginning; parts of a millisecond are dropped.
impl From<Duration> for Ms {
    fn from(duration: Duration) -> Ms {
        Ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A millisecond since 1970 in UTC, for people to read. No rule compares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallMs(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_wraps() {
        assert_eq!(Ms(u64::MAX - 1).saturating_add(Duration::from_millis(2)), Ms(u64::MAX));
        assert_eq!(Ms(5).saturating_add(Duration::MAX), Ms(u64::MAX));
        assert_eq!(Ms(5).since(Ms(7)), Duration::ZERO);
    }

    #[test]
    fn time_counts_whole_milliseconds() {
        assert_eq!(Ms::from(Duration::from_micros(2_999)), Ms(2));
        assert_eq!(Ms(5).saturating_add(Duration::from_millis(3)), Ms(8));
        assert_eq!(Ms(8).since(Ms(5)), Duration::from_millis(3));
        assert_eq!(serde_json::to_string(&Ms(8)).unwrap(), "8");
        assert_eq!(serde_json::from_str::<Ms>("8").unwrap(), Ms(8));
    }
}
