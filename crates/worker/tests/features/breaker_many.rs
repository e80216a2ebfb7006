//! Steps of #7088: many threads at the circuit breakers, with exact totals.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

use cucumber::{then, when};
use sync::{BreakerState, BreakerView, RecordOutcome};

use crate::breaker::{COOL_DOWN, TRIPPED, call_every_operation, closed};
use crate::threads::{all_at_once, apart};
use crate::world::Features;

/// What the scenarios of many threads have, beside the breakers.
#[derive(Default)]
pub(crate) struct Scene {
    /// What all recording threads were told.
    told: Vec<RecordOutcome>,
    /// The same, by strategy.
    told_of: BTreeMap<String, Vec<RecordOutcome>>,
    meetings: Vec<Meeting>,
}

#[when(expr = "{int} threads record {int} failure(s) of {string} each, all starting at once")]
fn many_failures(world: &mut Features, threads: usize, each: usize, strategy: String) {
    let breakers = world.breaker.ours();
    let told = all_at_once(threads, move |_| -> Vec<RecordOutcome> {
        (0..each).map(|_| breakers.record_failure(&strategy)).collect()
    });
    world.breaker_many.told = told.into_iter().flatten().collect();
}

#[when(
    expr = "{int} threads record {int} failures of each of {string}, {string} and {string}, all starting at once"
)]
fn many_failures_of_three(
    world: &mut Features,
    threads: usize,
    each: usize,
    one: String,
    two: String,
    three: String,
) {
    let breakers = world.breaker.ours();
    all_at_once(threads, move |_| {
        for strategy in [&one, &two, &three].into_iter().cycle().take(each * 3) {
            breakers.record_failure(strategy);
        }
    });
}

#[then(expr = "{int} of these failures opened the breaker, and {int} was/were counted")]
fn told_in_all(world: &mut Features, opened: usize, counted: usize) {
    assert_told(&world.breaker_many.told, opened, counted);
}

fn assert_told(told: &[RecordOutcome], opened: usize, counted: usize) {
    let how_many = |what| told.iter().filter(|answer| **answer == what).count();
    assert_eq!(
        (how_many(TRIPPED), how_many(RecordOutcome::Counted), told.len()),
        (opened, counted, opened + counted),
    );
}

#[when(
    expr = "{int} threads record {int} failures each, all starting at once, of one after the other of {int} strategies"
)]
fn many_failures_of_many(world: &mut Features, threads: usize, each: usize, strategies: usize) {
    let breakers = world.breaker.ours();
    let names: Vec<String> = (1..=strategies).map(|number| format!("strategy-{number}")).collect();
    let (shared, start) = (names.clone(), Arc::new(Barrier::new(threads)));
    let told = all_at_once(threads, move |_| -> Vec<Vec<RecordOutcome>> {
        let record = |name: &String| {
            start.wait();
            (0..each).map(|_| breakers.record_failure(name)).collect()
        };
        shared.iter().map(record).collect()
    });
    for by_strategy in told {
        for (name, answers) in names.iter().zip(by_strategy) {
            world.breaker_many.told_of.entry(name.clone()).or_default().extend(answers);
        }
    }
}

#[then(expr = "of each strategy {int} failure(s) opened the breaker, and {int} were counted")]
fn told_of_each(world: &mut Features, opened: usize, counted: usize) {
    assert!(!world.breaker_many.told_of.is_empty());
    for told in world.breaker_many.told_of.values() {
        assert_told(told, opened, counted);
    }
}

#[then(expr = "each strategy is enabled with {int} failures counted")]
fn each_is_enabled_with(world: &mut Features, failures: u32) {
    let expected: Vec<BreakerView> =
        world.breaker_many.told_of.keys().map(|strategy| closed(strategy, failures)).collect();
    assert_eq!(world.breaker.views(), expected);
}

#[then("each strategy is disabled")]
fn each_is_disabled(world: &mut Features) {
    let open = BreakerState::Open { retry_after: COOL_DOWN };
    let strategies = world.breaker_many.told_of.keys().cloned();
    let expected: Vec<BreakerView> =
        strategies.map(|name| BreakerView { name, state: open, trips: 1 }).collect();
    assert_eq!(world.breaker.views(), expected);
}

/// A success and the third failure in a row at the same time.
#[derive(Debug, PartialEq)]
struct Meeting {
    success: RecordOutcome,
    failure: RecordOutcome,
    after: BreakerState,
}

#[when(expr = "in {int} rounds a success and the third failure in a row of {string} meet")]
fn success_meets_third_failure(world: &mut Features, rounds: usize, strategy: String) {
    let breakers = world.breaker.ours();
    let barrier = Arc::new(Barrier::new(2));
    let (both, name) = (breakers.clone(), strategy.clone());
    let told = all_at_once(2, move |thread| -> Vec<(RecordOutcome, Option<BreakerState>)> {
        let round = |_| {
            if thread == 0 {
                both.reset(&name);
                both.record_failure(&name);
                both.record_failure(&name);
            }
            barrier.wait();
            let answer = match thread {
                0 => both.record_failure(&name),
                _ => both.record_success(&name),
            };
            barrier.wait();
            let view = both.snapshot().into_iter().find(|view| view.name == name);
            // Nobody begins the next round before both have looked at this one.
            barrier.wait();
            (answer, view.map(|view| view.state))
        };
        (0..rounds).map(round).collect()
    });
    let [failures, successes] = <[_; 2]>::try_from(told).expect("two threads");
    world.breaker_many.meetings = failures
        .into_iter()
        .zip(successes)
        .map(|((failure, after), (success, _))| Meeting {
            success,
            failure,
            after: after.expect("the breaker is known"),
        })
        .collect();
}

#[then("after each round the strategy is enabled, and both threads report the same order")]
fn meetings_are_ordered(world: &mut Features) {
    let success_was_first = Meeting {
        success: RecordOutcome::Counted,
        failure: RecordOutcome::Counted,
        after: BreakerState::Closed { failures: 1 },
    };
    let failure_was_first = Meeting {
        success: RecordOutcome::Closed,
        failure: TRIPPED,
        after: BreakerState::Closed { failures: 0 },
    };
    assert!(!world.breaker_many.meetings.is_empty());
    for meeting in &world.breaker_many.meetings {
        assert!([&success_was_first, &failure_was_first].contains(&meeting), "{meeting:?}");
    }
}

#[when(expr = "{int} threads record {int} outcomes of {string} each, all starting at once")]
fn many_outcomes(world: &mut Features, threads: usize, each: usize, strategy: String) {
    let breakers = world.breaker.ours();
    let told = all_at_once(threads, move |thread| -> Vec<RecordOutcome> {
        // Any mixture does; this one has many runs of three failures and more.
        let is_success = |turn: usize| (turn * 7 + thread * 3).is_multiple_of(5);
        (0..each)
            .map(|turn| match is_success(turn) {
                true => breakers.record_success(&strategy),
                false => breakers.record_failure(&strategy),
            })
            .collect()
    });
    world.breaker_many.told = told.into_iter().flatten().collect();
}

#[then(
    expr = "{string} was opened one time more than it was closed if it is disabled, and otherwise equally often"
)]
fn opened_and_closed_in_turn(world: &mut Features, strategy: String) {
    let told = &world.breaker_many.told;
    let opened = told.iter().filter(|answer| **answer == TRIPPED).count();
    let closed = told.iter().filter(|answer| **answer == RecordOutcome::Closed).count();
    assert!(opened > 0, "the scenario has opened the breaker");
    let ours = world.breaker.ours();
    let is_open = apart("is_open", move || ours.is_open(&strategy));
    assert_eq!(opened, closed + usize::from(is_open));
}

#[when(
    expr = "{int} threads call every operation on {string}, {string} and {string} {int} times, all starting at once"
)]
fn every_operation(
    world: &mut Features,
    threads: usize,
    one: String,
    two: String,
    three: String,
    times: usize,
) {
    let breakers = world.breaker.ours();
    let ended = all_at_once(threads, move |_| {
        for strategy in [&one, &two, &three].into_iter().cycle().take(times * 3) {
            call_every_operation(&breakers, strategy);
            breakers.reset_all();
        }
    });
    assert_eq!(ended.len(), threads);
}

#[then("all of them came to their end, and no breaker is broken")]
fn no_breaker_is_broken(world: &mut Features) {
    let breakers = world.breaker.ours();
    let told = apart("the next failures", move || {
        breakers.reset_all();
        [(); 4].map(|()| breakers.record_failure("semantic"))
    });
    assert_eq!(told, [RecordOutcome::Counted, RecordOutcome::Counted, TRIPPED, RecordOutcome::Stale]);
    let open = BreakerState::Open { retry_after: COOL_DOWN };
    let semantic = BreakerView { name: "semantic".to_owned(), state: open, trips: 1 };
    assert_eq!(world.breaker.views(), [closed("keyword", 0), closed("recent", 0), semantic]);
}
