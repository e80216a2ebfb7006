//! Records, counts and decides on a reported failure, in one transaction of the store.
//!
//! # Invariants
//! 1. There is no get-or-create in the interface: no caller holds a history that another one may overwrite.
//! 2. Equal reports, by the error's id, have equal answers: the jitter of a backoff comes out of the id
//!    itself.
//! 3. A cancel is no error and is not reported here.

use std::sync::Arc;

use domain::{Claim, ErrorHistory, NewError, PlanId, RecoveryAdvice, RecoveryPolicy};
use store::{ErrorStore, StoreError};

/// Records errors of plans and answers what to do about each. `Clone` is the same service.
#[derive(Clone)]
pub struct ErrorRecoveryService {
    store: Arc<dyn ErrorStore>,
    policy: RecoveryPolicy,
}

impl ErrorRecoveryService {
    /// A service that decides by `policy`.
    pub fn new(store: Arc<dyn ErrorStore>, policy: RecoveryPolicy) -> Self {
        Self { store, policy }
    }

    /// The same, for a step that says itself how often it may be done again.
    #[must_use]
    pub fn of_step(&self, retries: Option<u32>) -> Self {
        let policy = retries.map_or(self.policy, |retries| self.policy.with_retries_per_step(retries));
        Self { store: Arc::clone(&self.store), policy }
    }

    /// Records an error of the plan that `claim` owns, and decides.
    ///
    /// # Errors
    /// The lease is lost, or the store failed; then nothing is recorded.
    pub async fn record_error(&self, claim: &Claim, error: NewError) -> Result<RecoveryAdvice, StoreError> {
        let jitter = jitter_of(&error);
        self.store.record_error(claim, &self.policy, error, jitter).await
    }

    /// A snapshot of the plan's errors.
    ///
    /// # Errors
    /// The store failed.
    pub async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError> {
        self.store.history(plan).await
    }
}

impl std::fmt::Debug for ErrorRecoveryService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ErrorRecoveryService").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// 16 bits that depend on all of the id. Ids of one millisecond differ in their last bits only, and it is
/// just those that fail together.
fn jitter_of(error: &NewError) -> u16 {
    const ODD: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
    (error.id().as_u128().wrapping_mul(ODD) >> 112) as u16
}
