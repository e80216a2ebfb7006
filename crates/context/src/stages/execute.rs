//! Stage 3: running strategies, as the pipeline sees it.
//!
//! # Invariants
//! 1. One run for each strategy, in their order.

use domain::context::Candidate;

use crate::strategies::ContextStrategy;
use crate::{Batch, BatchCancelled, ParallelStrategyExecutor, StrategyRun};

/// Runs strategies.
pub trait StrategyExecutor: Send + Sync {
    /// Runs a batch; see [`ParallelStrategyExecutor::execute`].
    ///
    /// # Errors
    /// The batch was cancelled.
    fn execute(
        &self,
        batch: Batch<dyn ContextStrategy>,
    ) -> Result<Vec<StrategyRun<Candidate>>, BatchCancelled>;
}

impl StrategyExecutor for ParallelStrategyExecutor<dyn ContextStrategy> {
    fn execute(
        &self,
        batch: Batch<dyn ContextStrategy>,
    ) -> Result<Vec<StrategyRun<Candidate>>, BatchCancelled> {
        ParallelStrategyExecutor::execute(self, batch)
    }
}
