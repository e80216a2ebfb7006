//! The checks of a plan, run on what it changed.
//!
//! # Invariants
//! A check sees the plan's changes and nothing that another check wrote; what it writes is dropped.

use std::sync::Arc;
use std::time::Duration;

use domain::{CallState, Outcome, Plan, Validation, ValidationResult, fold, net_hash};
use serde_json::Value;

use super::super::House;
use super::super::facts::VALIDATE;
use super::Stopped;
use super::command::{self, Finished, Task};
use super::work::LiveRun;
use crate::worker::JobRun;

/// How much of a check's output its message keeps.
const MESSAGE_BYTES_MAX: usize = 2 * 1024;

/// Runs every check, each on the plan's changes and none upon what another one wrote.
pub(super) async fn run_all(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
) -> Result<(), Stopped> {
    if plan.spec.validations.is_empty() {
        return Ok(());
    }
    let present = net_hash(&fold(&house.entries(plan).await?)).to_string();
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
        };
        let finished = command::run(house, run, live, plan, task).await?;
        let result = result_of(house, plan, validation, &finished, &present);
        let result = serde_json::to_value(result).unwrap_or(Value::Null);
        command::record(house, run, live, plan, &finished, Some(result)).await?;
    }
    Ok(())
}

fn result_of(
    house: &House,
    plan: &Plan,
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
    let message = house.redactor.redact_text(&finished.last_words(MESSAGE_BYTES_MAX));
    ValidationResult {
        validation: validation.name.clone(),
        mode: validation.mode,
        outcome,
        message,
        duration_ms: finished.duration_ms(),
        attempt: plan.attempt,
        call: finished.call().no,
        net_hash: present.to_owned(),
    }
}
