//! `agents run`: makes a plan, executes it, and applies it when that was asked for.
//!
//! # Invariants
//! 1. `--apply` is the person's yes: it applies what its required checks let through, also when there are
//!    none.
//! 2. What else is applied without being asked, and where a plan waits, say its gates alone: nothing here
//!    decides it.
//! 3. What was said when the plan was made holds, whichever command brings it to the end of execute.
//! 4. The last words of a model are part of the answer, also when it changed something.
//! 5. A plan that waits at a gate ends with 0; if it was sent through to the user's files, with 6.

use std::path::PathBuf;

use domain::{AskReason, GateDecision, GatePoint};
use engine::{ApplyRequest, Engine, ExecuteOptions, PlanDetails};
use sync::Observed;

use super::invocation::{NamedPlan, short_id};
use super::plan_args::TaskArgs;
use super::recording::RecordingArgs;
use super::{Invocation, detach, follow, for_each, plan};
use crate::errors::{CommandError, Exit, from_engine};
use crate::output::{CommandReport, OutputNote};
use crate::render;

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    recording: RecordingArgs,
    /// Apply the result at once, if its checks pass
    #[arg(long)]
    apply: bool,
    /// Show the diff before the summary
    #[arg(long, conflicts_with = "detach")]
    diff: bool,
    /// Run in a background worker; start one if necessary
    #[arg(long)]
    detach: bool,
    /// Create a detached plan for every line of a file (- is the standard input); commands find their line in
    /// $ITEM, tasks and prompts in {{item}}
    #[arg(long, value_name = "FILE", conflicts_with_all = ["diff", "record", "replay"])]
    for_each: Option<PathBuf>,
    /// With `--for-each`: the name of the batch, by which its plans are listed, applied and cancelled together
    /// [default: the name of the file]
    #[arg(long, value_name = "NAME", requires = "for_each", value_parser = for_each::batch_name)]
    batch: Option<String>,
}

pub(super) async fn run(args: RunArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let gate = if args.apply { GateDecision::Auto } else { GateDecision::Ask };
    let lines = args.for_each.as_deref().map(|file| for_each::read(file, invocation)).transpose()?;
    let replayed = args.recording.open_replay(&invocation.here)?;
    let mut asked = args.task.prepare_plan(invocation, gate, lines.as_ref(), replayed.as_ref()).await?;
    args.recording.refuse_inside_projects(&asked.request.projects, invocation)?;
    let engine =
        invocation.engine_with_recording(&asked.settings, &args.recording, asked.participants()).await?;
    asked.settle_trust(&engine, invocation).await?;
    asked.tell_unpriced(&engine, invocation)?;
    if let Some(lines) = lines {
        let root = asked.request.projects.first().map(|project| project.root.as_bytes().to_vec());
        let batch = match args.batch {
            Some(batch) => batch,
            None => lines.unused_batch(&engine, root.as_deref()).await?,
        };
        asked.set_batch(&batch);
        return for_each::detach_all(&lines.items, &asked, &batch, invocation, &engine).await;
    }
    let made = engine.use_plan(asked.request).await.map_err(|error| from_engine::use_plan(&error))?;
    let plan = NamedPlan { id: made.id, short: short_id(&engine, made.id).await? };
    let options = ExecuteOptions { again: false, stop_before_apply: true };
    if args.detach {
        let left = engine.detach_plan(plan.id, options).await;
        left.map_err(|error| from_engine::execute(&error, &plan.short))?;
        return detach::detach(invocation, &engine, &plan).await;
    }
    let details = follow::follow(invocation, &engine, &plan, engine.execute(plan.id, options)).await?;
    let details = details.map_err(|error| from_engine::execute(&error, &plan.short))?;
    let mut report = finish(invocation, &engine, &plan, details.clone()).await?;
    if args.diff {
        let mut text = plan::diff::whole(&engine, &plan, invocation).await?;
        if report.failure.is_none() && report.data["apply"].is_null() {
            report.text = render::plan::to_text_below_diff(&details, &plan.short, &invocation.style).into();
        }
        text.append(&mut report.text);
        report.text = text;
    }
    let report = with_notes(report, asked.notes, invocation);
    Ok(args.recording.add_recording_notes(&engine, report))
}

/// Shows the plan where it came to rest, and first applies it when its gate says so.
pub(super) async fn finish(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
    details: PlanDetails,
) -> Result<CommandReport, CommandError> {
    let note = details.no_strategy.as_ref().map(|why| format!("the plan works without a strategy: {why}"));
    let report = finish_plan(invocation, engine, plan, details).await?;
    Ok(match note {
        Some(note) => report.note(OutputNote::warning(note)),
        None => report,
    })
}

async fn finish_plan(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
    details: PlanDetails,
) -> Result<CommandReport, CommandError> {
    let Some(gate) = details.gate else { return Ok(plan_report(&details, plan, invocation)) };
    if gate.point == GatePoint::Apply && gate.goes() {
        return apply(invocation, engine, plan).await;
    }
    let report = plan_report(&details, plan, invocation);
    let is_done = gate.point == GatePoint::Apply && details.validations.lets_through();
    if is_done && details.net.is_empty() && render::failure::is_sent_on(&details) {
        let note = "nothing to apply: the plan changed nothing";
        return Ok(report.note(OutputNote::info(note)));
    }
    Ok(match gate.asks().filter(|why| why.is_settled_by_a_yes()) {
        Some(why) if render::failure::is_sent_on(&details) => waiting(report, why, &details),
        Some(_) | None => report,
    })
}

fn waiting(report: CommandReport, why: AskReason, details: &PlanDetails) -> CommandReport {
    let name = &details.plan.spec.automation.name;
    let note = if why == AskReason::Unchecked {
        format!(
            "automation is `{name}`, but the plan has no required check that passed: it waits for your yes"
        )
    } else {
        format!("the plan waits (automation is `{name}`): {why}")
    };
    CommandReport { exit: Exit::NeedsInput, ..report.note(OutputNote::warning(note)) }
}

async fn apply(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
) -> Result<CommandReport, CommandError> {
    let request = ApplyRequest::default();
    let (id, wanted) = (plan.id, &request);
    let apply = |stop: Observed| async move { engine.apply_unless(id, wanted, None, &stop).await };
    let applied = follow::follow_files(invocation, engine, plan, apply).await;
    let details = plan::details(engine, plan).await?;
    let mut report = plan_report(&details, plan, invocation);
    match applied {
        Ok(summary) => {
            report.data["apply"] = plan::apply::summary_json(&summary, plan);
            report
                .text
                .extend(plan::apply::summary_line(&summary, plan, &details.plan, "applied").into_bytes());
            Ok(report)
        }
        Err(error) => Ok(report.failed(from_engine::apply(&error, &plan.short))),
    }
}

/// Returns the answer with the notes that programs did not receive meanwhile.
pub(super) fn with_notes(
    report: CommandReport,
    notes: Vec<OutputNote>,
    invocation: &Invocation,
) -> CommandReport {
    let is_told_now = invocation.style.format.is_for_programs();
    notes.into_iter().filter(|_| is_told_now).fold(report, CommandReport::note)
}

/// Reports the state of the plan, and the reason why it did not come further if it should have.
pub(super) fn plan_report(details: &PlanDetails, plan: &NamedPlan, invocation: &Invocation) -> CommandReport {
    let (data, style) = (render::plan::to_json(details, &plan.short), &invocation.style);
    match render::failure::failure_of(details, &plan.short) {
        Some(failure) => {
            let text = render::plan::to_text_above_error(details, &plan.short, style);
            CommandReport::new(data, text).failed(failure)
        }
        None => CommandReport::new(data, render::plan::to_text(details, &plan.short, style)),
    }
}
