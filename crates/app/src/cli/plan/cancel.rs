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

use super::agreed;
use crate::cli::Invocation;
use crate::cli::invocation::NamedPlan;
use crate::errors::{CommandError, from_engine};
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
    /// The plans
    #[arg(value_name = "PLAN", required_unless_present = "state")]
    plans: Vec<String>,
    /// All plans of this project in this state
    #[arg(long, value_parser = ["queued"], conflicts_with = "plans")]
    state: Option<String>,
    /// With `--state`: the plans of all projects
    #[arg(long, requires = "state")]
    all: bool,
    /// With `--state`: do not ask for confirmation
    #[arg(long, short, requires = "state")]
    yes: bool,
    #[command(flatten)]
    how: CancelHow,
}

/// How to cancel.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CancelHow {
    /// The reason, which is recorded
    #[arg(long, value_name = "TEXT", default_value = "cancelled by the user", value_parser = reason)]
    reason: String,
    /// How long to wait for the confirmation, which comes when its processes are dead and their changes are
    /// stored
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
    if let Some(state) = &args.state {
        return all_in_state(state, &args, invocation, &engine).await;
    }
    let mut plans: Vec<NamedPlan> = Vec::new();
    for word in &args.plans {
        let plan = invocation.plan(&engine, word).await?;
        if plans.iter().all(|known| known.id != plan.id) {
            plans.push(plan);
        }
    }
    match plans.as_slice() {
        [plan] => {
            render::failure::refuse_undone(&super::facts(&engine, plan).await?, &plan.short)?;
            cancel_plan(&engine, plan, &args.how).await
        }
        several => Ok(cancel_all(&engine, several, &args.how).await),
    }
}

/// Cancels all plans that are in this state when it is looked.
async fn all_in_state(
    state: &str,
    args: &CancelArgs,
    invocation: &Invocation,
    engine: &Engine,
) -> Result<CommandReport, CommandError> {
    let root = if args.all { None } else { Some(project::root_of(&invocation.here)?) };
    let filter = PlanFilter {
        phase: None,
        state: Some(state.to_owned()),
        root: root.as_ref().map(|root| root.as_os_str().as_bytes().to_vec()),
        limit: usize::MAX,
    };
    let found = engine.store().newest_plans(&filter).await.map_err(|error| from_engine::store(&error))?;
    let whose = if args.all { "" } else { " of this project" };
    if found.is_empty() {
        let everywhere = if args.all { "" } else { "; `--all` means those of all projects" };
        let text = format!("no plan{whose} is {state}{everywhere}\n");
        return Ok(CommandReport::new(json!({ "plans": [], "cancelled": 0 }), text));
    }
    let many = counted(found.len(), "plan");
    let unasked = |mut failure: CommandError| {
        failure.message = format!(
            "this cancels {many}{whose} for good and needs confirmation, which cannot be asked for here"
        );
        failure
    };
    if !agreed(&format!("cancel {many}{whose} for good?"), args.yes, invocation).map_err(unasked)? {
        return Ok(CommandReport::new(json!({ "plans": [], "cancelled": 0 }), "nothing was cancelled\n"));
    }
    let plans: Vec<NamedPlan> =
        found.iter().map(|plan| NamedPlan { id: plan.id, short: plan.id.to_string() }).collect();
    Ok(cancel_all(engine, &plans, &args.how).await)
}

/// Cancels several plans concurrently. One that cannot be cancelled does not prevent the others from being
/// cancelled.
async fn cancel_all(engine: &Engine, plans: &[NamedPlan], how: &CancelHow) -> CommandReport {
    let cancels = plans.iter().map(|plan| async move {
        let cancelled = engine.cancel(plan.id, &how.reason, how.wait).await;
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
    how: &CancelHow,
) -> Result<CommandReport, CommandError> {
    let cancelled = engine.cancel(plan.id, &how.reason, how.wait).await;
    let report = cancelled.map_err(|error| from_engine::cancel(&error, &plan.short))?;
    let facts = super::facts(engine, plan).await?;
    let mut data = render::plan::to_json(&facts, &plan.short);
    data["cancel"] = json!({
        "reason": how.reason, "already": report.already, "acknowledged_at": stamp(report.plan.updated),
        "entries_kept": report.entries_kept, "sandbox_kept_in": report.kept_in,
    });
    Ok(CommandReport::new(data, line(plan, &report)))
}
