//! `agents plan revise`: continues a finished plan on top of its changes, with a message and the open notes.
//!
//! # Invariants
//! 1. Nothing is written unless there is something to say: a message or an open note.
//! 2. An applied plan is continued by a new one, its follow-up.
//! 3. The new attempt runs here, as far as its gates allow, or is left to a worker.

use domain::PlanSpec;
use engine::{Engine, ExecuteError, ExecuteOptions};
use serde_json::json;

use crate::cli::invocation::{NamedPlan, short_id};
use crate::cli::plan_args::RevisedTaskArgs;
use crate::cli::{Invocation, detach, follow, run};
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, OutputNote};
use crate::render;
use crate::render::diff::counted;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agents plan revise @last \"keep the old flag as an alias\"")]
pub(in crate::cli) struct ReviseArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// The requested changes; the open notes of the plan are sent along
    text: Option<String>,
    #[command(flatten)]
    task: RevisedTaskArgs,
    /// Run in a background worker; start one if necessary
    #[arg(long)]
    detach: bool,
}

/// The request of a revision.
#[derive(Default)]
pub(super) struct Revision<'a> {
    /// The message; empty if the open notes are all.
    pub(super) text: &'a str,
    /// The spec with another actor or more checks.
    pub(super) spec: Option<PlanSpec>,
}

pub(super) async fn run(args: ReviseArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let details = super::details(&engine, &plan).await?;
    render::failure::refuse_undone(&details, &plan.short)?;
    let text = args.text.as_deref().unwrap_or_default();
    let spec = args.task.spec(&details.plan, text, &engine, invocation).await?;
    send(&engine, &plan, Revision { text, spec }, args.detach, invocation).await
}

/// Revises the plan with its open notes, as `plan revise` without a message does.
pub(in crate::cli) async fn send_notes(
    engine: &Engine,
    plan: &NamedPlan,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    send(engine, plan, Revision::default(), false, invocation).await
}

/// The same, left to a worker.
pub(in crate::cli) async fn leave_notes(
    engine: &Engine,
    plan: &NamedPlan,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    send(engine, plan, Revision::default(), true, invocation).await
}

pub(super) async fn send(
    engine: &Engine,
    plan: &NamedPlan,
    asked: Revision<'_>,
    detach: bool,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    if super::details(engine, plan).await?.plan.is_applied() {
        return follow_up(engine, plan, asked, detach, invocation).await;
    }
    let sent = engine.revise(plan.id, asked.text, asked.spec).await;
    let sent = sent.map_err(|error| from_engine::revise(&error, &plan.short))?;
    let note =
        (!sent.is_empty()).then(|| OutputNote::info(format!("{} sent along", counted(sent.len(), "note"))));
    let mut report = if detach {
        let left = engine.detach_guided(plan.id).await;
        left.map_err(|error| from_engine::execute(&error, &plan.short))?;
        detach::detach(invocation, engine, plan).await?
    } else {
        let details = follow::follow(invocation, engine, plan, engine.resume_guided(plan.id)).await?;
        let details = details.map_err(|error| from_engine::execute(&error, &plan.short))?;
        run::finish(invocation, engine, plan, details).await?
    };
    report.data["notes_sent"] = json!(sent.len());
    Ok(note.into_iter().fold(report, CommandReport::note))
}

/// Makes a plan that continues an applied one, and runs it.
async fn follow_up(
    engine: &Engine,
    plan: &NamedPlan,
    asked: Revision<'_>,
    detach: bool,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let made = engine.follow_up(plan.id, asked.text, asked.spec).await;
    let made = made.map_err(|error| from_engine::follow_up(&error, &plan.short))?;
    let own = NamedPlan { id: made.id, short: short_id(engine, made.id).await? };
    let options = ExecuteOptions { again: false, stop_before_apply: true };
    let refused = |error: &ExecuteError| from_engine::execute(error, &own.short);
    let report = if detach {
        engine.detach_plan(own.id, options).await.map_err(|error| refused(&error))?;
        detach::detach(invocation, engine, &own).await?
    } else {
        let details = follow::follow(invocation, engine, &own, engine.execute(own.id, options)).await?;
        run::finish(invocation, engine, &own, details.map_err(|error| refused(&error))?).await?
    };
    let note = format!("plan {} is applied, so plan {} continues it", plan.short, own.short);
    Ok(report.note(OutputNote::info(note)))
}
