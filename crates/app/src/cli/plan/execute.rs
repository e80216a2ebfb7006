//! `agents plan execute`: runs a plan, as far as a person has to be asked.

use engine::{Cast, ExecuteOptions};

use crate::cli::recording::TapeArgs;
use crate::cli::{Invocation, detach, follow, plan_args, run};
use crate::errors::Failure;
use crate::output::Report;
use crate::render;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ExecuteArgs {
    /// Which plan
    plan: String,
    /// Do the work of a complete plan anew; the earlier work is kept
    #[arg(long)]
    again: bool,
    /// Leave it to a worker, and start one when none lives
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    tape: TapeArgs,
}

pub(super) async fn run(args: ExecuteArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let settings = invocation.settings(Vec::new(), &[])?;
    let engine = invocation.engine_with_tape(&settings, &args.tape, Cast::default()).await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let known = super::facts(&engine, &plan).await?;
    render::failure::refuse_undone(&known, &plan.short)?;
    args.tape.apart(&known.plan.projects, invocation)?;
    plan_args::tell_unset(&known.plan.spec, invocation);
    let options = ExecuteOptions { again: args.again, stop_before_apply: true };
    if args.detach {
        let left = engine.leave(plan.id, options).await;
        left.map_err(|error| render::failure::not_executed(&error, &known, &plan.short))?;
        return detach::left(invocation, &engine, &plan).await;
    }
    let facts = follow::follow(invocation, &engine, &plan, engine.execute(plan.id, options)).await?;
    let facts = facts.map_err(|error| render::failure::not_executed(&error, &known, &plan.short))?;
    let report = run::finish(invocation, &engine, &plan, facts).await?;
    Ok(args.tape.told(&engine, report))
}
