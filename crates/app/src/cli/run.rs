//! `agents run`: makes a plan, executes it, and applies it when that was asked for.
//!
//! # Invariants
//! 1. `--apply` is the person's yes: it applies what its required checks let through, also when there are none.
//! 2. With `automation = auto` and without `--apply` a plan is applied only if at least one required check passed.
//! 3. What was said when the plan was made holds, whichever command brings it to the end of execute.

use std::path::PathBuf;

use domain::{Automation, Gate, PlanSpec, PlanState, Work};
use engine::plans::{ApplyRequest, Engine, ExecuteOptions, PlanFacts};

use super::invocation::{Named, short_id};
use super::tape::TapeArgs;
use super::task::TaskArgs;
use super::{Invocation, detach, for_each, plan, work};
use crate::failure::{Exit, Failure, from_engine};
use crate::output::{Note, Report};
use crate::plan_view;

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    tape: TapeArgs,
    /// Apply the result at once, if its checks pass
    #[arg(long)]
    apply: bool,
    /// Show what changed, before the summary
    #[arg(long, conflicts_with = "detach")]
    diff: bool,
    /// Leave it to a worker, and start one when none lives
    #[arg(long)]
    detach: bool,
    /// Make a plan for every line of a file (- is the standard input), and leave them all to the workers; commands find
    /// their line in $ITEM
    #[arg(long, value_name = "FILE", conflicts_with_all = ["diff", "record", "replay"])]
    for_each: Option<PathBuf>,
}

/// Who has said yes to applying.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Yes {
    Person,
    IfChecked,
    Nobody,
}

pub(super) async fn run(args: RunArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let gate = if args.apply { Gate::Auto } else { Gate::Ask };
    let asked = args.task.asked(invocation, gate)?;
    let engine = invocation.engine_with_tape(&asked.settings, &args.tape).await?;
    if let Some(file) = &args.for_each {
        return for_each::leave_all(file, asked.request, invocation, &engine).await;
    }
    let made = engine.use_plan(asked.request).await.map_err(|error| from_engine::use_plan(&error))?;
    let plan = Named { id: made.id, short: short_id(&engine, made.id).await? };
    let options = ExecuteOptions { again: false, stop_before_apply: true };
    if args.detach {
        let left = engine.leave(plan.id, options).await;
        left.map_err(|error| from_engine::execute(&error, &plan.short))?;
        return detach::left(invocation, &engine, &plan).await;
    }
    let facts = work::follow(invocation, &engine, &plan, engine.execute(plan.id, options)).await?;
    let facts = facts.map_err(|error| from_engine::execute(&error, &plan.short))?;
    let mut report = finish(invocation, &engine, &plan, facts).await?;
    if args.diff {
        let mut text = plan::diff::whole(&engine, &plan, invocation).await?;
        text.append(&mut report.text);
        report.text = text;
    }
    Ok(args.tape.told(&engine, report))
}

impl Yes {
    /// What was said when the plan was made.
    fn of(spec: &PlanSpec) -> Yes {
        match (spec.apply, spec.automation) {
            (Gate::Auto, _) => Yes::Person,
            (Gate::Ask, Automation::Auto) => Yes::IfChecked,
            (Gate::Ask, Automation::Manual | Automation::Review) => Yes::Nobody,
        }
    }
}

/// Shows the plan at the end of execute, and first applies it when somebody has said yes to that.
pub(super) async fn finish(
    invocation: &Invocation,
    engine: &Engine,
    plan: &Named,
    facts: PlanFacts,
) -> Result<Report, Failure> {
    let is_done = facts.plan.state == PlanState::Execute(Work::Complete) && facts.validations.lets_through();
    let is_checked = facts.validations.required > 0;
    if !is_done || facts.net.is_empty() {
        return Ok(shown(&facts, plan, invocation));
    }
    match Yes::of(&facts.plan.spec) {
        Yes::Nobody => Ok(shown(&facts, plan, invocation)),
        Yes::IfChecked if !is_checked => {
            let note =
                "automation is `auto`, but the plan has no required check that passed: it waits for your yes";
            let mut report = shown(&facts, plan, invocation).note(Note::warning(note));
            report.exit = Exit::NeedsPerson;
            Ok(report)
        }
        Yes::Person | Yes::IfChecked => {
            let request = ApplyRequest::default();
            let applied = work::follow(invocation, engine, plan, engine.apply(plan.id, &request)).await?;
            let facts = plan::facts(engine, plan).await?;
            match applied {
                Ok(summary) => {
                    let mut report = shown(&facts, plan, invocation);
                    report.data["apply"] = plan::apply::summary_json(&summary, plan);
                    report.text.extend(plan::apply::summary_line(&summary, plan, "applied").into_bytes());
                    Ok(report)
                }
                Err(error) => {
                    Ok(shown(&facts, plan, invocation).failed(from_engine::apply(&error, &plan.short)))
                }
            }
        }
    }
}

/// The plan as it stands, and why it did not come further when it should have.
pub(super) fn shown(facts: &PlanFacts, plan: &Named, invocation: &Invocation) -> Report {
    let text = plan_view::to_text(facts, &plan.short, &invocation.look);
    let report = Report::new(plan_view::to_json(facts, &plan.short), text);
    match plan_view::failure_of(facts, &plan.short) {
        Some(failure) => report.failed(failure),
        None => report,
    }
}
