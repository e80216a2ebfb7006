//! The apply phase: the plan's changes into the user's files, under the job's claim.

use domain::{ConstraintReason, ErrorCategory};

use crate::apply::ApplyRequest;
use crate::apply::selection::CheckedSelection;
use crate::apply::transaction;
use crate::apply::transaction::{Authority, TransactionError};
use crate::run::RunError;
use crate::run::context::RunContext;

/// Why nothing was applied when another choice was asked for meanwhile.
pub(crate) fn replaced() -> ConstraintReason {
    let message = "another selection was requested before anything was written".to_owned();
    ConstraintReason { kind: "replaced".to_owned(), subject: String::new(), message }
}

pub(crate) async fn apply(run: RunContext<'_>) -> Result<(), RunError> {
    let RunContext { engine, plan, .. } = run;
    let request: Option<ApplyRequest> = serde_json::from_value(plan.request.clone()).map_err(|error| {
        let message =
            format!("the request to apply cannot be read, a newer version may have written it: {error}");
        RunError::failed(ErrorCategory::InvalidInput, message)
    })?;
    let request = request.unwrap_or_default();
    // A check may have been attached and not run, or the changes may differ from what was checked.
    let changes = engine
        .select_changes(plan, &request)
        .await
        .map_err(|error| RunError::failed(ErrorCategory::InvalidInput, error))?;
    let checks = engine.checks_of_selection(plan, &changes).await?;
    if !request.is_let_through(&checks) {
        let failed = checks.failed.iter().map(|name| (name, "it failed"));
        let not_run = checks.not_run.iter().map(|name| match checks.untrusted.contains(name) {
            true => (name, "it came with the project, and has not run because you do not trust it"),
            false => (name, "it has not run for these changes"),
        });
        let reasons = failed.chain(not_run).map(|(name, why)| ConstraintReason {
            kind: "validation".to_owned(),
            subject: name.clone(),
            message: format!("check `{name}` blocks the apply: {why}"),
        });
        return Err(RunError::Constrained(reasons.collect()));
    }
    let selection = CheckedSelection { changes, checks };
    match transaction::apply(engine, plan, &request, selection, &Authority::Owner(run)).await {
        // The journal of an owner that died was finished: the job has ended as it should.
        Ok(_) | Err(TransactionError::Settled { .. }) => Ok(()),
        Err(TransactionError::Cancelled { .. }) => Err(RunError::Cancelled),
        Err(TransactionError::Conflicts { conflicts, plan: _ }) => {
            Err(RunError::Constrained(conflicts.iter().map(transaction::reason).collect()))
        }
        Err(TransactionError::Red { reasons, .. } | TransactionError::TreeMoving { reasons, .. }) => {
            Err(RunError::Constrained(reasons))
        }
        Err(TransactionError::BranchExists { name }) => {
            Err(RunError::Constrained(vec![transaction::branch_reason(name)]))
        }
        Err(error) => Err(RunError::failed(error.category(), error)),
    }
}
