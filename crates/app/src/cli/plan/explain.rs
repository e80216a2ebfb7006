//! `agents plan explain`: one decision, what hangs on it, and how it is corrected.

use crate::cli::Invocation;
use crate::cli::invocation::short_id;
use crate::errors::{CommandError, codes, from_engine};
use crate::output::CommandReport;
use crate::render;
use crate::setup::project;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ExplainArgs {
    /// The decision: its id, the beginning of its id, or PLAN:NUMBER
    #[arg(value_name = "DECISION|PLAN:NUMBER")]
    decision: String,
}

pub(super) async fn run(args: ExplainArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let root = project::root_of(&invocation.here).ok();
    let found = engine.find_decision(&args.decision, root.as_deref()).await;
    let (plan, seq) = found.map_err(|error| from_engine::find_decision(&error))?;
    let short = short_id(&engine, plan).await?;
    let details = engine.explain(plan, seq).await.map_err(|error| from_engine::plan(&error, &short))?;
    let details = details.ok_or_else(|| {
        CommandError::new(&codes::DECISION_NOT_FOUND, format!("plan {short} has no decision {seq}"))
    })?;
    Ok(CommandReport::new(
        render::decisions::explained_json(&details, &short),
        render::decisions::render_explanation(&details, &short, &invocation.style),
    ))
}
