//! `agents plan use`: makes a plan and does not run it.

use domain::GateDecision;

use crate::cli::invocation::{NamedPlan, short_id};
use crate::cli::plan_args::TaskArgs;
use crate::cli::{Invocation, run};
use crate::errors::{CommandError, from_engine};
use crate::output::CommandReport;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct UseArgs {
    #[command(flatten)]
    task: TaskArgs,
}

pub(super) async fn run(args: UseArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let mut asked = args.task.prepare_plan(invocation, GateDecision::Ask, None, None).await?;
    let engine = invocation.engine_with(&asked.settings).await?;
    asked.settle_trust(&engine, invocation).await?;
    asked.tell_unpriced(&engine, invocation)?;
    let made = engine.use_plan(asked.request).await.map_err(|error| from_engine::use_plan(&error))?;
    let plan = NamedPlan { id: made.id, short: short_id(&engine, made.id).await? };
    let details = super::details(&engine, &plan).await?;
    Ok(run::with_notes(run::plan_report(&details, &plan, invocation), asked.notes, invocation))
}
