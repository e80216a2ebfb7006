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

use domain::PlanId;
use store::{PlanStoreError, StoreError};

use super::House;

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
        let (plan, attempt) = dir.file_name()?.to_str()?.rsplit_once('-')?;
        let (plan, attempt, dir) = (plan.parse().ok()?, attempt.parse().ok()?, dir.to_owned());
        Some(Self { plan, attempt, dir, is_over: false })
    }
}

/// Whose these are.
pub(super) async fn known(house: &House, dirs: &[PathBuf]) -> Result<Vec<KeptSandbox>, StoreError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_sandbox_tells_its_plan_and_attempt() {
        let dir = Path::new("/data/sandboxes/01JB3QK7XM0000000000000000-12");
        let kept = KeptSandbox::at(dir).unwrap();
        assert_eq!((kept.plan.to_string().as_str(), kept.attempt), ("01JB3QK7XM0000000000000000", 12));
        assert_eq!(KeptSandbox::at(Path::new("/data/sandboxes/probe-1-copy")), None);
    }
}
