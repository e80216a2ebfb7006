//! `agents plan tree`: what a plan decided, each below what it follows from.
//!
//! An arrow names the other grounds of a decision.

use domain::Decision;
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::errors::{CommandError, from_engine};
use crate::output::CommandReport;
use crate::render;
use crate::render::decisions::DecisionNames;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TreeArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Include decisions that later ones replaced
    #[arg(long)]
    superseded: bool,
}

pub(super) async fn run(args: TreeArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let details = super::details(&engine, &plan).await?;
    let all = engine.decisions(plan.id).await.map_err(|error| from_engine::store(&error))?;
    let names = DecisionNames::new(&all);
    let shown: Vec<Decision> =
        all.iter().filter(|decision| args.superseded || decision.is_live()).cloned().collect();
    let decisions: Vec<Value> =
        shown.iter().map(|decision| render::decisions::to_json(decision, &names)).collect();
    let data = json!({
        "plan_id": plan.id, "short_id": plan.short, "title": details.plan.title, "attempt": details.plan.attempt,
        "decisions": decisions, "superseded": all.iter().filter(|decision| !decision.is_live()).count(),
    });
    Ok(CommandReport::new(
        data,
        render::decisions::tree(&details.plan, &plan.short, &shown, &names, &invocation.style),
    ))
}
