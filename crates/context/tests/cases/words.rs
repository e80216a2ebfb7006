//! Names, stops and configuration.

use std::sync::Arc;
use std::time::Duration;

use context::{
    ExecutorConfig, ExecutorConfigError, Name, NameError, ParallelStrategyExecutor, StopCause, StopCheck,
    StrategyError,
};
use sync::{CancelReason, CancellationToken, CircuitBreaker, ManualClock};

use crate::support::{AnyStrategy, Rig, millis, name, secs};

#[test]
fn names_are_words_joined_by_dashes_or_underscores() {
    let longest = "a".repeat(64);
    for good in ["a", "simple-keyword", "a1", "a_b-c9", "x-1", longest.as_str()] {
        assert_eq!(good.parse::<Name>().map(|name| name.to_string()), Ok(good.to_owned()));
    }
}

#[test]
fn what_is_no_name_is_refused_with_its_place() {
    let misplaced = |name: &str, at, found| NameError::Misplaced { name: name.to_owned(), found, at };
    for (bad, error) in [
        ("", NameError::Empty),
        (&"a".repeat(65), NameError::TooLong { chars: 65 }),
        (&"é".repeat(65), NameError::TooLong { chars: 65 }),
        ("1a", misplaced("1a", 0, '1')),
        ("-a", misplaced("-a", 0, '-')),
        ("_", misplaced("_", 0, '_')),
        ("Keyword", misplaced("Keyword", 0, 'K')),
        ("a--b", misplaced("a--b", 2, '-')),
        ("a-_b", misplaced("a-_b", 2, '_')),
        ("a-", misplaced("a-", 1, '-')),
        ("a b", misplaced("a b", 1, ' ')),
        ("a/b", misplaced("a/b", 1, '/')),
        ("naïve", misplaced("naïve", 2, 'ï')),
        ("a\n", misplaced("a\n", 1, '\n')),
    ] {
        assert_eq!(bad.parse::<Name>(), Err(error), "{bad:?}");
    }
}

#[test]
fn a_bad_name_says_what_is_wrong() {
    let message = |text: &str| text.parse::<Name>().expect_err("bad").to_string();
    assert_eq!(message(""), "name is empty, expected a letter a-z first");
    assert_eq!(message(&"a".repeat(70)), "name has 70 characters, allowed are 64");
    assert_eq!(message("a b"), "name `a b` has ' ' at 1, expected words of a-z and 0-9 joined by `-` or `_`");
}

#[test]
fn a_name_prints_as_it_was_given() {
    assert_eq!(format!("{0} {0:?}", name("simple-keyword")), "simple-keyword Name(simple-keyword)");
}

#[test]
fn a_stop_without_a_deadline_waits_for_the_cancel_alone() {
    let clock = ManualClock::new();
    let token = CancellationToken::new();
    let stop = StopCheck::new(token.observe(), None, Arc::new(clock.clone()));
    clock.advance(secs(1_000_000));
    assert_eq!((stop.should_stop(), stop.check(), stop.remaining()), (false, Ok(()), None));
    token.cancel(CancelReason::Sibling);
    assert!(stop.should_stop());
    assert_eq!(stop.check(), Err(StopCause::Cancelled(CancelReason::Sibling)));
}

#[test]
fn a_stop_says_stop_at_its_deadline_and_not_before() {
    let clock = ManualClock::new();
    let token = CancellationToken::new();
    let stop = StopCheck::new(token.observe(), Some(millis(10)), Arc::new(clock.clone()));
    clock.advance(millis(9));
    assert_eq!((stop.should_stop(), stop.check(), stop.remaining()), (false, Ok(()), Some(millis(1))));
    clock.advance(millis(1));
    let passed = Err(StopCause::DeadlinePassed);
    assert_eq!((stop.should_stop(), stop.check(), stop.remaining()), (true, passed, Some(secs(0))));
    clock.advance(millis(1));
    assert_eq!(stop.remaining(), Some(secs(0)));
    token.cancel(CancelReason::User);
    assert_eq!(stop.check(), Err(StopCause::Cancelled(CancelReason::User)), "the cancel is the reason");
}

#[test]
fn a_reset_does_not_revive_what_was_stopped() {
    let token = CancellationToken::new();
    let stop = StopCheck::new(token.observe(), None, Arc::new(ManualClock::new()));
    token.cancel(CancelReason::User);
    token.reset();
    assert!(stop.should_stop());
}

#[test]
fn reasons_to_stop_are_told() {
    let cancelled = StrategyError::from(StopCause::Cancelled(CancelReason::Shutdown));
    assert_eq!(cancelled.to_string(), "cancelled: shutting down");
    assert_eq!(StrategyError::from(StopCause::DeadlinePassed).to_string(), "deadline passed");
    assert_eq!(StrategyError::failed("no index").to_string(), "no index");
}

fn made(config: ExecutorConfig) -> Result<(), ExecutorConfigError> {
    let clock = Arc::new(ManualClock::new());
    ParallelStrategyExecutor::<AnyStrategy>::new(config, CircuitBreaker::default(), clock).map(drop)
}

fn config(max_workers: usize, deadline: Duration, strategy_deadline: Duration) -> ExecutorConfig {
    ExecutorConfig { max_workers, deadline, strategy_deadline }
}

#[test]
fn the_defaults_are_four_workers_three_seconds_and_two_each() {
    assert_eq!(ExecutorConfig::default(), config(4, secs(3), secs(2)));
}

#[test]
fn configurations_within_their_bounds_are_taken() {
    for good in [
        ExecutorConfig::default(),
        config(1, millis(50), millis(1)),
        config(32, secs(60), secs(60)),
        config(4, millis(50), millis(50)),
    ] {
        assert_eq!(made(good), Ok(()));
    }
}

#[test]
fn configurations_out_of_their_bounds_are_refused_by_name() {
    let error =
        |key, value: &str, allowed| Err(ExecutorConfigError { key, value: value.to_owned(), allowed });
    for (bad, error) in [
        (config(0, secs(3), secs(2)), error("max_workers", "0", "1..=32")),
        (config(33, secs(3), secs(2)), error("max_workers", "33", "1..=32")),
        (config(4, millis(49), millis(49)), error("deadline", "49ms", "50ms..=60s")),
        (config(4, millis(60_001), secs(2)), error("deadline", "60.001s", "50ms..=60s")),
        (config(4, secs(3), millis(3001)), error("strategy_deadline", "3.001s", "1ms..=deadline")),
        (config(4, secs(3), secs(0)), error("strategy_deadline", "0ns", "1ms..=deadline")),
    ] {
        assert_eq!(made(bad), error);
    }
}

#[test]
fn a_refused_configuration_says_what_is_allowed() {
    let error = made(config(0, secs(3), secs(2))).expect_err("refused");
    assert_eq!(error.to_string(), "executor max_workers is 0, allowed is 1..=32");
}

#[test]
fn what_is_shared_can_be_printed() {
    let stop =
        StopCheck::new(CancellationToken::new().observe(), Some(secs(1)), Arc::new(ManualClock::new()));
    assert_eq!(
        format!("{stop:?}"),
        "Stop { observed: Observed { generation: 0, reason: None, .. }, deadline: Some(1s), .. }"
    );
    let rig = Rig::with_workers(2);
    assert_eq!(
        format!("{:?}", rig.executor),
        "ParallelStrategyExecutor { config: ExecutorConfig { max_workers: 2, deadline: 3s, strategy_deadline: 2s }, \
         pool: PoolView { live: 0, running: 0, abandoned: 0, queued: 0 }, .. }"
    );
}
