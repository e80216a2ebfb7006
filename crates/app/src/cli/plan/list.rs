//! `agents plan list`: the plans of this project, the newest first, those of a batch together.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use domain::{Phase, PlanId, PlanState};
use engine::PlanRow;
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
use crate::render::state::{self, StateFacts, state_words};
use crate::setup::project;
use crate::time::{age, now};

/// The column of the title, which gives way on a narrow screen.
const TITLE_COLUMN: usize = 0;
/// The column of the state, which has colours.
const STATE_COLUMN: usize = 1;
/// The state of plans whose work is done and whose required check failed: the store has no word for it.
const CHECK_FAILED: &str = "check-failed";

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ListArgs {
    /// Only plans in this phase: strategize, execute, apply
    #[arg(long, value_parser = phases())]
    phase: Option<String>,
    /// Only plans in this state: queued, processing, complete, check-failed, errored, cancelled, applied,
    /// constrained
    #[arg(long, value_parser = states())]
    state: Option<String>,
    /// Plans of this project [default: the project of the current directory]
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    project: Option<PathBuf>,
    /// Plans of all projects
    #[arg(long, short)]
    all: bool,
    /// Only plans of this batch; @last is the newest one
    #[arg(long, value_name = "NAME")]
    batch: Option<String>,
    /// List the attempts of plans that were revised or executed again, too
    #[arg(long)]
    revisions: bool,
    /// Maximum number of plans to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = count)]
    limit: u32,
}

fn count(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "it takes a number from 1".to_owned())
}

fn phases() -> Vec<&'static str> {
    Phase::ALL.map(Phase::as_str).to_vec()
}

fn states() -> Vec<&'static str> {
    let mut words: Vec<&str> = PlanState::ALL.map(PlanState::word).to_vec();
    words.push(CHECK_FAILED);
    words.sort_unstable();
    words.dedup();
    words
}

/// A plan with all that its line shows.
struct ListedPlan {
    row: PlanRow,
    short: String,
    words: &'static str,
    owner_is_gone: bool,
    is_interrupted: bool,
}

pub(super) async fn run(args: ListArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    // A server that was started for some projects lists none of the others.
    let everywhere = args.all && invocation.only.is_none();
    let dir = args.project.unwrap_or_else(|| PathBuf::from("."));
    let root = if everywhere { None } else { Some(project::root_of(&invocation.here.join(dir))?) };
    root.iter().try_for_each(|root| invocation.check_allowed(root))?;
    let engine = invocation.engine().await?;
    let root_bytes = root.map(|root| root.as_os_str().as_bytes().to_vec());
    let batch = match args.batch {
        Some(word) => Some(super::selection::batch_named(&engine, &word, root_bytes.as_deref()).await?),
        None => None,
    };
    let filter = PlanFilter {
        phase: args.phase,
        state: args.state,
        root: root_bytes,
        batch,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
    };
    let is_by_checks = filter.state.as_deref() == Some(CHECK_FAILED);
    let rows = match is_by_checks {
        true => engine.list_check_failed(&filter).await,
        false => engine.list(&filter).await,
    };
    let (rows, total) = rows.map_err(|error| from_engine::store(&error))?;
    let elsewhere = match invocation.only {
        None if !everywhere => {
            let all = PlanFilter { root: None, limit: 0, ..filter.clone() };
            let all = match is_by_checks {
                true => engine.list_check_failed(&all).await.map(|(_, all)| all),
                false => engine.store().plans(&all).await.map(|(_, all)| all),
            };
            all.map_err(|error| from_engine::store(&error))?.saturating_sub(total)
        }
        None | Some(_) => 0,
    };
    let OverlappingPlans { mets: forecasts, not_compared } = forecast::find_all_overlaps(&engine).await?;
    let now = now();
    let ids: Vec<PlanId> = rows.iter().map(|row| row.plan.id).collect();
    let shorts = engine.short_ids(&ids).await.map_err(|error| from_engine::store(&error))?;
    let mut listed = Vec::with_capacity(rows.len());
    for (row, short) in rows.into_iter().zip(shorts) {
        // Only of a running plan the process can be gone, so the facts of all others need not be gathered.
        let is_running = row.plan.state.word() == "processing";
        let named = NamedPlan { id: row.plan.id, short: short.clone() };
        let owner_is_gone = is_running && super::details(&engine, &named).await?.owner_is_gone;
        let is_stopped =
            engine.is_interrupted(&row.plan).await.map_err(|error| from_engine::store(&error))?;
        let is_interrupted = owner_is_gone || is_stopped;
        let facts = StateFacts { has_changes: row.files > 0, is_interrupted, obstacle: row.obstacle };
        let words = state_words(&row.plan, facts);
        listed.push(ListedPlan { row, short, words, owner_is_gone, is_interrupted });
    }
    let listed = together(listed);
    let shown = listed.len();
    let has_projects = everywhere || listed.iter().any(|one| one.row.plan.projects.len() > 1);
    let mut head = vec!["title", "state", "files", "age"];
    head.extend(has_projects.then_some("project"));
    head.push("plan");
    let mut table =
        TextTable::new(&head).with_flexible(TITLE_COLUMN).with_colours(STATE_COLUMN, state::coloured);
    let mut plans: Vec<(PlanId, Map<String, Value>)> = Vec::new();
    let (mut interrupted, mut marked): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut batch: Option<&str> = None;
    for one in &listed {
        let (plan, short) = (&one.row.plan, &one.short);
        let own = plan.spec.batch.as_deref();
        if let Some(name) = own.filter(|_| own != batch) {
            table.heading(&batch_line(name, &listed));
        }
        batch = own;
        let projects: Vec<&str> = plan.projects.iter().map(|project| project.alias.as_str()).collect();
        let mets = forecasts.get(&plan.id).map(Vec::as_slice).unwrap_or_default();
        let is_marked = mets.iter().any(OverlappingPlan::is_conflict);
        marked.extend(is_marked.then(|| short.clone()));
        interrupted.extend(one.is_interrupted.then(|| short.clone()));
        let indent = if own.is_some() { "  " } else { "" };
        let mut cells = vec![
            format!("{indent}{}", one_line(&plan.title)),
            one.words.to_owned(),
            if is_marked { format!("{} !", one.row.files) } else { one.row.files.to_string() },
            age(plan.created, now),
        ];
        cells.extend(has_projects.then(|| projects.join(",")));
        cells.push(short.clone());
        table.row(cells);
        let mut revisions = Vec::new();
        if args.revisions && plan.attempt > 1 {
            revisions = engine.revisions(plan).await.map_err(|error| from_engine::store(&error))?;
        }
        for revision in &revisions {
            let mut cells = vec![
                format!("{indent}  attempt {}", revision.attempt),
                String::new(),
                revision.files.to_string(),
                String::new(),
            ];
            cells.extend(has_projects.then(String::new));
            cells.push(String::new());
            table.row(cells);
        }
        let revisions: Vec<Value> = revisions
            .iter()
            .map(|one| json!({ "attempt": one.attempt, "files": one.files, "net_hash": one.net_hash.to_string() }))
            .collect();
        let details = json!({
            "plan_id": plan.id, "short_id": short, "title": plan.title, "phase": plan.state.phase(),
            "state": plan.state.word(), "status": one.words, "undone": plan.undone_at.is_some(),
            "broken_off": one.owner_is_gone, "interrupted": one.is_interrupted, "batch": own, "project": projects.first(),
            "projects": projects, "age_ms": now.0.saturating_sub(plan.created.0),
            "created": crate::time::stamp(plan.created), "files": one.row.files,
            "attempt": plan.attempt, "revisions": revisions,
        });
        plans.push((plan.id, object(details)));
    }
    let unreadable = total.min(filter.limit).saturating_sub(shown);
    let others = match elsewhere {
        0 => String::new(),
        some => format!("{} of other projects; see them with `--all`\n", counted(some, "plan")),
    };
    let mut text = match total {
        0 if elsewhere > 0 => "no plans of this project\n".to_owned(),
        0 => format!("no plans; {FIRST_PLAN}\n"),
        _ => table.render(&invocation.style),
    };
    if unreadable > 0 {
        text.push_str(&format!(
            "{} cannot be read by this version and {} left out: use the newer `agents` that made it\n",
            counted(unreadable, "plan"),
            if unreadable == 1 { "is" } else { "are" },
        ));
    }
    if total > filter.limit {
        text.push_str(&format!("{shown} of {total} plans; see more with `--limit {total}`\n"));
    }
    text.push_str(&others);
    for id in &interrupted {
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
    let whole = object(json!({
        "total": total, "elsewhere": elsewhere, "unreadable": unreadable, "not_compared": not_compared,
        "batches": batches_json(&listed),
    }));
    // Plan by plan: what a hundred of them meet is large as one value.
    Ok(CommandReport::streamed(StreamedBody::new(move |form, out| {
        match form {
            BodyForm::Text => out.write_all(text.as_bytes())?,
            BodyForm::Data => write_object_with_list(out, whole.clone(), "plans", |out| {
                let items = plans.iter().map(|(plan, details)| {
                    (details.clone(), forecasts.get(plan).map(Vec::as_slice).unwrap_or_default())
                });
                render::forecast::write_plans(out, items)
            })?,
        }
        Ok(Vec::new())
    })))
}

/// The plans in their order, except that those of a batch follow its newest one.
fn together(listed: Vec<ListedPlan>) -> Vec<ListedPlan> {
    let mut first_of: BTreeMap<String, usize> = BTreeMap::new();
    let mut placed: Vec<(usize, ListedPlan)> = Vec::with_capacity(listed.len());
    for (place, one) in listed.into_iter().enumerate() {
        let place = match &one.row.plan.spec.batch {
            Some(name) => *first_of.entry(name.clone()).or_insert(place),
            None => place,
        };
        placed.push((place, one));
    }
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, one)| one).collect()
}

/// Returns the number of listed plans of a batch in each state, in the order of the list.
fn states_of(name: &str, listed: &[ListedPlan]) -> Vec<(&'static str, usize)> {
    let mut states: Vec<(&'static str, usize)> = Vec::new();
    for one in listed.iter().filter(|one| one.row.plan.spec.batch.as_deref() == Some(name)) {
        match states.iter_mut().find(|(words, _)| *words == one.words) {
            Some((_, count)) => *count += 1,
            None => states.push((one.words, 1)),
        }
    }
    states
}

/// The line above the plans of a batch.
fn batch_line(name: &str, listed: &[ListedPlan]) -> String {
    let states = states_of(name, listed);
    let many = counted(states.iter().map(|(_, count)| count).sum(), "plan");
    let states: Vec<String> = states.iter().map(|(words, count)| format!("{count} {words}")).collect();
    format!("batch {name}: {many}, {}", states.join(", "))
}

fn batches_json(listed: &[ListedPlan]) -> Vec<Value> {
    let mut names: Vec<&str> = Vec::new();
    for name in listed.iter().filter_map(|one| one.row.plan.spec.batch.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let batch = |name: &&str| {
        let states: BTreeMap<&str, usize> = states_of(name, listed).into_iter().collect();
        json!({ "name": name, "plans": states.values().sum::<usize>(), "states": states })
    };
    names.iter().map(batch).collect()
}
