//! Counts over many calls: open, skipped, probed, closed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use context::{ExecutorConfig, RunOutcome, StrategyBreakerChange, StrategyError, StrategyRun};
use sync::{BreakerConfig, BreakerState, RecordOutcome};

use crate::support::{
    AnyStrategy, Events, Gate, Line, Rig, background, eventually, fails, finds, hangs, line, millis, name,
    not_started, obeys, ok, secs, strategy, timed_out,
};

const TRIPPED: RecordOutcome = RecordOutcome::Tripped { cool_down: secs(30) };

fn failed(of: &str, breaker: RecordOutcome) -> Line {
    line(of, RunOutcome::Failed("no index".to_owned()), &[], secs(0), Some(breaker))
}

fn open(of: &str, retry_after: Duration) -> Line {
    line(of, RunOutcome::Open { retry_after }, &[], secs(0), None)
}

#[test]
fn a_breaker_opens_after_three_failures_and_the_next_run_is_skipped() {
    let rig = Rig::new();
    let broken = fails("broken");
    let good = finds("good", &[1]);
    for recorded in [RecordOutcome::Counted, RecordOutcome::Counted, TRIPPED] {
        let runs = rig.run(&[Arc::clone(&broken), Arc::clone(&good)]);
        assert_eq!(runs, [failed("broken", recorded), ok("good", &[1])]);
    }
    assert_eq!(rig.run(&[broken, good]), [open("broken", secs(30)), ok("good", &[1])]);
}

#[test]
fn only_a_line_whose_breaker_changed_is_worth_an_event() {
    let change = |recorded| StrategyBreakerChange { name: name("x"), recorded };
    let closed = RecordOutcome::Closed;
    let reopened = RecordOutcome::Reopened { cool_down: secs(60) };
    for recorded in [TRIPPED, reopened, closed] {
        assert_eq!(failed("x", recorded).change(), Some(change(recorded)));
    }
    for recorded in [RecordOutcome::Counted, RecordOutcome::Returned, RecordOutcome::Stale] {
        assert_eq!(failed("x", recorded).change(), None);
    }
    assert_eq!(not_started("x").change(), None);
}

#[test]
fn after_the_cool_down_one_probe_is_let_in_and_closes_the_breaker() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.breakers.record_failure("healing");
    }
    rig.clock.advance(secs(30));
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let probing = rig.begin(&[hangs("healing", &began, &gate)], rig.never());
    heard.expect("began");
    assert_eq!(
        rig.run(&[finds("healing", &[1])]),
        [open("healing", secs(60))],
        "a second one waits for the probe, at most its lease"
    );
    gate.open();
    let closed = line("healing", RunOutcome::Ok, &[7], secs(0), Some(RecordOutcome::Closed));
    assert_eq!(probing.result(), Ok(vec![closed]));
    assert_eq!(rig.run(&[finds("healing", &[1])]), [ok("healing", &[1])]);
}

#[test]
fn a_probe_that_fails_opens_the_breaker_for_longer() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.breakers.record_failure("broken");
    }
    rig.clock.advance(secs(30));
    let reopened = failed("broken", RecordOutcome::Reopened { cool_down: secs(60) });
    assert_eq!(rig.run(&[fails("broken")]), [reopened]);
    assert_eq!(rig.run(&[fails("broken")]), [open("broken", secs(60))]);
}

#[test]
fn a_probe_of_a_hurried_caller_is_given_back_for_the_next_one() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.breakers.record_failure("healing");
    }
    rig.clock.advance(secs(30));
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let hurried = rig.begin(&[hangs("healing", &began, &gate)], rig.within(millis(1)));
    heard.expect("began");
    rig.clock.advance(millis(1));
    assert_eq!(hurried.result(), Ok(vec![timed_out("healing", millis(1), RecordOutcome::Returned)]));
    let closed = line("healing", RunOutcome::Ok, &[1], secs(0), Some(RecordOutcome::Closed));
    assert_eq!(rig.run(&[finds("healing", &[1])]), [closed]);
    gate.open();
}

#[test]
fn a_hundred_hurried_callers_open_no_breaker_and_the_next_request_is_whole() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    for _ in 0..100 {
        let pending = rig.begin(&[obeys("keyword", &began), obeys("graph", &began)], rig.within(millis(1)));
        heard.expect("began");
        heard.expect("began");
        rig.clock.advance(millis(1));
        assert_eq!(
            pending.result(),
            Ok(["keyword", "graph"].map(|of| timed_out(of, millis(1), RecordOutcome::Returned)).to_vec())
        );
        eventually("both have obeyed", || rig.executor.pool().abandoned == 0);
    }
    assert_eq!((rig.failures("keyword"), rig.failures("graph")), (Some(0), Some(0)));
    assert_eq!(
        rig.run(&[finds("keyword", &[1]), finds("graph", &[2])]),
        [ok("keyword", &[1]), ok("graph", &[2])]
    );
}

#[test]
fn a_full_queue_opens_no_breaker() {
    let rig = Rig::with_workers(1);
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let blocking = rig.begin(&[hangs("blocker", &began, &gate)], rig.never());
    heard.expect("began");
    let waiting: Vec<_> = (0..10).map(|_| rig.begin(&[fails("waiting")], rig.within(millis(100)))).collect();
    eventually("all are queued", || rig.executor.pool().queued == 10);
    rig.clock.advance(millis(100));
    for pending in waiting {
        assert_eq!(pending.result(), Ok(vec![not_started("waiting")]));
    }
    assert_eq!(rig.view("waiting"), None, "its breaker was never asked");
    assert_eq!(rig.executor.pool().queued, 0);
    gate.open();
    assert_eq!(
        blocking.result(),
        Ok(vec![Line { elapsed: millis(100), ..ok("blocker", &[7]) }]),
        "the one that ran is unharmed"
    );
    assert_eq!(rig.run(&[finds("waiting", &[1])]), [ok("waiting", &[1])]);
}

#[test]
fn a_late_result_is_dropped_and_counts_no_more() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate)], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(2));
    assert_eq!(pending.result(), Ok(vec![timed_out("slow", secs(2), RecordOutcome::Counted)]));
    gate.open();
    eventually("the late one has returned", || rig.executor.pool().abandoned == 0);
    assert_eq!(rig.failures("slow"), Some(1), "its success came too late to forget the failure");
}

#[test]
fn a_result_from_before_a_reset_is_stale() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate)], rig.never());
    heard.expect("began");
    rig.breakers.reset("slow");
    rig.breakers.record_failure("slow");
    gate.open();
    let stale = line("slow", RunOutcome::Ok, &[7], secs(0), Some(RecordOutcome::Stale));
    assert_eq!(pending.result(), Ok(vec![stale]), "what it found is kept all the same");
    assert_eq!(rig.failures("slow"), Some(1), "the newer state is untouched");
}

#[test]
fn a_failure_from_before_a_trip_is_stale() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let held = {
        let (began, gate) = (began.clone(), gate.clone());
        strategy("broken", move |_, _| {
            began.say("began");
            gate.pass();
            Err(StrategyError::failed("no index"))
        })
    };
    let pending = rig.begin(&[held], rig.never());
    heard.expect("began");
    for _ in 0..3 {
        rig.breakers.record_failure("broken");
    }
    gate.open();
    assert_eq!(pending.result(), Ok(vec![failed("broken", RecordOutcome::Stale)]));
    assert_eq!(rig.view("broken").map(|view| view.trips), Some(1), "it opened once");
}

#[test]
fn sixty_four_calls_at_once_count_every_failure_and_trip_once() {
    let config = ExecutorConfig { max_workers: 8, ..ExecutorConfig::default() };
    let breakers = BreakerConfig { threshold: 128, ..BreakerConfig::default() };
    let rig = Rig::with_breakers(config, breakers);
    // Two per call: exactly the threshold, so the very last failure must be the one that trips.
    let runs = at_once(&rig, 64, || vec![fails("broken"), finds("good", &[1]), fails("broken")]);
    let recorded: Vec<RecordOutcome> = runs
        .iter()
        .filter(|run| run.name == name("broken"))
        .map(|run| run.breaker.expect("each one began"))
        .collect();
    let count = |wanted: RecordOutcome| recorded.iter().filter(|recorded| **recorded == wanted).count();
    assert_eq!((count(RecordOutcome::Counted), count(TRIPPED)), (127, 1));
    assert_eq!(runs.iter().filter_map(StrategyRun::change).count(), 1, "one event");
    assert_eq!(rig.failures("good"), Some(0));
}

#[test]
fn sixty_four_calls_at_once_of_one_that_panics_or_is_skipped_account_for_every_line() {
    let rig = Rig::new();
    let begun = Arc::new(AtomicU32::new(0));
    let runs = at_once(&rig, 64, || {
        let begun = Arc::clone(&begun);
        vec![strategy("broken", move |_, _| {
            begun.fetch_add(1, Ordering::Relaxed);
            panic!("oh")
        })]
    });
    let skipped = runs.iter().filter(|run| matches!(run.outcome, RunOutcome::Open { .. })).count();
    let panicked = runs.iter().filter(|run| run.outcome == RunOutcome::Panicked("oh".to_owned())).count();
    let settled = runs.iter().filter(|run| run.breaker.is_some()).count();
    assert_eq!(skipped + panicked, 64);
    assert_eq!((panicked, settled), (begun.load(Ordering::Relaxed) as usize, panicked));
    let counted = runs.iter().filter(|run| run.breaker == Some(RecordOutcome::Counted)).count();
    assert_eq!(counted, 2, "two below the threshold");
    assert_eq!(runs.iter().filter_map(StrategyRun::change).count(), 1, "one trip, one event");
    let state = rig.view("broken").map(|view| view.state);
    assert_eq!(state, Some(BreakerState::Open { retry_after: secs(30) }));
}

fn at_once(rig: &Rig, calls: usize, strategies: impl Fn() -> Vec<Arc<AnyStrategy>>) -> Vec<Line> {
    let start = Arc::new(Barrier::new(calls));
    let pending: Vec<_> = (0..calls)
        .map(|_| {
            let (rig, strategies, start) = (rig.clone(), strategies(), Arc::clone(&start));
            background(move || {
                start.wait();
                rig.run(&strategies)
            })
        })
        .collect();
    pending.into_iter().flat_map(|pending| pending.result()).collect()
}
