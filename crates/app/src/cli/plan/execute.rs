//! `agents plan execute`: runs a plan, as far as a person has to be asked.

use engine::{ExecuteOptions, Participants};

use crate::cli::recording::RecordingArgs;
use crate::cli::{Invocation, detach, follow, plan_args, run};
use crate::errors::CommandError;
use crate::output::CommandReport;
use crate::render;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ExecuteArgs {
    /// The plan
    plan: String,
    /// Do the work of a complete plan again; the earlier result stays stored
    #[arg(long)]
    again: bool,
    /// Run in a background worker; start one if necessary
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    recording: RecordingArgs,
}

pub(super) async fn run(args: ExecuteArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = invocation.settings(Vec::new(), &[])?;
    let engine =
        invocation.engine_with_recording(&settings, &args.recording, Participants::default()).await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let known = super::details(&engine, &plan).await?;
    render::failure::refuse_undone(&known, &plan.short)?;
    args.recording.refuse_inside_projects(&known.plan.projects, invocation)?;
    plan_args::tell_unset(&known.plan.spec, invocation);
    let options = ExecuteOptions { again: args.again, stop_before_apply: true };
    if args.detach {
        let left = engine.detach_plan(plan.id, options).await;
        left.map_err(|error| render::failure::not_executed(&error, &known, &plan.short))?;
        return detach::detach(invocation, &engine, &plan).await;
    }
    let details = follow::follow(invocation, &engine, &plan, engine.execute(plan.id, options)).await?;
    let details = details.map_err(|error| render::failure::not_executed(&error, &known, &plan.short))?;
    let report = run::finish(invocation, &engine, &plan, details).await?;
    Ok(args.recording.add_recording_notes(&engine, report))
}
