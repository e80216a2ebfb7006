//! The checks of a plan, run on what it changed: validations, and the invariants that can be checked.
//!
//! # Invariants
//! 1. A check sees the plan's changes and nothing that another check wrote; what it writes is dropped.
//! 2. A result names the changes and the user's tree that it is for.
//! 3. A check of a project that the user does not trust is left out. The summary of the checks names it.
//! 4. Every change that a check sees is recorded before the check begins: also what a stopped call had left.
//!
//! # Not here
//! Repairing what failed checks found: `repair`. Checks that are run again before an apply: `recheck`.

use std::time::Duration;

use domain::{
    CallEnd, CallNumber, CallState, NewCall, NodePath, Plan, Validation, ValidationMode, ValidationOutcome,
    ValidationResult, fold, net_hash,
};
use sandbox::SandboxStrategy;
use serde_json::{Value, json};

use crate::apply::selection::what_breaks;
use crate::engine::EngineInner;
use crate::query::details::{RECHECK, VALIDATE};
use crate::run::RunError;
use crate::run::accounting;
use crate::run::call::admit::CallAccess;
use crate::run::call::command;
use crate::run::call::command::CommandRequest;
use crate::run::call::record;
use crate::run::call::result::CommandResult;
use crate::run::context::RunContext;
use crate::run::graph::GraphRun;

/// The maximum number of bytes of a check's output that its message repeats.
const MESSAGE_BYTES_MAX: usize = 2 * 1024;

/// Runs every check, each on the plan's changes and none on the files that another one wrote. Returns the
/// results of the required ones that did not pass.
pub(crate) async fn run_all(actor: &GraphRun<'_>) -> Result<Vec<ValidationResult>, RunError> {
    let RunContext { engine, plan, .. } = actor.run;
    if plan.spec.all_checks().is_empty() {
        return Ok(Vec::new());
    }
    let context = actor.run.phase_context();
    // The checks see what is in the sandbox: all of it is recorded before they are believed for what is recorded.
    drop(context.turn(true).await?);
    let net = fold(&engine.entries(plan).await?);
    let present = net_hash(&net).to_string();
    let mut found = invariants(actor, &net, &present).await?;
    let stamp = stamp(actor).await?;
    let mut validations: Vec<&Validation> = plan.spec.validations.iter().collect();
    validations.sort_by(|a, b| (a.mode, &a.name).cmp(&(b.mode, &b.name)));
    for validation in validations {
        if !engine.may_run_check(plan, validation).await? {
            continue;
        }
        let ran = command::run(&context, task(plan, validation, CheckRun::First)).await?;
        let mut result = result_of(engine, plan, validation, &ran.finished, &present);
        result.base_stamp = stamp.clone();
        let stored = serde_json::to_value(&result).unwrap_or(Value::Null);
        record::record_command(&context, ran, Some(stored), |_| None).await?;
        found.push(result);
    }
    found.retain(|result| {
        result.mode == ValidationMode::Required && result.outcome != ValidationOutcome::Passed
    });
    Ok(found)
}

/// When a check runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckRun {
    /// At the end of execute, in the plan's sandbox.
    First,
    /// Before an apply, on the merged tree.
    Again,
    /// Because the user asked for it, on the merged tree.
    ByUser,
}

/// The command of a check, with what the plan's first command has around it.
pub(crate) fn task(plan: &Plan, validation: &Validation, when: CheckRun) -> CommandRequest {
    let surroundings = plan.spec.commands().next();
    let (tool, path) = match when {
        CheckRun::First | CheckRun::ByUser => (VALIDATE, NodePath::Check(&validation.name)),
        CheckRun::Again => (RECHECK, NodePath::Recheck(&validation.name)),
    };
    CommandRequest {
        node: path.to_string(),
        tool,
        run: validation.run.clone(),
        root: validation.root,
        cwd: validation.cwd.clone(),
        timeout: Some(Duration::from_secs(validation.timeout_s)),
        network: surroundings.is_some_and(|command| command.network),
        allow_loopback: surroundings.map(|command| command.allow_loopback.clone()).unwrap_or_default(),
        env: surroundings.map(|command| command.env.clone()).unwrap_or_default(),
        pass_env: surroundings.map(|command| command.pass_env.clone()).unwrap_or_default(),
        writable: Vec::new(),
        stdin: None,
        writes: true,
        access: CallAccess::PutBack,
        asked: None,
    }
}

/// The user's tree that the checks see: as it was when the sandbox was opened. Null where the plan works in
/// that tree itself.
async fn stamp(actor: &GraphRun<'_>) -> Result<Value, RunError> {
    let place = actor.state.session.lock().await;
    let session = place.as_ref().filter(|session| session.sandbox.strategy() != SandboxStrategy::InPlace);
    let stamp = session.and_then(|session| session.sandbox.stamp().ok());
    Ok(stamp.and_then(|stamp| serde_json::to_value(stamp).ok()).unwrap_or_default())
}

pub(crate) fn result_of(
    engine: &EngineInner,
    plan: &Plan,
    validation: &Validation,
    finished: &CommandResult,
    present: &str,
) -> ValidationResult {
    let outcome = match finished.state() {
        CallState::Ok => ValidationOutcome::Passed,
        CallState::Failed if finished.exit().is_some() => ValidationOutcome::Failed,
        CallState::Failed
        | CallState::TimedOut
        | CallState::Refused
        | CallState::Cancelled
        | CallState::Running => ValidationOutcome::Errored,
    };
    let message = finished.last_words(engine, MESSAGE_BYTES_MAX);
    ValidationResult {
        validation: validation.name.clone(),
        mode: validation.mode,
        outcome,
        message,
        duration_ms: finished.duration_ms(),
        attempt: plan.attempt,
        call: finished.call().no,
        net_hash: present.to_owned(),
        base_stamp: Value::Null,
    }
}

/// Looks at the rules among the invariants, each a required check that needs no process.
async fn invariants(
    actor: &GraphRun<'_>,
    net: &[domain::NetChange],
    present: &str,
) -> Result<Vec<ValidationResult>, RunError> {
    let RunContext { engine, job, plan, .. } = actor.run;
    let checks = plan.spec.invariant_checks();
    if checks.is_empty() {
        return Ok(Vec::new());
    }
    let broken = engine.broken_invariants(plan, net);
    let mut results = Vec::new();
    for check in checks {
        let what = what_breaks(&check.name, &broken);
        let mut result = ValidationResult {
            validation: check.name.clone(),
            mode: check.mode,
            outcome: if what.is_some() { ValidationOutcome::Failed } else { ValidationOutcome::Passed },
            message: what.unwrap_or_default(),
            duration_ms: 0,
            attempt: plan.attempt,
            call: CallNumber(0),
            net_hash: present.to_owned(),
            base_stamp: Value::Null,
        };
        let new = NewCall {
            attempt: plan.attempt,
            node: NodePath::Check(&check.name).to_string(),
            tool: VALIDATE.to_owned(),
            requested: json!({ "invariant": check.name }),
            effective: Value::Null,
        };
        let (state, error) = match result.outcome {
            ValidationOutcome::Passed => (CallState::Ok, None),
            ValidationOutcome::Failed | ValidationOutcome::Errored => {
                (CallState::Failed, Some(result.message.clone()))
            }
        };
        let end = CallEnd {
            state,
            duration_ms: 0,
            exit: None,
            error,
            result: serde_json::to_value(&result).unwrap_or(Value::Null),
            isolation: None,
            stdout: None,
            stderr: None,
        };
        let effect = job.enter()?;
        result.call = accounting::keep(actor.run, &effect, new, end).await?;
        results.push(result);
    }
    Ok(results)
}
