//! Abandons an apply that can be neither finished nor rolled back, because its project will not come back.
//!
//! # Invariants
//! 1. Nothing of the user's is touched, and the journal is retained like those of applies that can be undone.
//! 2. An apply that a live process works on is not abandoned.
//! 3. The journal is moved first: if the process is killed before it updates the store, the next command ends
//!    the apply the same way.

use std::io;

use domain::{ApplyId, ApplyKind, PlanId};
use store::StoreError;

use super::locks::RootLocks;
use super::lost_journal;
use crate::engine::Engine;

/// An apply that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbandonedApply {
    /// Its name, and that of its journal.
    pub apply: ApplyId,
    /// Apply or undo.
    pub kind: ApplyKind,
}

/// Why nothing was given up.
#[derive(Debug, thiserror::Error)]
pub enum AbandonError {
    /// The plan has no interrupted apply.
    #[error("plan {plan} has no interrupted apply")]
    NotOpen {
        /// The plan.
        plan: PlanId,
    },
    /// A process works on it, or on its project.
    #[error("another process is working on the apply of plan {plan}, or on its project")]
    Busy {
        /// The plan.
        plan: PlanId,
    },
    /// The journal cannot be moved.
    #[error("the journal cannot be abandoned: {0}")]
    Io(#[from] io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Gives up what is open of a plan's applies.
    ///
    /// # Errors
    /// Returns an error if nothing is open, a process works on it, or the journal or the store failed.
    pub async fn set_aside(&self, plan: PlanId) -> Result<Vec<AbandonedApply>, AbandonError> {
        let open: Vec<_> = self.open_applies().iter().filter(|open| open.plan == Some(plan)).collect();
        if open.is_empty() {
            return Err(AbandonError::NotOpen { plan });
        }
        let mut given_up = Vec::new();
        for open in open {
            let locks = RootLocks::try_take(open.projects.clone(), &RootLocks::default());
            let Some(_locks) = locks.filter(|_| open.why.may_be_set_aside()) else {
                return Err(AbandonError::Busy { plan });
            };
            match self.inner.journals.abandon(open.apply) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    return Err(AbandonError::Busy { plan });
                }
                // Its journal is missing: only the store has to know.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            self.inner.store.end_apply(open.apply, lost_journal::set_aside()).await?;
            given_up.push(AbandonedApply { apply: open.apply, kind: open.kind });
        }
        Ok(given_up)
    }
}
