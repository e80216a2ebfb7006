//! The job of a pool thread for one strategy: start it, contain its failures, store the answer in its slot.
//!
//! # Invariants
//! 1. The worker never settles a permit: it leaves an answer, and the collector decides.
//! 2. All code of the strategy runs contained: finding, cutting, and the words of its error.
//! 3. It holds what its own strategy needs and no more, since an abandoned one may hold it for long.

use std::sync::Arc;

use sync::{CircuitBreaker, Clock, contained};

use super::error_message::error_message;
use super::pool::{JobRejection, PoolJob, RunId};
use super::slots::{Slots, StartRefusal, StrategyAnswer};
use crate::{Name, SearchStrategy, StopCheck};

/// One strategy of a batch, on its way to a thread.
pub(super) struct StrategyJob<S: SearchStrategy + ?Sized> {
    pub(super) index: usize,
    pub(super) name: Name,
    pub(super) strategy: Arc<S>,
    pub(super) prepared: Arc<S::Prepared>,
    pub(super) limit: usize,
    /// The batch's; the strategy gets one of its own.
    pub(super) stop: StopCheck,
    pub(super) slots: Arc<Slots<S::Candidate>>,
    pub(super) breakers: CircuitBreaker,
    pub(super) clock: Arc<dyn Clock>,
}

impl<S: SearchStrategy + ?Sized + 'static> PoolJob for StrategyJob<S> {
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
        let answer = self.find(&StopCheck::new(observed, Some(due), Arc::clone(&self.clock)));
        let late = self.slots.end(self.index, answer);
        drop(late);
    }

    fn refuse(self, why: JobRejection) {
        let why = match why {
            JobRejection::Hung => StartRefusal::Hung,
            JobRejection::NoThread => StartRefusal::NoTurn,
        };
        self.slots.refuse(self.index, why);
    }
}

impl<S: SearchStrategy + ?Sized> StrategyJob<S> {
    fn find(&self, stop: &StopCheck) -> StrategyAnswer<S::Candidate> {
        let found = contained(|| match self.strategy.find(&self.prepared, self.limit, stop) {
            Ok(mut candidates) => {
                let cut = candidates.len().saturating_sub(self.limit);
                candidates.truncate(self.limit);
                StrategyAnswer::Found { candidates, cut }
            }
            Err(error) => StrategyAnswer::Failed(error_message(&error)),
        });
        found.unwrap_or_else(|panicked| StrategyAnswer::Panicked(panicked.message))
    }
}
