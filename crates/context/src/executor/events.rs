//! The strategies of the context pipeline behind their circuit breakers, with the breakers' moves reported as
//! events.
//!
//! # Invariants
//! 1. A breaker that opens or closes is reported exactly once, however many pipelines share it: the executor
//!    hands every change to exactly one caller.
//! 2. A sink that panics harms neither the assembly nor the breaker.

use std::sync::Arc;
use std::time::Duration;

use sync::{CircuitBreaker, Clock, contained};

use super::{Batch, ExecutorConfig, ExecutorConfigError, ParallelStrategyExecutor};
use crate::batch_result::{BatchCancelled, StrategyBreakerChange, StrategyRun};
use crate::strategy::SearchStrategy;

/// Something that happened in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A circuit breaker opened or closed.
    BreakerChanged {
        /// Its name.
        name: String,
        /// The move of the breaker.
        to: BreakerMove,
    },
}

/// The moves of a breaker that are worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerMove {
    /// It opened, for the first time or again.
    Opened {
        /// For how long.
        cool_down: Duration,
    },
    /// It closed.
    Closed,
}

impl BreakerMove {
    /// Returns the move that an answer of the breaker reports; `None` if there is none.
    pub(crate) fn from_recorded(recorded: sync::RecordOutcome) -> Option<Self> {
        match recorded {
            sync::RecordOutcome::Tripped { cool_down } | sync::RecordOutcome::Reopened { cool_down } => {
                Some(Self::Opened { cool_down })
            }
            sync::RecordOutcome::Closed => Some(Self::Closed),
            sync::RecordOutcome::Counted | sync::RecordOutcome::Returned | sync::RecordOutcome::Stale => None,
        }
    }
}

/// A receiver of events. Called without a lock held; must not block.
pub trait EventSink: Send + Sync {
    /// Takes note of `event`.
    fn emit(&self, event: &Event);
}

/// Emits an event. If the sink panics, the event is lost to that sink only.
pub(crate) fn emit(sink: &dyn EventSink, event: &Event) {
    let _ = contained(|| sink.emit(event));
}

/// Runs the strategies of this process's pipelines.
pub struct ContextStrategies<S: SearchStrategy + ?Sized + 'static> {
    executor: ParallelStrategyExecutor<S>,
    sink: Arc<dyn EventSink>,
}

impl<S: SearchStrategy + ?Sized + 'static> ContextStrategies<S> {
    /// Returns an executor that shares `breakers` with all pipelines of the process and reports their moves
    /// to `sink`.
    ///
    /// # Errors
    /// A value of `config` out of its bounds.
    pub fn new(
        config: ExecutorConfig,
        breakers: CircuitBreaker,
        clock: Arc<dyn Clock>,
        sink: Arc<dyn EventSink>,
    ) -> Result<Self, ExecutorConfigError> {
        Ok(Self { executor: ParallelStrategyExecutor::new(config, breakers, clock)?, sink })
    }

    /// Runs a batch; see [`ParallelStrategyExecutor::execute`].
    ///
    /// # Errors
    /// The batch was cancelled.
    pub fn execute(&self, batch: Batch<S>) -> Result<Vec<StrategyRun<S::Candidate>>, BatchCancelled> {
        let answer = self.executor.execute(batch);
        match &answer {
            Ok(runs) => runs.iter().filter_map(StrategyRun::change).for_each(|change| self.tell(&change)),
            Err(cancelled) => cancelled.changes.iter().for_each(|change| self.tell(change)),
        }
        answer
    }

    fn tell(&self, change: &StrategyBreakerChange) {
        if let Some(to) = BreakerMove::from_recorded(change.recorded) {
            emit(&*self.sink, &Event::BreakerChanged { name: change.name.to_string(), to });
        }
    }
}

impl<S: SearchStrategy + ?Sized + 'static> std::fmt::Debug for ContextStrategies<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextStrategies").finish_non_exhaustive()
    }
}
