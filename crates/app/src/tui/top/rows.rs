//! The rows of the plan table: on the screen, in plain text, and for programs.
//!
//! # Invariants
//! 1. What works comes first, then what needs a person, then what waits, then what has ended a while ago.
//! 2. Control characters in the text of plans are escaped before it is in a row.

use std::collections::BTreeMap;
use std::io::{self, Write};

use domain::{ApplyState, PlanId, PlanState, WallMs, WorkState};
use engine::{CurrentStep, Forecasts, OverviewSnapshot, PlanSummary, ProviderBreakerChange, QueuePlace};
use serde_json::{Value, json};

use crate::notify::Need;
use crate::output::{OutputStyle, TextTable, escape_control_chars, object, one_line, write_object_with_list};
use crate::render;
use crate::render::activity;
use crate::render::forecast::OverlappingPlan;
use crate::render::next_steps::{START_WORKER, TABLE_OF_ENDED_PLANS, TABLE_OF_NO_PLANS};
use crate::render::state::{StateFacts, coloured, state_words};
use crate::time::stamp;

/// The time for which a plan that has ended is still shown.
const ENDED_MS: u64 = 60 * 60 * 1_000;

/// The number of providers that the line above the table shows.
const BREAKERS_SHOWN_MAX: usize = 3;

/// The group of a plan in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanGroup {
    /// Worked on.
    Running,
    /// Needs a person.
    NeedsYou,
    /// Waits for its turn.
    Queued,
    /// Nothing is left to be done.
    Ended,
}

impl PlanGroup {
    /// The name that programs read.
    pub const fn as_str(self) -> &'static str {
        match self {
            PlanGroup::Running => "running",
            PlanGroup::NeedsYou => "needs_you",
            PlanGroup::Queued => "queued",
            PlanGroup::Ended => "ended",
        }
    }
}

/// A plan in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopRow {
    /// The plan.
    pub id: PlanId,
    /// The shortest text that names it.
    pub short: String,
    /// Its subject.
    pub title: String,
    /// The first of its projects.
    pub project: String,
    /// The group in the table.
    pub group: PlanGroup,
    /// Its state in words.
    pub state: &'static str,
    /// The current action, or the reason of the wait.
    pub does: String,
    /// The time since the last change of its state, in milliseconds.
    pub since_ms: u64,
    /// The number of files it has changed.
    pub files: usize,
    /// The plans that it meets.
    pub met: Vec<OverlappingPlan>,
    /// The worker of the plan.
    pub worker: Option<String>,
    /// True if it can be cancelled.
    pub can_cancel: bool,
    /// True if it can be applied.
    pub can_apply: bool,
}

/// The summary above the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of plans that are worked on.
    pub running: usize,
    /// The number that is allowed.
    pub slots: u32,
    /// The number of plans that wait for their turn.
    pub queued: usize,
    /// The number of plans that need a person.
    pub needs_you: usize,
    /// The number of pairs of plans that will be in conflict.
    pub conflicts: usize,
    /// The number of comparisons and plans that the forecast left out.
    pub not_compared: usize,
    /// True if a worker runs that takes any plan.
    pub has_worker: bool,
    /// True if there are plans that have ended and are not in the table.
    pub has_older: bool,
    /// Providers of models that were given a rest or answer again, in words.
    pub breakers: Vec<String>,
}

/// The rows of what was seen; `all` has also those that ended long ago.
pub fn rows(
    seen: &OverviewSnapshot,
    forecasts: &Forecasts,
    now: WallMs,
    all: bool,
) -> (Vec<TopRow>, Summary) {
    let shorts: BTreeMap<PlanId, &str> =
        seen.plans.iter().map(|plan_summary| (plan_summary.plan.id, plan_summary.short.as_str())).collect();
    let short = |id: PlanId| shorts.get(&id).map_or_else(|| id.to_string(), |short| (*short).to_owned());
    let mut mets: BTreeMap<PlanId, Vec<OverlappingPlan>> = BTreeMap::new();
    for forecast in &forecasts.pairs {
        for plan in [forecast.plan, forecast.other] {
            mets.entry(plan).or_default().extend(OverlappingPlan::by(plan, forecast, short));
        }
    }
    let mut rows: Vec<TopRow> = Vec::new();
    let mut summary = Summary {
        slots: seen.slots,
        queued: seen.queued,
        has_worker: seen.has_worker,
        conflicts: forecasts.pairs.iter().filter(|forecast| forecast.kind.is_conflict()).count(),
        not_compared: forecasts.left_out(),
        ..Summary::default()
    };
    for plan_summary in &seen.plans {
        let row = row(plan_summary, mets.remove(&plan_summary.plan.id).unwrap_or_default(), now);
        summary.running += usize::from(row.group == PlanGroup::Running);
        summary.needs_you += usize::from(row.group == PlanGroup::NeedsYou);
        if row.group == PlanGroup::Ended && row.since_ms > ENDED_MS && !all {
            summary.has_older = true;
        } else {
            rows.push(row);
        }
    }
    // The first in the queue comes first; of the others the newest.
    rows.sort_by_key(|row| {
        (row.group, if row.group == PlanGroup::Queued { row.id.as_u128() } else { !row.id.as_u128() })
    });
    (rows, summary)
}

fn row(plan_summary: &PlanSummary, met: Vec<OverlappingPlan>, now: WallMs) -> TopRow {
    let plan = &plan_summary.plan;
    let need = need(plan_summary);
    let group = match need {
        _ if plan_summary.is_running() => PlanGroup::Running,
        Some(_) => PlanGroup::NeedsYou,
        None if plan_summary.job.is_some() || plan_summary.goes_on => PlanGroup::Queued,
        None => PlanGroup::Ended,
    };
    let is_final = matches!(
        plan.state,
        PlanState::Strategize(WorkState::Cancelled)
            | PlanState::Execute(WorkState::Cancelled)
            | PlanState::Apply(ApplyState::Cancelled | ApplyState::Applied)
    );
    let is_undone = plan.undone_at.is_some();
    let is_ready = plan_summary.obstacle.is_none()
        && matches!(
            plan.state,
            PlanState::Execute(WorkState::Complete)
                | PlanState::Apply(ApplyState::Constrained | ApplyState::Errored)
        );
    TopRow {
        id: plan.id,
        short: plan_summary.short.clone(),
        title: escape_control_chars(&one_line(&plan.title)),
        project: plan
            .projects
            .first()
            .map(|project| escape_control_chars(&project.alias))
            .unwrap_or_default(),
        group,
        state: state(plan_summary),
        does: does(plan_summary, need),
        since_ms: now.0.saturating_sub(plan.updated.0),
        files: plan_summary.files,
        met,
        worker: worker(plan_summary),
        can_cancel: !is_final,
        can_apply: plan_summary.job.is_none() && plan_summary.files > 0 && (is_ready || is_undone),
    }
}

/// Returns the reason why the plan needs a person; `None` if it needs none.
fn need(plan_summary: &PlanSummary) -> Option<Need> {
    match (&plan_summary.job, plan_summary.place) {
        _ if plan_summary.owner_is_gone || plan_summary.is_interrupted => Some(Need::GoOn),
        // Who made it has not started it, or went away.
        (Some(_), Some(QueuePlace { is_held: true, is_served: false, .. })) => Some(Need::Start),
        (Some(_), _) => None,
        (None, _) if plan_summary.goes_on => None,
        (None, _) => Need::at_rest(&plan_summary.plan, plan_summary.files > 0, plan_summary.obstacle),
    }
}

fn state(plan_summary: &PlanSummary) -> &'static str {
    let facts = StateFacts {
        has_changes: plan_summary.files > 0,
        is_interrupted: plan_summary.owner_is_gone || plan_summary.is_interrupted,
        obstacle: plan_summary.obstacle,
    };
    state_words(&plan_summary.plan, facts)
}

fn does(plan_summary: &PlanSummary, need: Option<Need>) -> String {
    if let Some(need) = need {
        return need.words().to_owned();
    }
    if let Some(place) = plan_summary.place {
        return match place.before {
            _ if !place.is_served => "no worker".to_owned(),
            0 => "next".to_owned(),
            before => format!("{before} before it"),
        };
    }
    plan_summary.step.as_ref().map(step_words).unwrap_or_default()
}

fn step_words(step: &CurrentStep) -> String {
    let words = activity::words(&step.node, &step.tool, &step.requested);
    match step.place {
        Some((no, of)) if of > 1 => format!("{no}/{of} {words}"),
        Some(_) | None => words,
    }
}

/// The end of the worker's name: the beginning is only time.
fn worker(plan_summary: &PlanSummary) -> Option<String> {
    const CHARS: usize = 6;
    let name = plan_summary.job.as_ref().filter(|_| plan_summary.is_running())?.worker?.to_string();
    let from = name.len().saturating_sub(CHARS);
    Some(name.get(from..).unwrap_or(&name).to_owned())
}

/// A time in at most six letters: `7s`, `3m05s`, `2h10m`, `12d`.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

impl TopRow {
    /// Returns the number of plans it will be in conflict with.
    pub fn conflicts(&self) -> usize {
        self.met.iter().filter(|met| met.is_conflict()).count()
    }

    /// The same for the table: nothing when there is none.
    pub fn conflicts_shown(&self) -> String {
        match self.conflicts() {
            0 => String::new(),
            some => format!("! {some}"),
        }
    }
}

impl Summary {
    /// On one line.
    pub fn line(&self) -> String {
        let mut parts = vec![format!("{} running of {} slots", self.running, self.slots)];
        for (count, words) in [(self.queued, "queued"), (self.needs_you, "need you")] {
            if count > 0 {
                parts.push(format!("{count} {words}"));
            }
        }
        if self.queued > 0 && !self.has_worker {
            parts.push(format!("no worker is running: {START_WORKER}"));
        }
        match self.conflicts {
            0 => {}
            1 => parts.push("1 conflict to come".to_owned()),
            more => parts.push(format!("{more} conflicts to come")),
        }
        parts.extend(render::forecast::not_compared_line(self.not_compared));
        parts.extend(self.breakers.iter().take(BREAKERS_SHOWN_MAX).cloned());
        parts.join(", ")
    }

    /// Returns the text that replaces a table without rows.
    pub fn nothing(&self) -> String {
        match self.has_older {
            true => format!("no plan is running or waits for you\n\n{TABLE_OF_ENDED_PLANS}"),
            false => format!("no plans yet\n\n{TABLE_OF_NO_PLANS}"),
        }
    }
}

/// Returns the change of a provider's breaker, in words.
pub fn breaker_words(change: &ProviderBreakerChange, now: WallMs) -> String {
    let provider = escape_control_chars(&change.provider);
    let ago = span(now.0.saturating_sub(change.at.0));
    match (change.left(now), change.rest_ms) {
        (Some(left), _) => {
            // A part of a second counts as one: it is not over yet.
            let left =
                u64::try_from(left.as_millis()).unwrap_or(u64::MAX).div_ceil(1_000).saturating_mul(1_000);
            format!("{provider} failed too often and rests for {} more", span(left))
        }
        (None, Some(_)) => format!("{provider} failed too often {ago} ago and was not asked since"),
        (None, None) => format!("{provider} answers again since {ago}"),
    }
}

/// Returns the changes of breakers, for programs. One whose rest is over is about to be tried.
pub fn breakers_json(changes: &[ProviderBreakerChange], now: WallMs) -> Value {
    let one = |change: &ProviderBreakerChange| {
        let state = match (change.left(now), change.rest_ms) {
            (Some(_), _) => "open",
            (None, Some(_)) => "half_open",
            (None, None) => "closed",
        };
        json!({ "provider": change.provider, "state": state, "at": stamp(change.at), "rest_ms": change.rest_ms })
    };
    changes.iter().map(one).collect()
}

/// The table without a screen.
pub fn to_table(rows: &[TopRow], summary: &Summary, style: &OutputStyle) -> String {
    if rows.is_empty() {
        return summary.nothing().to_owned();
    }
    let head = ["title", "state", "does", "time", "files", "conflicts", "worker", "project", "plan"];
    let mut table = TextTable::new(&head).with_flexible(0).with_colours(1, coloured);
    for row in rows {
        table.row(vec![
            row.title.clone(),
            row.state.to_owned(),
            row.does.clone(),
            span(row.since_ms),
            row.files.to_string(),
            row.conflicts_shown(),
            row.worker.clone().unwrap_or_default(),
            row.project.clone(),
            row.short.clone(),
        ]);
    }
    format!("{}\n{}", summary.line(), table.render(style))
}

/// Writes it as programs read it.
///
/// # Errors
/// It cannot be written.
pub fn write_json(
    out: &mut dyn Write,
    (rows, summary): (&[TopRow], &Summary),
    seen: &OverviewSnapshot,
    breakers: &Value,
) -> io::Result<()> {
    let whole = json!({
        "running": summary.running, "slots": summary.slots, "queued": summary.queued,
        "needs_you": summary.needs_you, "conflicts": summary.conflicts, "worker_lives": summary.has_worker,
        "not_compared": summary.not_compared, "breakers": breakers,
    });
    write_object_with_list(out, object(whole), "plans", |out| {
        let plans = rows.iter().filter_map(|row| Some((object(row_json(row, seen)?), row.met.as_slice())));
        render::forecast::write_plans(out, plans)
    })
}

/// Returns a row for programs, without the overlaps of its plan.
fn row_json(row: &TopRow, seen: &OverviewSnapshot) -> Option<Value> {
    let plan_summary = seen.plans.iter().find(|plan_summary| plan_summary.plan.id == row.id)?;
    let plan = &plan_summary.plan;
    let projects: Vec<&str> = plan.projects.iter().map(|project| project.alias.as_str()).collect();
    let step = plan_summary.step.as_ref().map(|step| {
        let (no, of) = step.place.unzip();
        json!({ "node": step.node, "no": no, "of": of, "does": step_words(step) })
    });
    Some(json!({
        "plan_id": plan.id, "short_id": row.short, "title": plan.title, "projects": projects,
        "phase": plan.state.phase(), "state": plan.state.word(), "status": row.state, "group": row.group.as_str(),
        "undone": plan.undone_at.is_some(), "broken_off": plan_summary.owner_is_gone,
        "interrupted": plan_summary.is_interrupted,
        "needs": need(plan_summary).map(Need::words), "step": step, "elapsed_ms": row.since_ms, "files": row.files,
        "job": plan_summary.job.as_ref().map(|job| job.id), "worker": plan_summary.job.as_ref().and_then(|job| job.worker),
        "queue": plan_summary.place.map(|place| json!({ "before": place.before, "served": place.is_served })),
    }))
}
