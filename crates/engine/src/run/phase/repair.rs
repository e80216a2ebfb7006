//! Repairs what the checks found: the node that an actor names for it runs again, with the findings in its
//! brief.
//!
//! # Invariants
//! 1. A repair round is a node run of its own, `ID.fixN`. An interrupted plan continues with the round that
//!    had not settled, and no round is done twice.
//! 2. There are at most `validation.fix_attempts` rounds, and a round that changed nothing is the last.

use domain::{GateDecision, NodePath, RecoveryAction, ValidationOutcome, ValidationResult};

use super::{checks, execute};
use crate::run::context::NodeContext;
use crate::run::graph::{GraphProgress, GraphRun, RoundEnd, do_node};
use crate::run::node::ActiveNode;
use crate::run::{PhaseFailure, ReportedFailure, RunError, report_failure};

/// Runs the checks, and repairs what they find as long as that is allowed and makes progress.
pub(crate) async fn check_and_repair(
    actor: &GraphRun<'_>,
    progress: &GraphProgress,
) -> Result<RoundEnd, RunError> {
    let mut round = progress.rounds_mended();
    loop {
        let found = checks::run_all(actor).await?;
        let may_mend =
            actor.plan.spec.gate_of_fix() == GateDecision::Auto && round < actor.plan.spec.fix_attempts;
        let Some(fix) = actor.plan.spec.fix.as_deref().filter(|_| may_mend && !found.is_empty()) else {
            return Ok(RoundEnd::Done);
        };
        round += 1;
        match run_repair(actor, fix, round, &findings(&found)).await? {
            RepairOutcome::Changed => {}
            RepairOutcome::Nothing => return Ok(RoundEnd::Done),
            RepairOutcome::Again(again) => return Ok(again),
        }
    }
}

/// The outcome of a round.
enum RepairOutcome {
    Changed,
    /// It changed nothing, so the checks would say what they said.
    Nothing,
    /// It is to be tried again.
    Again(RoundEnd),
}

async fn run_repair(
    actor: &GraphRun<'_>,
    fix: &str,
    round: u32,
    findings: &str,
) -> Result<RepairOutcome, RunError> {
    let GraphRun { run, steps } = *actor;
    let Some(step) = steps.iter().find(|step| step.node == fix) else { return Ok(RepairOutcome::Nothing) };
    let path = NodePath::Repair { step: fix, round }.to_string();
    let progress = execute::progress(actor, findings).await?;
    let (values, guidance_seen) = actor.brief_values(progress.values()).await?;
    let context = NodeContext { run, path: &path, scope: run.job.scope().clone() };
    let started = run.engine.wall();
    let node = ActiveNode { context, step, values: &values, guidance_seen, tries: 1, started, began: None };
    let done = match do_node(&node).await {
        Ok(done) => done,
        Err(RunError::Failed { category, message, call, .. }) => {
            let failure = PhaseFailure { category, message, call, retry_after: None };
            let ReportedFailure { message, recovery } = report_failure(run, Some(step), failure).await;
            return match recovery.map(|recovery| recovery.action) {
                Some(RecoveryAction::Retry { after, .. }) => {
                    Ok(RepairOutcome::Again(RoundEnd::Again { after }))
                }
                Some(
                    RecoveryAction::Revert
                    | RecoveryAction::Ask
                    | RecoveryAction::GiveUp
                    | RecoveryAction::Told,
                )
                | None => Err(RunError::Reported(message)),
            };
        }
        Err(stopped) => return Err(stopped),
    };
    let ended = done.persist(run).await?;
    run.state.close_changeset(&path).await?;
    Ok(if ended.changed == 0 { RepairOutcome::Nothing } else { RepairOutcome::Changed })
}

/// Returns the findings of the checks as text for the repair.
fn findings(found: &[ValidationResult]) -> String {
    let one = |result: &ValidationResult| {
        let how = match result.outcome {
            ValidationOutcome::Passed | ValidationOutcome::Failed => "failed",
            ValidationOutcome::Errored => "could not be finished",
        };
        format!("The check `{}` {how}:\n{}", result.validation, result.message)
    };
    found.iter().map(one).collect::<Vec<_>>().join("\n\n")
}
