//! Naive tokens. `Event` is the bug of report #7166; `LockedEvent` is the fix it suggested, which still
//! loses.

use std::collections::BTreeSet;
use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::sync::{Condvar, Mutex};
use sync::Parker;

use crate::token::{Parent, ResetIf, Token};

/// #7166: an event that is set and cleared; a waiter looks again after it woke.
#[derive(Clone)]
pub(crate) struct Event {
    flag: Arc<AtomicBool>,
    wake: Arc<(Mutex<()>, Condvar)>,
}

impl Token for Event {
    type Seen = Self;

    fn new() -> Self {
        Self { flag: Arc::new(AtomicBool::new(false)), wake: Arc::new((Mutex::new(()), Condvar::new())) }
    }

    fn observe(&self) -> Self {
        self.clone()
    }

    fn wait(seen: &Self) -> bool {
        let mut guard = seen.wake.0.lock().unwrap();
        while !seen.flag.load(Ordering::SeqCst) {
            guard = seen.wake.1.wait(guard).unwrap();
        }
        true
    }

    fn is_cancelled(seen: &Self) -> bool {
        seen.flag.load(Ordering::SeqCst)
    }

    fn cancel(&self) {
        self.flag.store(true, Ordering::SeqCst);
        let _guard = self.wake.0.lock().unwrap();
        self.wake.1.notify_all();
    }

    fn reset(&self) {
        self.flag.store(false, Ordering::SeqCst);
    }
}

/// Every operation under one lock: no torn state, and the signal is lost all the same.
#[derive(Clone)]
pub(crate) struct LockedEvent {
    state: Arc<(Mutex<Locked>, Condvar)>,
}

struct Locked {
    cancelled: bool,
    wakes: u32,
}

impl Token for LockedEvent {
    type Seen = Self;

    fn new() -> Self {
        Self { state: Arc::new((Mutex::new(Locked { cancelled: false, wakes: 0 }), Condvar::new())) }
    }

    fn observe(&self) -> Self {
        self.clone()
    }

    fn wait(seen: &Self) -> bool {
        let mut state = seen.state.0.lock().unwrap();
        while !state.cancelled && state.wakes == 0 {
            state = seen.state.1.wait(state).unwrap();
        }
        state.cancelled
    }

    fn is_cancelled(seen: &Self) -> bool {
        seen.state.0.lock().unwrap().cancelled
    }

    fn cancel(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.cancelled = true;
        state.wakes += 1;
        self.state.1.notify_all();
    }

    fn reset(&self) {
        self.state.0.lock().unwrap().cancelled = false;
    }
}

/// Wakes the waiters, then writes the word.
#[derive(Clone)]
pub(crate) struct WakeFirst {
    word: Arc<AtomicU64>,
    waiters: Arc<Mutex<Vec<Parker>>>,
}

impl Token for WakeFirst {
    type Seen = (Self, u64);

    fn new() -> Self {
        Self { word: Arc::new(AtomicU64::new(0)), waiters: Arc::default() }
    }

    fn observe(&self) -> (Self, u64) {
        (self.clone(), self.word.load(Ordering::SeqCst) & !1)
    }

    fn wait(seen: &Self::Seen) -> bool {
        let parker = Parker::new();
        loop {
            let mut waiters = seen.0.waiters.lock().unwrap();
            if Self::is_cancelled(seen) {
                return true;
            }
            waiters.push(parker.clone());
            drop(waiters);
            parker.park();
        }
    }

    fn is_cancelled((token, seen): &Self::Seen) -> bool {
        token.word.load(Ordering::SeqCst) > *seen
    }

    fn cancel(&self) {
        let woken = std::mem::take(&mut *self.waiters.lock().unwrap());
        for parker in woken {
            parker.unpark();
        }
        self.word.fetch_or(1, Ordering::SeqCst);
    }

    fn reset(&self) {
        let word = self.word.load(Ordering::SeqCst);
        self.word.store((word | 1) + 1, Ordering::SeqCst);
    }
}

/// Reads the generation, then stores the next one without looking again.
#[derive(Clone)]
pub(crate) struct BlindReset {
    word: Arc<AtomicU64>,
}

impl Token for BlindReset {
    type Seen = (Self, u64);

    fn new() -> Self {
        Self { word: Arc::new(AtomicU64::new(0)) }
    }

    fn observe(&self) -> (Self, u64) {
        (self.clone(), self.word.load(Ordering::SeqCst) & !1)
    }

    fn wait((token, seen): &Self::Seen) -> bool {
        token.word.load(Ordering::SeqCst) > *seen
    }

    fn is_cancelled((token, seen): &Self::Seen) -> bool {
        token.word.load(Ordering::SeqCst) > *seen
    }

    fn cancel(&self) {
        self.word.fetch_or(1, Ordering::SeqCst);
    }

    fn reset(&self) {
        self.reset_seen(&self.observe());
    }
}

impl ResetIf for BlindReset {
    fn reset_seen(&self, (_, seen): &Self::Seen) -> bool {
        let word = self.word.load(Ordering::SeqCst);
        let is_meant = word == seen | 1;
        if is_meant {
            self.word.store(word + 1, Ordering::SeqCst);
        }
        is_meant
    }

    fn is_cancelled_now(&self) -> bool {
        self.word.load(Ordering::SeqCst) & 1 == 1
    }
}

/// A reset opens a generation even when the present one is live.
#[derive(Clone)]
pub(crate) struct AlwaysOpens {
    state: Arc<Mutex<(u64, BTreeSet<u64>)>>,
}

impl Token for AlwaysOpens {
    type Seen = (Self, u64);

    fn new() -> Self {
        Self { state: Arc::default() }
    }

    fn observe(&self) -> (Self, u64) {
        (self.clone(), self.state.lock().unwrap().0)
    }

    fn wait(seen: &Self::Seen) -> bool {
        Self::is_cancelled(seen)
    }

    fn is_cancelled((token, seen): &Self::Seen) -> bool {
        token.state.lock().unwrap().1.contains(seen)
    }

    fn cancel(&self) {
        let mut state = self.state.lock().unwrap();
        let generation = state.0;
        state.1.insert(generation);
    }

    fn reset(&self) {
        self.state.lock().unwrap().0 += 1;
    }
}

/// The parent knows its children, and a child joins the list after it asked whether it should.
#[derive(Clone)]
pub(crate) struct ChildList {
    cancelled: Arc<AtomicBool>,
    children: Arc<Mutex<Vec<ChildList>>>,
}

impl Parent for ChildList {
    fn new() -> Self {
        Self { cancelled: Arc::new(AtomicBool::new(false)), children: Arc::default() }
    }

    fn child(&self) -> Self {
        let child = Self::new();
        child.cancelled.store(self.is_cancelled(), Ordering::SeqCst);
        self.children.lock().unwrap().push(child.clone());
        child
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        for child in self.children.lock().unwrap().drain(..) {
            child.cancel();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }
}
