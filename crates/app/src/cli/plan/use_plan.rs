//! `agents plan use`: makes a plan and does not run it.

use domain::Gate;

use crate::cli::invocation::{Named, short_id};
use crate::cli::plan_args::TaskArgs;
use crate::cli::{Invocation, run};
use crate::errors::{Failure, from_engine};
use crate::output::Report;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct UseArgs {
    #[command(flatten)]
    task: TaskArgs,
}

pub(super) async fn run(args: UseArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let mut asked = args.task.asked(invocation, Gate::Ask, None, None).await?;
    let engine = invocation.engine_with(&asked.settings).await?;
    asked.settle_trust(&engine, invocation).await?;
    asked.tell_unpriced(&engine, invocation)?;
    let made = engine.use_plan(asked.request).await.map_err(|error| from_engine::use_plan(&error))?;
    let plan = Named { id: made.id, short: short_id(&engine, made.id).await? };
    let facts = super::facts(&engine, &plan).await?;
    Ok(run::with_notes(run::shown(&facts, &plan, invocation), asked.notes, invocation))
}
