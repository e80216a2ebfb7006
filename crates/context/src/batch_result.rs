//! What became of a batch: one [`Run`] per strategy in the order asked for, or a cancel.
//!
//! # Invariants
//! 1. A run has candidates only if its outcome is [`Outcome::Ok`].
//! 2. Every answer of a breaker that is worth an event is in exactly one [`Run`] or one [`BatchCancelled`], so
//!    whoever gets these emits each event once.

use std::time::Duration;

use sync::{CancelReason, Recorded};

use crate::Name;

/// How a strategy ended, or why it did not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
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

/// What one strategy came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<C> {
    /// The strategy's name; `unnamed` if asking for it panicked, which the outcome then says.
    pub name: Name,
    /// How it ended.
    pub outcome: Outcome,
    /// What it proposed, best first, at most its limit.
    pub candidates: Vec<C>,
    /// How many it proposed beyond its limit.
    pub cut: usize,
    /// From its start to its end, or to the deadline that it missed; zero if it did not begin.
    pub elapsed: Duration,
    /// What its circuit breaker said when the run was settled; `None` if it did not begin.
    pub breaker: Option<Recorded>,
}

impl<C> Run<C> {
    /// The opening or closing of a breaker by this run, which is worth an event.
    pub fn change(&self) -> Option<BreakerChange> {
        let recorded = self.breaker.filter(|recorded| recorded.is_change())?;
        Some(BreakerChange { name: self.name.clone(), recorded })
    }
}

/// A circuit breaker that opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerChange {
    /// The strategy's name.
    pub name: Name,
    /// `Tripped`, `Reopened` or `Closed`.
    pub recorded: Recorded,
}

/// The batch was cancelled: there is no partial result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strategies cancelled: {reason}")]
pub struct BatchCancelled {
    /// Why.
    pub reason: CancelReason,
    /// Breakers that opened or closed by strategies which had ended before the cancel was seen.
    pub changes: Vec<BreakerChange>,
}
