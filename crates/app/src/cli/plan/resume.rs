//! `agents plan resume`: goes on with a plan that failed or was broken off.

use crate::cli::{Invocation, run, task, work};
use crate::failure::{Failure, from_engine};
use crate::output::Report;
use crate::plan_view;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ResumeArgs {
    /// Which plan
    plan: String,
}

pub(super) async fn run(args: ResumeArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let facts = super::facts(&engine, &plan).await?;
    plan_view::refuse_undone(&facts, &plan.short)?;
    task::tell_unset(&facts.plan.spec, invocation);
    let facts = work::follow(invocation, &engine, &plan, engine.resume(plan.id)).await?;
    let facts = facts.map_err(|error| from_engine::execute(&error, &plan.short))?;
    run::finish(invocation, &engine, &plan, facts).await
}
