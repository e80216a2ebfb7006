//! `agents plan prompt`: says something to a plan.
//!
//! # Invariants
//! 1. A plan that is worked on or waits stores the message, and heeds it when it continues. One that is done
//!    stores it too, and the answer says how to continue it.
//! 2. A plan that failed is tried again with it; with `--replan` its strategy is worked out again first.
//!    Either continues here, as far as its gates allow, or is left to a worker. One that is worked on is
//!    stopped for `--replan`, and its worker continues.
//! 3. `--revise` continues a finished plan on top of its changes, as `plan revise` does. `--at` corrects one
//!    decision: it and those that rest upon it give way, and the work since is rolled back.
//! 4. `--dry-run` writes nothing.

use domain::PlanEvent;
use engine::{Affected, Engine, GuidanceMode, GuidanceOutcome, ReviseError};
use serde_json::json;

use super::revise::Revision;
use crate::cli::invocation::NamedPlan;
use crate::cli::{Invocation, detach, follow, run};
use crate::errors::{CommandError, codes, from_engine};
use crate::output::{CommandReport, OutputNote, escape_control_chars};
use crate::render;
use crate::render::decisions::DecisionNames;
use crate::render::next_steps;
use crate::setup::project;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PromptArgs {
    /// The plan
    plan: String,
    /// The message, 1 to 16384 bytes
    text: String,
    /// Begin again with a new strategy, which replaces the decisions so far
    #[arg(long)]
    replan: bool,
    /// Continue a finished plan on top of its changes, as `agents plan revise` does
    #[arg(long, conflicts_with_all = ["replan", "dry_run"])]
    revise: bool,
    /// Correct this decision: it and those that rest upon it are replaced, and what was done after it is
    /// rolled back. Its number, its id, or PLAN:NUMBER
    #[arg(long, value_name = "DECISION", conflicts_with_all = ["replan", "revise"])]
    at: Option<String>,
    /// Only show which decisions would be replaced, and which files would be done again
    #[arg(long)]
    dry_run: bool,
    /// Run in a background worker; start one if necessary
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
}

pub(super) async fn run(args: PromptArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let details = super::details(&engine, &plan).await?;
    render::failure::refuse_undone(&details, &plan.short)?;
    if args.revise {
        let asked = Revision { text: &args.text, spec: None };
        return super::revise::send(&engine, &plan, asked, args.detach, invocation).await;
    }
    if let Some(word) = &args.at {
        return correct(&args, word, &engine, &plan, invocation).await;
    }
    let taken = if args.replan { GuidanceMode::Replan } else { GuidanceMode::Besides };
    let affected = engine.would_affect(plan.id, taken).await;
    let affected = affected.map_err(|error| from_engine::guide(&error, &plan.short))?;
    if args.dry_run {
        return preview_guidance(&engine, &plan, taken, &affected, invocation).await;
    }
    let guided = engine.guide(plan.id, &args.text, taken).await;
    match guided.map_err(|error| from_engine::guide(&error, &plan.short))? {
        guided @ (GuidanceOutcome::Kept | GuidanceOutcome::HandedOn) => {
            let details = super::details(&engine, &plan).await?;
            let note = match guided {
                GuidanceOutcome::HandedOn => {
                    "it was stopped and begins again; the process that worked on it continues".to_owned()
                }
                _ if details.plan.state.next(PlanEvent::Revise).is_ok() => {
                    format!("it is stored; the plan is done, so {}", next_steps::continue_plan(&plan.short))
                }
                GuidanceOutcome::Kept | GuidanceOutcome::Retried | GuidanceOutcome::Replanned => {
                    "it is stored, and the plan heeds it when it continues".to_owned()
                }
            };
            // The command did not ask for the plan's state: it is shown, and is no failure of this command.
            let text = render::plan::to_text(&details, &plan.short, &invocation.style);
            let report = CommandReport::new(render::plan::to_json(&details, &plan.short), text);
            Ok(report.note(OutputNote::info(note)))
        }
        GuidanceOutcome::Retried | GuidanceOutcome::Replanned if args.detach => {
            let left = engine.detach_guided(plan.id).await;
            left.map_err(|error| from_engine::execute(&error, &plan.short))?;
            detach::detach(invocation, &engine, &plan).await
        }
        GuidanceOutcome::Retried | GuidanceOutcome::Replanned => {
            let details = follow::follow(invocation, &engine, &plan, engine.resume_guided(plan.id)).await?;
            let details = details.map_err(|error| from_engine::execute(&error, &plan.short))?;
            let mut report = run::finish(invocation, &engine, &plan, details).await?;
            report.data["affected"] = render::decisions::affected_json(&affected);
            Ok(report)
        }
    }
}

async fn preview_guidance(
    engine: &Engine,
    plan: &NamedPlan,
    taken: GuidanceMode,
    affected: &Affected,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let all = engine.decisions(plan.id).await.map_err(|error| from_engine::store(&error))?;
    let (names, short) = (DecisionNames::new(&all), &plan.short);
    let mut text = match taken {
        GuidanceMode::Besides => {
            format!("plan {short} would heed it as it continues; no decision would be replaced\n")
        }
        GuidanceMode::Replan => {
            format!(
                "plan {short} would begin again with a new strategy; these decisions would be replaced:\n"
            )
        }
    };
    for decision in all.iter().filter(|decision| affected.decisions.contains(&decision.seq)) {
        text.push_str(&format!("  {}\n", render::decisions::line(decision, &names, &invocation.style)));
    }
    for file in &affected.files {
        text.push_str(&format!("  {}\n", escape_control_chars(file)));
    }
    text.push_str("nothing was written\n");
    let affected = render::decisions::affected_json(affected);
    Ok(CommandReport::new(json!({ "plan_id": plan.id, "dry_run": true, "affected": affected }), text))
}

/// Corrects one decision, and continues the plan from there.
async fn correct(
    args: &PromptArgs,
    word: &str,
    engine: &Engine,
    plan: &NamedPlan,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let not_found = || {
        CommandError::new(
            &codes::DECISION_NOT_FOUND,
            format!("plan {} has no decision `{}`", plan.short, escape_control_chars(word)),
        )
    };
    let seq = match word.parse::<u32>() {
        Ok(seq) => seq,
        Err(_) => {
            let root = project::root_of(&invocation.here).ok();
            let found = engine.find_decision(word, root.as_deref()).await;
            let (of, seq) = found.map_err(|error| from_engine::find_decision(&error))?;
            if of == plan.id { seq } else { return Err(not_found()) }
        }
    };
    let refused = |error: &ReviseError| from_engine::revise(error, &plan.short);
    engine.may_correct(plan.id, seq).await.map_err(|error| refused(&error))?;
    let details = engine.explain(plan.id, seq).await;
    let details = details.map_err(|error| from_engine::plan(&error, &plan.short))?.ok_or_else(not_found)?;
    let affected = render::decisions::affected_json(&details.affected);
    if args.dry_run {
        let names = DecisionNames::new(&details.all);
        let mut text = format!("plan {} would replace these decisions:\n", plan.short);
        for decision in details.all.iter().filter(|one| details.affected.decisions.contains(&one.seq)) {
            text.push_str(&format!("  {}\n", render::decisions::line(decision, &names, &invocation.style)));
        }
        text.push_str("and roll back what was done since to these files:\n");
        for file in &details.affected.files {
            text.push_str(&format!("  {}\n", escape_control_chars(file)));
        }
        text.push_str("nothing was written\n");
        let data = json!({ "plan_id": plan.id, "dry_run": true, "affected": affected });
        return Ok(CommandReport::new(data, text));
    }
    engine.correct(plan.id, seq, &args.text).await.map_err(|error| refused(&error))?;
    if args.detach {
        let left = engine.detach_guided(plan.id).await;
        left.map_err(|error| from_engine::execute(&error, &plan.short))?;
        return detach::detach(invocation, engine, plan).await;
    }
    let done = follow::follow(invocation, engine, plan, engine.resume_guided(plan.id)).await?;
    let done = done.map_err(|error| from_engine::execute(&error, &plan.short))?;
    let mut report = run::finish(invocation, engine, plan, done).await?;
    report.data["affected"] = affected;
    Ok(report)
}
