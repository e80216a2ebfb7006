//! `agents plan check`: runs the checks of finished plans again, on your files as they are, without doing the
//! work again.
//!
//! # Invariants
//! 1. Your files and the changes of the plan stay as they are; only the results are recorded.
//! 2. The answer and the exit are those of `agents run`: a required check that failed is a refusal.

use std::sync::{Mutex, PoisonError};

use serde_json::json;
use sync::Observed;

use crate::cli::invocation::NamedPlan;
use crate::cli::{Invocation, follow, run};
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, TextTable, one_line};
use crate::render::state;

/// The column of the state, which has colours.
const STATE_COLUMN: usize = 1;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CheckArgs {
    /// The plans [default: @last]
    #[arg(value_name = "PLAN")]
    plans: Vec<String>,
    /// Only the check with this name; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

pub(super) async fn run(args: CheckArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = invocation.settings(Vec::new(), &[])?;
    let engine = invocation.engine_with(&settings).await?;
    let words = if args.plans.is_empty() { vec!["@last".to_owned()] } else { args.plans };
    let mut plans: Vec<NamedPlan> = Vec::new();
    for word in &words {
        let plan = invocation.plan(&engine, word).await?;
        if !plans.iter().any(|known| known.id == plan.id) {
            plans.push(plan);
        }
    }
    let mut reports: Vec<(NamedPlan, CommandReport)> = Vec::new();
    let mut table = TextTable::new(&["plan", "state", "title"]).with_colours(STATE_COLUMN, state::coloured);
    for plan in plans {
        let (only, checked) = (args.only.as_slice(), &engine);
        let doing = Mutex::new(String::new());
        let begins = |name: &str| {
            *doing.lock().unwrap_or_else(PoisonError::into_inner) = format!("check {}", one_line(name));
        };
        let id = plan.id;
        let work = |stop: Observed| async move { checked.check_again(id, only, &stop, &begins).await };
        let done = follow::follow_checks(invocation, &engine, &plan, &doing, work).await;
        done.map_err(|error| from_engine::check_again(&error, &plan.short))?;
        let details = super::details(&engine, &plan).await?;
        table.row(vec![
            plan.short.clone(),
            state::words_of(&details).to_owned(),
            one_line(&details.plan.title),
        ]);
        let report = run::plan_report(&details, &plan, invocation);
        reports.push((plan, report));
    }
    if let [(_, _)] = reports.as_slice()
        && let Some((_, report)) = reports.pop()
    {
        return Ok(report);
    }
    let mut failures = reports.iter_mut().filter_map(|(_, report)| report.failure.take());
    let failure = failures.next();
    drop(failures);
    let data = json!({ "plans": reports.iter().map(|(_, report)| &report.data).collect::<Vec<_>>() });
    let report = CommandReport::new(data, table.render(&invocation.style));
    Ok(match failure {
        Some(failure) => report.failed(failure),
        None => report,
    })
}
