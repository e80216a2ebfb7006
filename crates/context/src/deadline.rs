//! When to give up: a cancellation and a deadline in one thing to look at.
//!
//! # Invariants
//! 1. Once a [`Stop`] said stop, it says so for ever: a cancelled generation stays cancelled, a clock never
//!    goes back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sync::{CancelReason, Clock, Observed};

/// What work looks at, after at most 1 ms each time, to learn that nobody waits for it any more.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use context::{Stop, Stopped};
/// use sync::{CancellationToken, Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let token = CancellationToken::new();
/// let stop = Stop::new(token.observe(), Some(Duration::from_secs(2)), Arc::new(clock.clone()));
/// assert_eq!(stop.check(), Ok(()));
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(stop.check(), Err(Stopped::DeadlinePassed));
/// ```
#[derive(Clone)]
pub struct Stop {
    observed: Observed,
    deadline: Option<Duration>,
    clock: Arc<dyn Clock>,
}

/// Why to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// It was cancelled.
    #[error("cancelled: {0}")]
    Cancelled(CancelReason),
    /// Its time is over.
    #[error("deadline passed")]
    DeadlinePassed,
}

impl Stop {
    /// Stops when `observed` is cancelled, or `clock` reaches `deadline` (`None`: never).
    pub fn new(observed: Observed, deadline: Option<Duration>, clock: Arc<dyn Clock>) -> Self {
        Self { observed, deadline, clock }
    }

    /// Whether to stop now.
    pub fn should_stop(&self) -> bool {
        self.observed.is_cancelled() || self.is_due()
    }

    /// `Err` once it is time to stop, for use with `?`.
    ///
    /// # Errors
    /// [`Stopped`], with the reason; of a cancel and a deadline the cancel.
    pub fn check(&self) -> Result<(), Stopped> {
        match self.observed.reason() {
            Some(reason) => Err(Stopped::Cancelled(reason)),
            None if self.is_due() => Err(Stopped::DeadlinePassed),
            None => Ok(()),
        }
    }

    /// The time left until the deadline; `None` if there is no deadline.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_sub(self.clock.now()))
    }

    /// The same, at half of the time that is left: for the first of two parts of some work.
    pub(crate) fn halfway(&self) -> Stop {
        let now = self.clock.now();
        let half = |deadline: Duration| now.saturating_add(deadline.saturating_sub(now) / 2);
        Stop { deadline: self.deadline.map(half), ..self.clone() }
    }

    /// The cancellation alone, for work that waits for it.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    fn is_due(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.clock.now() >= deadline)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop")
            .field("observed", &self.observed)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
