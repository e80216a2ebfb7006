//! The checks of a plan, run on what it changed: validations, and the invariants that can be checked.
//!
//! # Invariants
//! A check sees the plan's changes and nothing that another check wrote; what it writes is dropped.
//!
//! # Not here
//! What is done about those that fail: `mend`.

use std::time::Duration;

use domain::{
    CallEnd, CallNo, CallState, NewCall, Outcome, Validation, ValidationMode, ValidationResult, fold,
    net_hash,
};
use serde_json::{Value, json};

use super::super::facts::VALIDATE;
use super::super::invariants::what_breaks;
use super::Stopped;
use super::command::{self, Task};
use super::finished::Finished;
use super::graph::Actor;
use super::spending;

/// How much of a check's output its message keeps.
const MESSAGE_BYTES_MAX: usize = 2 * 1024;

/// Runs every check, each on the plan's changes and none upon what another one wrote. What required ones found.
pub(super) async fn run_all(actor: &Actor<'_>) -> Result<Vec<ValidationResult>, Stopped> {
    let Actor { house, run, live, plan, .. } = *actor;
    if plan.spec.all_checks().is_empty() {
        return Ok(Vec::new());
    }
    let net = fold(&house.entries(plan).await?);
    let present = net_hash(&net).to_string();
    let mut found = invariants(actor, &net, &present).await?;
    let surroundings = plan.spec.commands().next();
    let mut validations: Vec<&Validation> = plan.spec.validations.iter().collect();
    validations.sort_by(|a, b| (a.mode, &a.name).cmp(&(b.mode, &b.name)));
    for validation in validations {
        let task = Task {
            node: format!("validate/{}", validation.name),
            tool: VALIDATE,
            run: validation.run.clone(),
            root: validation.root,
            cwd: validation.cwd.clone(),
            timeout: Some(Duration::from_secs(validation.timeout_s)),
            network: surroundings.is_some_and(|command| command.network),
            env: surroundings.map(|command| command.env.clone()).unwrap_or_default(),
            pass_env: surroundings.map(|command| command.pass_env.clone()).unwrap_or_default(),
            writable: Vec::new(),
            stdin: None,
            writes: true,
            scope: run.scope().clone(),
            asked: None,
        };
        let finished = command::run(house, run, live, plan, task).await?;
        let result = result_of(actor, validation, &finished, &present);
        let stored = serde_json::to_value(&result).unwrap_or(Value::Null);
        command::record(house, run, live, plan, &finished, Some(stored)).await?;
        found.push(result);
    }
    found.retain(|result| result.mode == ValidationMode::Required && result.outcome != Outcome::Passed);
    Ok(found)
}

fn result_of(
    actor: &Actor<'_>,
    validation: &Validation,
    finished: &Finished,
    present: &str,
) -> ValidationResult {
    let outcome = match finished.state() {
        CallState::Ok => Outcome::Passed,
        CallState::Failed if finished.exit().is_some() => Outcome::Failed,
        CallState::Failed
        | CallState::TimedOut
        | CallState::Refused
        | CallState::Cancelled
        | CallState::Running => Outcome::Errored,
    };
    let message = actor.house.redactor.redact_text(&finished.last_words(MESSAGE_BYTES_MAX));
    ValidationResult {
        validation: validation.name.clone(),
        mode: validation.mode,
        outcome,
        message,
        duration_ms: finished.duration_ms(),
        attempt: actor.plan.attempt,
        call: finished.call().no,
        net_hash: present.to_owned(),
    }
}

/// Looks at the rules among the invariants, each a required check that needs no process.
async fn invariants(
    actor: &Actor<'_>,
    net: &[domain::NetChange],
    present: &str,
) -> Result<Vec<ValidationResult>, Stopped> {
    let Actor { house, run, plan, .. } = *actor;
    let checks = plan.spec.invariant_checks();
    if checks.is_empty() {
        return Ok(Vec::new());
    }
    let broken = house.broken_invariants(plan, net);
    let mut results = Vec::new();
    for check in checks {
        let what = what_breaks(&check.name, &broken);
        let mut result = ValidationResult {
            validation: check.name.clone(),
            mode: check.mode,
            outcome: if what.is_some() { Outcome::Failed } else { Outcome::Passed },
            message: what.unwrap_or_default(),
            duration_ms: 0,
            attempt: plan.attempt,
            call: CallNo(0),
            net_hash: present.to_owned(),
        };
        let new = NewCall {
            attempt: plan.attempt,
            node: format!("validate/{}", check.name),
            tool: VALIDATE.to_owned(),
            requested: json!({ "invariant": check.name }),
            effective: Value::Null,
        };
        let (state, error) = match result.outcome {
            Outcome::Passed => (CallState::Ok, None),
            Outcome::Failed | Outcome::Errored => (CallState::Failed, Some(result.message.clone())),
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
        let effect = run.enter()?;
        result.call = spending::keep(house, run, &effect, new, end).await?;
        results.push(result);
    }
    Ok(results)
}
