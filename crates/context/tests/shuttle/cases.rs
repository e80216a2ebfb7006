//! The cases: what must hold for every executor, and the explorations of ours and of the naive ones.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use context::{Batch, ExecutorConfig, ParallelStrategyExecutor, StopCheck, StrategyTask};
use proof::{Case, Twin, effort, execution};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use sync::primitives::thread;
use sync::{
    BreakerConfig, BreakerState, CancelReason, CancellationToken, CircuitBreaker, Clock, ManualClock,
    Observed, RecordOutcome,
};

use crate::ledger;
use crate::naive::{Flaw, Naive};
use crate::stage::{Actor, AnyStrategy, Part, Stage};

pub(crate) const STRATEGY_DEADLINE: Duration = Duration::from_secs(2);

/// The seed of the explored schedules; `SHUTTLE_RANDOM_SEED` sets another.
const SEED: u64 = 7088;

/// More failures than two pipelines can count.
const THRESHOLD: u32 = 8;

/// Preemptions that the second half of the schedules may place.
const PCT_DEPTH: usize = 3;

/// The operations of every executor.
pub(crate) trait Executes: Send + Sync {
    /// Runs a batch; `None` if it was cancelled.
    fn execute(&self, strategies: Vec<Arc<AnyStrategy>>, observed: Observed) -> Option<Vec<Line>>;
}

/// The result of one strategy, as an executor reports it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// The answers of the breaker, one for each outcome of this run that was recorded.
    pub(crate) recorded: Vec<RecordOutcome>,
}

type Make = fn(CircuitBreaker, ManualClock) -> Arc<dyn Executes>;

pub(crate) fn main() -> ExitCode {
    let each = effort().schedules();
    let bound = format!("{each} random and {each} PCT schedules of depth {PCT_DEPTH}");
    proof::main("shuttle", &bound, CASES)
}

const CASES: &[Case] = &[
    Case {
        seed: "7088",
        name: "each run counts once, in a fixed order",
        explore: || explore::<Make>(counts_once, ours),
        twins: &[
            Twin {
                name: "counted by task and collector",
                symptom: "failures counted: ",
                explore: || explore::<Make>(counts_once, counted_twice),
            },
            Twin {
                name: "lines in completion order",
                symptom: "lines came as",
                explore: || explore::<Make>(counts_once, completion_order),
            },
        ],
    },
    Case {
        seed: "7088",
        name: "a cancel counts nothing and frees the probe",
        explore: || explore::<Make>(cancel_frees_the_probe, ours),
        twins: &[
            Twin {
                name: "the task keeps the permit",
                symptom: "the probe is stuck",
                explore: || explore::<Make>(cancel_frees_the_probe, kept_permit),
            },
            Twin {
                name: "what a cancelled task says is counted",
                symptom: "failures counted of cancelled runs",
                explore: || explore::<Make>(cancel_frees_the_probe, counted_cancel),
            },
        ],
    },
    LEDGER,
];

const LEDGER: Case = Case {
    seed: "window",
    name: "requests of a node at once never sum above its window",
    explore: || explore::<ledger::Make>(ledger::never_sums_above_the_window, ledger::ours),
    twins: &[
        Twin {
            name: "looks how much is left, then takes it",
            symptom: "promised above the window",
            explore: || {
                explore::<ledger::Make>(ledger::never_sums_above_the_window, ledger::looks_then_takes)
            },
        },
        Twin {
            name: "gives back, then writes down what was used",
            symptom: "promised above the window",
            explore: || {
                explore::<ledger::Make>(ledger::never_sums_above_the_window, ledger::gives_back_first)
            },
        },
    ],
};

fn explore<M: Copy + Send + Sync + 'static>(body: fn(M), make: M) {
    let mut config = Config::new();
    config.silence_warnings = true;
    let body = move || {
        execution();
        body(make);
    };
    Runner::new(RandomScheduler::new_from_seed(SEED, effort().schedules()), config.clone()).run(body);
    Runner::new(PctScheduler::new_from_seed(SEED, PCT_DEPTH, effort().schedules()), config).run(body);
}

/// Two pipelines share an executor. In each, one strategy finds, one panics, one hangs and one is skipped;
/// the first that hangs is let go in the very moment of its deadline, the second only when nobody waits any
/// more.
fn counts_once(make: Make) {
    let clock = ManualClock::new();
    let breakers = breakers(THRESHOLD, &clock);
    for _ in 0..THRESHOLD {
        breakers.record_failure("skipped");
    }
    let executor = make(breakers.clone(), clock.clone());
    let stage = Stage::new();
    let hour_hand = {
        let (stage, clock) = (Arc::clone(&stage), clock.clone());
        thread::spawn(move || {
            while let Some(hung) = stage.next_waiting() {
                clock.advance(STRATEGY_DEADLINE);
                if hung == 0 {
                    stage.let_go(hung);
                }
            }
        })
    };
    let pipelines: Vec<_> = (0..2)
        .map(|number| {
            let (executor, stage) = (Arc::clone(&executor), Arc::clone(&stage));
            thread::spawn(move || {
                let parts = [Part::Finds, Part::Panics, Part::Hangs(number), Part::Skipped];
                let strategies = parts.map(|part| Actor::cast(part, &stage)).to_vec();
                executor.execute(strategies, CancellationToken::new().observe()).expect("nobody cancels")
            })
        })
        .collect();
    let lines: Vec<Line> = pipelines
        .into_iter()
        .flat_map(|pipeline| {
            let lines = pipeline.join().expect("a pipeline does not panic");
            let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
            assert_eq!(names, ["finds", "panics", "hangs", "skipped"], "lines came as {names:?}");
            lines
        })
        .collect();
    stage.let_go(0);
    stage.let_go(1);
    stage.close();
    hour_hand.join().expect("the clock does not panic");
    drop(executor);
    stage.wait_until_all_left();

    for name in ["finds", "panics", "hangs"] {
        let told: Vec<RecordOutcome> =
            lines.iter().filter(|line| line.name == name).flat_map(|line| line.recorded.clone()).collect();
        assert_eq!(told, [RecordOutcome::Counted; 2], "answers to two runs of {name}");
    }
    for name in ["panics", "hangs"] {
        let counted = failures(&breakers, name);
        assert_eq!(counted, 2, "failures counted: {counted} for 2 runs of {name}");
    }
}

/// One strategy obeys, and sometimes a probe hangs beside it; they are cancelled before, while or after they
/// begin.
fn cancel_frees_the_probe(make: Make) {
    let clock = ManualClock::new();
    let breakers = breakers(1, &clock);
    breakers.record_failure("hangs");
    clock.advance(BreakerConfig::default().cool_down);
    let executor = make(breakers.clone(), clock.clone());
    let stage = Stage::new();
    let token = CancellationToken::new();
    let canceller = {
        let (token, stage) = (token.clone(), Arc::clone(&stage));
        thread::spawn(move || {
            // At any moment, but often enough when all is under way.
            if thread_rng().r#gen() {
                stage.next_waiting();
            }
            token.cancel(CancelReason::User)
        })
    };
    let mut parts = vec![Part::Finds, Part::Obeys(1)];
    if thread_rng().r#gen() {
        parts.push(Part::Hangs(0));
    }
    let strategies = parts.into_iter().map(|part| Actor::cast(part, &stage)).collect();
    let lines = executor.execute(strategies, token.observe());
    assert!(lines.is_none(), "a cancelled batch has no lines: {lines:?}");
    let probe = breakers.try_acquire("hangs");
    assert!(probe.is_ok(), "the probe is stuck: {probe:?}");
    drop(probe);
    stage.let_go(0);
    stage.close();
    canceller.join().expect("the canceller does not panic");
    drop(executor);
    stage.wait_until_all_left();
    let trips: u32 = breakers.snapshot().iter().map(|view| view.trips).sum();
    assert_eq!(trips, 1, "failures counted of cancelled runs");
}

fn breakers(threshold: u32, clock: &ManualClock) -> CircuitBreaker {
    let config = BreakerConfig { threshold, ..BreakerConfig::default() };
    CircuitBreaker::new(config, Arc::new(clock.clone())).expect("bounds are kept")
}

fn failures(breakers: &CircuitBreaker, name: &str) -> u32 {
    let views = breakers.snapshot();
    let view = views.iter().find(|view| view.name == name).expect("it was begun");
    match view.state {
        BreakerState::Closed { failures } => failures,
        BreakerState::Open { .. } | BreakerState::HalfOpen { .. } => panic!("{name} is not closed: {view:?}"),
    }
}

fn ours(breakers: CircuitBreaker, clock: ManualClock) -> Arc<dyn Executes> {
    let config = ExecutorConfig {
        max_workers: 2,
        deadline: Duration::from_secs(60),
        strategy_deadline: STRATEGY_DEADLINE,
    };
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let executor =
        ParallelStrategyExecutor::new(config, breakers, Arc::clone(&clock)).expect("bounds are kept");
    Arc::new(Ours { executor, clock })
}

fn counted_twice(breakers: CircuitBreaker, clock: ManualClock) -> Arc<dyn Executes> {
    Arc::new(Naive::new(breakers, clock, Flaw::CountedTwice))
}

fn completion_order(breakers: CircuitBreaker, clock: ManualClock) -> Arc<dyn Executes> {
    Arc::new(Naive::new(breakers, clock, Flaw::CompletionOrder))
}

fn kept_permit(breakers: CircuitBreaker, clock: ManualClock) -> Arc<dyn Executes> {
    Arc::new(Naive::new(breakers, clock, Flaw::KeptPermit))
}

fn counted_cancel(breakers: CircuitBreaker, clock: ManualClock) -> Arc<dyn Executes> {
    Arc::new(Naive::new(breakers, clock, Flaw::CountedCancel))
}

struct Ours {
    executor: ParallelStrategyExecutor<AnyStrategy>,
    clock: Arc<dyn Clock>,
}

impl Executes for Ours {
    fn execute(&self, strategies: Vec<Arc<AnyStrategy>>, observed: Observed) -> Option<Vec<Line>> {
        let tasks = strategies.into_iter().map(|strategy| StrategyTask { strategy, limit: 10 }).collect();
        let stop = StopCheck::new(observed, None, Arc::clone(&self.clock));
        let runs = self.executor.execute(Batch { prepared: Arc::new(()), tasks, stop }).ok()?;
        let line = |run: context::StrategyRun<u32>| Line {
            name: run.name.to_string(),
            recorded: run.breaker.into_iter().collect(),
        };
        Some(runs.into_iter().map(line).collect())
    }
}
