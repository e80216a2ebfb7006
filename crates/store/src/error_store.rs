//! The port for error histories: recorded, counted and decided on in one atomic step.

use async_trait::async_trait;
use domain::{Claim, ErrorHistory, NewError, PlanId, RecoveryAdvice, RecoveryPolicy};

use crate::StoreError;

/// Stores the error histories of plans.
///
/// Recording demands no [`Effect`](sync::Effect): an error is the account of an effect that ended, and has to
/// be stored also while the gate is closing. The claim still fences it.
#[async_trait]
pub trait ErrorStore: Send + Sync {
    /// Finds or creates the plan's history, appends, folds, counts and decides: one step. The same error id
    /// again answers as the first time and merges its details, as long as the record is among those stored
    /// whole.
    async fn record_error(
        &self,
        claim: &Claim,
        policy: &RecoveryPolicy,
        error: NewError,
        jitter: u16,
    ) -> Result<RecoveryAdvice, StoreError>;

    /// A snapshot of the plan's history; empty for a plan without errors.
    async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError>;
}
