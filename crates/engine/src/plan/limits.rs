//! Sets new limits of a plan, as the user asks.

use domain::{Ledger, LimitTooLow, PlanId, PlanState, SpendKind};
use store::{LedgerStoreError, PlanStoreError};

use crate::engine::Engine;

/// Why limits were not set.
#[derive(Debug, thiserror::Error)]
pub enum LimitsError {
    /// It has ended for good, so there is nothing to limit.
    #[error("plan {plan} is {state}, which is final")]
    Final {
        /// The plan.
        plan: PlanId,
        /// Its end.
        state: PlanState,
    },
    /// One is below what the plan has used already.
    #[error(transparent)]
    TooLow(#[from] LimitTooLow),
    /// The plan cannot be read or written.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
    /// The accounts say no in another way.
    #[error(transparent)]
    Ledger(LedgerStoreError),
}

impl From<LedgerStoreError> for LimitsError {
    fn from(error: LedgerStoreError) -> Self {
        match error {
            LedgerStoreError::TooLow(low) => Self::TooLow(low),
            LedgerStoreError::NotFound { plan } => Self::Plan(PlanStoreError::NotFound { plan }),
            LedgerStoreError::Store(error) => Self::Plan(error.into()),
            other @ (LedgerStoreError::Limit(_)
            | LedgerStoreError::IdTaken { .. }
            | LedgerStoreError::NotReserved { .. }) => Self::Ledger(other),
        }
    }
}

impl Engine {
    /// Sets limits of a plan: all of these, or none. The amounts that it has used stay used.
    ///
    /// # Errors
    /// The plan is final or unknown, or a limit is below what was used already.
    pub async fn set_limits(
        &self,
        id: PlanId,
        limits: Vec<(SpendKind, Option<u64>)>,
    ) -> Result<Ledger, LimitsError> {
        let plan = self.inner.store.plan(id).await?;
        if plan.state.is_final() {
            return Err(LimitsError::Final { plan: id, state: plan.state });
        }
        Ok(self.inner.store.set_limits(id, limits).await?)
    }
}
