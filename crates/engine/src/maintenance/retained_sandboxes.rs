//! Sandboxes that are kept because what their command changed could not be captured: whose they are, and which of them
//! nobody will capture any more.
//!
//! # Invariants
//! A sandbox is cleared only when its plan is final, is in a later attempt, or is not known any more: else resuming the
//! plan captures it.
//!
//! # Not here
//! How they come to be and are captured: `phases`.

use std::path::{Path, PathBuf};

use domain::{NewError, PlanId};
use store::{PlanStoreError, StoreError};

use crate::engine::House;
use crate::run::plan_sandbox::location::whose;

/// The detail of an error that says where the sandbox is kept.
pub(crate) const KEPT_IN: &str = "sandbox_kept_in";

/// Where the sandbox is kept that an error tells of; none when it tells of none.
pub fn kept_in(error: &NewError) -> Option<&str> {
    error.detail().get(KEPT_IN).and_then(|dir| dir.as_str())
}

/// A sandbox that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSandbox {
    /// The plan.
    pub plan: PlanId,
    /// Its attempt.
    pub attempt: u32,
    /// Where it lies.
    pub dir: PathBuf,
    /// Whether nobody will capture it any more: its plan is final, in a later attempt, or not known.
    pub is_over: bool,
}

impl KeptSandbox {
    /// By its name; none when it is not one of ours.
    fn at(dir: &Path) -> Option<Self> {
        let (plan, attempt) = whose(dir)?;
        Some(Self { plan, attempt, dir: dir.to_owned(), is_over: false })
    }
}

/// Whose these are.
pub(crate) async fn known(house: &House, dirs: &[PathBuf]) -> Result<Vec<KeptSandbox>, StoreError> {
    let mut known = Vec::new();
    for kept in dirs.iter().filter_map(|dir| KeptSandbox::at(dir)) {
        let is_over = match house.store.plan(kept.plan).await {
            Ok(plan) => plan.state.is_final() || plan.attempt > kept.attempt,
            Err(PlanStoreError::NotFound { .. }) => true,
            Err(PlanStoreError::Store(error)) => return Err(error),
            Err(
                PlanStoreError::Moved { .. }
                | PlanStoreError::Refused(_)
                | PlanStoreError::IdTaken { .. }
                | PlanStoreError::QueueFull { .. }
                | PlanStoreError::Job(_),
            ) => false,
        };
        known.push(KeptSandbox { is_over, ..kept });
    }
    Ok(known)
}
