//! A way to find candidates, and how it fails.
//!
//! # Not here
//! Running one: a [`SearchStrategy`] may fail, panic, hang or return too much, and
//! [`ParallelStrategyExecutor`](crate::ParallelStrategyExecutor) is where that is borne.

use std::error::Error;

use crate::{Name, StopCause, StopCheck};

/// A way to find candidates in what was prepared for all strategies.
///
/// Strategies of one pipeline share their two types and are held as
/// `Arc<dyn SearchStrategy<RequestInputs = P, Candidate = C>>`.
///
/// ```
/// use context::{Name, StopCheck, SearchStrategy, StrategyError};
///
/// struct Longest(Name);
///
/// impl SearchStrategy for Longest {
///     type Prepared = Vec<String>;
///     type Candidate = String;
///
///     fn name(&self) -> &Name {
///         &self.0
///     }
///
///     fn find(&self, lines: &Vec<String>, limit: usize, stop: &StopCheck) -> Result<Vec<String>, StrategyError> {
///         let mut found = Vec::new();
///         for line in lines {
///             stop.check()?;
///             found.push(line.clone());
///         }
///         found.sort_by_key(|line| std::cmp::Reverse(line.len()));
///         found.truncate(limit);
///         Ok(found)
///     }
/// }
/// ```
pub trait SearchStrategy: Send + Sync {
    /// The input that is prepared once and read by every strategy.
    type Prepared: Send + Sync + 'static;
    /// A proposal.
    type Candidate: Send + 'static;

    /// Returns the name, which is the key of the circuit breaker. Answers at once and always the same.
    fn name(&self) -> &Name;

    /// Proposes at most `limit` candidates, the best first; what is over is cut.
    ///
    /// Looks at `stop` after at most 1 ms of work. It has no effect but its answer, because an abandoned run
    /// continues concurrently with later ones until it looks.
    ///
    /// # Errors
    /// Returns an error if it cannot answer. Nothing found is no error.
    fn find(
        &self,
        prepared: &Self::Prepared,
        limit: usize,
        stop: &StopCheck,
    ) -> Result<Vec<Self::Candidate>, StrategyError>;
}

/// The error of a strategy.
#[derive(Debug, thiserror::Error)]
pub enum StrategyError {
    /// The strategy was stopped.
    #[error(transparent)]
    Stopped(#[from] StopCause),
    /// Something that it needed failed.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl StrategyError {
    /// It failed because of `source`, an error or a text.
    pub fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(source.into())
    }
}
