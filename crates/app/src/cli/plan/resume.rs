//! `agents plan resume`: continues a plan that failed or was interrupted.

use engine::Participants;

use crate::cli::limit::{self, LimitArg};
use crate::cli::recording::RecordingArgs;
use crate::cli::{Invocation, detach, follow, plan_args, run};
use crate::errors::{CommandError, from_engine};
use crate::output::CommandReport;
use crate::render;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ResumeArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// Run in a background worker; start one if necessary
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    recording: RecordingArgs,
    /// A new limit for the whole plan: time=4h, steps=300, tokens=none, cost=20; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit::parse)]
    limit: Vec<LimitArg>,
}

pub(super) async fn run(args: ResumeArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = invocation.settings(Vec::new(), &[])?;
    let engine =
        invocation.engine_with_recording(&settings, &args.recording, Participants::default()).await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let known = super::details(&engine, &plan).await?;
    render::failure::refuse_undone(&known, &plan.short)?;
    args.recording.refuse_inside_projects(&known.plan.projects, invocation)?;
    plan_args::tell_unset(&known.plan.spec, invocation);
    if !args.limit.is_empty() {
        let limits = args.limit.iter().map(|limit| (limit.kind, limit.max)).collect();
        let set = engine.set_limits(plan.id, limits).await;
        set.map_err(|error| from_engine::limits(&error, &plan.short))?;
    }
    if args.detach {
        let left = engine.detach_resumed(plan.id).await;
        left.map_err(|error| render::failure::not_executed(&error, &known, &plan.short))?;
        return detach::detach(invocation, &engine, &plan).await;
    }
    let details = follow::follow(invocation, &engine, &plan, engine.resume(plan.id)).await?;
    let details = details.map_err(|error| render::failure::not_executed(&error, &known, &plan.short))?;
    let report = run::finish(invocation, &engine, &plan, details).await?;
    Ok(args.recording.add_recording_notes(&engine, report))
}
