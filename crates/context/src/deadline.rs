//! A cancellation and a deadline in one value that work polls.
//!
//! # Invariants
//! 1. Once a [`StopCheck`] said stop, it says so for ever: a cancelled generation stays cancelled, a clock
//!    never goes back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sync::{CancelReason, Clock, Observed};

/// A signal that work polls, after at most 1 ms each time, to learn that no caller waits for it any more.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use context::{StopCheck, StopCause};
/// use sync::{CancellationToken, Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let token = CancellationToken::new();
/// let stop = StopCheck::new(token.observe(), Some(Duration::from_secs(2)), Arc::new(clock.clone()));
/// assert_eq!(stop.check(), Ok(()));
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(stop.check(), Err(StopCause::DeadlinePassed));
/// ```
#[derive(Clone)]
pub struct StopCheck {
    observed: Observed,
    deadline: Option<Duration>,
    clock: Arc<dyn Clock>,
}

/// The reason to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopCause {
    /// It was cancelled.
    #[error("cancelled: {0}")]
    Cancelled(CancelReason),
    /// Its time is over.
    #[error("deadline passed")]
    DeadlinePassed,
}

impl StopCheck {
    /// Stops when `observed` is cancelled, or `clock` reaches `deadline` (`None`: never).
    pub fn new(observed: Observed, deadline: Option<Duration>, clock: Arc<dyn Clock>) -> Self {
        Self { observed, deadline, clock }
    }

    /// Returns true if the work must stop now.
    pub fn should_stop(&self) -> bool {
        self.observed.is_cancelled() || self.is_due()
    }

    /// `Err` once it is time to stop, for use with `?`.
    ///
    /// # Errors
    /// [`StopCause`], with the reason; of a cancel and a deadline the cancel.
    pub fn check(&self) -> Result<(), StopCause> {
        match self.observed.reason() {
            Some(reason) => Err(StopCause::Cancelled(reason)),
            None if self.is_due() => Err(StopCause::DeadlinePassed),
            None => Ok(()),
        }
    }

    /// The time left until the deadline; `None` if there is no deadline.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_sub(self.clock.now()))
    }

    /// The same, at half of the time that is left: for the first of two parts of some work.
    pub(crate) fn halfway(&self) -> StopCheck {
        let now = self.clock.now();
        let half = |deadline: Duration| now.saturating_add(deadline.saturating_sub(now) / 2);
        StopCheck { deadline: self.deadline.map(half), ..self.clone() }
    }

    /// The cancellation alone, for work that waits for it.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    fn is_due(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.clock.now() >= deadline)
    }
}

impl fmt::Debug for StopCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop")
            .field("observed", &self.observed)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
