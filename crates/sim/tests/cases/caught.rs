//! Programs that are wrong on purpose, and what catches them.

use sim::{BrokenProgram, LAST_STEPS, Promise, RunBatch, run_many, run_seed};

const RUNS: u64 = 2_000;

#[test]
fn every_broken_program_is_caught_by_the_promise_that_it_breaks() {
    for broken in BrokenProgram::ALL {
        let total = run_many(RunBatch { first: 0, runs: RUNS, broken: Some(*broken), threads: 2 });
        assert!(total.caught.is_some(), "{} was not caught in {RUNS} runs", broken.name());
    }
}

#[test]
fn every_promise_has_a_broken_program() {
    for promise in Promise::ALL {
        assert!(BrokenProgram::ALL.iter().any(|broken| broken.promise() == *promise), "{}", promise.words());
    }
}

#[test]
fn a_broken_run_shows_its_last_fifty_steps_and_replays() {
    let report =
        run_many(RunBatch { first: 0, runs: RUNS, broken: Some(BrokenProgram::UnfencedWrite), threads: 1 });
    let caught = report.caught.unwrap();
    assert_eq!(caught.last_steps.len(), LAST_STEPS);
    let again = run_seed(caught.seed, Some(BrokenProgram::UnfencedWrite), LAST_STEPS);
    assert_eq!((again.hash, again.violations), (caught.hash, caught.violations));
    assert_eq!(again.last_steps, caught.last_steps);
}

#[test]
fn a_broken_program_has_one_name() {
    for broken in BrokenProgram::ALL {
        assert_eq!(BrokenProgram::parse(broken.name()), Some(*broken));
    }
    assert_eq!(BrokenProgram::parse("fine"), None);
}
