//! `agents redo`: applies a plan again that was undone, with the choice that it was applied with.

use std::os::unix::ffi::OsStrExt;

use domain::WallMs;
use engine::{ApplyError, Engine};
use serde_json::json;
use sync::Observed;

use super::agreed;
use super::apply::{hooks_note, marked_failure, summary_json, summary_line, with_plan};
use crate::cli::invocation::NamedPlan;
use crate::cli::{Invocation, follow};
use crate::errors::{CommandError, codes, from_engine, hints};
use crate::output::CommandReport;
use crate::render;
use crate::setup::project;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RedoArgs {
    /// The plan [default: the plan of this project that was undone last]
    plan: Option<String>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: RedoArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = match &args.plan {
        Some(word) => invocation.plan(&engine, word).await?,
        None => undone_last(&engine, invocation).await?,
    };
    let request = engine.undone_request(plan.id).await;
    let request = request.map_err(|error| from_engine::plan(&error, &plan.short))?.ok_or_else(|| {
        let message = format!("plan {} is not undone: there is nothing to redo", plan.short);
        CommandError::new(&codes::NOT_UNDONE, message).plan(&plan.short)
    })?;
    let details = super::details(&engine, &plan).await?;
    let question =
        format!("apply plan {} to your files again?", render::plan::named_words(&plan.short, &details.plan));
    if !agreed(&question, args.yes, invocation)? {
        return Ok(CommandReport::new(json!({ "plan": plan.id, "applied": false }), "nothing was applied\n"));
    }
    let (id, applying, wanted) = (plan.id, &engine, &request);
    let apply = |stop: Observed| async move { applying.apply_unless(id, wanted, None, &stop).await };
    let applied = follow::follow_files(invocation, &engine, &plan, apply).await;
    let refused = |error: ApplyError| from_engine::apply(&error, &plan.short);
    let summary = applied.map_err(refused)?;
    let details = super::details(&engine, &plan).await?;
    let data = with_plan(summary_json(&summary, &plan), render::plan::to_json(&details, &plan.short));
    let report = CommandReport::new(data, summary_line(&summary, &plan, &details.plan, "applied again"));
    let report = match hooks_note(&engine, &details.plan, &summary) {
        Some(note) => report.note(note),
        None => report,
    };
    Ok(match marked_failure(&summary, &plan) {
        Some(failure) => report.failed(failure),
        None => report,
    })
}

/// The plan of this project that was undone last.
async fn undone_last(engine: &Engine, invocation: &Invocation) -> Result<NamedPlan, CommandError> {
    let root = project::root_of(&invocation.here)?;
    let found = engine.operations(Some(root.as_os_str().as_bytes().to_vec())).await;
    let found = found.map_err(|error| from_engine::plan(&error, "@last"))?;
    let undone = found.iter().filter(|operation| operation.plan.undone_at.is_some());
    let last = undone.max_by_key(|operation| operation.plan.undone_at.unwrap_or(WallMs(0)));
    match last {
        Some(operation) => invocation.plan(engine, &operation.plan.id.to_string()).await,
        None => {
            Err(CommandError::new(&codes::NOT_UNDONE, "no plan of this project is undone")
                .hint(hints::SEE_LOG))
        }
    }
}
