//! Shared test helpers: a rig with a manual clock, strategies made of closures, gates to hold them at.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use context::{
    Batch, BatchCancelled, ExecutorConfig, Name, ParallelStrategyExecutor, RunOutcome, SearchStrategy,
    StopCheck, StrategyError, StrategyRun, StrategyTask,
};
use sync::{
    BreakerConfig, BreakerState, BreakerView, CancellationToken, CircuitBreaker, Clock, ManualClock,
    RecordOutcome,
};

pub(crate) type Found = Result<Vec<u32>, StrategyError>;
pub(crate) type Line = StrategyRun<u32>;
pub(crate) type Lines = Result<Vec<Line>, BatchCancelled>;
pub(crate) type AnyStrategy = dyn SearchStrategy<Prepared = (), Candidate = u32>;

/// Long enough that only a broken promise reaches it.
const WATCHDOG: Duration = Duration::from_secs(60);

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a test's name keeps the rule")
}

/// A strategy that does what a closure does.
pub(crate) struct Fake<F> {
    name: Name,
    find: F,
}

impl<F: Fn(usize, &StopCheck) -> Found + Send + Sync> SearchStrategy for Fake<F> {
    type Prepared = ();
    type Candidate = u32;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(&self, _prepared: &(), limit: usize, stop: &StopCheck) -> Found {
        (self.find)(limit, stop)
    }
}

pub(crate) fn strategy(
    text: &str,
    find: impl Fn(usize, &StopCheck) -> Found + Send + Sync + 'static,
) -> Arc<AnyStrategy> {
    Arc::new(Fake { name: name(text), find })
}

/// Finds the given candidates at once.
pub(crate) fn finds(text: &str, candidates: &[u32]) -> Arc<AnyStrategy> {
    let candidates = candidates.to_vec();
    strategy(text, move |_, _| Ok(candidates.clone()))
}

/// Fails at once.
pub(crate) fn fails(text: &str) -> Arc<AnyStrategy> {
    strategy(text, |_, _| Err(StrategyError::failed("no index")))
}

/// Says that it began, waits at the gate whatever its stop says, then finds 7.
pub(crate) fn hangs(text: &str, began: &Events, gate: &Gate) -> Arc<AnyStrategy> {
    let (began, gate) = (began.clone(), gate.clone());
    strategy(text, move |_, _| {
        began.say("began");
        gate.pass();
        Ok(vec![7])
    })
}

/// Says that it began, then waits until it is told to stop and obeys.
pub(crate) fn obeys(text: &str, began: &Events) -> Arc<AnyStrategy> {
    let began = began.clone();
    strategy(text, move |_, stop| {
        began.say("began");
        stop.observed().wait(None);
        stop.check()?;
        Ok(vec![])
    })
}

/// With a limit that no test reaches by accident.
pub(crate) fn task(strategy: &Arc<AnyStrategy>) -> StrategyTask<AnyStrategy> {
    StrategyTask { strategy: Arc::clone(strategy), limit: 100 }
}

/// A clock, breakers and an executor.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) clock: ManualClock,
    pub(crate) breakers: CircuitBreaker,
    pub(crate) executor: Arc<ParallelStrategyExecutor<AnyStrategy>>,
}

impl Rig {
    /// All defaults: 4 workers, 3 s, 2 s each, breakers that open after 3 failures for 30 s.
    pub(crate) fn new() -> Self {
        Self::with(ExecutorConfig::default())
    }

    pub(crate) fn with_workers(max_workers: usize) -> Self {
        Self::with(ExecutorConfig { max_workers, ..ExecutorConfig::default() })
    }

    pub(crate) fn with(config: ExecutorConfig) -> Self {
        Self::with_breakers(config, BreakerConfig::default())
    }

    pub(crate) fn with_breakers(config: ExecutorConfig, breakers: BreakerConfig) -> Self {
        let clock = ManualClock::new();
        let breakers = CircuitBreaker::new(breakers, Arc::new(clock.clone())).expect("bounds are kept");
        let executor = ParallelStrategyExecutor::new(config, breakers.clone(), Arc::new(clock.clone()))
            .expect("bounds are kept");
        Self { clock, breakers, executor: Arc::new(executor) }
    }

    /// A stop that never comes.
    pub(crate) fn never(&self) -> StopCheck {
        self.stop(&CancellationToken::new(), None)
    }

    /// A stop `within` that time from now.
    pub(crate) fn within(&self, within: Duration) -> StopCheck {
        self.stop(&CancellationToken::new(), Some(within))
    }

    pub(crate) fn stop(&self, token: &CancellationToken, within: Option<Duration>) -> StopCheck {
        let deadline = within.map(|within| self.clock.now() + within);
        StopCheck::new(token.observe(), deadline, Arc::new(self.clock.clone()))
    }

    /// Runs strategies that end by themselves.
    pub(crate) fn run(&self, strategies: &[Arc<AnyStrategy>]) -> Vec<Line> {
        self.run_until(strategies, self.never()).expect("nobody cancels")
    }

    pub(crate) fn run_until(&self, strategies: &[Arc<AnyStrategy>], stop: StopCheck) -> Lines {
        self.begin(strategies, stop).result()
    }

    /// Begins a batch in a thread of its own, which is what the watchdog needs.
    pub(crate) fn begin(&self, strategies: &[Arc<AnyStrategy>], stop: StopCheck) -> Pending<Lines> {
        self.begin_tasks(strategies.iter().map(task).collect(), stop)
    }

    pub(crate) fn begin_tasks(
        &self,
        tasks: Vec<StrategyTask<AnyStrategy>>,
        stop: StopCheck,
    ) -> Pending<Lines> {
        let executor = Arc::clone(&self.executor);
        background(move || executor.execute(Batch { prepared: Arc::new(()), tasks, stop }))
    }

    /// Consecutive failures of a breaker that is closed; `None` for one that nobody ever asked for.
    pub(crate) fn failures(&self, of: &str) -> Option<u32> {
        self.view(of).map(|view| match view.state {
            BreakerState::Closed { failures } => failures,
            BreakerState::Open { .. } | BreakerState::HalfOpen { .. } => {
                panic!("{of} is not closed: {view:?}")
            }
        })
    }

    pub(crate) fn view(&self, of: &str) -> Option<BreakerView> {
        self.breakers.snapshot().into_iter().find(|view| view.name == of)
    }
}

/// A line as tests expect it; virtual time makes even `elapsed` exact.
pub(crate) fn line(
    of: &str,
    outcome: RunOutcome,
    candidates: &[u32],
    elapsed: Duration,
    breaker: Option<RecordOutcome>,
) -> Line {
    StrategyRun { name: name(of), outcome, candidates: candidates.to_vec(), cut: 0, elapsed, breaker }
}

/// A line of a strategy that found something in no time.
pub(crate) fn ok(of: &str, candidates: &[u32]) -> Line {
    line(of, RunOutcome::Ok, candidates, Duration::ZERO, Some(RecordOutcome::Counted))
}

pub(crate) fn timed_out(of: &str, elapsed: Duration, breaker: RecordOutcome) -> Line {
    line(of, RunOutcome::TimedOut, &[], elapsed, Some(breaker))
}

pub(crate) fn not_started(of: &str) -> Line {
    line(of, RunOutcome::NotStarted, &[], Duration::ZERO, None)
}

pub(crate) fn hung(of: &str) -> Line {
    line(of, RunOutcome::Hung, &[], Duration::ZERO, None)
}

/// A door that strategies wait at until a test opens it for ever.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    is_open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.is_open.0.lock().expect("no test panics here") = true;
        self.is_open.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let shut = self.is_open.0.lock().expect("no test panics here");
        drop(self.is_open.1.wait_while(shut, |is_open| !*is_open).expect("no test panics here"));
    }
}

/// The messages of strategies to the test.
#[derive(Clone)]
pub(crate) struct Events {
    sender: Sender<&'static str>,
}

impl Events {
    pub(crate) fn new() -> (Self, Heard) {
        let (sender, receiver) = channel();
        (Self { sender }, Heard { receiver })
    }

    pub(crate) fn say(&self, what: &'static str) {
        // A strategy that outlives its test has nobody to tell.
        let _ = self.sender.send(what);
    }
}

pub(crate) struct Heard {
    receiver: Receiver<&'static str>,
}

impl Heard {
    /// Waits for the next event, which must be this one.
    pub(crate) fn expect(&self, what: &'static str) {
        assert_eq!(self.receiver.recv_timeout(WATCHDOG), Ok(what), "waited for an event");
    }

    /// The number of events so far.
    pub(crate) fn count(&self) -> usize {
        self.receiver.try_iter().count()
    }
}

/// Something that goes on in another thread.
pub(crate) struct Pending<T> {
    receiver: Receiver<T>,
}

pub(crate) fn background<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        // A test that failed no longer listens.
        let _ = sender.send(act());
    });
    Pending { receiver }
}

impl<T> Pending<T> {
    pub(crate) fn result(self) -> T {
        self.receiver.recv_timeout(WATCHDOG).expect("the call returns")
    }
}

/// Waits until what other threads do has the effect that no event tells of.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let given_up = Instant::now() + WATCHDOG;
    while !is_so() {
        assert!(Instant::now() < given_up, "never: {what}");
        thread::yield_now();
    }
}
