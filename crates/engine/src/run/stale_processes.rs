//! Kills the processes that earlier owners of a job left running, before the present one begins and before a
//! cancel is acknowledged.
//!
//! The processes of an owner that died are dead with it, except those that got away from it. Those of an
//! owner that was stopped past its lease run on, and it cannot kill them.
//!
//! # Invariants
//! 1. Nothing that a phase does is seen by, or mixed with, processes of an earlier owner.
//! 2. Nothing of a later owner is killed, even if this one was stopped itself.

use std::time::Duration;

use domain::{ErrorCategory, Fence};
use sandbox::command::kill_job;

use super::RunError;
use super::plan_sandbox::blocking;
use super::state::RunState;
use worker::JobRun;

/// The longest wait for their death.
const DEATH_WAIT: Duration = Duration::from_secs(5);

/// Kills them, once in a run. The first owner has none before it.
pub(crate) async fn kill(job: &JobRun, state: &RunState) -> Result<(), RunError> {
    let claim = job.claim();
    if claim.fence <= Fence::NONE.next() {
        return Ok(());
    }
    let killing = || async {
        let (job, fence) = (claim.job.to_string(), claim.fence.0);
        let killed = blocking(move || kill_job(job.as_ref(), fence, DEATH_WAIT)).await?;
        killed.map(drop).map_err(|error| RunError::failed(ErrorCategory::Resource, error))
    };
    state.earlier_dead.get_or_try_init(killing).await.map(drop)
}
