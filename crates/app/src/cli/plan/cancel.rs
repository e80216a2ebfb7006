//! `agents plan cancel`: stops a plan for good, and says when nothing of it can happen any more.

use std::time::Duration;

use engine::plans::Engine;
use serde_json::json;

use crate::cli::Invocation;
use crate::cli::invocation::Named;
use crate::diff_view::counted;
use crate::failure::{Failure, from_engine};
use crate::output::Report;
use crate::plan_view;
use crate::time::{parse_duration, stamp};

/// How long a reason may be.
const REASON_CHARS_MAX: usize = 500;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CancelArgs {
    /// Which plan
    plan: String,
    #[command(flatten)]
    how: CancelHow,
}

/// How to cancel.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CancelHow {
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "cancelled by the user", value_parser = reason)]
    reason: String,
    /// How long to wait until it is confirmed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
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

pub(super) async fn run(args: CancelArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    plan_view::refuse_undone(&super::facts(&engine, &plan).await?, &plan.short)?;
    cancelled(&engine, &plan, &args.how).await
}

/// Cancels the plan, whichever command asked for it.
pub(in crate::cli) async fn cancelled(
    engine: &Engine,
    plan: &Named,
    how: &CancelHow,
) -> Result<Report, Failure> {
    let cancelled = engine.cancel(plan.id, &how.reason, how.wait).await;
    let report = cancelled.map_err(|error| from_engine::cancel(&error, &plan.short))?;
    let facts = super::facts(engine, plan).await?;
    let mut data = plan_view::to_json(&facts, &plan.short);
    data["cancel"] = json!({
        "reason": how.reason, "already": report.already, "acknowledged_at": stamp(report.plan.updated),
        "entries_kept": report.entries_kept,
    });
    let id = &plan.short;
    let text = if report.already {
        format!("plan {id} was cancelled already\n")
    } else {
        let kept = counted(report.entries_kept, "change");
        format!(
            "cancelled {id}: {kept} kept, your files are untouched; see them with `agents plan diff {id}`\n"
        )
    };
    Ok(Report::new(data, text))
}
