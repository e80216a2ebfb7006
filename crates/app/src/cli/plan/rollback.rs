//! `agents plan checkpoints` and `agents plan rollback`: the states of a plan's result after each call,
//! and the way back to one of them.

use engine::{Checkpoint, RollbackTarget};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, TextTable};
use crate::render;
use crate::render::next_steps;
use crate::time::{age, now};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CheckpointsArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agents plan checkpoints @last\n  agents plan rollback @last --to 3")]
pub(in crate::cli) struct RollbackArgs {
    /// The plan
    plan: String,
    /// The checkpoint to return to, as `agents plan checkpoints` lists them; 0 is the beginning
    #[arg(long, value_name = "N")]
    to: u64,
}

pub(super) async fn list(
    args: CheckpointsArgs,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let found = engine.checkpoints(plan.id).await;
    let found = found.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let mut table = TextTable::new(&["to", "call", "files", "lines", "age", "node", "tool", ""]);
    for point in &found {
        table.row(vec![
            point.entry.to_string(),
            point.call.0.to_string(),
            point.files.to_string(),
            format!("+{} -{}", point.insertions, point.deletions),
            age(point.started, now()),
            point.node.clone(),
            point.tool.clone(),
            if point.is_rolled_back { "rolled back".to_owned() } else { String::new() },
        ]);
    }
    let text = match found.is_empty() {
        true => "no checkpoints: the plan changed nothing\n".to_owned(),
        false => format!("{}{}\n", table.render(&invocation.style), next_steps::roll_back(&plan.short)),
    };
    let rows: Vec<Value> = found.iter().map(to_json).collect();
    Ok(CommandReport::new(json!({ "plan_id": plan.id, "checkpoints": rows }), text))
}

fn to_json(point: &Checkpoint) -> Value {
    json!({
        "entry": point.entry, "call": point.call.0, "node": point.node, "tool": point.tool, "files": point.files,
        "insertions": point.insertions, "deletions": point.deletions, "started_ms": point.started.0,
        "rolled_back": point.is_rolled_back,
    })
}

pub(super) async fn run(args: RollbackArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let to = if args.to == 0 { RollbackTarget::Beginning } else { RollbackTarget::Entry(args.to) };
    engine.rollback(plan.id, to).await.map_err(|error| from_engine::rollback(&error, &plan.short))?;
    let details = super::details(&engine, &plan).await?;
    let text = format!(
        "rolled back to {}; {}\n{}",
        args.to,
        next_steps::continue_plan(&plan.short),
        render::plan::to_text(&details, &plan.short, &invocation.style)
    );
    Ok(CommandReport::new(render::plan::to_json(&details, &plan.short), text))
}
