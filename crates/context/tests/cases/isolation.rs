//! A faulty strategy does not affect the others.

use std::sync::Arc;

use context::{
    Batch, ExecutorConfig, Name, ParallelStrategyExecutor, RunOutcome, SearchStrategy, StopCheck,
    StrategyError, StrategyTask,
};
use sync::{CancellationToken, CircuitBreaker, RecordOutcome, SystemClock};

use crate::support::{
    AnyStrategy, Events, Found, Gate, Line, Rig, background, eventually, fails, finds, hangs, line, millis,
    name, ok, secs, strategy, task, timed_out,
};

#[test]
fn the_good_ones_are_unharmed_by_one_that_fails_panics_hangs_or_lies() {
    let rig = Rig::with_workers(2);
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let strategies = [
        finds("first", &[1, 2]),
        fails("failing"),
        strategy("panicking", |_, _| panic!("oh")),
        hangs("hanging", &began, &gate),
        finds("lying", &(0..1000).collect::<Vec<_>>()),
        finds("last", &[3]),
    ];
    let pending = rig.begin(&strategies, rig.never());
    heard.expect("began");
    // The other worker does all the rest while one hangs.
    eventually("the rest is done", || {
        let pool = rig.executor.pool();
        pool.queued == 0 && pool.running == 1
    });
    rig.clock.advance(secs(2));
    let counted = Some(RecordOutcome::Counted);
    assert_eq!(
        pending.result(),
        Ok(vec![
            ok("first", &[1, 2]),
            line("failing", RunOutcome::Failed("no index".to_owned()), &[], secs(0), counted),
            line("panicking", RunOutcome::Panicked("oh".to_owned()), &[], secs(0), counted),
            timed_out("hanging", secs(2), RecordOutcome::Counted),
            Line { cut: 900, ..ok("lying", &(0..100).collect::<Vec<_>>()) },
            ok("last", &[3]),
        ])
    );
    gate.open();
}

#[test]
fn what_arrived_by_the_deadline_is_kept_when_others_hang() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let late = hangs("late", &began, &gate);
    let pending = rig.begin(&[finds("quick", &[1]), late, finds("other", &[2])], rig.never());
    heard.expect("began");
    eventually("the others are done", || {
        let pool = rig.executor.pool();
        pool.queued == 0 && pool.running == 1
    });
    rig.clock.advance(secs(2));
    let expected =
        vec![ok("quick", &[1]), timed_out("late", secs(2), RecordOutcome::Counted), ok("other", &[2])];
    assert_eq!(pending.result(), Ok(expected));
    gate.open();
}

#[test]
fn a_candidate_that_panics_when_cut_is_a_panic_of_its_strategy() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "armed");
        }
    }
    struct Bombs(Name);
    impl SearchStrategy for Bombs {
        type Prepared = ();
        type Candidate = Bomb;
        fn name(&self) -> &Name {
            &self.0
        }
        fn find(&self, _: &(), _: usize, _: &StopCheck) -> Result<Vec<Bomb>, StrategyError> {
            Ok(vec![Bomb(false), Bomb(true)])
        }
    }

    let rig = Rig::new();
    let executor = ParallelStrategyExecutor::new(
        ExecutorConfig { max_workers: 1, ..Default::default() },
        rig.breakers.clone(),
        Arc::new(rig.clock.clone()),
    )
    .expect("bounds are kept");
    let bombs = Arc::new(Bombs(name("bombs")));
    let tasks = || vec![StrategyTask { strategy: Arc::clone(&bombs), limit: 1 }];
    for _ in 0..2 {
        let batch = Batch { prepared: Arc::new(()), tasks: tasks(), stop: rig.never() };
        let runs = executor.execute(batch).expect("nobody cancels");
        assert_eq!(runs[0].outcome, RunOutcome::Panicked("armed".to_owned()));
    }
    assert_eq!(executor.pool().live, 1, "the thread lives on");
}

#[test]
fn a_strategy_that_panics_when_dropped_by_the_pool_keeps_the_thread_alive() {
    struct Last(Name, Gate);
    impl SearchStrategy for Last {
        type Prepared = ();
        type Candidate = u32;
        fn name(&self) -> &Name {
            &self.0
        }
        fn find(&self, _: &(), _: usize, _: &StopCheck) -> Found {
            self.1.pass();
            Ok(vec![1])
        }
    }
    impl Drop for Last {
        fn drop(&mut self) {
            panic!("dropped")
        }
    }

    let rig = Rig::with_workers(1);
    let gate = Gate::default();
    let last: Arc<AnyStrategy> = Arc::new(Last(name("last"), gate.clone()));
    let pending = rig.begin_tasks(vec![StrategyTask { strategy: last, limit: 1 }], rig.never());
    gate.open();
    assert_eq!(pending.result(), Ok(vec![ok("last", &[1])]));
    assert_eq!(rig.run(&[finds("next", &[2])]), [ok("next", &[2])]);
    assert_eq!(rig.executor.pool().live, 1, "by the same thread");
}

#[test]
fn on_the_machines_clock_too_one_that_hangs_is_not_waited_for() {
    let clock = Arc::new(SystemClock::new());
    let config = ExecutorConfig { max_workers: 2, deadline: millis(50), strategy_deadline: millis(50) };
    let executor: ParallelStrategyExecutor<AnyStrategy> =
        ParallelStrategyExecutor::new(config, CircuitBreaker::default(), clock.clone())
            .expect("bounds are kept");
    let (began, _heard) = Events::new();
    let gate = Gate::default();
    let strategies = [hangs("hanging", &began, &gate), finds("quick", &[1])];
    let stop = StopCheck::new(CancellationToken::new().observe(), None, clock);
    let batch = Batch { prepared: Arc::new(()), tasks: strategies.iter().map(task).collect(), stop };
    let runs = background(move || executor.execute(batch)).result().expect("nobody cancels");
    let outcome = &runs[0].outcome;
    // The machine decides whether it was begun within the deadline.
    assert!(matches!(outcome, RunOutcome::TimedOut | RunOutcome::NotStarted), "{outcome:?}");
    gate.open();
}
