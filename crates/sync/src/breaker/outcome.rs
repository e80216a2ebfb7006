//! Answers of a breaker: to an outcome, to a caller that wants to begin, to an observer.

use std::time::Duration;

/// The effect of a recorded outcome on the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOutcome {
    /// Counted; the breaker stays closed.
    Counted,
    /// This failure opened the breaker.
    Tripped {
        /// For how long.
        cool_down: Duration,
    },
    /// The probe failed: open again.
    Reopened {
        /// For how long.
        cool_down: Duration,
    },
    /// This success closed the breaker.
    Closed,
    /// Given back without an outcome: neither success nor failure.
    Returned,
    /// It belongs to an earlier generation, or says nothing new; nothing was changed.
    Stale,
}

impl RecordOutcome {
    /// Returns whether the breaker opened or closed by it, which is worth an event.
    pub fn is_change(self) -> bool {
        match self {
            Self::Tripped { .. } | Self::Reopened { .. } | Self::Closed => true,
            Self::Counted | Self::Returned | Self::Stale => false,
        }
    }
}

/// The reason why a permit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// Open, and its cool-down is not over.
    CoolingDown,
    /// Half-open, and another one is probing.
    Probing,
}

/// A refused permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub why: RejectReason,
    /// When asking again may succeed.
    pub retry_after: Duration,
}

impl std::fmt::Display for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self.why {
            RejectReason::CoolingDown => "cooling down",
            RejectReason::Probing => "being probed",
        };
        write!(f, "breaker is {why}, retry after {:?}", self.retry_after)
    }
}

impl std::error::Error for Rejected {}

/// A breaker as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerView {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: BreakerState,
    /// The number of times that it opened since it was last closed.
    pub trips: u32,
}

/// The state in a [`BreakerView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Everyone is let in.
    Closed {
        /// Consecutive failures so far.
        failures: u32,
    },
    /// No caller is admitted before then.
    Open {
        /// Until a probe is due.
        retry_after: Duration,
    },
    /// One probe is inside.
    HalfOpen {
        /// Until another one may try.
        lease_left: Duration,
    },
}
