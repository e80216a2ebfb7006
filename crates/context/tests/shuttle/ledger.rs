//! The ledger of a node under many schedules: requests at once, of which some spend and some go away.

use std::sync::Arc;

use context::{ContextLedger, RESERVE_MIN};
use sync::primitives::{Mutex, lock, thread};

/// As much as three who ask for [`WANTED`] cannot all have.
const WINDOW: u32 = 1_000;
const WANTED: u32 = 400;
const ASKERS: u32 = 3;

/// The operations of every ledger.
pub(crate) trait Keeps: Send + Sync {
    /// Takes tokens, or what is left of them; none if that is too little.
    fn reserve(&self, tokens: u32) -> Option<u32>;
    /// Settles what was granted: so much of it was used, and the rest goes back.
    fn settle(&self, granted: u32, used: u32);
    /// The used and the reserved tokens.
    fn view(&self) -> (u32, u32);
}

pub(crate) type Make = fn() -> Arc<dyn Keeps>;

/// Three ask at once. The first spends all, the second half, the third goes away with nothing; then each asks
/// again.
pub(crate) fn never_sums_above_the_window(make: Make) {
    let ledger = make();
    let askers: Vec<_> = (0..ASKERS)
        .map(|asker| {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let mut spent = 0;
                for _ in 0..2 {
                    let Some(granted) = ledger.reserve(WANTED) else { continue };
                    let (used, reserved) = ledger.view();
                    assert!(used + reserved <= WINDOW, "promised above the window: {used} + {reserved}");
                    let used = match asker {
                        0 => granted,
                        1 => granted / 2,
                        _ => 0,
                    };
                    ledger.settle(granted, used);
                    spent += used;
                }
                spent
            })
        })
        .collect();
    let spent: u32 = askers.into_iter().map(|asker| asker.join().expect("an asker does not panic")).sum();
    assert_eq!(ledger.view(), (spent, 0), "the ledger does not add up: {spent} were spent");
}

/// Ours.
struct Ours(ContextLedger, Mutex<Vec<context::Reservation>>);

pub(crate) fn ours() -> Arc<dyn Keeps> {
    Arc::new(Ours(ContextLedger::new(WINDOW), Mutex::new(Vec::new())))
}

impl Keeps for Ours {
    fn reserve(&self, tokens: u32) -> Option<u32> {
        let held = self.0.reserve(tokens).ok()?;
        let granted = held.granted();
        lock(&self.1).push(held);
        Some(granted)
    }

    fn settle(&self, granted: u32, used: u32) {
        let held = {
            let mut all = lock(&self.1);
            let at = all.iter().position(|held| held.granted() == granted).expect("it was granted");
            all.remove(at)
        };
        // A request that used nothing just goes away.
        if used > 0 {
            held.spend(used);
        }
    }

    fn view(&self) -> (u32, u32) {
        let view = self.0.view();
        (view.used, view.reserved)
    }
}

/// The flaw of a ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Looks how much is left, and then takes it.
    LooksThenTakes,
    /// Gives back what was granted, and then writes down what was used.
    GivesBackFirst,
}

struct Naive(Mutex<(u32, u32)>, Flaw);

pub(crate) fn looks_then_takes() -> Arc<dyn Keeps> {
    Arc::new(Naive(Mutex::new((0, 0)), Flaw::LooksThenTakes))
}

pub(crate) fn gives_back_first() -> Arc<dyn Keeps> {
    Arc::new(Naive(Mutex::new((0, 0)), Flaw::GivesBackFirst))
}

impl Keeps for Naive {
    fn reserve(&self, tokens: u32) -> Option<u32> {
        let mut state = lock(&self.0);
        let left = WINDOW - (state.0 + state.1).min(WINDOW);
        if left < tokens && left < RESERVE_MIN {
            return None;
        }
        if self.1 == Flaw::LooksThenTakes {
            drop(state);
            state = lock(&self.0);
        }
        let granted = tokens.min(left);
        state.1 += granted;
        Some(granted)
    }

    fn settle(&self, granted: u32, used: u32) {
        let mut state = lock(&self.0);
        state.1 -= granted;
        if self.1 == Flaw::GivesBackFirst {
            drop(state);
            state = lock(&self.0);
        }
        state.0 += used;
    }

    fn view(&self) -> (u32, u32) {
        *lock(&self.0)
    }
}
