//! Parks a thread until another one wakes it, without a lost wake-up.
//!
//! # Invariants
//! 1. An `unpark` before the `park` makes that `park` return at once; several count as one.
//! 2. A `park` without a timeout returns only after an `unpark`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::primitives::{Condvar, Mutex, lock};

/// A seat at which one thread waits until others wake it. `Clone` is the same seat.
///
/// ```
/// let parker = sync::Parker::new();
/// let waker = parker.clone();
/// std::thread::spawn(move || waker.unpark());
/// parker.park();
/// ```
#[derive(Clone, Default)]
pub struct Parker {
    seat: Arc<Seat>,
}

#[derive(Default)]
struct Seat {
    notified: Mutex<bool>,
    wake: Condvar,
}

impl Parker {
    /// An empty seat.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for an [`unpark`](Self::unpark) and consumes it.
    pub fn park(&self) {
        let mut notified = lock(&self.seat.notified);
        while !*notified {
            notified = self.seat.wake.wait(notified).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *notified = false;
    }

    /// Waits for an [`unpark`](Self::unpark), at most until `deadline`; true if one was consumed.
    pub fn park_until(&self, deadline: Instant) -> bool {
        let mut notified = lock(&self.seat.notified);
        while !*notified {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            let waited = self.seat.wake.wait_timeout(notified, left);
            notified = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        *notified = false;
        true
    }

    /// Wakes the thread that waits here, or the next one that will.
    pub fn unpark(&self) {
        *lock(&self.seat.notified) = true;
        self.seat.wake.notify_one();
    }
}

impl std::fmt::Debug for Parker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parker").finish_non_exhaustive()
    }
}
