//! `agents plan revise`: continues a finished plan on top of its changes, with a message and the open notes.
//!
//! # Invariants
//! 1. Nothing is written unless there is something to say: a message or an open note.
//! 2. The new attempt runs here, as far as its gates allow, or is left to a worker.

use serde_json::json;

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
    /// Run in a background worker; start one if necessary
    #[arg(long)]
    detach: bool,
}

pub(super) async fn run(args: ReviseArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let details = super::details(&engine, &plan).await?;
    render::failure::refuse_undone(&details, &plan.short)?;
    let sent = engine.revise(plan.id, args.text.as_deref().unwrap_or_default()).await;
    let sent = sent.map_err(|error| from_engine::revise(&error, &plan.short))?;
    let note =
        (!sent.is_empty()).then(|| OutputNote::info(format!("{} sent along", counted(sent.len(), "note"))));
    let mut report = if args.detach {
        let left = engine.detach_guided(plan.id).await;
        left.map_err(|error| from_engine::execute(&error, &plan.short))?;
        detach::detach(invocation, &engine, &plan).await?
    } else {
        let details = follow::follow(invocation, &engine, &plan, engine.resume_guided(plan.id)).await?;
        let details = details.map_err(|error| from_engine::execute(&error, &plan.short))?;
        run::finish(invocation, &engine, &plan, details).await?
    };
    report.data["notes_sent"] = json!(sent.len());
    Ok(note.into_iter().fold(report, CommandReport::note))
}
