//! Steps of #7088: concurrent pipelines that share one executor and its circuit breakers.

use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use context::{
    Batch, BatchCancelled, ExecutorConfig, Name, RunOutcome, SearchStrategy, StopCheck, StrategyError,
    StrategyRun, StrategyTask,
};
use context::{BreakerMove, ContextStrategies, Event, EventSink};
use cucumber::{given, then, when};
use sync::{BreakerConfig, CancellationToken, RecordOutcome};

use crate::breaker::{COOL_DOWN, PausingClock, TRIPPED};
use crate::naive;
use crate::threads::{Held, Pauses, all_at_once, apart};
use crate::world::Features;

/// What the scenarios of pipelines have, beside the breakers.
#[derive(Default)]
pub(crate) struct Scene {
    pipelines: Option<Pipelines>,
    /// What every pipeline was told.
    lines: Vec<Lines>,
    /// Where the strategy stands that is tried.
    probe: Option<Held>,
}

impl Scene {
    fn pipelines(&self) -> Pipelines {
        self.pipelines.clone().expect("the scenario has pipelines")
    }
}

/// What a pipeline finds.
const FOUND: u32 = 7;

type AnyStrategy = dyn SearchStrategy<Prepared = (), Candidate = u32>;
type Lines = Result<Vec<StrategyRun<u32>>, BatchCancelled>;

/// Pipelines that share one executor and its breakers. `Clone` is the same.
#[derive(Clone)]
struct Pipelines {
    strategies: Arc<ContextStrategies<AnyStrategy>>,
    events: Arc<Events>,
    clock: PausingClock,
}

impl Pipelines {
    fn run(&self, strategies: Vec<Arc<AnyStrategy>>) -> Lines {
        let tasks = strategies.into_iter().map(|strategy| StrategyTask { strategy, limit: 10 });
        self.strategies.execute(Batch {
            prepared: Arc::new(()),
            tasks: tasks.collect(),
            stop: StopCheck::new(CancellationToken::new().observe(), None, Arc::new(self.clock.clone())),
        })
    }
}

/// Keeps all events.
#[derive(Default)]
struct Events(Mutex<Vec<Event>>);

impl EventSink for Events {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// A strategy that does what a closure does.
struct Scripted<F> {
    name: Name,
    find: F,
}

impl<F: Fn() -> Result<Vec<u32>, StrategyError> + Send + Sync> SearchStrategy for Scripted<F> {
    type Prepared = ();
    type Candidate = u32;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(&self, _: &(), _: usize, _: &StopCheck) -> Result<Vec<u32>, StrategyError> {
        (self.find)()
    }
}

fn strategy(
    name: &str,
    find: impl Fn() -> Result<Vec<u32>, StrategyError> + Send + Sync + 'static,
) -> Arc<AnyStrategy> {
    Arc::new(Scripted { name: name.parse().unwrap(), find })
}

fn finds(name: &str) -> Arc<AnyStrategy> {
    strategy(name, || Ok(vec![FOUND]))
}

fn line(
    name: &str,
    outcome: RunOutcome,
    candidates: Vec<u32>,
    breaker: Option<RecordOutcome>,
) -> StrategyRun<u32> {
    StrategyRun { name: name.parse().unwrap(), outcome, candidates, cut: 0, elapsed: Duration::ZERO, breaker }
}

fn found_line(name: &str) -> StrategyRun<u32> {
    line(name, RunOutcome::Ok, vec![FOUND], Some(RecordOutcome::Counted))
}

fn skipped_line(name: &str, retry_after: Duration) -> StrategyRun<u32> {
    line(name, RunOutcome::Open { retry_after }, vec![], None)
}

#[given(expr = "pipelines that run at most {int} strategies at once")]
fn pipelines(world: &mut Features, max_workers: usize) {
    let (breakers, clock) = (world.breaker.ours(), world.breaker.clock.clone());
    let events = Arc::new(Events::default());
    let config = ExecutorConfig { max_workers, ..ExecutorConfig::default() };
    let strategies = ContextStrategies::new(
        config,
        breakers,
        Arc::new(clock.clone()),
        Arc::clone(&events) as Arc<dyn EventSink>,
    );
    let strategies = Arc::new(strategies.unwrap());
    world.pipelines.pipelines = Some(Pipelines { strategies, events, clock });
}

#[when(
    expr = "{int} pipelines run at once, and in each {string} {word} as soon as it has begun in all, while {string} finds something"
)]
fn pipelines_misbehave(
    world: &mut Features,
    pipelines: usize,
    bad: String,
    misbehaves: String,
    good: String,
) {
    let shared = world.pipelines.pipelines();
    let all_begun = Arc::new(Barrier::new(pipelines));
    let misbehaving = strategy(&bad, move || {
        all_begun.wait();
        match misbehaves.as_str() {
            "fails" => Err(StrategyError::failed("no index")),
            "panics" => panic!("no index"),
            other => unreachable!("a strategy does not {other}"),
        }
    });
    world.pipelines.lines =
        all_at_once(pipelines, move |_| shared.run(vec![Arc::clone(&misbehaving), finds(&good)]));
}

#[then(expr = "every pipeline reports that {string} {word} and that {string} found something")]
fn every_pipeline_is_told(world: &mut Features, bad: String, misbehaves: String, good: String) {
    let message = "no index".to_owned();
    let outcome = match misbehaves.as_str() {
        "fails" => RunOutcome::Failed(message),
        "panics" => RunOutcome::Panicked(message),
        other => unreachable!("a strategy does not {other}"),
    };
    for lines in &world.pipelines.lines {
        let lines = lines.as_ref().expect("nobody cancels");
        // Which of them opened the breaker is another step's question.
        let breaker = lines[0].breaker;
        let expected = [line(&bad, outcome.clone(), vec![], breaker), found_line(&good)];
        assert_eq!(lines[..], expected);
    }
}

#[then(
    expr = "{int} failures were counted, {int} opened the breaker, and {int} came when it was open already"
)]
fn pipelines_counted(world: &mut Features, counted: usize, opened: usize, late: usize) {
    let told: Vec<Option<RecordOutcome>> =
        world.pipelines.lines.iter().flatten().map(|lines| lines[0].breaker).collect();
    let how_many = |what| told.iter().filter(|answer| **answer == Some(what)).count();
    assert_eq!(
        (how_many(RecordOutcome::Counted), how_many(TRIPPED), how_many(RecordOutcome::Stale), told.len()),
        (counted, opened, late, counted + opened + late),
    );
}

fn assert_events(world: &Features, count: usize, strategy: &str, to: BreakerMove) {
    let expected = Event::BreakerChanged { name: strategy.to_owned(), to };
    let events = world.pipelines.pipelines().events.0.lock().unwrap().clone();
    assert_eq!(events, vec![expected; count]);
}

#[then(expr = "the events say {int} time(s) that {string} was disabled")]
fn events_say_disabled(world: &mut Features, count: usize, strategy: String) {
    assert_events(world, count, &strategy, BreakerMove::Opened { cool_down: COOL_DOWN });
}

#[then(expr = "the events say {int} time(s) that {string} was enabled")]
fn events_say_enabled(world: &mut Features, count: usize, strategy: String) {
    assert_events(world, count, &strategy, BreakerMove::Closed);
}

#[when(expr = "a pipeline runs {string} and {string}")]
fn one_pipeline(world: &mut Features, one: String, two: String) {
    let shared = world.pipelines.pipelines();
    world.pipelines.lines = vec![apart("a pipeline", move || shared.run(vec![finds(&one), finds(&two)]))];
}

#[then(
    expr = "the pipeline reports that {string} is disabled for {int} seconds and that {string} found something"
)]
fn pipeline_skips(world: &mut Features, skipped: String, seconds: u64, found: String) {
    let retry_after = Duration::from_secs(seconds);
    let expected = vec![skipped_line(&skipped, retry_after), found_line(&found)];
    assert_eq!(world.pipelines.lines, [Ok(expected)]);
}

#[given(expr = "{int} seconds have passed")]
fn time_passes(world: &mut Features, seconds: u64) {
    world.breaker.clock.clock.advance(Duration::from_secs(seconds));
}

#[derive(Debug, PartialEq)]
struct InTheMiddle;

#[when(expr = "one pipeline tries {string} and is in the middle of it")]
fn probe_begins(world: &mut Features, name: String) {
    let shared = world.pipelines.pipelines();
    let pauses = Arc::new(Pauses::default());
    let held = pauses.hold(InTheMiddle);
    let probe = strategy(&name, move || {
        pauses.at(InTheMiddle);
        Ok(vec![FOUND])
    });
    world.threads.spawn("probe", move || shared.run(vec![probe]));
    held.wait_until_reached();
    world.pipelines.probe = Some(held);
}

#[when(expr = "{int} other pipelines run {string} at once")]
fn others_run(world: &mut Features, others: usize, name: String) {
    let shared = world.pipelines.pipelines();
    world.pipelines.lines = all_at_once(others, move |_| shared.run(vec![finds(&name)]));
}

#[then(expr = "all others see that {string} is being tried")]
fn others_are_told(world: &mut Features, name: String) {
    let lease = BreakerConfig::default().probe_lease;
    assert!(!world.pipelines.lines.is_empty());
    for lines in &world.pipelines.lines {
        assert_eq!(*lines, Ok(vec![skipped_line(&name, lease)]));
    }
}

#[when(expr = "the one that tries {string} succeeds")]
fn probe_succeeds(world: &mut Features, name: String) {
    world.pipelines.probe.take().expect("a probe is inside").go();
    world.threads.finish("probe");
    let expected = line(&name, RunOutcome::Ok, vec![FOUND], Some(RecordOutcome::Closed));
    assert_eq!(world.threads.answer::<Lines>("probe"), Ok(vec![expected]));
}

#[when(expr = "pipeline {word} runs {string}, which fails: it has read the count and not yet written it")]
fn naive_pipeline(world: &mut Features, pipeline: String, strategy: String) {
    let naive = world.breaker.naive();
    let held = naive.pauses.hold(naive::BreakerPoint::CountRead);
    world
        .threads
        .start_until(&pipeline, held, move || naive::execute_parallel(&naive, &strategy, || Err("no index")));
}
