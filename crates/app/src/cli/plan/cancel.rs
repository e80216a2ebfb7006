//! `agents plan cancel`: stops plans for good, and says when nothing of them can happen any more.
//!
//! # Invariants
//! Of several plans each is cancelled or reported; none waits for one that does not answer.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use engine::{CancelReport, Engine};
use futures_util::{StreamExt, stream};
use serde_json::json;
use store::PlanFilter;

use super::selection::PlanSelection;
use super::{agreed, selection};
use crate::cli::Invocation;
use crate::cli::invocation::NamedPlan;
use crate::errors::{CommandError, codes, from_engine};
use crate::output::CommandReport;
use crate::render;
use crate::render::diff::counted;
use crate::setup::project;
use crate::time::{parse_duration, stamp};

/// The length limit of a reason.
const REASON_CHARS_MAX: usize = 500;
/// So many plans are cancelled at once.
const AT_ONCE: usize = 64;
/// Of more plans than this only the number is reported.
const LINES_MAX: usize = 50;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CancelArgs {
    #[command(flatten)]
    which: PlanSelection,
    /// All plans of this project in this state
    #[arg(long, value_parser = ["queued", "running"], conflicts_with_all = ["plans", "batch"])]
    state: Option<String>,
    /// All plans of this project that wait or run; with `--state`, the plans of all projects in that state
    #[arg(long, conflicts_with_all = ["plans", "batch"])]
    all: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    options: CancelOptions,
}

/// The options of a cancel.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CancelOptions {
    /// The reason, which is recorded
    #[arg(long, value_name = "TEXT", default_value = "cancelled by the user", value_parser = reason)]
    reason: String,
    /// Maximum time to wait for the confirmation, which comes when its processes are dead and their changes
    /// are stored
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = parse_duration)]
    wait: Duration,
}

fn reason(text: &str) -> Result<String, String> {
    let count = text.chars().count();
    if count <= REASON_CHARS_MAX {
        Ok(text.to_owned())
    } else {
        Err(format!("at most {REASON_CHARS_MAX} characters"))
    }
}

pub(super) async fn run(args: CancelArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    if args.state.is_some() || args.all {
        return cancel_in_states(&args, invocation, &engine).await;
    }
    let plans = args.which.find(&engine, invocation).await?;
    match plans.as_slice() {
        [plan] if args.which.batch.is_none() => {
            let details = super::details(&engine, plan).await?;
            render::failure::refuse_undone(&details, &plan.short)?;
            // A plan that was not named is named in a question. One that has ended is refused anyway.
            let is_asked = args.which.is_default() && !details.plan.state.is_final();
            if is_asked {
                let words = render::plan::named_words(&plan.short, &details.plan);
                if !is_agreed(&format!("cancel plan {words} for good?"), &words, &args, invocation)? {
                    return Ok(nothing_cancelled());
                }
            }
            cancel_plan(&engine, plan, &args.options).await
        }
        several if args.which.batch.is_some() => {
            let mut open = Vec::new();
            for plan in several {
                let found = engine.store().plan(plan.id).await;
                let found = found.map_err(|error| from_engine::plan(&error, &plan.short))?;
                open.extend((!found.state.is_final()).then(|| plan.clone()));
            }
            let many = counted(open.len(), "plan");
            if open.is_empty() {
                return Ok(nothing_cancelled());
            }
            if !is_agreed(&format!("cancel {many} of the batch for good?"), &many, &args, invocation)? {
                return Ok(nothing_cancelled());
            }
            Ok(cancel_all(&engine, &open, &args.options).await)
        }
        several => Ok(cancel_all(&engine, several, &args.options).await),
    }
}

fn nothing_cancelled() -> CommandReport {
    CommandReport::new(json!({ "plans": [], "cancelled": 0 }), "nothing was cancelled\n")
}

/// Returns the user's answer to the question. `what` is cancelled.
fn is_agreed(
    question: &str,
    what: &str,
    args: &CancelArgs,
    invocation: &Invocation,
) -> Result<bool, CommandError> {
    let unasked = |mut failure: CommandError| {
        if failure.code == &codes::CONFIRMATION_NEEDED {
            failure.message = format!(
                "this cancels {what} for good and needs confirmation, which cannot be asked for here"
            );
        }
        failure
    };
    agreed(question, args.yes, invocation).map_err(unasked)
}

/// Cancels all plans that are in this state, or in any that can be cancelled, when it is looked.
async fn cancel_in_states(
    args: &CancelArgs,
    invocation: &Invocation,
    engine: &Engine,
) -> Result<CommandReport, CommandError> {
    let states = match args.state.as_deref() {
        Some("running") => &["processing"][..],
        Some(_) => &["queued"],
        None => &["queued", "processing"],
    };
    let everywhere = args.all && args.state.is_some();
    let root = if everywhere { None } else { Some(project::root_of(&invocation.here)?) };
    let mut plans = Vec::new();
    for state in states {
        let filter = PlanFilter {
            state: Some((*state).to_owned()),
            root: root.as_ref().map(|root| root.as_os_str().as_bytes().to_vec()),
            limit: usize::MAX,
            ..PlanFilter::default()
        };
        plans.extend(selection::found(engine, invocation, &filter).await?);
    }
    let whose = if everywhere { "" } else { " of this project" };
    if plans.is_empty() {
        let words = args.state.as_deref().unwrap_or("queued or running");
        let all = if args.all { "" } else { "; `--all` means those of all projects" };
        let text = format!("no plan{whose} is {words}{all}\n");
        return Ok(CommandReport::new(json!({ "plans": [], "cancelled": 0 }), text));
    }
    let what = format!("{}{whose}", counted(plans.len(), "plan"));
    if !is_agreed(&format!("cancel {what} for good?"), &what, args, invocation)? {
        return Ok(nothing_cancelled());
    }
    Ok(cancel_all(engine, &plans, &args.options).await)
}

/// Cancels several plans concurrently. One that cannot be cancelled does not prevent the others from being
/// cancelled.
async fn cancel_all(engine: &Engine, plans: &[NamedPlan], options: &CancelOptions) -> CommandReport {
    let cancels = plans.iter().map(|plan| async move {
        let cancelled = engine.cancel(plan.id, &options.reason, options.wait).await;
        (plan, cancelled.map_err(|error| from_engine::cancel(&error, &plan.short)))
    });
    let outcomes: Vec<_> = stream::iter(cancels).buffered(AT_ONCE).collect().await;
    let (mut lines, mut data, mut done) = (Vec::new(), Vec::new(), 0_usize);
    let mut failures = Vec::new();
    for (plan, outcome) in outcomes {
        match outcome {
            Ok(report) => {
                done += 1;
                if plans.len() <= LINES_MAX || report.kept_in.is_some() {
                    lines.push(line(plan, &report));
                }
                data.push(json!({
                    "plan_id": plan.id, "cancelled": true, "already": report.already,
                    "entries_kept": report.entries_kept, "sandbox_kept_in": report.kept_in,
                }));
            }
            Err(failure) => {
                lines.push(format!("not cancelled: {}\n", failure.message));
                data.push(json!({ "plan_id": plan.id, "cancelled": false, "code": failure.code.name }));
                failures.push(failure);
            }
        }
    }
    lines.push(format!("{} of {} cancelled\n", done, counted(plans.len(), "plan")));
    let report = CommandReport::new(json!({ "plans": data, "cancelled": done }), lines.concat());
    match failures.into_iter().next() {
        Some(failure) => report.failed(failure),
        None => report,
    }
}

/// Returns the outcome of a plan in words.
fn line(plan: &NamedPlan, report: &CancelReport) -> String {
    let (id, projects) = (&plan.short, render::plan::projects_words(&report.plan));
    if let Some(dir) = &report.kept_in {
        return format!(
            "cancelled {id} of {projects}: the changes of its last command could not be captured in time, so its sandbox is retained in {}; {}\n",
            dir.display(),
            render::next_steps::COPY_THEN_CLEAR
        );
    }
    if report.already {
        return format!("plan {id} of {projects} was cancelled already\n");
    }
    if report.entries_kept == 0 {
        return format!("cancelled {id} of {projects}: it had changed nothing, your files are untouched\n");
    }
    let kept = counted(report.entries_kept, "change");
    format!(
        "cancelled {id} of {projects}: {kept} stored, your files are untouched; {}\n",
        render::next_steps::after_cancel(id)
    )
}

/// Cancels the plan, whichever command asked for it.
pub(in crate::cli) async fn cancel_plan(
    engine: &Engine,
    plan: &NamedPlan,
    options: &CancelOptions,
) -> Result<CommandReport, CommandError> {
    let cancelled = engine.cancel(plan.id, &options.reason, options.wait).await;
    let report = cancelled.map_err(|error| from_engine::cancel(&error, &plan.short))?;
    let details = super::details(engine, plan).await?;
    let mut data = render::plan::to_json(&details, &plan.short);
    data["cancel"] = json!({
        "reason": options.reason, "already": report.already, "acknowledged_at": stamp(report.plan.updated),
        "entries_kept": report.entries_kept, "sandbox_kept_in": report.kept_in,
    });
    Ok(CommandReport::new(data, line(plan, &report)))
}
