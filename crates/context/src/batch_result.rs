//! The result of a batch: one [`StrategyRun`] per strategy in the order of the request, or a cancellation.
//!
//! # Invariants
//! 1. A run has candidates only if its outcome is [`RunOutcome::Ok`].
//! 2. Every answer of a breaker that is worth an event is in exactly one [`StrategyRun`] or one
//!    [`BatchCancelled`]. So the caller that receives these emits each event once.

use std::time::Duration;

use sync::{CancelReason, RecordOutcome};

use crate::Name;

/// The outcome of a strategy, or the reason why it did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// It found something.
    Ok,
    /// It ended well and found nothing.
    Empty,
    /// Its circuit breaker is open, so it was skipped.
    Open {
        /// When asking again may succeed.
        retry_after: Duration,
    },
    /// It returned an error: the message with its causes, at most 2 KiB.
    Failed(String),
    /// It panicked: the message, at most 2 KiB.
    Panicked(String),
    /// It began, and a deadline passed before it ended.
    TimedOut,
    /// It had no share, or its turn did not come by the deadline.
    NotStarted,
    /// Earlier runs of it were abandoned and have not returned yet, so it was not begun once more.
    Hung,
}

/// The run of one strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyRun<C> {
    /// The strategy's name; `unnamed` if asking for it panicked, which the outcome then says.
    pub name: Name,
    /// Its end.
    pub outcome: RunOutcome,
    /// The candidates that the strategy proposed, best first, at most its limit.
    pub candidates: Vec<C>,
    /// The number of candidates that it proposed beyond its limit.
    pub cut: usize,
    /// From its start to its end, or to the deadline that it missed; zero if it did not begin.
    pub elapsed: Duration,
    /// The outcome that the circuit breaker recorded when the run was settled; `None` if the run did not
    /// begin.
    pub breaker: Option<RecordOutcome>,
}

impl<C> StrategyRun<C> {
    /// The opening or closing of a breaker by this run, which is worth an event.
    pub fn change(&self) -> Option<StrategyBreakerChange> {
        let recorded = self.breaker.filter(|recorded| recorded.is_change())?;
        Some(StrategyBreakerChange { name: self.name.clone(), recorded })
    }
}

/// A circuit breaker that opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyBreakerChange {
    /// The strategy's name.
    pub name: Name,
    /// `Tripped`, `Reopened` or `Closed`.
    pub recorded: RecordOutcome,
}

/// The batch was cancelled: there is no partial result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strategies cancelled: {reason}")]
pub struct BatchCancelled {
    /// The reason.
    pub reason: CancelReason,
    /// Breakers that opened or closed by strategies which had ended before the cancel was seen.
    pub changes: Vec<StrategyBreakerChange>,
}
