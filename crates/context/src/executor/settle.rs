//! Settles the end of a run: for its circuit breaker, and for the receipt.
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
//! 1. The time of a run that missed its deadline is counted to the deadline, not to the moment at which a
//!    caller looked. A busy machine turns no hurried caller into a failing strategy.
//! 2. No lock is held here.

use std::time::Duration;

use sync::RecordOutcome;

use super::slots::{SlotEnd, StartRefusal, StartedStrategy, StrategyAnswer};
use crate::{Name, RunOutcome, StrategyRun};

/// Settles the permit that `end` holds, if it holds one, and writes the line; a cancelled run has none.
pub(super) fn settle<C>(name: Name, end: SlotEnd<C>, strategy_deadline: Duration) -> Option<StrategyRun<C>> {
    match end {
        SlotEnd::NotBegun(why) => Some(settle_refused(name, why)),
        SlotEnd::Answered { started, answer, at } => Some(settle_answer(name, started, answer, at)),
        SlotEnd::Late(started) | SlotEnd::Overdue(started) => {
            Some(settle_timeout(name, started, strategy_deadline))
        }
        SlotEnd::Cancelled(started) => {
            started.permit.abandon();
            None
        }
    }
}

fn settle_refused<C>(name: Name, why: StartRefusal) -> StrategyRun<C> {
    let outcome = match why {
        StartRefusal::Rejected { retry_after } => RunOutcome::Open { retry_after },
        StartRefusal::Hung => RunOutcome::Hung,
        StartRefusal::NoShare | StartRefusal::NoTurn => RunOutcome::NotStarted,
        StartRefusal::Unnamed(message) => RunOutcome::Panicked(message),
    };
    line(name, outcome, Duration::ZERO, None)
}

fn settle_answer<C>(
    name: Name,
    started: StartedStrategy,
    answer: StrategyAnswer<C>,
    at: Duration,
) -> StrategyRun<C> {
    let elapsed = at.saturating_sub(started.at);
    match answer {
        StrategyAnswer::Found { candidates, cut } => {
            let outcome = if candidates.is_empty() { RunOutcome::Empty } else { RunOutcome::Ok };
            let breaker = Some(started.permit.succeed());
            StrategyRun { name, outcome, candidates, cut, elapsed, breaker }
        }
        StrategyAnswer::Failed(message) => {
            line(name, RunOutcome::Failed(message), elapsed, Some(started.permit.fail()))
        }
        StrategyAnswer::Panicked(message) => {
            line(name, RunOutcome::Panicked(message), elapsed, Some(started.permit.fail()))
        }
    }
}

fn settle_timeout<C>(name: Name, started: StartedStrategy, strategy_deadline: Duration) -> StrategyRun<C> {
    let ran = started.due.saturating_sub(started.at);
    let had_its_chance = ran >= strategy_deadline / 2;
    let breaker = if had_its_chance { started.permit.fail() } else { started.permit.abandon() };
    line(name, RunOutcome::TimedOut, ran, Some(breaker))
}

fn line<C>(
    name: Name,
    outcome: RunOutcome,
    elapsed: Duration,
    breaker: Option<RecordOutcome>,
) -> StrategyRun<C> {
    StrategyRun { name, outcome, candidates: Vec::new(), cut: 0, elapsed, breaker }
}
