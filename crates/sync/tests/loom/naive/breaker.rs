//! Naive breakers. `LoadThenStore` is the bug of report #7088, word for word in another language.

use std::collections::HashMap;
use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::breaker::{Answer, Counting, Probing, Registry};

/// #7088: read the count, add one, write it back.
pub(crate) struct LoadThenStore {
    threshold: u32,
    failures: AtomicU32,
    disabled: AtomicBool,
}

impl Counting for LoadThenStore {
    fn with_threshold(threshold: u32) -> Self {
        Self { threshold, failures: AtomicU32::new(0), disabled: AtomicBool::new(false) }
    }

    fn record_failure(&self) -> bool {
        let count = self.failures.load(Ordering::SeqCst) + 1;
        self.failures.store(count, Ordering::SeqCst);
        if count >= self.threshold {
            self.disabled.store(true, Ordering::SeqCst);
        }
        count == self.threshold
    }

    fn record_success(&self) {
        self.failures.store(0, Ordering::SeqCst);
        self.disabled.store(false, Ordering::SeqCst);
    }

    fn is_open(&self) -> bool {
        self.disabled.load(Ordering::SeqCst)
    }

    fn failures(&self) -> u32 {
        self.failures.load(Ordering::SeqCst)
    }
}

/// An atomic count beside an atomic flag: each right, together not.
pub(crate) struct TwoWords {
    threshold: u32,
    failures: AtomicU32,
    disabled: AtomicBool,
}

impl Counting for TwoWords {
    fn with_threshold(threshold: u32) -> Self {
        Self { threshold, failures: AtomicU32::new(0), disabled: AtomicBool::new(false) }
    }

    fn record_failure(&self) -> bool {
        self.failures.fetch_add(1, Ordering::SeqCst);
        if self.failures.load(Ordering::SeqCst) >= self.threshold {
            let was = self.disabled.load(Ordering::SeqCst);
            self.disabled.store(true, Ordering::SeqCst);
            return !was;
        }
        false
    }

    fn record_success(&self) {
        self.failures.store(0, Ordering::SeqCst);
        self.disabled.store(false, Ordering::SeqCst);
    }

    fn is_open(&self) -> bool {
        self.disabled.load(Ordering::SeqCst)
    }

    fn failures(&self) -> u32 {
        self.failures.load(Ordering::SeqCst)
    }
}

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;

/// The state machine of a prober in one word, `[generation | state]`, with one mistake to choose.
pub(crate) struct Prober<const MISTAKE: u8> {
    word: AtomicU64,
}

const EVERYONE_IN: u8 = 0;
const LOSER_IN: u8 = 1;
const NO_LEASE: u8 = 2;
const NO_GENERATION: u8 = 3;
const BLIND_RESET: u8 = 4;

/// Half-open admits whoever asks.
pub(crate) type EveryoneIn = Prober<EVERYONE_IN>;
/// The thread that loses the swap to half-open takes that for success.
pub(crate) type LoserIn = Prober<LOSER_IN>;
/// A probe that never answers keeps the breaker half-open.
pub(crate) type NoLease = Prober<NO_LEASE>;
/// A result counts for whatever state it meets.
pub(crate) type NoGeneration = Prober<NO_GENERATION>;
/// The reset reads the generation and stores the next one, without a swap.
pub(crate) type BlindReset = Prober<BLIND_RESET>;

impl<const MISTAKE: u8> Prober<MISTAKE> {
    fn load(&self) -> u64 {
        self.word.load(Ordering::SeqCst)
    }

    fn swap(&self, from: u64, to: u64) -> bool {
        self.word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn settle(&self, permit: u64, state: u64) -> Answer {
        loop {
            let word = self.load();
            if MISTAKE != NO_GENERATION && word >> 2 != permit >> 2 {
                return Answer::Stale;
            }
            if self.swap(word, ((word >> 2) + 1) << 2 | state) {
                return Answer::Moved;
            }
        }
    }
}

impl<const MISTAKE: u8> Probing for Prober<MISTAKE> {
    type Permit = u64;

    fn due() -> (Self, u64) {
        (Self { word: AtomicU64::new(1 << 2 | OPEN) }, CLOSED)
    }

    fn acquire(&self) -> Option<u64> {
        loop {
            let word = self.load();
            let next = ((word >> 2) + 1) << 2 | HALF_OPEN;
            match word & 3 {
                CLOSED => return Some(word),
                HALF_OPEN => return (MISTAKE == EVERYONE_IN).then_some(word),
                _ if self.swap(word, next) || MISTAKE == LOSER_IN => return Some(next),
                _ => continue,
            }
        }
    }

    fn succeed(&self, permit: u64) -> Answer {
        self.settle(permit, CLOSED)
    }

    fn fail(&self, permit: u64) -> Answer {
        // Without a lease the hung probe is simply never heard of again.
        if MISTAKE == NO_LEASE { Answer::Stale } else { self.settle(permit, OPEN) }
    }

    fn abandon(&self, permit: u64) {
        self.settle(permit, OPEN);
    }

    fn trip(&self) -> bool {
        let word = self.load();
        word & 3 == CLOSED && self.swap(word, ((word >> 2) + 1) << 2 | OPEN)
    }

    fn reset(&self) {
        loop {
            let word = self.load();
            let next = ((word >> 2) + 1) << 2 | CLOSED;
            if MISTAKE == BLIND_RESET {
                return self.word.store(next, Ordering::SeqCst);
            }
            if self.swap(word, next) {
                return;
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.load() & 3 == CLOSED
    }

    fn pass_time(&self) {}
}

/// Looks the name up, then inserts it, in two critical sections.
pub(crate) struct CheckThenInsert {
    names: Mutex<HashMap<&'static str, Arc<AtomicU32>>>,
}

impl Registry for CheckThenInsert {
    fn with_threshold_2() -> Self {
        Self { names: Mutex::new(HashMap::new()) }
    }

    fn fail_by_name(&self) -> bool {
        let known = self.names.lock().unwrap().get("new").cloned();
        let breaker = known.unwrap_or_else(|| {
            let made = Arc::new(AtomicU32::new(0));
            self.names.lock().unwrap().insert("new", Arc::clone(&made));
            made
        });
        breaker.fetch_add(1, Ordering::SeqCst) + 1 == 2
    }
}
