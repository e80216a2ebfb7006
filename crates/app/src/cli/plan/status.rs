//! `agents plan status`: the state of a plan, and what can be done with it.
//!
//! A plan that failed is shown with exit 0: the question was answered.

use domain::{NodeKind, PlanStep};

use crate::cli::Invocation;
use crate::cli::forecast::{self, OverlappingPlans};
use crate::errors::CommandError;
use crate::output::CommandReport;
use crate::render;
use crate::render::forecast::OverlappingPlan;
use crate::time::now;
use crate::tui::top;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct StatusArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
}

pub(super) async fn run(args: StatusArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let details = super::details(&engine, &plan).await?;
    let mut text = render::plan::to_text_with_times(&details, &plan.short, &invocation.style);
    for (strategy, why) in details.sandbox.iter().flat_map(|sandbox| &sandbox.passed_over) {
        text.push_str(&format!(
            "sandbox {strategy} was not possible: {}\n",
            crate::output::escape_control_chars(why)
        ));
    }
    let OverlappingPlans { mets, not_compared } = forecast::find_overlaps(&engine, &plan).await?;
    for line in
        mets.iter().map(OverlappingPlan::line).chain(render::forecast::not_compared_line(not_compared))
    {
        text.push_str(&format!("{line}\n"));
    }
    // Who asks models, and those only, wants to know how they stand.
    let asks = |provider: &str| details.plan.spec.steps.iter().any(|step| model_of(step) == Some(provider));
    let mut changes = engine.breaker_changes();
    changes.retain(|change| asks(&change.provider));
    for change in &changes {
        text.push_str(&format!("{}\n", top::breaker_words(change, now())));
    }
    let mut data = render::plan::to_json(&details, &plan.short);
    data["breakers"] = top::breakers_json(&changes, now());
    data["forecast"] = render::forecast::to_json(&mets);
    data["not_compared"] = not_compared.into();
    Ok(CommandReport::new(data, text))
}

/// The provider of the model that a step asks.
fn model_of(step: &PlanStep) -> Option<&str> {
    match &step.does {
        NodeKind::Model(task) => task.model.split_once('/').map(|(provider, _)| provider),
        NodeKind::Command(_)
        | NodeKind::Read { .. }
        | NodeKind::Write { .. }
        | NodeKind::Edit { .. }
        | NodeKind::Wait { .. }
        | NodeKind::Tool { .. }
        | NodeKind::External(_)
        | NodeKind::Actor { .. } => None,
    }
}
