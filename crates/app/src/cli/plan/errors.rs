//! `agents plan errors`: what went wrong in a plan, and what was done about it.

use domain::{Action, ErrorRecord};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::failure::Failure;
use crate::output::{Report, calm};
use crate::plan_view;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ErrorsArgs {
    /// Which plan
    #[arg(default_value = "@last")]
    plan: String,
}

pub(super) async fn run(args: ErrorsArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let facts = super::facts(&engine, &plan).await?;
    let errors = &facts.errors;
    let mut text = String::new();
    for record in errors.records() {
        text.push_str(&shown(record, &plan_view::command_for(record, &facts, &plan.short)));
    }
    let folded: u64 = errors.folded().values().map(|folded| folded.count).sum();
    if folded > 0 {
        text.push_str(&format!("{folded} older errors are only counted\n"));
    }
    if errors.recorded() == 0 {
        text = format!("nothing went wrong in plan {}\n", plan.short);
    }
    let records: Vec<Value> = errors
        .records()
        .map(|record| to_json(record, &plan_view::command_for(record, &facts, &plan.short)))
        .collect();
    let data = json!({
        "plan": plan.id, "recorded": errors.recorded(), "retries": errors.retries_total(),
        "records": records, "folded": folded,
        "details": errors.details(),
    });
    Ok(Report::new(data, text))
}

fn shown(record: &ErrorRecord, command: &str) -> String {
    let error = &record.error;
    let step = error.step();
    let head = format!(
        "{}. {} in {}, attempt {}: {}\n",
        record.recovery.seq,
        error.category(),
        calm(&step.node),
        step.attempt,
        calm(error.message())
    );
    format!("{head}   {}: {}\n   {}\n", action_word(record), calm(&record.recovery.hint), calm(command))
}

fn action_word(record: &ErrorRecord) -> &'static str {
    match record.recovery.action {
        Action::Retry { .. } => "retried",
        Action::Revert => "began anew",
        Action::Ask => "asks you",
        Action::GiveUp => "gave up",
    }
}

fn to_json(record: &ErrorRecord, command: &str) -> Value {
    let error = &record.error;
    json!({
        "seq": record.recovery.seq, "category": error.category(), "phase": error.phase(), "node": error.step().node,
        "attempt": error.step().attempt, "message": error.message(), "call": error.tool_call(),
        "action": action_word(record), "hint": record.recovery.hint, "command": command,
    })
}
