//! Every row of the permit table.

use std::panic::panic_any;
use std::sync::Arc;

use context::{
    Batch, ExecutorConfig, Name, ParallelStrategyExecutor, RunOutcome, SearchStrategy, StopCause, StopCheck,
    StrategyError, StrategyTask,
};
use sync::{CancelReason, RecordOutcome};

use crate::support::{
    AnyStrategy, Events, Found, Gate, Line, Rig, fails, finds, hangs, line, millis, name, not_started, ok,
    secs, strategy, task, timed_out,
};

fn failed(of: &str, message: &str) -> Line {
    line(of, RunOutcome::Failed(message.to_owned()), &[], secs(0), Some(RecordOutcome::Counted))
}

fn panicked(of: &str, message: &str) -> Line {
    line(of, RunOutcome::Panicked(message.to_owned()), &[], secs(0), Some(RecordOutcome::Counted))
}

#[test]
fn candidates_are_kept_and_count_as_a_success() {
    let rig = Rig::new();
    rig.breakers.record_failure("keyword");
    assert_eq!(rig.run(&[finds("keyword", &[3, 1, 2])]), [ok("keyword", &[3, 1, 2])]);
    assert_eq!(rig.failures("keyword"), Some(0), "a success forgets failures");
}

#[test]
fn nothing_found_is_empty_and_a_success() {
    let rig = Rig::new();
    rig.breakers.record_failure("keyword");
    let empty = line("keyword", RunOutcome::Empty, &[], secs(0), Some(RecordOutcome::Counted));
    assert_eq!(rig.run(&[finds("keyword", &[])]), [empty]);
    assert_eq!(rig.failures("keyword"), Some(0), "a success forgets failures");
}

#[test]
fn an_error_counts_as_a_failure_and_tells_its_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("index is closed")]
    struct Closed(#[source] std::io::Error);

    let rig = Rig::new();
    let broken =
        strategy("keyword", |_, _| Err(StrategyError::failed(Closed(std::io::Error::other("disk gone")))));
    assert_eq!(rig.run(&[broken]), [failed("keyword", "index is closed: disk gone")]);
    assert_eq!(rig.failures("keyword"), Some(1));
}

#[test]
fn a_panic_counts_as_a_failure_and_keeps_its_message() {
    let rig = Rig::new();
    let literal = strategy("literal", |_, _| panic!("off by one"));
    let formatted = strategy("formatted", |limit, _| panic!("off by {limit}"));
    let other = strategy("other", |_, _| panic_any(17_u8));
    assert_eq!(
        rig.run(&[literal, formatted, other]),
        [
            panicked("literal", "off by one"),
            panicked("formatted", "off by 100"),
            panicked("other", "its panic has no text"),
        ]
    );
    assert_eq!(rig.failures("literal"), Some(1));
}

#[test]
fn a_panic_payload_that_panics_when_dropped_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_any(Bomb);
        }
    }

    let rig = Rig::with_workers(1);
    let bomb = strategy("bomb", |_, _| panic_any(Bomb));
    let next = finds("next", &[1]);
    assert_eq!(rig.run(&[bomb, next]), [panicked("bomb", "its panic has no text"), ok("next", &[1])]);
}

#[test]
fn an_error_that_panics_when_it_is_told_is_a_panic() {
    #[derive(Debug)]
    struct Speechless;
    impl std::fmt::Display for Speechless {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no words")
        }
    }
    impl std::error::Error for Speechless {}

    let rig = Rig::new();
    let speechless = strategy("speechless", |_, _| Err(StrategyError::failed(Speechless)));
    assert_eq!(rig.run(&[speechless]), [panicked("speechless", "no words")]);
}

#[test]
fn a_strategy_that_panics_when_asked_its_name_takes_no_permit() {
    struct Nameless;
    impl SearchStrategy for Nameless {
        type Prepared = ();
        type Candidate = u32;
        fn name(&self) -> &Name {
            panic!("no name")
        }
        fn find(&self, _: &(), _: usize, _: &StopCheck) -> Found {
            Ok(vec![1])
        }
    }

    let rig = Rig::new();
    let nameless: Arc<AnyStrategy> = Arc::new(Nameless);
    let expected = line("unnamed", RunOutcome::Panicked("no name".to_owned()), &[], secs(0), None);
    assert_eq!(rig.run(&[nameless, finds("keyword", &[1])]), [expected, ok("keyword", &[1])]);
    assert_eq!(rig.breakers.snapshot().len(), 1, "only the named one has a breaker");
}

#[test]
fn messages_are_bounded_at_a_character() {
    let rig = Rig::new();
    let long = "é".repeat(100_000);
    let text = long.clone();
    let erring = strategy("erring", move |_, _| Err(StrategyError::failed(format!("x{text}"))));
    let panicking = strategy("panicking", move |_, _| panic!("{long}"));
    assert_eq!(
        rig.run(&[erring, panicking]),
        [failed("erring", &format!("x{}", "é".repeat(1023))), panicked("panicking", &"é".repeat(1024)),]
    );
}

/// An error that says `text`, because of `cause`.
#[derive(Debug)]
struct Because {
    text: String,
    cause: Option<Box<Because>>,
}

impl std::fmt::Display for Because {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Because {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &dyn std::error::Error)
    }
}

/// Fails with the first text because of the second, and so on.
fn fails_because(of: &'static str, texts: Vec<String>) -> Arc<AnyStrategy> {
    strategy(of, move |_, _| {
        let chain = texts
            .iter()
            .rev()
            .fold(None, |cause, text| Some(Box::new(Because { text: text.clone(), cause })));
        Err(StrategyError::failed(*chain.expect("there is a first one")))
    })
}

#[test]
fn causes_are_told_as_far_as_the_message_has_room() {
    let rig = Rig::new();
    let long = "a".repeat(1500);
    let runs = rig.run(&[fails_because("twice", vec![long.clone(), long.clone()])]);
    assert_eq!(runs, [failed("twice", &format!("{long}: {}", "a".repeat(2048 - 1502)))]);

    let odd = format!("x{}", "é".repeat(1100));
    let runs = rig.run(&[fails_because("odd", vec![odd, "after the cut".to_owned()])]);
    assert_eq!(runs, [failed("odd", &format!("x{}", "é".repeat(1023)))], "nothing follows a cut");
}

#[test]
fn sixteen_causes_are_told_and_no_more() {
    let rig = Rig::new();
    let runs = rig.run(&[fails_because("long", vec!["a".to_owned(); 20])]);
    assert_eq!(runs, [failed("long", &["a"; 16].join(": "))]);
}

#[test]
fn more_than_the_limit_is_cut_and_counted() {
    let rig = Rig::new();
    let liar = finds("liar", &(0..1_000_000).collect::<Vec<_>>());
    let tasks = vec![StrategyTask { strategy: liar, limit: 3 }];
    let runs = rig.begin_tasks(tasks, rig.never()).result().expect("nobody cancels");
    let expected = Line { cut: 999_997, ..ok("liar", &[0, 1, 2]) };
    assert_eq!(runs, [expected]);
}

#[test]
fn one_that_misses_its_own_deadline_counts_as_a_failure() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate)], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(2));
    assert_eq!(pending.result(), Ok(vec![timed_out("slow", secs(2), RecordOutcome::Counted)]));
    assert_eq!(rig.failures("slow"), Some(1));
    gate.open();
}

#[test]
fn one_that_ran_for_half_its_deadline_when_the_caller_gave_up_counts_as_a_failure() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate)], rig.within(secs(1)));
    heard.expect("began");
    rig.clock.advance(secs(1));
    assert_eq!(pending.result(), Ok(vec![timed_out("slow", secs(1), RecordOutcome::Counted)]));
    assert_eq!(rig.failures("slow"), Some(1));
    gate.open();
}

#[test]
fn one_that_ran_for_less_is_given_back_uncounted() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate)], rig.within(millis(999)));
    heard.expect("began");
    rig.clock.advance(millis(999));
    assert_eq!(pending.result(), Ok(vec![timed_out("slow", millis(999), RecordOutcome::Returned)]));
    assert_eq!(rig.failures("slow"), Some(0));
    gate.open();
}

#[test]
fn a_collector_that_looks_late_makes_no_failure_of_a_hurried_caller() {
    let rig = Rig::new();
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate)], rig.within(millis(1)));
    heard.expect("began");
    rig.clock.advance(secs(3600));
    assert_eq!(pending.result(), Ok(vec![timed_out("slow", millis(1), RecordOutcome::Returned)]));
    gate.open();
}

#[test]
fn one_that_starts_late_is_given_back_uncounted() {
    let rig =
        Rig::with(ExecutorConfig { max_workers: 1, deadline: millis(2999), strategy_deadline: secs(2) });
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("first", &began, &gate), hangs("second", &began, &gate)], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(2));
    heard.expect("began");
    rig.clock.advance(millis(999));
    assert_eq!(
        pending.result(),
        Ok(vec![
            timed_out("first", secs(2), RecordOutcome::Counted),
            timed_out("second", millis(999), RecordOutcome::Returned),
        ])
    );
    gate.open();
}

#[test]
fn an_answer_at_its_due_instant_is_late_whoever_looks_first() {
    let rig = Rig::new();
    let clock = rig.clock.clone();
    let exact = strategy("exact", move |_, _| {
        clock.advance(secs(2));
        Ok(vec![1])
    });
    assert_eq!(rig.run(&[exact]), [timed_out("exact", secs(2), RecordOutcome::Counted)]);
    let clock = rig.clock.clone();
    let just = strategy("just", move |_, _| {
        clock.advance(millis(1999));
        Ok(vec![1])
    });
    let expected = Line { elapsed: millis(1999), ..ok("just", &[1]) };
    assert_eq!(rig.run(&[just]), [expected]);
}

#[test]
fn obeying_a_hurried_caller_is_no_failure() {
    let rig = Rig::new();
    let clock = rig.clock.clone();
    let obedient = strategy("obedient", move |_, stop| {
        clock.advance(millis(1));
        stop.check()?;
        Ok(vec![1])
    });
    let runs = rig.run_until(&[obedient], rig.within(millis(1)));
    assert_eq!(runs, Ok(vec![timed_out("obedient", millis(1), RecordOutcome::Returned)]));
    assert_eq!(rig.failures("obedient"), Some(0));
}

#[test]
fn stopping_without_being_told_is_a_failure() {
    let rig = Rig::new();
    let lazy = strategy("lazy", |_, _| Err(StopCause::Cancelled(CancelReason::User).into()));
    assert_eq!(rig.run(&[lazy]), [failed("lazy", "cancelled: asked for by the user")]);
}

#[test]
fn one_without_a_share_is_not_started_and_takes_no_permit() {
    let rig = Rig::new();
    let tasks = vec![StrategyTask { strategy: fails("idle"), limit: 0 }, task(&finds("keyword", &[1]))];
    assert_eq!(
        rig.begin_tasks(tasks, rig.never()).result(),
        Ok(vec![not_started("idle"), ok("keyword", &[1])])
    );
    assert_eq!(rig.view("idle"), None, "its breaker was never asked");
}

#[test]
fn one_whose_turn_does_not_come_is_not_started_and_takes_no_permit() {
    let rig = Rig::with_workers(1);
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate), fails("next")], rig.never());
    heard.expect("began");
    rig.clock.advance(secs(3));
    assert_eq!(
        pending.result(),
        Ok(vec![timed_out("slow", secs(2), RecordOutcome::Counted), not_started("next")])
    );
    assert_eq!(rig.view("next"), None, "its breaker was never asked");
    assert_eq!(rig.executor.pool().queued, 0, "nothing is left to be begun for nobody");
    gate.open();
}

#[test]
fn a_caller_whose_time_is_over_gets_lines_and_starts_nothing() {
    let rig = Rig::new();
    assert_eq!(rig.run_until(&[fails("a"), fails("b")], rig.within(secs(0))), {
        Ok(vec![not_started("a"), not_started("b")])
    });
    assert_eq!(rig.breakers.snapshot(), [], "no breaker was asked");
}

#[test]
fn a_callers_deadline_is_not_longer_than_the_configured_one() {
    let rig = Rig::with_workers(1);
    let (began, heard) = Events::new();
    let gate = Gate::default();
    let pending = rig.begin(&[hangs("slow", &began, &gate), fails("next")], rig.within(secs(1000)));
    heard.expect("began");
    rig.clock.advance(secs(3));
    let outcomes: Vec<RunOutcome> =
        pending.result().expect("nobody cancels").into_iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::TimedOut, RunOutcome::NotStarted]);
    gate.open();
}

#[test]
fn an_open_breaker_is_said_with_the_time_to_come_back() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.breakers.record_failure("keyword");
    }
    rig.clock.advance(secs(10));
    let open = RunOutcome::Open { retry_after: secs(20) };
    assert_eq!(rig.run(&[finds("keyword", &[1])]), [line("keyword", open, &[], secs(0), None)]);
}

#[test]
fn an_empty_batch_has_no_lines() {
    let rig = Rig::new();
    assert_eq!(rig.run(&[]), []);
    assert_eq!(rig.executor.pool().live, 0, "no thread was started for it");
}

#[test]
fn a_strategy_gets_its_limit_and_what_was_prepared() {
    struct Sum(Name);
    impl SearchStrategy for Sum {
        type Prepared = Vec<u32>;
        type Candidate = u32;
        fn name(&self) -> &Name {
            &self.0
        }
        fn find(&self, prepared: &Vec<u32>, limit: usize, stop: &StopCheck) -> Found {
            Ok(vec![
                prepared.iter().sum(),
                u32::try_from(limit).expect("small"),
                stop.remaining().is_some().into(),
            ])
        }
    }

    let rig = Rig::new();
    let executor = ParallelStrategyExecutor::new(
        ExecutorConfig::default(),
        rig.breakers.clone(),
        Arc::new(rig.clock.clone()),
    )
    .expect("bounds are kept");
    let tasks = vec![StrategyTask { strategy: Arc::new(Sum(name("sum"))), limit: 5 }];
    let runs = executor.execute(Batch { prepared: Arc::new(vec![1, 2]), tasks, stop: rig.never() });
    assert_eq!(runs, Ok(vec![ok("sum", &[3, 5, 1])]));
}
