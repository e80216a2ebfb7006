//! Circuit breakers by name: closed, open for a cool-down, half-open with one probe.
//!
//! All state of a name is one atomic word (`transitions.rs`), changed by compare-and-swap. So N concurrent
//! failures count exactly N, and a threshold crossed by many threads trips once. A result belongs to the
//! generation its permit was given out in, or is [`RecordOutcome::Stale`].
//!
//! # Invariants
//! 1. A name's state depends only on recorded outcomes and the clock that was passed in.
//! 2. Half-open admits one permit at a time, under a lease; after it, the next one, and the old probe is
//!    stale.
//! 3. A caller that gets `Tripped`, `Reopened` or `Closed` is the only one: it emits the one event.
//! 4. The check on a stored handle takes no lock, allocates nothing, and reads no clock while closed.
//!
//! # Not here
//! Events: there are no callbacks, the answer is the event. Running things: see `ParallelStrategyExecutor`.

mod config;
mod outcome;
mod permit;
mod transitions;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub use self::config::{BreakerConfig, BreakerConfigError};
pub use self::permit::Permit;
use crate::clock::{Clock, SystemClock};
use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::primitives::{Mutex, lock};
pub use outcome::{BreakerState, BreakerView, RecordOutcome, RejectReason, Rejected};
use transitions::Word;

/// Circuit breakers by name, one registry per process, shared by every pipeline. `Clone` is the same
/// breakers.
///
/// An unknown name is a closed breaker; so is the empty one, which is a name like any other.
///
/// ```
/// let breakers = sync::CircuitBreaker::default();
/// for _ in 0..3 {
///     breakers.record_failure("semantic-embedding");
/// }
/// assert!(breakers.is_open("semantic-embedding"));
/// assert!(!breakers.is_open("simple-keyword"));
/// breakers.reset("semantic-embedding");
/// assert!(!breakers.is_open("semantic-embedding"));
/// ```
#[derive(Clone)]
pub struct CircuitBreaker {
    shared: Arc<Shared>,
    names: Arc<Mutex<HashMap<Box<str>, Breaker>>>,
}

struct Shared {
    config: BreakerConfig,
    clock: Arc<dyn Clock>,
    /// When the breakers were made. Ticks count from here, whatever the clock's own origin is.
    origin: Duration,
}

impl Shared {
    fn now(&self) -> Duration {
        self.clock.now().saturating_sub(self.origin)
    }
}

impl CircuitBreaker {
    /// Breakers that read their time from `clock`.
    ///
    /// # Errors
    /// A value of `config` out of its bounds.
    pub fn new(config: BreakerConfig, clock: Arc<dyn Clock>) -> Result<Self, BreakerConfigError> {
        Ok(Self::with(config.checked()?, clock))
    }

    fn with(config: BreakerConfig, clock: Arc<dyn Clock>) -> Self {
        let origin = clock.now();
        Self { shared: Arc::new(Shared { config, clock, origin }), names: Arc::default() }
    }

    /// The breaker of `name`, made when it is new. Callers that check often keep it.
    pub fn handle(&self, name: &str) -> Breaker {
        let mut names = lock(&self.names);
        if let Some(known) = names.get(name) {
            return known.clone();
        }
        let cell =
            Cell { word: AtomicU64::new(Word::NEW.0), name: name.into(), shared: Arc::clone(&self.shared) };
        let breaker = Breaker { cell: Arc::new(cell) };
        names.insert(name.into(), breaker.clone());
        breaker
    }

    fn known(&self, name: &str) -> Option<Breaker> {
        lock(&self.names).get(name).cloned()
    }

    /// Returns whether [`try_acquire`](Self::try_acquire) would refuse now. Never writes, never creates.
    pub fn is_open(&self, name: &str) -> bool {
        let word = lock(&self.names).get(name).map(|breaker| breaker.cell.word());
        // The clock is foreign code, and asked without the lock.
        word.is_some_and(|word| word.rejects(|| self.shared.now()))
    }

    /// Asks to begin; see [`Breaker::try_acquire`].
    ///
    /// # Errors
    /// [`Rejected`] while the breaker is open or being probed.
    pub fn try_acquire(&self, name: &str) -> Result<Permit, Rejected> {
        self.handle(name).try_acquire()
    }

    /// Records a success without a permit: closes from any state.
    pub fn record_success(&self, name: &str) -> RecordOutcome {
        match self.known(name) {
            None => RecordOutcome::Counted,
            Some(breaker) => breaker.cell.update(Word::succeeded),
        }
    }

    /// Records a failure without a permit: counts when closed, reopens when half-open, is stale when open.
    pub fn record_failure(&self, name: &str) -> RecordOutcome {
        let breaker = self.handle(name);
        breaker.cell.update(|word| word.failed(&self.shared.config, || breaker.cell.now()))
    }

    /// Closes the breaker of `name` and forgets its failures. Permits given out before are stale.
    pub fn reset(&self, name: &str) {
        if let Some(breaker) = self.known(name) {
            breaker.reset();
        }
    }

    /// Resets every breaker, one after the other.
    pub fn reset_all(&self) {
        for breaker in self.all() {
            breaker.reset();
        }
    }

    /// All breakers, sorted by name.
    pub fn snapshot(&self) -> Vec<BreakerView> {
        let mut views: Vec<BreakerView> = self.all().iter().map(Breaker::view).collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    fn all(&self) -> Vec<Breaker> {
        lock(&self.names).values().cloned().collect()
    }
}

impl Default for CircuitBreaker {
    /// The default configuration on the machine's clock.
    fn default() -> Self {
        Self::with(BreakerConfig::default(), Arc::new(SystemClock::new()))
    }
}

impl std::fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CircuitBreaker").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

/// The breaker of one name. `Clone` is the same breaker.
#[derive(Clone)]
pub struct Breaker {
    cell: Arc<Cell>,
}

struct Cell {
    word: AtomicU64,
    name: Box<str>,
    shared: Arc<Shared>,
}

impl Cell {
    fn now(&self) -> Duration {
        self.shared.now()
    }

    #[inline]
    fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Does one step of the state machine: read, compute, swap, until no other thread came between.
    fn update<A>(&self, step: impl Fn(Word) -> (Word, A)) -> A {
        let mut word = self.word();
        loop {
            let (next, answer) = step(word);
            if next == word {
                return answer;
            }
            match self.word.compare_exchange(word.0, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return answer,
                Err(found) => word = Word(found),
            }
        }
    }
}

impl Breaker {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.cell.name
    }

    /// Returns whether [`try_acquire`](Self::try_acquire) would refuse now: one load while closed.
    #[inline]
    pub fn is_open(&self) -> bool {
        let word = self.cell.word();
        !word.is_closed() && word.rejects(|| self.cell.now())
    }

    /// Asks to begin. While closed everyone is let in; once a cool-down is over, one probe is.
    ///
    /// # Errors
    /// [`Rejected`] while the breaker is open or being probed.
    pub fn try_acquire(&self) -> Result<Permit, Rejected> {
        let cell = &self.cell;
        let admitted = cell.update(|word| {
            let (next, answer) = word.acquire(&cell.shared.config, || cell.now());
            (next, answer.map(|()| next))
        });
        match admitted {
            Ok(word) => Ok(Permit::new(self.clone(), word)),
            Err((why, retry_after)) => Err(Rejected { why, retry_after }),
        }
    }

    /// Closes it and forgets its failures. Permits given out before are stale.
    pub fn reset(&self) {
        self.cell.update(|word| (word.reset(), ()));
    }

    fn view(&self) -> BreakerView {
        let (state, trips) = self.cell.word().view(|| self.cell.now());
        BreakerView { name: self.name().to_owned(), state, trips }
    }

    fn settle(&self, generation: u64, step: impl Fn(Word) -> (Word, RecordOutcome)) -> RecordOutcome {
        self.cell.update(|word| match word.generation() == generation {
            true => step(word),
            false => (word, RecordOutcome::Stale),
        })
    }
}

impl std::fmt::Debug for Breaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Breaker").field("view", &self.view()).finish_non_exhaustive()
    }
}
