//! Time as something that is passed in: the machine's, or one that a test moves by hand.
//!
//! # Invariants
//! 1. `now` never goes back.
//! 2. A sleeper on a [`ManualClock`] wakes exactly when the clock was moved to its instant or past it.
//!
//! # Not here
//! Wall time, which is for display only, and timers of an async runtime.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::parker::Parker;
use crate::primitives::{Mutex, lock};
use crate::waiters::{Waiter, wake_all};

/// A monotonic clock, counting from an origin of its own.
pub trait Clock: Send + Sync {
    /// The time since the clock's origin.
    fn now(&self) -> Duration;

    /// Blocks until `parker` is unparked, or this clock reaches `at` (`None`: never).
    fn park_until(&self, parker: &Parker, at: Option<Duration>);
}

/// The machine's monotonic clock; its origin is the moment it was made.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that begins at zero now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn park_until(&self, parker: &Parker, at: Option<Duration>) {
        match at.and_then(|at| self.origin.checked_add(at)) {
            Some(deadline) => {
                parker.park_until(deadline);
            }
            None => parker.park(),
        }
    }
}

/// A clock that stops until a caller moves it. `Clone` is the same clock.
///
/// ```
/// use std::time::Duration;
/// use sync::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(30));
/// assert_eq!(clock.now(), Duration::from_secs(30));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    dial: Arc<Mutex<Dial>>,
}

#[derive(Default)]
struct Dial {
    now: Duration,
    next_ticket: u64,
    sleepers: BTreeMap<(Duration, u64), Waiter>,
}

impl Dial {
    fn add(&mut self, at: Duration, waiter: Waiter) -> (Duration, u64) {
        self.next_ticket += 1;
        self.sleepers.insert((at, self.next_ticket), waiter);
        (at, self.next_ticket)
    }
}

impl ManualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on and wakes the tasks that slept until then.
    pub fn advance(&self, by: Duration) {
        let woken = {
            let mut dial = lock(&self.dial);
            dial.now = dial.now.saturating_add(by);
            let later = dial.now.saturating_add(Duration::from_nanos(1));
            let asleep = dial.sleepers.split_off(&(later, 0));
            std::mem::replace(&mut dial.sleepers, asleep)
        };
        wake_all(woken.into_values().collect());
    }

    /// Moves the clock to the earliest instant that a task sleeps until; returns false if none does.
    pub fn advance_to_next_sleeper(&self) -> bool {
        let (now, next) = {
            let dial = lock(&self.dial);
            (dial.now, dial.sleepers.keys().next().map(|(at, _)| *at))
        };
        match next {
            Some(at) => {
                self.advance(at.saturating_sub(now));
                true
            }
            None => false,
        }
    }

    /// Sleeps until the clock has moved by `duration`.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        let at = self.now().saturating_add(duration);
        Sleep { clock: self.clone(), at, ticket: None }
    }

    fn remove(&self, ticket: (Duration, u64)) {
        // Dropped after the lock: a waker's own drop is foreign code.
        let gone = lock(&self.dial).sleepers.remove(&ticket);
        drop(gone);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        lock(&self.dial).now
    }

    fn park_until(&self, parker: &Parker, at: Option<Duration>) {
        let Some(at) = at else { return parker.park() };
        let ticket = {
            let mut dial = lock(&self.dial);
            if dial.now >= at {
                return;
            }
            dial.add(at, Waiter::Thread(parker.clone()))
        };
        parker.park();
        self.remove(ticket);
    }
}

impl std::fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// A sleep on a [`ManualClock`]; dropping it ends it.
#[derive(Debug)]
#[must_use = "a sleep does nothing unless awaited"]
pub struct Sleep {
    clock: ManualClock,
    at: Duration,
    ticket: Option<(Duration, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let old = this.ticket.take();
        // Cloned before the lock: cloning and dropping a waker is foreign code.
        let waiter = Waiter::Task(context.waker().clone());
        let (replaced, unused) = {
            let mut dial = lock(&this.clock.dial);
            let replaced = old.and_then(|ticket| dial.sleepers.remove(&ticket));
            if dial.now < this.at {
                this.ticket = Some(dial.add(this.at, waiter));
                (replaced, None)
            } else {
                (replaced, Some(waiter))
            }
        };
        drop((replaced, unused));
        if this.ticket.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.clock.remove(ticket);
        }
    }
}
