//! `agents plan gc`: clears data that is no longer needed.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use domain::{PlanId, PlanState, WorkState};
use engine::{Engine, GcReport, GcRequest, PlanRow};
use serde_json::json;
use store::{PlanFilter, ReclaimedSpace};

use super::agreed;
use crate::cli::Invocation;
use crate::config::SettingKey;
use crate::errors::{CommandError, from_engine};
use crate::output::{CommandReport, escape_control_chars, one_line};
use crate::render::diff::counted;
use crate::setup::project;
use crate::time::{now, parse_duration};

/// Of more plans than this only the number is shown in the question.
const QUESTION_LINES_MAX: usize = 20;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct GcArgs {
    /// Print what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove plans that ended longer ago than this [default: the setting retention.days]
    #[arg(long = "older-than", alias = "older", value_name = "DURATION", value_parser = parse_duration)]
    older: Option<Duration>,
    /// Also remove plans that wait for you and were not applied, with their changes; asks first
    #[arg(long)]
    unapplied: bool,
    /// With `--unapplied`: plans of all projects
    #[arg(long, requires = "unapplied")]
    all: bool,
    /// With `--unapplied`: do not ask for confirmation
    #[arg(long, short, requires = "unapplied")]
    yes: bool,
    /// Abandon the interrupted apply of this plan, whose project no longer exists; remove nothing else
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["dry_run", "older", "unapplied"])]
    set_aside: Option<String>,
}

pub(super) async fn run(args: GcArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = invocation.settings(Vec::new(), &[])?;
    if let Some(plan) = &args.set_aside {
        return set_aside(plan, &invocation.engine_to_mend(&settings).await?, invocation).await;
    }
    let engine = invocation.engine_of_data(&settings).await?;
    let kept = Duration::from_secs(settings.count(SettingKey::RetentionDays).saturating_mul(86_400));
    let older = args.older.unwrap_or(kept);
    let left = unapplied_plans(&args, older, &engine, invocation).await?;
    if !args.dry_run && !left.waiting.is_empty() {
        let question = left.question();
        let what = counted(left.waiting.len(), "plan");
        let unasked = |mut failure: CommandError| {
            failure.message = format!(
                "this removes {what} with their changes and needs confirmation, which cannot be asked for here"
            );
            failure
        };
        if !agreed(&question, args.yes, invocation).map_err(unasked)? {
            return Ok(CommandReport::new(json!({ "plans": [] }), "nothing was removed\n"));
        }
    }
    let unapplied = if args.dry_run { left.ids() } else { remove(&left.ids(), &engine).await? };
    let request = GcRequest {
        dry_run: args.dry_run,
        older,
        max_bytes: settings.count(SettingKey::RetentionMaxMb).saturating_mul(1024 * 1024),
    };
    let mut report = engine.gc(request).await.map_err(|error| from_engine::gc(&error))?;
    report.plans.extend(unapplied.iter().copied());
    let data = json!({
        "dry_run": args.dry_run, "sandboxes": report.sandboxes, "stuck": report.stuck, "plans": report.plans,
        "unapplied": unapplied,
        "undo_journals": report.undo_journals, "undo_bytes": report.undo_bytes, "contents": report.contents,
        "content_bytes": report.content_bytes, "store_bytes": report.given_back.bytes,
    });
    Ok(CommandReport::new(data, render(&report, args.dry_run)))
}

/// Plans that have not come to their end and that nothing works on.
#[derive(Default)]
struct UnappliedPlans {
    /// Those that changed nothing: they have ended, though no one said so.
    without_changes: Vec<PlanId>,
    /// Those that wait for the user, with their titles.
    waiting: Vec<(PlanId, String)>,
}

impl UnappliedPlans {
    fn ids(&self) -> Vec<PlanId> {
        self.without_changes.iter().copied().chain(self.waiting.iter().map(|(id, _)| *id)).collect()
    }

    fn question(&self) -> String {
        let line = |(_, title): &(PlanId, String)| format!("  {}\n", escape_control_chars(&one_line(title)));
        let shown: String = self.waiting.iter().take(QUESTION_LINES_MAX).map(line).collect();
        let more = match self.waiting.len().checked_sub(QUESTION_LINES_MAX) {
            Some(more @ 1..) => format!("  … and {more} more\n"),
            Some(0) | None => String::new(),
        };
        let many = counted(self.waiting.len(), "plan");
        format!("{shown}{more}remove {many} that were not applied, with their changes?")
    }
}

/// Finds the plans that rest since longer than `older`: those without changes, and the others if they are
/// asked for.
async fn unapplied_plans(
    args: &GcArgs,
    older: Duration,
    engine: &Engine,
    invocation: &Invocation,
) -> Result<UnappliedPlans, CommandError> {
    let older = u64::try_from(older.as_millis()).unwrap_or(u64::MAX);
    let before = now().0.saturating_sub(older);
    let root = match args.all {
        true => None,
        false => Some(project::root_of(&invocation.here)?.as_os_str().as_bytes().to_vec()),
    };
    let mut found = UnappliedPlans::default();
    for state in ["complete", "errored", "constrained"] {
        let state = Some(state.to_owned());
        let filter = PlanFilter { state, root: root.clone(), limit: usize::MAX, ..PlanFilter::default() };
        let (rows, _) = engine.list(&filter).await.map_err(|error| from_engine::store(&error))?;
        for PlanRow { plan, files, .. } in rows.into_iter().filter(|row| row.plan.updated.0 < before) {
            let is_done = plan.state == PlanState::Execute(WorkState::Complete) && files == 0;
            match is_done {
                true => found.without_changes.push(plan.id),
                false if args.unapplied => found.waiting.push((plan.id, plan.title.clone())),
                false => {}
            }
        }
    }
    Ok(found)
}

/// Ends these plans and forgets them. One that another process has taken up meanwhile stays.
async fn remove(plans: &[PlanId], engine: &Engine) -> Result<Vec<PlanId>, CommandError> {
    let mut ended = Vec::with_capacity(plans.len());
    for plan in plans {
        if engine.cancel(*plan, "removed by `agents plan gc`", Duration::ZERO).await.is_ok() {
            ended.push(*plan);
        }
    }
    engine.store().forget(ended).await.map_err(|error| from_engine::store(&error))
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
