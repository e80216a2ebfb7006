//! What the end of a run means: for its circuit breaker, and for the receipt.
//!
//! | end of a run | permit | outcome |
//! |---|---|---|
//! | candidates, or none | succeed | `Ok`, `Empty` |
//! | error; panic | fail | `Failed`, `Panicked` |
//! | a deadline passed, and it had run for half of `strategy_deadline` or more | fail | `TimedOut` |
//! | a deadline passed sooner: a hurried caller, a late start | abandon | `TimedOut` |
//! | no share, or no turn by the deadline | none taken | `NotStarted` |
//! | refused by its breaker; too many abandoned runs alive | none taken | `Open`; `Hung` |
//! | cancelled | abandon | none: the batch has no result |
//!
//! So neither a caller in a hurry nor a full queue opens a breaker for others.
//!
//! # Invariants
//! 1. How long a run took that missed its deadline is counted to the deadline, not to whenever somebody looked:
//!    a busy machine turns no hurried caller into a failing strategy.
//! 2. No lock is held here.

use std::time::Duration;

use sync::Recorded;

use super::slots::{Answer, End, NotBegun, Started};
use crate::{Name, Outcome, Run};

/// Settles the permit that `end` holds, if it holds one, and writes the line; a cancelled run has none.
pub(super) fn settle<C>(name: Name, end: End<C>, strategy_deadline: Duration) -> Option<Run<C>> {
    match end {
        End::NotBegun(why) => Some(not_begun(name, why)),
        End::Answered { started, answer, at } => Some(answered(name, started, answer, at)),
        End::Late(started) | End::Overdue(started) => Some(timed_out(name, started, strategy_deadline)),
        End::Cancelled(started) => {
            started.permit.abandon();
            None
        }
    }
}

fn not_begun<C>(name: Name, why: NotBegun) -> Run<C> {
    let outcome = match why {
        NotBegun::Rejected { retry_after } => Outcome::Open { retry_after },
        NotBegun::Hung => Outcome::Hung,
        NotBegun::NoShare | NotBegun::NoTurn => Outcome::NotStarted,
        NotBegun::Unnamed(message) => Outcome::Panicked(message),
    };
    line(name, outcome, Duration::ZERO, None)
}

fn answered<C>(name: Name, started: Started, answer: Answer<C>, at: Duration) -> Run<C> {
    let elapsed = at.saturating_sub(started.at);
    match answer {
        Answer::Found { candidates, cut } => {
            let outcome = if candidates.is_empty() { Outcome::Empty } else { Outcome::Ok };
            let breaker = Some(started.permit.succeed());
            Run { name, outcome, candidates, cut, elapsed, breaker }
        }
        Answer::Failed(message) => line(name, Outcome::Failed(message), elapsed, Some(started.permit.fail())),
        Answer::Panicked(message) => {
            line(name, Outcome::Panicked(message), elapsed, Some(started.permit.fail()))
        }
    }
}

fn timed_out<C>(name: Name, started: Started, strategy_deadline: Duration) -> Run<C> {
    let ran = started.due.saturating_sub(started.at);
    let had_its_chance = ran >= strategy_deadline / 2;
    let breaker = if had_its_chance { started.permit.fail() } else { started.permit.abandon() };
    line(name, Outcome::TimedOut, ran, Some(breaker))
}

fn line<C>(name: Name, outcome: Outcome, elapsed: Duration, breaker: Option<Recorded>) -> Run<C> {
    Run { name, outcome, candidates: Vec::new(), cut: 0, elapsed, breaker }
}
