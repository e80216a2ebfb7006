//! `agents plan execute`: runs a plan, as far as a person has to be asked.

use engine::{Cast, ExecuteOptions};

use crate::cli::tape::TapeArgs;
use crate::cli::{Invocation, detach, run, task, work};
use crate::failure::Failure;
use crate::output::Report;
use crate::plan_failure;

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
    plan_failure::refuse_undone(&known, &plan.short)?;
    args.tape.apart(&known.plan.projects, invocation)?;
    task::tell_unset(&known.plan.spec, invocation);
    let options = ExecuteOptions { again: args.again, stop_before_apply: true };
    if args.detach {
        let left = engine.leave(plan.id, options).await;
        left.map_err(|error| plan_failure::not_executed(&error, &known, &plan.short))?;
        return detach::left(invocation, &engine, &plan).await;
    }
    let facts = work::follow(invocation, &engine, &plan, engine.execute(plan.id, options)).await?;
    let facts = facts.map_err(|error| plan_failure::not_executed(&error, &known, &plan.short))?;
    let report = run::finish(invocation, &engine, &plan, facts).await?;
    Ok(args.tape.told(&engine, report))
}
