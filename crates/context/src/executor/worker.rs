//! What a thread of the pool does with one strategy: begin it, bear what it does, leave the answer in its slot.
//!
//! # Invariants
//! 1. The worker never settles a permit: it leaves an answer, and the collector decides.
//! 2. All code of the strategy runs contained: finding, cutting, and the words of its error.
//! 3. It holds what its own strategy needs and no more, since an abandoned one may hold it for long.

use std::sync::Arc;

use sync::{CircuitBreaker, Clock, contained};

use super::error_message::error_message;
use super::pool::{Job, Refused, RunId};
use super::slots::{Answer, NotBegun, Slots};
use crate::{Name, Stop, Strategy};

/// One strategy of a batch, on its way to a thread.
pub(super) struct StrategyJob<S: Strategy + ?Sized> {
    pub(super) index: usize,
    pub(super) name: Name,
    pub(super) strategy: Arc<S>,
    pub(super) prepared: Arc<S::Prepared>,
    pub(super) limit: usize,
    /// The batch's; the strategy gets one of its own.
    pub(super) stop: Stop,
    pub(super) slots: Arc<Slots<S::Candidate>>,
    pub(super) breakers: CircuitBreaker,
    pub(super) clock: Arc<dyn Clock>,
}

impl<S: Strategy + ?Sized + 'static> Job for StrategyJob<S> {
    fn name(&self) -> &Name {
        &self.name
    }

    fn run(self, run: RunId) {
        if self.stop.observed().is_cancelled() {
            return;
        }
        let token = self.stop.observed().child();
        let observed = token.observe();
        let begun = self.slots.start(self.index, &self.name, &self.breakers, run, token);
        let Some(due) = begun else {
            return;
        };
        let answer = self.find(&Stop::new(observed, Some(due), Arc::clone(&self.clock)));
        let late = self.slots.end(self.index, answer);
        drop(late);
    }

    fn refuse(self, why: Refused) {
        let why = match why {
            Refused::Hung => NotBegun::Hung,
            Refused::NoThread => NotBegun::NoTurn,
        };
        self.slots.refuse(self.index, why);
    }
}

impl<S: Strategy + ?Sized> StrategyJob<S> {
    fn find(&self, stop: &Stop) -> Answer<S::Candidate> {
        let found = contained(|| match self.strategy.find(&self.prepared, self.limit, stop) {
            Ok(mut candidates) => {
                let cut = candidates.len().saturating_sub(self.limit);
                candidates.truncate(self.limit);
                Answer::Found { candidates, cut }
            }
            Err(error) => Answer::Failed(error_message(&error)),
        });
        found.unwrap_or_else(|panicked| Answer::Panicked(panicked.message))
    }
}
