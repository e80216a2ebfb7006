//! A provider behind a circuit breaker: one that fails again and again is given a rest.
//!
//! | the call | its breaker hears |
//! |---|---|
//! | an answer; auth, invalid_input: the server works | success |
//! | connection, timeout, overloaded | failure |
//! | all else (rate limits, broken answers, a cancel) | nothing |
//!
//! # Invariants
//! 1. While the breaker is open nothing is sent: the error is `overloaded`, with the rest of the cool-down. While one call
//!    tries whether the provider answers again, the others are turned away too, without saying for how long. Who is turned
//!    away has made no try, and is told what the last one came to.
//! 2. A call that is dropped or cancelled is neither success nor failure.
//! 3. Who trips or closes the breaker tells of it, once, after the fact and under no lock. An answer that closes nothing is
//!    told too: the breaker of another process may be the one that was heard of last.

use std::sync::Arc;

use async_trait::async_trait;
use domain::ErrorCategory;
use sync::primitives::{Mutex, lock};
use sync::{Breaker, Observed, Permit, Recorded, Rejected, Why};

use super::error::{Cause, ModelError};
use super::request::{Heard, ModelAnswer, ModelRequest, Provider};

/// Hears when the breaker before a provider opens or closes.
pub trait BreakerNews: Send + Sync {
    /// `how` is `Tripped`, `Reopened` or `Closed`.
    fn changed(&self, breaker: &str, how: Recorded);

    /// The provider answered, and its breaker was closed before.
    fn answered(&self, breaker: &str) {
        let _ = breaker;
    }
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNews;

impl BreakerNews for NoNews {
    fn changed(&self, _: &str, _: Recorded) {}
}

/// A provider behind its breaker.
pub struct Guarded {
    inner: Arc<dyn Provider>,
    /// As people call the provider.
    name: String,
    breaker: Breaker,
    news: Arc<dyn BreakerNews>,
    /// What the last failure said that counted, for those who are turned away.
    last_failure: Mutex<Option<String>>,
}

impl Guarded {
    /// `inner` behind `breaker`.
    pub fn new(
        inner: Arc<dyn Provider>,
        name: &str,
        breaker: Breaker,
        news: Arc<dyn BreakerNews>,
    ) -> Guarded {
        Guarded { inner, name: name.to_owned(), breaker, news, last_failure: Mutex::new(None) }
    }

    fn turned_away(&self, rejected: Rejected) -> ModelError {
        let (what, retry_after) = match rejected.why {
            Why::CoolingDown => {
                let left = format!("it is asked again in {:.1} s", rejected.retry_after.as_secs_f64());
                (left, Some(rejected.retry_after))
            }
            // How long a probe may take is far more than it mostly does: whoever waits for that waits in vain.
            Why::Probing => ("somebody tries whether it answers again".to_owned(), None),
        };
        let last = lock(&self.last_failure).as_ref().map(|last| format!("; it failed with: {last}"));
        let last = last.unwrap_or_default();
        ModelError {
            category: ErrorCategory::Overloaded,
            message: format!("{} failed too often and is given a rest: {what}{last}", self.name),
            retry_after,
            was_sent: false,
            cause: Cause::Resting,
        }
    }

    fn settle(&self, permit: Permit, outcome: Result<(), &ModelError>) {
        let recorded = match outcome {
            Ok(()) => permit.succeed(),
            Err(ModelError { cause: Cause::Cancelled(_), .. }) => permit.abandon(),
            Err(error) => match error.category {
                ErrorCategory::Connection | ErrorCategory::Timeout | ErrorCategory::Overloaded => {
                    *lock(&self.last_failure) = Some(error.message.clone());
                    permit.fail()
                }
                ErrorCategory::Auth | ErrorCategory::InvalidInput => permit.succeed(),
                ErrorCategory::RateLimit
                | ErrorCategory::Resource
                | ErrorCategory::Tool
                | ErrorCategory::ModelOutput
                | ErrorCategory::Validation
                | ErrorCategory::MergeConflict
                | ErrorCategory::Sandbox
                | ErrorCategory::Budget
                | ErrorCategory::Internal => permit.abandon(),
            },
        };
        if recorded.is_change() {
            self.news.changed(self.breaker.name(), recorded);
        } else if outcome.is_ok() && recorded == Recorded::Counted {
            self.news.answered(self.breaker.name());
        }
    }
}

#[async_trait]
impl Provider for Guarded {
    async fn answer(
        &self,
        request: &ModelRequest,
        heard: Heard<'_>,
        scope: &Observed,
    ) -> Result<ModelAnswer, ModelError> {
        if let Some(reason) = scope.reason() {
            return Err(ModelError::cancelled(reason, false));
        }
        let permit = self.breaker.try_acquire().map_err(|rejected| self.turned_away(rejected))?;
        let answer = self.inner.answer(request, heard, scope).await;
        self.settle(permit, answer.as_ref().map(|_| ()));
        answer
    }

    fn resting(&self) -> Option<ModelError> {
        self.breaker.rejection().map(|rejected| self.turned_away(rejected))
    }
}
