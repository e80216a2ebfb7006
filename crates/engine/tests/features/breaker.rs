//! Steps of #7088: the circuit breakers, bare and under the pipelines that share them.
//!
//! A failure of ours is stopped between its reading and its writing by its clock: the failure that reaches the
//! threshold reads the time after it read the count and before it swaps the word.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::Duration;

use context::{
    Batch, BatchCancelled, ExecutorConfig, Name, Outcome, Run, Stop, Strategy, StrategyError, Task,
};
use cucumber::{given, then, when};
use engine::{BreakerMove, ContextStrategies, Event, EventSink};
use sync::{
    BreakerConfig, BreakerState, BreakerView, CancellationToken, CircuitBreaker, Clock, ManualClock, Parker,
    Recorded,
};

use crate::naive;
use crate::threads::{Held, Pauses, all_at_once, apart};
use crate::world::Features;

const COOL_DOWN: Duration = Duration::from_secs(30);
const TRIPPED: Recorded = Recorded::Tripped { cool_down: COOL_DOWN };

/// What #7088's scenarios have.
#[derive(Default)]
pub(crate) struct Scene {
    breakers: Option<Arc<dyn Breakers>>,
    clock: PausingClock,
    ours: Option<CircuitBreaker>,
    naive: Option<Arc<naive::CircuitBreaker>>,
    /// What all recording threads were told.
    told: Vec<Recorded>,
    /// The same, by strategy.
    told_of: BTreeMap<String, Vec<Recorded>>,
    meetings: Vec<Meeting>,
    pipelines: Option<Pipelines>,
    /// What every pipeline was told.
    lines: Vec<Lines>,
    probe: Option<Held>,
}

impl Scene {
    fn breakers(&self) -> Arc<dyn Breakers> {
        Arc::clone(self.breakers.as_ref().expect("the scenario has breakers"))
    }

    fn ours(&self) -> CircuitBreaker {
        self.ours.clone().expect("the scenario has our breakers")
    }

    fn pipelines(&self) -> Pipelines {
        self.pipelines.clone().expect("the scenario has pipelines")
    }

    fn view(&self, strategy: &str) -> BreakerView {
        let ours = self.ours();
        let views = apart("a look at all breakers", move || ours.snapshot());
        let known = views.into_iter().find(|view| view.name == strategy);
        known.unwrap_or_else(|| panic!("nothing is known about {strategy}"))
    }
}

/// What ours and the naive one have in common.
trait Breakers: Send + Sync {
    /// What the caller was told, if it is told anything.
    fn record_failure(&self, strategy: &str) -> Option<Recorded>;
    fn record_success(&self, strategy: &str);
    fn reset(&self, strategy: &str);
    fn reset_all(&self);
    fn is_open(&self, strategy: &str) -> bool;
    /// Stops the next failure that is recorded after it read the count, before it writes it.
    fn hold_next_failure(&self) -> Held;
}

struct Ours {
    breakers: CircuitBreaker,
    clock: PausingClock,
}

impl Breakers for Ours {
    fn record_failure(&self, strategy: &str) -> Option<Recorded> {
        Some(self.breakers.record_failure(strategy))
    }

    fn record_success(&self, strategy: &str) {
        self.breakers.record_success(strategy);
    }

    fn reset(&self, strategy: &str) {
        self.breakers.reset(strategy);
    }

    fn reset_all(&self) {
        self.breakers.reset_all();
    }

    fn is_open(&self, strategy: &str) -> bool {
        self.breakers.is_open(strategy)
    }

    fn hold_next_failure(&self) -> Held {
        self.clock.pauses.hold(ReadingTheTime)
    }
}

impl Breakers for naive::CircuitBreaker {
    fn record_failure(&self, strategy: &str) -> Option<Recorded> {
        self.record_failure(strategy);
        None
    }

    fn record_success(&self, strategy: &str) {
        self.record_success(strategy);
    }

    fn reset(&self, strategy: &str) {
        self.reset(strategy);
    }

    fn reset_all(&self) {
        self.reset_all();
    }

    fn is_open(&self, strategy: &str) -> bool {
        self.is_open(strategy)
    }

    fn hold_next_failure(&self) -> Held {
        self.pauses.hold(naive::BreakerPoint::CountRead)
    }
}

#[derive(Debug, PartialEq)]
struct ReadingTheTime;

/// A clock by hand, which stops whoever reads it when a scenario says so. `Clone` is the same clock.
#[derive(Clone, Default)]
struct PausingClock {
    clock: ManualClock,
    pauses: Arc<Pauses<ReadingTheTime>>,
}

impl Clock for PausingClock {
    fn now(&self) -> Duration {
        self.pauses.at(ReadingTheTime);
        self.clock.now()
    }

    fn park_until(&self, parker: &Parker, at: Option<Duration>) {
        self.clock.park_until(parker, at);
    }
}

fn config(threshold: u32) -> BreakerConfig {
    BreakerConfig { threshold, cool_down: COOL_DOWN, ..BreakerConfig::default() }
}

#[given(expr = "circuit breakers that open after {int} failure(s) in a row")]
fn our_breakers(world: &mut Features, threshold: u32) {
    let scene = &mut world.breaker;
    let clock = scene.clock.clone();
    let breakers = CircuitBreaker::new(config(threshold), Arc::new(clock.clone())).unwrap();
    scene.ours = Some(breakers.clone());
    scene.breakers = Some(Arc::new(Ours { breakers, clock }));
}

#[given(expr = "naive circuit breakers that open after {int} failure(s) in a row")]
fn naive_breakers(world: &mut Features, threshold: u32) {
    let breakers = Arc::new(naive::CircuitBreaker::new(threshold));
    world.breaker.naive = Some(Arc::clone(&breakers));
    world.breaker.breakers = Some(breakers);
}

#[given(expr = "circuit breakers that open after {int} failures in a row, on a clock that calls them back")]
fn breakers_on_a_curious_clock(world: &mut Features, threshold: u32) {
    let curious = Arc::new(CuriousClock::default());
    let breakers = CircuitBreaker::new(config(threshold), Arc::clone(&curious) as Arc<dyn Clock>).unwrap();
    assert!(curious.calls_back.set(breakers.clone()).is_ok());
    world.breaker.ours = Some(breakers.clone());
    world.breaker.breakers = Some(Arc::new(Ours { breakers, clock: world.breaker.clock.clone() }));
}

/// Tells the time only after it called the breakers that ask for it.
#[derive(Default)]
struct CuriousClock {
    calls_back: OnceLock<CircuitBreaker>,
    /// What it calls may ask for the time in turn, and is then answered at once.
    is_calling: Mutex<bool>,
}

impl Clock for CuriousClock {
    fn now(&self) -> Duration {
        let was_calling = std::mem::replace(&mut *self.is_calling.lock().unwrap(), true);
        if let (false, Some(breakers)) = (was_calling, self.calls_back.get()) {
            call_every_operation(breakers, "another");
            breakers.is_open("semantic");
            *self.is_calling.lock().unwrap() = false;
        }
        Duration::from_secs(1)
    }

    fn park_until(&self, parker: &Parker, _: Option<Duration>) {
        parker.park();
    }
}

fn call_every_operation(breakers: &CircuitBreaker, strategy: &str) {
    breakers.record_failure(strategy);
    breakers.is_open(strategy);
    breakers.record_success(strategy);
    drop(breakers.try_acquire(strategy));
    breakers.snapshot();
    breakers.reset(strategy);
}

#[given(expr = "{string} has failed {int} time(s)")]
#[when(expr = "{string} has failed {int} time(s)")]
fn has_failed(world: &mut Features, strategy: String, times: u32) {
    let breakers = world.breaker.breakers();
    apart("recording failures", move || {
        for _ in 0..times {
            breakers.record_failure(&strategy);
        }
    });
}

#[when(expr = "thread {word} records a failure of {string}")]
fn records_a_failure(world: &mut Features, thread: String, strategy: String) {
    let breakers = world.breaker.breakers();
    world.threads.run(&thread, move || breakers.record_failure(&strategy));
}

#[when(expr = "thread {word} records a failure of {string}: it has read the count and not yet written it")]
fn failure_is_half_way(world: &mut Features, thread: String, strategy: String) {
    let breakers = world.breaker.breakers();
    let held = breakers.hold_next_failure();
    world.threads.start_until(&thread, held, move || breakers.record_failure(&strategy));
}

#[when(
    expr = "thread {word} records a success of {string}: it has set the count to 0 and not yet touched the disabled set"
)]
fn success_is_half_way(world: &mut Features, thread: String, strategy: String) {
    let naive = world.breaker.naive.clone().expect("only the naive one has a middle");
    let held = naive.pauses.hold(naive::BreakerPoint::CountCleared);
    world.threads.start_until(&thread, held, move || naive.record_success(&strategy));
}

#[when(expr = "thread {word} records a success of {string} from beginning to end")]
fn whole_success(world: &mut Features, thread: String, strategy: String) {
    let breakers = world.breaker.breakers();
    world.threads.run(&thread, move || breakers.record_success(&strategy));
}

#[when(expr = "thread {word} resets {string} from beginning to end")]
fn whole_reset(world: &mut Features, thread: String, strategy: String) {
    let breakers = world.breaker.breakers();
    world.threads.run(&thread, move || breakers.reset(&strategy));
}

#[when(expr = "thread {word} resets all strategies from beginning to end")]
fn whole_reset_of_all(world: &mut Features, thread: String) {
    let breakers = world.breaker.breakers();
    world.threads.run(&thread, move || breakers.reset_all());
}

#[then(expr = "thread {word} is told that its failure opened the breaker")]
fn told_opened(world: &mut Features, thread: String) {
    assert_eq!(world.threads.answer::<Option<Recorded>>(&thread), Some(TRIPPED));
}

#[then(expr = "thread {word} is told that the breaker was open already")]
fn told_stale(world: &mut Features, thread: String) {
    assert_eq!(world.threads.answer::<Option<Recorded>>(&thread), Some(Recorded::Stale));
}

#[then(expr = "thread {word} is told that its failure was counted")]
fn told_counted(world: &mut Features, thread: String) {
    assert_eq!(world.threads.answer::<Option<Recorded>>(&thread), Some(Recorded::Counted));
}

#[when(expr = "{string} is seen to be disabled")]
#[then(expr = "{string} is disabled")]
fn is_disabled(world: &mut Features, strategy: String) {
    let breakers = world.breaker.breakers();
    assert!(apart("is_open", move || breakers.is_open(&strategy)));
}

#[then(expr = "{string} is enabled")]
fn is_enabled(world: &mut Features, strategy: String) {
    let breakers = world.breaker.breakers();
    assert!(!apart("is_open", move || breakers.is_open(&strategy)));
}

#[then(expr = "{string} is enabled with {int} failure(s) counted")]
fn is_enabled_with(world: &mut Features, strategy: String, failures: u32) {
    let expected = BreakerView { name: strategy.clone(), state: BreakerState::Closed { failures }, trips: 0 };
    assert_eq!(world.breaker.view(&strategy), expected);
}

#[then(expr = "the naive count of {string} is {int} after {int} failure(s)")]
fn naive_count(world: &mut Features, strategy: String, count: u32, recorded: u32) {
    let naive = world.breaker.naive.as_ref().expect("the scenario has naive breakers");
    assert_eq!(naive.failures(&strategy), count, "of {recorded} recorded");
}

#[when(expr = "{int} threads record {int} failure(s) of {string} each, all starting at once")]
fn many_failures(world: &mut Features, threads: usize, each: usize, strategy: String) {
    let breakers = world.breaker.ours();
    let told = all_at_once(threads, move |_| -> Vec<Recorded> {
        (0..each).map(|_| breakers.record_failure(&strategy)).collect()
    });
    world.breaker.told = told.into_iter().flatten().collect();
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
    assert_told(&world.breaker.told, opened, counted);
}

fn assert_told(told: &[Recorded], opened: usize, counted: usize) {
    let how_many = |what| told.iter().filter(|answer| **answer == what).count();
    assert_eq!(
        (how_many(TRIPPED), how_many(Recorded::Counted), told.len()),
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
    let told = all_at_once(threads, move |_| -> Vec<Vec<Recorded>> {
        let record = |name: &String| {
            start.wait();
            (0..each).map(|_| breakers.record_failure(name)).collect()
        };
        shared.iter().map(record).collect()
    });
    for by_strategy in told {
        for (name, answers) in names.iter().zip(by_strategy) {
            world.breaker.told_of.entry(name.clone()).or_default().extend(answers);
        }
    }
}

#[then(expr = "of each strategy {int} failure(s) opened the breaker, and {int} were counted")]
fn told_of_each(world: &mut Features, opened: usize, counted: usize) {
    assert!(!world.breaker.told_of.is_empty());
    for told in world.breaker.told_of.values() {
        assert_told(told, opened, counted);
    }
}

#[then(expr = "each strategy is enabled with {int} failures counted")]
fn each_is_enabled_with(world: &mut Features, failures: u32) {
    for strategy in world.breaker.told_of.keys().cloned().collect::<Vec<String>>() {
        is_enabled_with(world, strategy, failures);
    }
}

#[then("each strategy is disabled")]
fn each_is_disabled(world: &mut Features) {
    for strategy in world.breaker.told_of.keys().cloned().collect::<Vec<String>>() {
        is_disabled(world, strategy);
    }
}

/// A success and the third failure in a row at the same time.
#[derive(Debug, PartialEq)]
struct Meeting {
    success: Recorded,
    failure: Recorded,
    after: BreakerState,
}

#[when(expr = "in {int} rounds a success and the third failure in a row of {string} meet")]
fn success_meets_third_failure(world: &mut Features, rounds: usize, strategy: String) {
    let breakers = world.breaker.ours();
    let barrier = Arc::new(Barrier::new(2));
    let (both, name) = (breakers.clone(), strategy.clone());
    let told = all_at_once(2, move |thread| -> Vec<(Recorded, Option<BreakerState>)> {
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
    world.breaker.meetings = failures
        .into_iter()
        .zip(successes)
        .map(|((failure, after), (success, _))| Meeting {
            success,
            failure,
            after: after.expect("the breaker is known"),
        })
        .collect();
}

#[then("after each round the strategy is enabled, and the two threads were told of one and the same order")]
fn meetings_are_ordered(world: &mut Features) {
    let success_was_first = Meeting {
        success: Recorded::Counted,
        failure: Recorded::Counted,
        after: BreakerState::Closed { failures: 1 },
    };
    let failure_was_first =
        Meeting { success: Recorded::Closed, failure: TRIPPED, after: BreakerState::Closed { failures: 0 } };
    assert!(!world.breaker.meetings.is_empty());
    for meeting in &world.breaker.meetings {
        assert!([&success_was_first, &failure_was_first].contains(&meeting), "{meeting:?}");
    }
}

#[when(expr = "{int} threads record {int} outcomes of {string} each, all starting at once")]
fn many_outcomes(world: &mut Features, threads: usize, each: usize, strategy: String) {
    let breakers = world.breaker.ours();
    let told = all_at_once(threads, move |thread| -> Vec<Recorded> {
        // Any mixture does; this one has many runs of three failures and more.
        let is_success = |turn: usize| (turn * 7 + thread * 3).is_multiple_of(5);
        (0..each)
            .map(|turn| match is_success(turn) {
                true => breakers.record_success(&strategy),
                false => breakers.record_failure(&strategy),
            })
            .collect()
    });
    world.breaker.told = told.into_iter().flatten().collect();
}

#[then(expr = "{string} was opened once more than it was closed if it is disabled, and else as often")]
fn opened_and_closed_in_turn(world: &mut Features, strategy: String) {
    let told = &world.breaker.told;
    let opened = told.iter().filter(|answer| **answer == TRIPPED).count();
    let closed = told.iter().filter(|answer| **answer == Recorded::Closed).count();
    assert!(opened > 0, "the scenario has opened the breaker");
    let is_open = usize::from(world.breaker.breakers().is_open(&strategy));
    assert_eq!(opened, closed + is_open);
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
    breakers.reset_all();
    let closed = |name: &str| BreakerView {
        name: name.to_owned(),
        state: BreakerState::Closed { failures: 0 },
        trips: 0,
    };
    assert_eq!(breakers.snapshot(), ["keyword", "recent", "semantic"].map(closed));
    for answer in [Recorded::Counted, Recorded::Counted, TRIPPED, Recorded::Stale] {
        assert_eq!(breakers.record_failure("semantic"), answer);
    }
}

/// What a pipeline finds.
const FOUND: u32 = 7;

type AnyStrategy = dyn Strategy<Prepared = (), Candidate = u32>;
type Lines = Result<Vec<Run<u32>>, BatchCancelled>;

/// Pipelines that share one executor and its breakers. `Clone` is the same.
#[derive(Clone)]
struct Pipelines {
    strategies: Arc<ContextStrategies<AnyStrategy>>,
    events: Arc<Events>,
    clock: PausingClock,
}

impl Pipelines {
    fn run(&self, strategies: Vec<Arc<AnyStrategy>>) -> Lines {
        let tasks = strategies.into_iter().map(|strategy| Task { strategy, limit: 10 });
        self.strategies.execute(Batch {
            prepared: Arc::new(()),
            tasks: tasks.collect(),
            stop: Stop::new(CancellationToken::new().observe(), None, Arc::new(self.clock.clone())),
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

impl<F: Fn() -> Result<Vec<u32>, StrategyError> + Send + Sync> Strategy for Scripted<F> {
    type Prepared = ();
    type Candidate = u32;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(&self, _: &(), _: usize, _: &Stop) -> Result<Vec<u32>, StrategyError> {
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

fn line(name: &str, outcome: Outcome, candidates: Vec<u32>, breaker: Option<Recorded>) -> Run<u32> {
    Run { name: name.parse().unwrap(), outcome, candidates, cut: 0, elapsed: Duration::ZERO, breaker }
}

fn found_line(name: &str) -> Run<u32> {
    line(name, Outcome::Ok, vec![FOUND], Some(Recorded::Counted))
}

fn skipped_line(name: &str, retry_after: Duration) -> Run<u32> {
    line(name, Outcome::Open { retry_after }, vec![], None)
}

#[given(expr = "pipelines that run at most {int} strategies at once")]
fn pipelines(world: &mut Features, max_workers: usize) {
    let scene = &mut world.breaker;
    let events = Arc::new(Events::default());
    let config = ExecutorConfig { max_workers, ..ExecutorConfig::default() };
    let strategies = ContextStrategies::new(
        config,
        scene.ours(),
        Arc::new(scene.clock.clone()),
        Arc::clone(&events) as Arc<dyn EventSink>,
    );
    scene.pipelines =
        Some(Pipelines { strategies: Arc::new(strategies.unwrap()), events, clock: scene.clock.clone() });
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
    let shared = world.breaker.pipelines();
    let all_begun = Arc::new(Barrier::new(pipelines));
    let misbehaving = strategy(&bad, move || {
        all_begun.wait();
        match misbehaves.as_str() {
            "fails" => Err(StrategyError::failed("no index")),
            "panics" => panic!("no index"),
            other => unreachable!("a strategy does not {other}"),
        }
    });
    world.breaker.lines =
        all_at_once(pipelines, move |_| shared.run(vec![Arc::clone(&misbehaving), finds(&good)]));
}

#[then(expr = "every pipeline is told that {string} {word} and that {string} found something")]
fn every_pipeline_is_told(world: &mut Features, bad: String, misbehaves: String, good: String) {
    let message = "no index".to_owned();
    let outcome = match misbehaves.as_str() {
        "fails" => Outcome::Failed(message),
        "panics" => Outcome::Panicked(message),
        other => unreachable!("a strategy does not {other}"),
    };
    for lines in &world.breaker.lines {
        let lines = lines.as_ref().expect("nobody cancels");
        // Which of them opened the breaker is another step's question.
        let breaker = lines[0].breaker;
        let expected = [line(&bad, outcome.clone(), vec![], breaker), found_line(&good)];
        assert_eq!(lines[..], expected);
    }
}

#[then(
    expr = "{int} of the pipelines are told that the failure was counted, and {int} that it opened the breaker"
)]
fn pipelines_counted(world: &mut Features, counted: usize, opened: usize) {
    let told = world.breaker.lines.iter().flatten().map(|lines| lines[0].breaker);
    let mut told: Vec<Option<Recorded>> = told.collect();
    told.sort_by_key(|answer| *answer == Some(TRIPPED));
    let expected: Vec<Option<Recorded>> = std::iter::repeat_n(Some(Recorded::Counted), counted)
        .chain(std::iter::repeat_n(Some(TRIPPED), opened))
        .collect();
    assert_eq!(told, expected);
}

fn assert_events(world: &Features, count: usize, strategy: &str, to: BreakerMove) {
    let expected = Event::BreakerChanged { name: strategy.to_owned(), to };
    let events = world.breaker.pipelines().events.0.lock().unwrap().clone();
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
    let shared = world.breaker.pipelines();
    world.breaker.lines = vec![apart("a pipeline", move || shared.run(vec![finds(&one), finds(&two)]))];
}

#[then(
    expr = "the pipeline is told that {string} is disabled for {int} seconds and that {string} found something"
)]
fn pipeline_skips(world: &mut Features, skipped: String, seconds: u64, found: String) {
    let retry_after = Duration::from_secs(seconds);
    let expected = vec![skipped_line(&skipped, retry_after), found_line(&found)];
    assert_eq!(world.breaker.lines, [Ok(expected)]);
}

#[given(expr = "{int} seconds have passed")]
fn time_passes(world: &mut Features, seconds: u64) {
    world.breaker.clock.clock.advance(Duration::from_secs(seconds));
}

#[derive(Debug, PartialEq)]
struct InTheMiddle;

#[when(expr = "one pipeline tries {string} and is in the middle of it")]
fn probe_begins(world: &mut Features, name: String) {
    let shared = world.breaker.pipelines();
    let pauses = Arc::new(Pauses::default());
    let held = pauses.hold(InTheMiddle);
    let probe = strategy(&name, move || {
        pauses.at(InTheMiddle);
        Ok(vec![FOUND])
    });
    world.threads.spawn("probe", move || shared.run(vec![probe]));
    held.wait_until_reached();
    world.breaker.probe = Some(held);
}

#[when(expr = "{int} other pipelines run {string} at once")]
fn others_run(world: &mut Features, others: usize, name: String) {
    let shared = world.breaker.pipelines();
    world.breaker.lines = all_at_once(others, move |_| shared.run(vec![finds(&name)]));
}

#[then(expr = "all of the others are told that {string} is being tried")]
fn others_are_told(world: &mut Features, name: String) {
    let lease = BreakerConfig::default().probe_lease;
    assert!(!world.breaker.lines.is_empty());
    for lines in &world.breaker.lines {
        assert_eq!(*lines, Ok(vec![skipped_line(&name, lease)]));
    }
}

#[when(expr = "the one that tries {string} succeeds")]
fn probe_succeeds(world: &mut Features, name: String) {
    world.breaker.probe.take().expect("a probe is inside").go();
    world.threads.finish("probe");
    let expected = line(&name, Outcome::Ok, vec![FOUND], Some(Recorded::Closed));
    assert_eq!(world.threads.answer::<Lines>("probe"), Ok(vec![expected]));
}

#[when(expr = "pipeline {word} runs {string}, which fails: it has read the count and not yet written it")]
fn naive_pipeline(world: &mut Features, pipeline: String, strategy: String) {
    let naive = world.breaker.naive.clone().expect("the scenario has naive breakers");
    let held = naive.pauses.hold(naive::BreakerPoint::CountRead);
    world
        .threads
        .start_until(&pipeline, held, move || naive::execute_parallel(&naive, &strategy, || Err("no index")));
}
