//! Waiting for a word to change, from threads and tasks alike, without a lost wake-up.
//!
//! A *signal* is an atomic word with a list of waiters. The writer changes the word and then calls
//! [`Waiters::wake`]. A waiter registers under the list's lock and tests the word there.
//!
//! # Why no wake-up is lost
//! The writer stores the word, then takes the lock. A waiter's registration takes the same lock. If it came
//! first, the writer finds the waiter and wakes it. If it came second, the lock orders the writer's store
//! before the waiter's test, which sees it. There is no third case.
//!
//! # Invariants
//! 1. Wakers run after the lock is released: a waker may cancel, wait or drop whatever it likes.
//! 2. A dropped [`Waiting`] leaves no entry behind, at any of its levels.
//! 3. If a waker panics, all other waiters are still woken.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::parker::Parker;
use crate::primitives::{Mutex, lock};

/// Whom to wake.
#[derive(Clone)]
pub(crate) enum Waiter {
    Thread(Parker),
    Task(Waker),
}

impl Waiter {
    pub(crate) fn wake(self) {
        match self {
            Self::Thread(parker) => parker.unpark(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

/// Wakes all, even when one of them panics; the first panic resumes afterwards.
pub(crate) fn wake_all(waiters: Vec<Waiter>) {
    let mut panicked = None;
    for waiter in waiters {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waiter.wake())) {
            panicked.get_or_insert(payload);
        }
    }
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
}

/// The list of those who wait for one word.
#[derive(Default)]
pub(crate) struct Waiters {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    next_ticket: u64,
    entries: BTreeMap<u64, Waiter>,
}

impl Waiters {
    /// Wakes those for whom the word, already written, means the end of their waiting.
    ///
    /// Wakes all, because a waiter tests its own level again: one that still has to wait registers again.
    pub(crate) fn wake(&self) {
        let woken: Vec<Waiter> = std::mem::take(&mut lock(&self.list).entries).into_values().collect();
        wake_all(woken);
    }

    fn unregister(&self, ticket: u64) {
        // Dropped after the lock: a waker's own drop is foreign code.
        let gone = lock(&self.list).entries.remove(&ticket);
        drop(gone);
    }

    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn len(&self) -> usize {
        lock(&self.list).entries.len()
    }
}

/// One word that is waited for, as one waiter sees it.
pub(crate) trait Level {
    fn waiters(&self) -> &Waiters;
    /// Returns whether the word says that waiting is over; tested under the list's lock.
    fn is_reached(&self) -> bool;
}

/// A wait for any of several levels; dropping it unregisters everywhere.
pub(crate) struct Waiting<L: Level> {
    levels: Box<[(L, Option<u64>)]>,
}

impl<L: Level> Waiting<L> {
    pub(crate) fn on(levels: impl IntoIterator<Item = L>) -> Self {
        Self { levels: levels.into_iter().map(|level| (level, None)).collect() }
    }

    /// Registers at every level, or says that one of them is reached.
    pub(crate) fn register(&mut self, waiter: &Waiter) -> bool {
        for (level, ticket) in &mut self.levels {
            // Cloned before the lock: cloning and dropping a waker is foreign code.
            let own_waiter = waiter.clone();
            let mut list = lock(&level.waiters().list);
            if level.is_reached() {
                drop(list);
                return true;
            }
            let own = *ticket.get_or_insert_with(|| {
                list.next_ticket += 1;
                list.next_ticket
            });
            let replaced = list.entries.insert(own, own_waiter);
            drop(list);
            drop(replaced);
        }
        false
    }

    /// Blocks this thread until a level is reached, or the timeout has passed; true if one is reached.
    pub(crate) fn block(&mut self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let parker = Parker::new();
        let waiter = Waiter::Thread(parker.clone());
        loop {
            if self.register(&waiter) {
                return true;
            }
            match deadline {
                None => parker.park(),
                Some(deadline) => {
                    if !parker.park_until(deadline) {
                        return self.levels.iter().any(|(level, _)| level.is_reached());
                    }
                }
            }
        }
    }

    /// Polls for a task: ready when a level is reached.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        match self.register(&Waiter::Task(context.waker().clone())) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl<L: Level> Drop for Waiting<L> {
    fn drop(&mut self) {
        for (level, ticket) in &self.levels {
            if let Some(ticket) = ticket {
                level.waiters().unregister(*ticket);
            }
        }
    }
}
