//! Locks, atomics and threads: std's, or the model checker's under `--cfg loom` and `--cfg shuttle`.
//!
//! Code that a model checker should explore takes them from here and from nowhere else. `Arc` is always
//! std's: it orders nothing that the explored code relies on, and the checkers' own cannot hold a `dyn`
//! value.
//!
//! # Not here
//! Channels and pools: built above, out of these.

#[cfg(loom)]
pub use loom::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(all(shuttle, not(loom)))]
pub use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};
#[cfg(not(any(loom, shuttle)))]
pub use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread,
};

use std::sync::PoisonError;

/// Locks, taking over a lock that a panicking thread left poisoned.
///
/// Every critical section of this workspace either leaves its state whole or is a pure step that panics
/// before it writes. So the state behind a poisoned lock is the one before the panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
