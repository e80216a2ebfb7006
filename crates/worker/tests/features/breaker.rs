//! Steps of #7088: the circuit breakers, and two threads at one of them.
//!
//! A failure of ours is stopped between its reading and its writing by its clock: the failure that reaches
//! the threshold reads the time after it read the count and before it swaps the word.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use cucumber::{given, then, when};
use sync::{
    BreakerConfig, BreakerState, BreakerView, CircuitBreaker, Clock, ManualClock, Parker, RecordOutcome,
};

use crate::naive;
use crate::threads::{Held, Pauses, apart};
use crate::world::Features;

pub(crate) const COOL_DOWN: Duration = Duration::from_secs(30);
pub(crate) const TRIPPED: RecordOutcome = RecordOutcome::Tripped { cool_down: COOL_DOWN };

/// What #7088's scenarios have.
#[derive(Default)]
pub(crate) struct Scene {
    breakers: Option<Breakers>,
    pub(crate) clock: PausingClock,
}

impl Scene {
    fn breakers(&self) -> Breakers {
        self.breakers.clone().expect("the scenario has breakers")
    }

    pub(crate) fn ours(&self) -> CircuitBreaker {
        match self.breakers() {
            Breakers::Ours(ours) => ours,
            Breakers::Naive(_) => panic!("the step is for our breakers"),
        }
    }

    pub(crate) fn naive(&self) -> Arc<naive::CircuitBreaker> {
        match self.breakers() {
            Breakers::Naive(naive) => naive,
            Breakers::Ours(_) => panic!("the step is for the naive breakers"),
        }
    }

    /// All that is known about our breakers.
    pub(crate) fn views(&self) -> Vec<BreakerView> {
        let ours = self.ours();
        apart("a look at all breakers", move || ours.snapshot())
    }
}

#[derive(Clone)]
enum Breakers {
    Ours(CircuitBreaker),
    Naive(Arc<naive::CircuitBreaker>),
}

impl Breakers {
    /// What the caller was told, if it is told anything.
    fn record_failure(&self, strategy: &str) -> Option<RecordOutcome> {
        match self {
            Self::Ours(ours) => Some(ours.record_failure(strategy)),
            Self::Naive(naive) => {
                naive.record_failure(strategy);
                None
            }
        }
    }

    fn record_success(&self, strategy: &str) {
        match self {
            Self::Ours(ours) => drop(ours.record_success(strategy)),
            Self::Naive(naive) => naive.record_success(strategy),
        }
    }

    fn reset(&self, strategy: &str) {
        match self {
            Self::Ours(ours) => ours.reset(strategy),
            Self::Naive(naive) => naive.reset(strategy),
        }
    }

    fn reset_all(&self) {
        match self {
            Self::Ours(ours) => ours.reset_all(),
            Self::Naive(naive) => naive.reset_all(),
        }
    }

    fn is_open(&self, strategy: &str) -> bool {
        match self {
            Self::Ours(ours) => ours.is_open(strategy),
            Self::Naive(naive) => naive.is_open(strategy),
        }
    }
}

#[derive(Debug, PartialEq)]
struct ReadingTheTime;

/// A clock by hand, which stops whoever reads it when a scenario says so. `Clone` is the same clock.
#[derive(Clone, Default)]
pub(crate) struct PausingClock {
    pub(crate) clock: ManualClock,
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
    let clock = Arc::new(world.breaker.clock.clone());
    let breakers = CircuitBreaker::new(config(threshold), clock).unwrap();
    world.breaker.breakers = Some(Breakers::Ours(breakers));
}

#[given(expr = "naive circuit breakers that open after {int} failure(s) in a row")]
fn naive_breakers(world: &mut Features, threshold: u32) {
    let breakers = Arc::new(naive::CircuitBreaker::new(threshold));
    world.breaker.breakers = Some(Breakers::Naive(breakers));
}

#[given(expr = "circuit breakers that open after {int} failures in a row, on a clock that calls them back")]
fn breakers_on_a_curious_clock(world: &mut Features, threshold: u32) {
    let curious = Arc::new(CuriousClock::default());
    let breakers = CircuitBreaker::new(config(threshold), Arc::clone(&curious) as Arc<dyn Clock>).unwrap();
    assert!(curious.calls_back.set(breakers.clone()).is_ok());
    world.breaker.breakers = Some(Breakers::Ours(breakers));
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

/// Calls every operation on one strategy.
pub(crate) fn call_every_operation(breakers: &CircuitBreaker, strategy: &str) {
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
    let held: Held = match &breakers {
        Breakers::Ours(_) => world.breaker.clock.pauses.hold(ReadingTheTime),
        Breakers::Naive(naive) => naive.pauses.hold(naive::BreakerPoint::CountRead),
    };
    world.threads.start_until(&thread, held, move || breakers.record_failure(&strategy));
}

#[when(
    expr = "thread {word} records a success of {string}: it has set the count to 0 and not yet touched the disabled set"
)]
fn success_is_half_way(world: &mut Features, thread: String, strategy: String) {
    let naive = world.breaker.naive();
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

#[then(expr = "thread {word} sees that its failure opened the breaker")]
fn told_opened(world: &mut Features, thread: String) {
    assert_eq!(world.threads.answer::<Option<RecordOutcome>>(&thread), Some(TRIPPED));
}

#[then(expr = "thread {word} sees that the breaker was already open")]
fn told_stale(world: &mut Features, thread: String) {
    assert_eq!(world.threads.answer::<Option<RecordOutcome>>(&thread), Some(RecordOutcome::Stale));
}

#[then(expr = "thread {word} sees that its failure was counted")]
fn told_counted(world: &mut Features, thread: String) {
    assert_eq!(world.threads.answer::<Option<RecordOutcome>>(&thread), Some(RecordOutcome::Counted));
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
    let known = world.breaker.views().into_iter().find(|view| view.name == strategy);
    assert_eq!(known, Some(closed(&strategy, failures)));
}

/// A breaker that counted so many failures in a row.
pub(crate) fn closed(strategy: &str, failures: u32) -> BreakerView {
    BreakerView { name: strategy.to_owned(), state: BreakerState::Closed { failures }, trips: 0 }
}

#[then(expr = "the naive count of {string} is {int} after {int} failure(s)")]
fn naive_count(world: &mut Features, strategy: String, count: u32, recorded: u32) {
    let naive = world.breaker.naive();
    assert_eq!(naive.failures(&strategy), count, "of {recorded} recorded");
}
