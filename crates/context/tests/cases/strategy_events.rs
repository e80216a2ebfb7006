//! Breaker moves told as events: once each, and harmless when the sink panics.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use context::{
    Batch, ExecutorConfig, Name, RunOutcome, SearchStrategy, StopCheck, StrategyError, StrategyTask,
};
use context::{BreakerMove, ContextStrategies, Event, EventSink};
use sync::{BreakerConfig, CancellationToken, CircuitBreaker, ManualClock};

type Dyn = dyn SearchStrategy<Prepared = bool, Candidate = u32>;

/// Fails when told so by what was prepared.
struct Fallible(Name);

impl SearchStrategy for Fallible {
    type Prepared = bool;
    type Candidate = u32;

    fn name(&self) -> &Name {
        &self.0
    }

    fn find(&self, fails: &bool, _: usize, _: &StopCheck) -> Result<Vec<u32>, StrategyError> {
        match fails {
            true => Err(StrategyError::failed("as told")),
            false => Ok(vec![1]),
        }
    }
}

#[derive(Default)]
struct RecordingSink {
    events: Mutex<Vec<Event>>,
    panics: bool,
}

impl EventSink for RecordingSink {
    fn emit(&self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
        assert!(!self.panics, "a sink of somebody else");
    }
}

struct Bench {
    strategies: ContextStrategies<Dyn>,
    strategy: Arc<Dyn>,
    sink: Arc<RecordingSink>,
    clock: ManualClock,
}

fn bench(panics: bool) -> Bench {
    let clock = ManualClock::new();
    let breakers = CircuitBreaker::new(BreakerConfig::default(), Arc::new(clock.clone())).unwrap();
    let sink = Arc::new(RecordingSink { panics, ..RecordingSink::default() });
    let strategies = ContextStrategies::new(
        ExecutorConfig::default(),
        breakers,
        Arc::new(clock.clone()),
        Arc::clone(&sink) as Arc<dyn EventSink>,
    );
    let strategy = Arc::new(Fallible("simple-keyword".parse().unwrap()));
    Bench { strategies: strategies.unwrap(), strategy, sink, clock }
}

impl Bench {
    fn run(&self, fails: bool) -> RunOutcome {
        let stop = StopCheck::new(CancellationToken::new().observe(), None, Arc::new(self.clock.clone()));
        let tasks = vec![StrategyTask { strategy: Arc::clone(&self.strategy), limit: 10 }];
        self.strategies.execute(Batch { prepared: Arc::new(fails), tasks, stop }).unwrap()[0].outcome.clone()
    }
}

fn changed(to: BreakerMove) -> Event {
    Event::BreakerChanged { name: "simple-keyword".to_owned(), to }
}

#[test]
fn a_breaker_that_opens_reopens_and_closes_is_told_of_once_each() {
    let bench = bench(false);
    for _ in 0..3 {
        assert_eq!(bench.run(true), RunOutcome::Failed("as told".to_owned()));
    }
    let second = Duration::from_secs(1);
    assert_eq!(bench.run(true), RunOutcome::Open { retry_after: 30 * second });
    bench.clock.advance(30 * second);
    assert_eq!(bench.run(true), RunOutcome::Failed("as told".to_owned()));
    bench.clock.advance(60 * second);
    assert_eq!(bench.run(false), RunOutcome::Ok);
    let opened = |cool_down| changed(BreakerMove::Opened { cool_down });
    let told = bench.sink.events.lock().unwrap().clone();
    assert_eq!(told, [opened(30 * second), opened(60 * second), changed(BreakerMove::Closed)]);
}

#[test]
fn many_pipelines_that_fail_together_tell_of_one_opening() {
    let bench = Arc::new(bench(false));
    let start = Arc::new(std::sync::Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (bench, start) = (Arc::clone(&bench), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                for _ in 0..50 {
                    bench.run(true);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(bench.sink.events.lock().unwrap().len(), 1);
}

#[test]
fn a_sink_that_panics_harms_neither_the_assembly_nor_the_breaker() {
    let bench = bench(true);
    for _ in 0..3 {
        assert_eq!(bench.run(true), RunOutcome::Failed("as told".to_owned()));
    }
    assert!(matches!(bench.run(true), RunOutcome::Open { .. }));
    assert_eq!(bench.sink.events.lock().unwrap().len(), 1);
    assert!(format!("{:?}", bench.strategies).contains("ContextStrategies"));
}
