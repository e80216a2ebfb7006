//! The apply phase: the plan's changes into the user's files, under the job's claim.

use std::sync::Arc;

use domain::{ErrorCategory, Plan, Reason};

use crate::apply::ApplyRequest;
use crate::apply::transaction;
use crate::apply::transaction::{Authority, CarryError};
use crate::engine::House;
use crate::run::Stopped;
use crate::run::state::LiveRun;
use worker::JobRun;

/// Why nothing was applied when another choice was asked for meanwhile.
pub(crate) fn replaced() -> Reason {
    let message = "another choice was asked for before anything was written".to_owned();
    Reason { kind: "replaced".to_owned(), subject: String::new(), message }
}

pub(crate) async fn apply(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
) -> Result<(), Stopped> {
    let request: Option<ApplyRequest> = serde_json::from_value(plan.request.clone()).map_err(|error| {
        let message =
            format!("what is to be applied cannot be read, a newer version may have asked: {error}");
        Stopped::failed(ErrorCategory::InvalidInput, message)
    })?;
    let request = request.unwrap_or_default();
    // A check may have been attached and not run, or the changes may differ from what was checked.
    let chosen = house
        .chosen(plan, &request)
        .await
        .map_err(|error| Stopped::failed(ErrorCategory::InvalidInput, error))?;
    let summary = house.checks_of_chosen(plan, &chosen).await?;
    if !request.is_let_through(&summary) {
        let failed = summary.failed.iter().map(|name| (name, "it failed"));
        let not_run = summary.not_run.iter().map(|name| match summary.untrusted.contains(name) {
            true => (name, "it came with the project, and has not run because you do not trust it"),
            false => (name, "it has not run for these changes"),
        });
        let reasons = failed.chain(not_run).map(|(name, why)| Reason {
            kind: "validation".to_owned(),
            subject: name.clone(),
            message: format!("check `{name}` stands in the way: {why}"),
        });
        return Err(Stopped::Constrained(reasons.collect()));
    }
    match transaction::apply(house, plan, &request, &Authority::Owner { run, live }).await {
        // The journal of an owner that died was finished: the job has ended as it should.
        Ok(_) | Err(CarryError::Settled { .. }) => Ok(()),
        Err(CarryError::Cancelled { .. }) => Err(Stopped::Cancelled),
        Err(CarryError::Conflicts { conflicts, plan: _ }) => {
            Err(Stopped::Constrained(conflicts.iter().map(transaction::reason).collect()))
        }
        Err(CarryError::Red { reasons, .. } | CarryError::TreeMoving { reasons, .. }) => {
            Err(Stopped::Constrained(reasons))
        }
        Err(CarryError::BranchExists { name }) => {
            Err(Stopped::Constrained(vec![transaction::branch_reason(name)]))
        }
        Err(error) => Err(Stopped::failed(error.category(), error)),
    }
}
