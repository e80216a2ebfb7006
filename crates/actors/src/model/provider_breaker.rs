//! A provider behind a circuit breaker: one that fails again and again is given a rest.
//!
//! | the call | its breaker hears |
//! |---|---|
//! | an answer; auth, invalid_input: the server works | success |
//! | connection, timeout, overloaded | failure |
//! | all else (rate limits, broken answers, a cancel) | nothing |
//!
//! # Invariants
//! 1. Only an admitted caller asks. While the breaker is open no caller is admitted; while one call tries
//!    whether the provider answers again, the others are not. A caller that is turned away has made no call.
//!    It gets the result of the last call, and the rest of the wait if that is known.
//! 2. An admitted caller asks once, or gives the right back by dropping it: then the next one may try. A call
//!    that is dropped or cancelled is neither success nor failure.
//! 3. A call that trips or closes the breaker reports it, once, after the fact and under no lock. An answer
//!    that closes nothing is reported too: the last report may have been of another process's breaker.

use std::sync::Arc;
use std::time::Duration;

use domain::ErrorCategory;
use sync::primitives::{Mutex, lock};
use sync::{Breaker, Observed, Permit, RecordOutcome, RejectReason, Rejected};

use super::error::{Cause, ModelError};
use super::request::{ModelAnswer, ModelRequest, Provider, TextListener};

/// Hears when the breaker before a provider opens or closes.
pub trait BreakerListener: Send + Sync {
    /// `how` is `Tripped`, `Reopened` or `Closed`.
    fn changed(&self, breaker: &str, how: RecordOutcome);

    /// The provider answered, and its breaker was closed before.
    fn answered(&self, breaker: &str) {
        let _ = breaker;
    }
}

/// A listener that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoBreakerListener;

impl BreakerListener for NoBreakerListener {
    fn changed(&self, _: &str, _: RecordOutcome) {}
}

/// A provider, and the breaker before it.
pub struct GuardedProvider {
    inner: Arc<dyn Provider>,
    /// None: it never rests.
    guard: Option<ProviderGuard>,
}

struct ProviderGuard {
    /// As people call the provider.
    name: String,
    breaker: Breaker,
    news: Arc<dyn BreakerListener>,
    /// The message of the last failure that counted, for callers that are turned away.
    last_failure: Mutex<Option<String>>,
}

/// A provider that is not asked at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBreaker {
    /// The reason, for a person.
    pub why: String,
    /// The rest of its wait; `None` while a call tries whether it answers again, because the length of that
    /// is unknown.
    pub left: Option<Duration>,
}

/// The right to ask once. Dropped, it is given back.
#[must_use = "a permit that is not used prevents other callers from trying"]
pub struct ModelCallPermit<'a> {
    inner: &'a dyn Provider,
    permit: Option<(&'a ProviderGuard, Permit)>,
}

impl GuardedProvider {
    /// `inner` behind `breaker`.
    pub fn new(
        inner: Arc<dyn Provider>,
        name: &str,
        breaker: Breaker,
        news: Arc<dyn BreakerListener>,
    ) -> GuardedProvider {
        let guard = ProviderGuard { name: name.to_owned(), breaker, news, last_failure: Mutex::new(None) };
        GuardedProvider { inner, guard: Some(guard) }
    }

    /// One that is never given a rest.
    pub fn without_breaker(inner: Arc<dyn Provider>) -> GuardedProvider {
        GuardedProvider { inner, guard: None }
    }

    /// Asks to ask. Nothing is sent by this.
    ///
    /// # Errors
    /// Returns [`OpenBreaker`] if the breaker is open, or another call tries.
    pub fn admit(&self) -> Result<ModelCallPermit<'_>, OpenBreaker> {
        let permit = match &self.guard {
            Some(guard) => Some((guard, guard.admit()?)),
            None => None,
        };
        Ok(ModelCallPermit { inner: self.inner.as_ref(), permit })
    }
}

impl ModelCallPermit<'_> {
    /// Asks once, as [`Provider::answer`] does.
    ///
    /// # Errors
    /// Returns the same errors.
    pub async fn answer(
        self,
        request: &ModelRequest,
        heard: TextListener<'_>,
        scope: &Observed,
    ) -> Result<ModelAnswer, ModelError> {
        if let Some(reason) = scope.reason() {
            return Err(ModelError::cancelled(reason, false));
        }
        let answer = self.inner.answer(request, heard, scope).await;
        if let Some((guard, permit)) = self.permit {
            guard.settle(permit, answer.as_ref().map(|_| ()));
        }
        answer
    }
}

impl ProviderGuard {
    fn admit(&self) -> Result<Permit, OpenBreaker> {
        self.breaker.try_acquire().map_err(|rejected| self.turned_away(rejected))
    }

    fn turned_away(&self, rejected: Rejected) -> OpenBreaker {
        let (what, left) = match rejected.why {
            RejectReason::CoolingDown => ("", Some(rejected.retry_after)),
            // The limit of a probe is far more than it mostly takes: a caller that waits for it waits in
            // vain.
            RejectReason::Probing => (", and another call is checking if it answers again", None),
        };
        let last = lock(&self.last_failure).as_ref().map(|last| format!("; its last error: {last}"));
        let last = last.unwrap_or_default();
        OpenBreaker {
            why: format!("{} failed too often and is skipped for now{what}{last}", self.name),
            left,
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
        } else if outcome.is_ok() && recorded == RecordOutcome::Counted {
            self.news.answered(self.breaker.name());
        }
    }
}
