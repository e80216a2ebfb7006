//! Throws a plan away: `plan discard` ends it, if it has not ended, and forgets it with its changes.
//!
//! # Invariants
//! 1. A plan that is in the user's files is not discarded: its undo would be lost.
//! 2. A plan that runs is cancelled first, so nothing of it happens afterwards.
//! 3. The plan is forgotten in one step. One that another process took up in between stays.

use std::time::Duration;

use domain::PlanId;
use store::{PlanStoreError, StoreError};

use super::cancel::CancelError;
use crate::engine::Engine;

/// The reason with which a plan that has not ended is cancelled.
const REASON: &str = "discarded by the user";

/// The reason why a plan was not discarded.
#[derive(Debug, thiserror::Error)]
pub enum DiscardError {
    /// It is in the user's files.
    #[error("plan {plan} is applied")]
    Applied {
        /// The plan.
        plan: PlanId,
    },
    /// Another process took it up meanwhile.
    #[error("plan {plan} was taken up by another process")]
    Busy {
        /// The plan.
        plan: PlanId,
    },
    /// It could not be ended.
    #[error(transparent)]
    Cancel(#[from] CancelError),
    /// The plan cannot be read or forgotten.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
    /// Its undo journal cannot be removed.
    #[error("the undo journal cannot be removed: {0}")]
    Io(#[from] std::io::Error),
}

impl From<StoreError> for DiscardError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl Engine {
    /// Ends the plan and forgets it with its changes. Waits, as long as `wait`, for the process that works on
    /// it.
    ///
    /// # Errors
    /// Returns an error, and forgets nothing, if the plan is applied or cannot be ended.
    pub async fn discard(&self, id: PlanId, wait: Duration) -> Result<(), DiscardError> {
        let plan = self.inner.store.plan(id).await?;
        if plan.is_applied() {
            return Err(DiscardError::Applied { plan: id });
        }
        if !plan.state.is_final() {
            self.cancel(id, REASON, wait).await?;
        }
        let applies = self.inner.store.applies(id).await?;
        if self.inner.store.forget(vec![id]).await?.is_empty() {
            return Err(DiscardError::Busy { plan: id });
        }
        for apply in applies {
            self.inner.journals.forget_undo(apply.id)?;
        }
        Ok(())
    }
}
