//! The token ledger of a node: the tokens of its window, reserved before they are used.
//!
//! # Invariants
//! 1. `used + reserved ≤ window` at every moment: looking and taking is one critical section.
//! 2. A [`Reservation`] is settled once: spent, or returned whole when it is dropped.
//!
//! # Not here
//! Money: that is the plan's ledger.

use std::fmt;
use std::sync::Arc;

use sync::primitives::{Mutex, lock};

/// The least partial grant, in tokens: a caller that finds less than it asked for gets the rest if it is at
/// least this.
pub const RESERVE_MIN: u32 = 256;

/// The tokens of one run of a node. Clones are the same ledger.
///
/// ```
/// use context::{ContextLedger, InsufficientTokens};
///
/// let ledger = ContextLedger::new(1000);
/// let first = ledger.reserve(800)?;
/// assert_eq!(ledger.reserve(300).map(|_| ()), Err(InsufficientTokens(200)));
/// first.spend(500);
/// assert_eq!(ledger.reserve(900)?.granted(), 500);
/// # Ok::<(), InsufficientTokens>(())
/// ```
#[derive(Clone)]
pub struct ContextLedger {
    state: Arc<Mutex<LedgerView>>,
}

/// The state of a ledger at one moment. In tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerView {
    /// All there ever was.
    pub window: u32,
    /// Spent.
    pub used: u32,
    /// Promised to requests that are under way.
    pub reserved: u32,
}

impl LedgerView {
    /// Returns the tokens that may still be reserved.
    pub fn available(self) -> u32 {
        self.window.saturating_sub(self.used).saturating_sub(self.reserved)
    }
}

/// Too little is left to be of use: so many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} tokens are left of the context budget")]
pub struct InsufficientTokens(pub u32);

impl ContextLedger {
    /// A ledger of `window` tokens.
    pub fn new(window: u32) -> Self {
        Self { state: Arc::new(Mutex::new(LedgerView { window, used: 0, reserved: 0 })) }
    }

    /// Takes `tokens`, or what is left of them if that is at least [`RESERVE_MIN`].
    ///
    /// # Errors
    /// How much is left, if it is too little.
    pub fn reserve(&self, tokens: u32) -> Result<Reservation, InsufficientTokens> {
        let mut state = lock(&self.state);
        let left = state.available();
        if left < tokens && left < RESERVE_MIN {
            return Err(InsufficientTokens(left));
        }
        let granted = tokens.min(left);
        state.reserved = state.reserved.saturating_add(granted);
        drop(state);
        Ok(Reservation { ledger: self.clone(), granted })
    }

    /// Returns the present state.
    pub fn view(&self) -> LedgerView {
        *lock(&self.state)
    }

    fn settle(&self, granted: u32, used: u32) {
        let mut state = lock(&self.state);
        state.reserved = state.reserved.saturating_sub(granted);
        state.used = state.used.saturating_add(used.min(granted));
    }
}

impl fmt::Debug for ContextLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ContextLedger").field(&self.view()).finish()
    }
}

/// Tokens that no other caller can take. Dropping it returns them.
#[derive(Debug)]
pub struct Reservation {
    ledger: ContextLedger,
    granted: u32,
}

impl Reservation {
    /// Returns the number of tokens that were granted: perhaps fewer than requested.
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// Spends `used` of them, at most what was granted, and returns the others.
    pub fn spend(mut self, used: u32) {
        let granted = std::mem::take(&mut self.granted);
        self.ledger.settle(granted, used);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.granted > 0 {
            self.ledger.settle(self.granted, 0);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn view(window: u32, used: u32, reserved: u32) -> LedgerView {
        LedgerView { window, used, reserved }
    }

    #[test]
    fn what_is_dropped_is_returned_and_what_is_spent_is_not() {
        let ledger = ContextLedger::new(1000);
        let held = ledger.reserve(600).expect("enough is there");
        assert_eq!(ledger.view(), view(1000, 0, 600));
        drop(held);
        assert_eq!(ledger.view(), view(1000, 0, 0));
        ledger.reserve(600).expect("enough is there").spend(9000);
        assert_eq!(ledger.view(), view(1000, 600, 0));
    }

    #[test]
    fn the_last_tokens_are_given_if_they_are_of_use() {
        let ledger = ContextLedger::new(RESERVE_MIN);
        assert_eq!(ledger.reserve(5000).map(|held| held.granted()), Ok(RESERVE_MIN));
        let ledger = ContextLedger::new(RESERVE_MIN - 1);
        assert_eq!(ledger.reserve(5000).map(|held| held.granted()), Err(InsufficientTokens(RESERVE_MIN - 1)));
        assert_eq!(ledger.reserve(10).map(|held| held.granted()), Ok(10));
    }

    #[test]
    fn requests_at_once_never_sum_above_the_window() {
        // 33 spend 300 each, and who comes then gets the last 280.
        let ledger = ContextLedger::new(10_180);
        let spent: u32 = std::thread::scope(|scope| {
            let askers: Vec<_> = (0..8)
                .map(|asker| {
                    let ledger = ledger.clone();
                    scope.spawn(move || {
                        let mut spent = 0;
                        while let Ok(held) = ledger.reserve(300 + asker) {
                            let view = ledger.view();
                            assert!(view.used + view.reserved <= view.window, "{view:?}");
                            let used = held.granted() - asker;
                            spent += used;
                            held.spend(used);
                        }
                        spent
                    })
                })
                .collect();
            askers.into_iter().map(|asker| asker.join().expect("no asker panics")).sum()
        });
        assert_eq!(ledger.view(), view(10_180, spent, 0));
        assert!(ledger.view().available() < RESERVE_MIN);
    }
}
