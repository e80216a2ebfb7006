//! The right to one try.

use super::transitions::Word;
use super::{Breaker, RecordOutcome};

/// The right to one try, settled once: [`succeed`](Self::succeed), [`fail`](Self::fail) or
/// [`abandon`](Self::abandon).
///
/// Dropped while panicking it counts as a failure, dropped otherwise it is abandoned, which is neutral:
/// cancelled work is neither a success nor a failure. A permit cannot be settled twice:
///
/// ```compile_fail,E0382
/// let permit = sync::CircuitBreaker::default().try_acquire("slow").expect("closed");
/// permit.succeed();
/// permit.fail();
/// ```
#[must_use = "a permit that is dropped is abandoned"]
pub struct Permit {
    breaker: Breaker,
    generation: u64,
    is_probe: bool,
    is_settled: bool,
}

impl Permit {
    pub(super) fn new(breaker: Breaker, word: Word) -> Self {
        Self { breaker, generation: word.generation(), is_probe: !word.is_closed(), is_settled: false }
    }

    /// Returns whether it is the one probe of a half-open breaker.
    pub fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// It worked.
    pub fn succeed(mut self) -> RecordOutcome {
        self.is_settled = true;
        self.breaker.settle(self.generation, Word::succeeded)
    }

    /// It failed.
    pub fn fail(mut self) -> RecordOutcome {
        self.is_settled = true;
        self.record_failure()
    }

    /// It has no outcome: cancelled, or never begun.
    pub fn abandon(mut self) -> RecordOutcome {
        self.is_settled = true;
        self.give_back()
    }

    fn record_failure(&self) -> RecordOutcome {
        let cell = &self.breaker.cell;
        self.breaker.settle(self.generation, |word| word.failed(&cell.shared.config, || cell.now()))
    }

    fn give_back(&self) -> RecordOutcome {
        self.breaker.settle(self.generation, |word| word.abandoned(|| self.breaker.cell.now()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        if std::thread::panicking() {
            self.record_failure();
        } else {
            self.give_back();
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit")
            .field("name", &self.breaker.name())
            .field("is_probe", &self.is_probe)
            .finish_non_exhaustive()
    }
}
