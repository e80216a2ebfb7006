//! `agents plan list`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use domain::{Phase, PlanId, PlanState};
use serde_json::{Map, Value, json};
use store::PlanFilter;

use crate::cli::Invocation;
use crate::cli::forecast::{self, OverlappingPlans};
use crate::cli::invocation::NamedPlan;
use crate::errors::{CommandError, from_engine};
use crate::output::{
    BodyForm, CommandReport, StreamedBody, TextTable, object, one_line, write_object_with_list,
};
use crate::render;
use crate::render::diff::counted;
use crate::render::forecast::OverlappingPlan;
use crate::render::next_steps::{FIRST_PLAN, after_interruption, see_status};
use crate::setup::project;
use crate::time::{age, now};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ListArgs {
    /// Only plans in this phase: strategize, execute, apply
    #[arg(long, value_parser = phases())]
    phase: Option<String>,
    /// Only plans in this state: queued, processing, complete, errored, cancelled, applied, constrained
    #[arg(long, value_parser = states())]
    state: Option<String>,
    /// Only plans of this project
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Maximum number of plans to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

fn phases() -> Vec<&'static str> {
    Phase::ALL.map(Phase::as_str).to_vec()
}

fn states() -> Vec<&'static str> {
    let mut words: Vec<&str> = PlanState::ALL.map(PlanState::word).to_vec();
    words.sort_unstable();
    words.dedup();
    words
}

pub(super) async fn run(args: ListArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let own = invocation.only.as_ref().map(|_| std::path::PathBuf::from("."));
    let root = args.project.or(own).map(|dir| project::root_of(&invocation.here.join(dir))).transpose()?;
    root.iter().try_for_each(|root| invocation.check_allowed(root))?;
    let filter = PlanFilter {
        phase: args.phase,
        state: args.state,
        root: root.map(|root| root.as_os_str().as_bytes().to_vec()),
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
    };
    let engine = invocation.engine().await?;
    let (rows, total) = engine.list(&filter).await.map_err(|error| from_engine::store(&error))?;
    let OverlappingPlans { mets: forecasts, not_compared } = forecast::find_all_overlaps(&engine).await?;
    let now = now();
    let mut table = TextTable::new(&["plan", "phase", "state", "files", "age", "project", "title"]);
    let mut plans: Vec<(PlanId, Map<String, Value>)> = Vec::new();
    let (mut broken_off, mut marked): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let ids: Vec<PlanId> = rows.iter().map(|row| row.plan.id).collect();
    let shorts = engine.short_ids(&ids).await.map_err(|error| from_engine::store(&error))?;
    for (row, short) in rows.iter().zip(shorts) {
        let plan = &row.plan;
        let projects: Vec<&str> = plan.projects.iter().map(|project| project.alias.as_str()).collect();
        // Only a running plan can be interrupted, so the facts of all others need not be gathered.
        let is_running = plan.state.word() == "processing";
        let is_broken_off = is_running
            && super::facts(&engine, &NamedPlan { id: plan.id, short: short.clone() }).await?.owner_is_gone;
        let state = match plan.state.word() {
            _ if plan.undone_at.is_some() => "undone",
            _ if is_broken_off => "interrupted",
            word => word,
        };
        let mets = forecasts.get(&plan.id).map(Vec::as_slice).unwrap_or_default();
        let is_marked = mets.iter().any(OverlappingPlan::is_conflict);
        marked.extend(is_marked.then(|| short.clone()));
        broken_off.extend(is_broken_off.then(|| short.clone()));
        table.row(vec![
            short.clone(),
            plan.state.phase().to_string(),
            state.to_owned(),
            if is_marked { format!("{} !", row.files) } else { row.files.to_string() },
            age(plan.created, now),
            projects.join(","),
            one_line(&plan.title),
        ]);
        let facts = json!({
            "plan_id": plan.id, "short_id": short, "title": plan.title, "phase": plan.state.phase(),
            "state": plan.state.word(), "undone": plan.undone_at.is_some(), "broken_off": is_broken_off, "project": projects.first(),
            "projects": projects, "age_ms": now.0.saturating_sub(plan.created.0), "files": row.files,
        });
        plans.push((plan.id, object(facts)));
    }
    let unreadable = total.min(filter.limit).saturating_sub(rows.len());
    let mut text =
        if total == 0 { format!("no plans; {FIRST_PLAN}\n") } else { table.render(&invocation.look) };
    if unreadable > 0 {
        text.push_str(&format!(
            "{} cannot be read by this version and {} left out: use the newer `agents` that made it\n",
            counted(unreadable, "plan"),
            if unreadable == 1 { "is" } else { "are" },
        ));
    }
    if total > filter.limit {
        text.push_str(&format!("{} of {total} plans; see more with `--limit {total}`\n", rows.len()));
    }
    for id in &broken_off {
        text.push_str(&format!("{id} was interrupted; {}\n", after_interruption(id)));
    }
    if let Some(id) = marked.first() {
        text.push_str(&format!(
            "! will be in conflict with another plan that is not applied yet; {}\n",
            see_status(id)
        ));
    }
    if let Some(line) = render::forecast::not_compared_line(not_compared) {
        text.push_str(&format!("{line}; {} for one of them\n", see_status("PLAN")));
    }
    let whole = object(json!({ "total": total, "unreadable": unreadable, "not_compared": not_compared }));
    // Plan by plan: what a hundred of them meet is large as one value.
    Ok(CommandReport::streamed(StreamedBody::new(move |form, out| {
        match form {
            BodyForm::Text => out.write_all(text.as_bytes())?,
            BodyForm::Data => write_object_with_list(out, whole.clone(), "plans", |out| {
                let items = plans.iter().map(|(plan, facts)| {
                    (facts.clone(), forecasts.get(plan).map(Vec::as_slice).unwrap_or_default())
                });
                render::forecast::write_plans(out, items)
            })?,
        }
        Ok(Vec::new())
    })))
}
