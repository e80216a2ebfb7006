//! Sandboxes that are retained because the changes of their command could not be captured: their owners, and
//! those that no process will capture any more.
//!
//! # Invariants
//! A sandbox is cleared only when its plan is final, is in a later attempt, or is not known any more.
//! Otherwise resuming the plan captures it.
//!
//! # Not here
//! Retaining and capturing them: `run::plan_sandbox::retained`.

use std::path::{Path, PathBuf};

use domain::{NewError, PlanId};
use store::StoreError;

use crate::engine::EngineInner;
use crate::run::plan_sandbox::location::owner_of;

/// The detail of an error that contains the path of the retained sandbox.
pub(crate) const KEPT_IN: &str = "sandbox_kept_in";

/// Returns the path of the retained sandbox that an error reports; `None` if it reports none.
pub fn retained_dir_of(error: &NewError) -> Option<&str> {
    error.detail().get(KEPT_IN).and_then(|dir| dir.as_str())
}

/// A retained sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedSandbox {
    /// The plan.
    pub plan: PlanId,
    /// Its attempt.
    pub attempt: u32,
    /// The path of the sandbox.
    pub dir: PathBuf,
    /// True if it will not be captured any more: its plan is final, in a later attempt, or not known.
    pub is_over: bool,
}

impl RetainedSandbox {
    /// By its name; none when it is not one of ours.
    fn at(dir: &Path) -> Option<Self> {
        let (plan, attempt) = owner_of(dir)?;
        Some(Self { plan, attempt, dir: dir.to_owned(), is_over: false })
    }
}

/// Returns the plans that these sandboxes belong to.
pub(crate) async fn known(
    engine: &EngineInner,
    dirs: &[PathBuf],
) -> Result<Vec<RetainedSandbox>, StoreError> {
    let mut known = Vec::new();
    for kept in dirs.iter().filter_map(|dir| RetainedSandbox::at(dir)) {
        let plan = engine.store.find_plan(kept.plan).await?;
        let is_over = plan.is_none_or(|plan| plan.state.is_final() || plan.attempt > kept.attempt);
        known.push(RetainedSandbox { is_over, ..kept });
    }
    Ok(known)
}
