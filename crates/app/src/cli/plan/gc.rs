//! `agents plan gc`: clears data that is no longer needed.

use std::time::Duration;

use engine::{Engine, GcReport, GcRequest};
use serde_json::json;
use store::ReclaimedSpace;

use crate::cli::Invocation;
use crate::config::SettingKey;
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, escape_control_chars};
use crate::render::diff::counted;
use crate::time::parse_duration;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct GcArgs {
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove plans that ended longer ago than this [default: the setting retention.days]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older: Option<Duration>,
    /// Abandon the interrupted apply of this plan, whose project no longer exists; remove nothing else
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["dry_run", "older"])]
    set_aside: Option<String>,
}

pub(super) async fn run(args: GcArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = invocation.settings(Vec::new(), &[])?;
    if let Some(plan) = &args.set_aside {
        return set_aside(plan, &invocation.engine_to_mend(&settings).await?, invocation).await;
    }
    let engine = invocation.engine_of_data(&settings).await?;
    let kept = Duration::from_secs(settings.count(SettingKey::RetentionDays).saturating_mul(86_400));
    let request = GcRequest {
        dry_run: args.dry_run,
        older: args.older.unwrap_or(kept),
        max_bytes: settings.count(SettingKey::RetentionMaxMb).saturating_mul(1024 * 1024),
    };
    let report = engine.gc(request).await.map_err(|error| from_engine::gc(&error))?;
    let data = json!({
        "dry_run": args.dry_run, "sandboxes": report.sandboxes, "stuck": report.stuck, "plans": report.plans,
        "undo_journals": report.undo_journals, "undo_bytes": report.undo_bytes, "contents": report.contents,
        "content_bytes": report.content_bytes, "store_bytes": report.given_back.bytes,
    });
    Ok(CommandReport::new(data, render(&report, args.dry_run)))
}

async fn set_aside(
    word: &str,
    engine: &Engine,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let plan = invocation.plan(engine, word).await?;
    let given_up = engine.set_aside(plan.id).await;
    let given_up = given_up.map_err(|error| from_engine::set_aside(&error, &plan.short))?;
    let all: Vec<_> = given_up
        .iter()
        .map(|given_up| json!({ "apply": given_up.apply, "kind": given_up.kind.as_str() }))
        .collect();
    let text: String = given_up
        .iter()
        .map(|given_up| {
            let kind = given_up.kind.as_str();
            format!(
                "abandoned: the interrupted {kind} of plan {}; the files are as it left them, its journal is undo/{}.journal\n",
                plan.short, given_up.apply
            )
        })
        .collect();
    Ok(CommandReport::new(json!({ "plan": plan.id, "set_aside": all }), text))
}

fn render(report: &GcReport, dry_run: bool) -> String {
    let count = |count: u64, noun: &str| counted(usize::try_from(count).unwrap_or(usize::MAX), noun);
    let mut text = format!(
        "{}: {}, {}, {} ({} KiB), {} ({} KiB)\n",
        if dry_run { "would be cleared" } else { "cleared" },
        counted(report.plans.len(), "plan"),
        count(report.sandboxes, "sandbox directory").replace("directorys", "directories"),
        count(report.undo_journals, "undo journal"),
        report.undo_bytes / 1024,
        count(report.contents, "content"),
        report.content_bytes / 1024,
    );
    let ReclaimedSpace { bytes, kept_bytes, kept_because } = &report.given_back;
    if *bytes > 0 {
        text.push_str(&format!("the store is smaller by {} KiB\n", bytes / 1024));
    }
    if let Some(why) = kept_because {
        text.push_str(&format!(
            "the store has {} KiB of free pages that it did not release: {why}\n",
            kept_bytes / 1024
        ));
    }
    for stuck in &report.stuck {
        text.push_str(&format!("could not be cleared: {}\n", escape_control_chars(stuck)));
    }
    text
}
