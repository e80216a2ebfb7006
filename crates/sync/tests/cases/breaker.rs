//! Counts on many threads, the states one by one, bad input.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use sync::{
    BreakerConfig, BreakerConfigError, BreakerState, BreakerView, CircuitBreaker, ManualClock, RecordOutcome,
    RejectReason, Rejected,
};

use crate::on_threads;

const SECOND: Duration = Duration::from_secs(1);

fn breakers(config: BreakerConfig) -> (CircuitBreaker, ManualClock) {
    let clock = ManualClock::new();
    (CircuitBreaker::new(config, Arc::new(clock.clone())).unwrap(), clock)
}

fn threshold(threshold: u32) -> BreakerConfig {
    BreakerConfig { threshold, ..BreakerConfig::default() }
}

fn tripped(config: BreakerConfig) -> (CircuitBreaker, ManualClock) {
    let (breakers, clock) = breakers(BreakerConfig { threshold: 1, ..config });
    breakers.record_failure("s");
    (breakers, clock)
}

#[test]
fn no_failure_is_lost_under_concurrent_records() {
    let (breakers, _clock) = breakers(threshold(1000));
    let answers = on_threads(8, |_| {
        let (mut counted, mut trips, mut stale, mut other) = (0_u32, 0_u32, 0_u32, 0_u32);
        for _ in 0..100_000 {
            match breakers.record_failure("strategy") {
                RecordOutcome::Counted => counted += 1,
                RecordOutcome::Tripped { .. } => trips += 1,
                RecordOutcome::Stale => stale += 1,
                RecordOutcome::Reopened { .. } | RecordOutcome::Closed | RecordOutcome::Returned => {
                    other += 1
                }
            }
        }
        [counted, trips, stale, other]
    });
    let total = answers.into_iter().reduce(|a, b| std::array::from_fn(|i| a[i] + b[i])).unwrap();
    assert_eq!(total, [999, 1, 800_000 - 1000, 0]);
}

#[test]
fn successes_and_failures_on_many_threads_leave_a_state_that_one_of_them_explains() {
    let (breakers, _clock) = breakers(threshold(3));
    for _ in 0..2_000 {
        breakers.reset("s");
        let answers = on_threads(4, |index| match index % 2 {
            0 => breakers.record_failure("s"),
            _ => breakers.record_success("s"),
        });
        let failures = match breakers.snapshot()[0].state {
            BreakerState::Closed { failures } => failures,
            state => panic!("2 failures do not open it: {state:?}"),
        };
        assert!(failures <= 2);
        assert_eq!(answers, [RecordOutcome::Counted; 4]);
    }
}

#[test]
fn one_of_many_threads_probes_and_the_others_are_told_when_to_ask_again() {
    let (breakers, clock) = tripped(BreakerConfig::default());
    clock.advance(30 * SECOND);
    let answers = on_threads(8, |_| breakers.try_acquire("s"));
    let (probes, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(probes.len() == 1 && probes[0].as_ref().unwrap().is_probe());
    let rejected = Rejected { why: RejectReason::Probing, retry_after: 60 * SECOND };
    assert!(refused.into_iter().all(|answer| answer.unwrap_err() == rejected));
}

#[test]
fn a_breaker_opens_at_the_threshold_and_not_before() {
    let (breakers, _clock) = breakers(threshold(3));
    assert_eq!(breakers.record_failure("s"), RecordOutcome::Counted);
    assert_eq!(breakers.record_failure("s"), RecordOutcome::Counted);
    assert!(!breakers.is_open("s"));
    assert_eq!(breakers.record_failure("s"), RecordOutcome::Tripped { cool_down: 30 * SECOND });
    assert!(breakers.is_open("s"));
    assert_eq!(breakers.record_failure("s"), RecordOutcome::Stale);
    let rejected = breakers.try_acquire("s").unwrap_err();
    assert_eq!(rejected, Rejected { why: RejectReason::CoolingDown, retry_after: 30 * SECOND });
    assert_eq!(rejected.to_string(), "breaker is cooling down, retry after 30s");
}

#[test]
fn a_success_forgets_earlier_failures() {
    let (breakers, _clock) = breakers(threshold(2));
    breakers.record_failure("s");
    assert_eq!(breakers.record_success("s"), RecordOutcome::Counted);
    assert_eq!(breakers.record_failure("s"), RecordOutcome::Counted);
    assert!(!breakers.is_open("s"));
}

#[test]
fn nobody_is_let_in_a_millisecond_before_the_cool_down_is_over() {
    let (breakers, clock) = tripped(BreakerConfig::default());
    clock.advance(30 * SECOND - Duration::from_millis(1));
    assert!(breakers.is_open("s"));
    assert!(breakers.try_acquire("s").is_err());
    clock.advance(Duration::from_millis(1));
    assert!(!breakers.is_open("s"));
    assert!(breakers.try_acquire("s").is_ok());
}

#[test]
fn the_cool_down_doubles_with_every_trip_up_to_its_bound() {
    let config = BreakerConfig { cool_down: SECOND, cool_down_max: 5 * SECOND, ..BreakerConfig::default() };
    let (breakers, clock) = tripped(config);
    let mut seen = Vec::new();
    for _ in 0..20 {
        clock.advance(10 * SECOND);
        match breakers.try_acquire("s").unwrap().fail() {
            RecordOutcome::Reopened { cool_down } => seen.push(cool_down.as_secs()),
            answer => panic!("{answer:?}"),
        }
    }
    let mut expected = vec![2, 4];
    expected.resize(20, 5);
    assert_eq!(seen, expected);
    clock.advance(10 * SECOND);
    assert_eq!(breakers.try_acquire("s").unwrap().succeed(), RecordOutcome::Closed);
    assert_eq!(
        breakers.record_failure("s"),
        RecordOutcome::Tripped { cool_down: SECOND },
        "trips start over"
    );
}

#[test]
fn a_probe_that_hangs_for_ever_is_replaced_after_its_lease() {
    let (breakers, clock) = tripped(BreakerConfig::default());
    clock.advance(30 * SECOND);
    let hung = breakers.try_acquire("s").unwrap();
    clock.advance(60 * SECOND);
    let probe = breakers.try_acquire("s").unwrap();
    assert_eq!(hung.succeed(), RecordOutcome::Stale);
    assert!(breakers.is_open("s"), "the new probe is inside");
    assert_eq!(probe.succeed(), RecordOutcome::Closed);
}

#[test]
fn a_late_success_while_open_moves_nothing() {
    let (breakers, _clock) = breakers(threshold(1));
    let late = breakers.try_acquire("s").unwrap();
    let first = breakers.try_acquire("s").unwrap();
    assert!(matches!(first.fail(), RecordOutcome::Tripped { .. }));
    assert_eq!(late.succeed(), RecordOutcome::Stale);
    assert!(breakers.is_open("s"));
}

#[test]
fn an_abandoned_probe_lets_the_next_one_probe_at_once() {
    let (breakers, clock) = tripped(BreakerConfig::default());
    clock.advance(30 * SECOND);
    assert_eq!(breakers.try_acquire("s").unwrap().abandon(), RecordOutcome::Returned);
    let probe = breakers.try_acquire("s").unwrap();
    assert!(probe.is_probe());
    drop(probe);
    assert!(breakers.try_acquire("s").unwrap().is_probe(), "dropping is abandoning");
}

#[test]
fn a_permit_dropped_while_panicking_is_a_failure_and_otherwise_neutral() {
    let (breakers, _clock) = breakers(threshold(1));
    let permit = breakers.try_acquire("s").unwrap();
    assert!(!permit.is_probe());
    drop(permit);
    assert!(!breakers.is_open("s"));
    let permit = breakers.try_acquire("s").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _held = permit;
        panic!("strategy panicked");
    }));
    assert!(panicked.is_err());
    assert!(breakers.is_open("s"));
}

#[test]
fn without_a_permit_success_closes_from_any_state_and_failure_reopens_a_half_open_one() {
    let (breakers, clock) = tripped(BreakerConfig::default());
    assert_eq!(breakers.record_success("s"), RecordOutcome::Closed);
    breakers.record_failure("s");
    clock.advance(30 * SECOND);
    let probe = breakers.try_acquire("s").unwrap();
    assert_eq!(breakers.record_failure("s"), RecordOutcome::Reopened { cool_down: 60 * SECOND });
    assert_eq!(probe.succeed(), RecordOutcome::Stale);
    clock.advance(60 * SECOND);
    let probe = breakers.try_acquire("s").unwrap();
    assert_eq!(breakers.record_success("s"), RecordOutcome::Closed);
    assert_eq!(probe.fail(), RecordOutcome::Stale);
}

#[test]
fn reset_closes_and_makes_earlier_permits_stale() {
    let (breakers, _clock) = breakers(threshold(2));
    let before = breakers.try_acquire("a").unwrap();
    breakers.record_failure("a");
    breakers.reset("a");
    assert_eq!(before.fail(), RecordOutcome::Stale);
    assert_eq!(breakers.record_failure("a"), RecordOutcome::Counted, "the count began anew");
    breakers.record_failure("a");
    breakers.record_failure("b");
    breakers.record_failure("b");
    assert!(breakers.is_open("a") && breakers.is_open("b"));
    breakers.reset_all();
    assert!(!breakers.is_open("a") && !breakers.is_open("b"));
}

#[test]
fn a_snapshot_is_sorted_by_name_and_tells_each_state() {
    let (breakers, clock) = tripped(BreakerConfig { threshold: 1, ..BreakerConfig::default() });
    clock.advance(30 * SECOND);
    let probe = breakers.try_acquire("s").unwrap();
    breakers.record_failure("open");
    breakers.handle("closed");
    clock.advance(SECOND);
    let view = |name: &str, state, trips| BreakerView { name: name.to_owned(), state, trips };
    assert_eq!(
        breakers.snapshot(),
        [
            view("closed", BreakerState::Closed { failures: 0 }, 0),
            view("open", BreakerState::Open { retry_after: 29 * SECOND }, 1),
            view("s", BreakerState::HalfOpen { lease_left: 59 * SECOND }, 1),
        ]
    );
    let rejected = breakers.try_acquire("s").unwrap_err();
    assert_eq!(rejected.to_string(), "breaker is being probed, retry after 59s");
    probe.abandon();
}

#[test]
fn asking_about_an_unknown_name_creates_nothing() {
    let (breakers, _clock) = breakers(BreakerConfig::default());
    assert!(!breakers.is_open("unknown"));
    assert_eq!(breakers.record_success("unknown"), RecordOutcome::Counted);
    breakers.reset("unknown");
    assert_eq!(breakers.snapshot(), []);
}

#[test]
fn the_empty_name_is_a_name_like_any_other() {
    let (breakers, _clock) = breakers(threshold(1));
    breakers.record_failure("");
    assert!(breakers.is_open(""));
    assert!(!breakers.is_open("s"));
    assert_eq!(breakers.handle("").name(), "");
}

#[test]
fn clones_and_handles_are_the_same_breakers() {
    let (breakers, _clock) = breakers(threshold(1));
    let handle = breakers.handle("s");
    breakers.clone().record_failure("s");
    assert!(handle.is_open() && handle.clone().is_open());
    handle.reset();
    assert!(!breakers.is_open("s"));
}

#[test]
fn a_configuration_out_of_bounds_is_refused_with_what_is_allowed() {
    let good = BreakerConfig::default();
    let day = Duration::from_secs(24 * 60 * 60);
    let over = day + Duration::from_nanos(1);
    let under = Duration::from_millis(10) - Duration::from_nanos(1);
    let refused = [
        (BreakerConfig { threshold: 0, ..good.clone() }, "threshold", "0", "1..=1000"),
        (BreakerConfig { threshold: 1001, ..good.clone() }, "threshold", "1001", "1..=1000"),
        (BreakerConfig { cool_down: under, ..good.clone() }, "cool_down", "9.999999ms", "10ms..=24h"),
        (BreakerConfig { cool_down: over, ..good.clone() }, "cool_down", "86400.000000001s", "10ms..=24h"),
        (
            BreakerConfig { cool_down_max: 29 * SECOND, ..good.clone() },
            "cool_down_max",
            "29s",
            "cool_down..=24h",
        ),
        (
            BreakerConfig { cool_down_max: over, ..good.clone() },
            "cool_down_max",
            "86400.000000001s",
            "cool_down..=24h",
        ),
        (BreakerConfig { probe_lease: under, ..good.clone() }, "probe_lease", "9.999999ms", "10ms..=24h"),
        (
            BreakerConfig { probe_lease: over, ..good.clone() },
            "probe_lease",
            "86400.000000001s",
            "10ms..=24h",
        ),
    ];
    for (config, key, value, allowed) in refused {
        let error = CircuitBreaker::new(config, Arc::new(ManualClock::new())).unwrap_err();
        assert_eq!(error, BreakerConfigError { key, value: value.to_owned(), allowed });
        assert_eq!(error.to_string(), format!("breaker {key} is {value}, allowed is {allowed}"));
    }
    let widest = BreakerConfig { threshold: 1000, cool_down: day, cool_down_max: day, probe_lease: day };
    assert!(CircuitBreaker::new(widest, Arc::new(ManualClock::new())).is_ok());
}

#[test]
fn a_clock_that_began_long_ago_cools_down_like_any_other() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(3 * 365 * 24 * 3600));
    let breakers = CircuitBreaker::new(threshold(1), Arc::new(clock.clone())).unwrap();
    breakers.record_failure("s");
    assert!(breakers.is_open("s"));
    clock.advance(30 * SECOND);
    assert!(!breakers.is_open("s"));
}

#[test]
fn a_clock_past_the_last_tick_still_lets_a_probe_in() {
    let (breakers, clock) = breakers(threshold(1));
    clock.advance(Duration::from_secs(u64::from(u32::MAX)));
    breakers.record_failure("s");
    assert!(breakers.try_acquire("s").is_ok(), "saturated ticks are due, never stuck");
}

#[test]
fn only_openings_and_closings_are_changes() {
    let cool_down = SECOND;
    let changes =
        [RecordOutcome::Tripped { cool_down }, RecordOutcome::Reopened { cool_down }, RecordOutcome::Closed];
    assert!(changes.into_iter().all(RecordOutcome::is_change));
    let others = [RecordOutcome::Counted, RecordOutcome::Returned, RecordOutcome::Stale];
    assert!(!others.into_iter().any(RecordOutcome::is_change));
}

#[test]
fn debug_output_names_the_breaker_and_its_state() {
    let (breakers, _clock) = breakers(threshold(7));
    let permit = breakers.try_acquire("s").unwrap();
    assert_eq!(format!("{permit:?}"), r#"Permit { name: "s", is_probe: false, .. }"#);
    assert!(format!("{:?}", breakers.handle("s")).contains("Closed { failures: 0 }"));
    assert!(format!("{breakers:?}").contains("threshold: 7"));
    assert!(format!("{:?}", CircuitBreaker::default()).contains("threshold: 3"));
}
