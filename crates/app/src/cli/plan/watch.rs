//! `agents plan watch`: a line for each thing that happens to plans, until they wait for the user or have
//! ended. At a terminal, the last lines that a running command printed are below.
//!
//! # Invariants
//! 1. Every event is shown once, in order, also those that happened before. A plan whose process is gone
//!    waits for the user.
//! 2. The exit is that of `agents run`: of several plans, what was worst. A plan that waits for a yes has
//!    done its work.
//! 3. Programs get a line for each event at once, and the envelope as the last one.

use std::io::Write;
use std::time::Duration;

use domain::{EventRecord, JobState, PlanId};
use engine::{Engine, PlanDetails};
use serde_json::{Value, json};

use crate::cli::invocation::{NamedPlan, short_id};
use crate::cli::live_feed::{LiveFeed, NewsItem};
use crate::cli::{Invocation, run};
use crate::config::SettingKey;
use crate::errors::{CommandError, Exit, codes, from_engine};
use crate::notify::Need;
use crate::output::{
    CommandReport, Format, TextTable, escape_control_chars, escape_json, live_block, one_line, screen_size,
    write_out,
};
use crate::render;
use crate::render::activity::{self, Tone};
use crate::render::progress::{SIZE_DEFAULT, live_lines};
use crate::render::state::{self, words_of};
use crate::time::{clock, stamp};

/// The interval at which the store is asked, for each plan.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// With many plans, at least so often.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);
/// The column of the state, which has colours.
const STATE_COLUMN: usize = 1;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct WatchArgs {
    /// The plans [default: @last]
    #[arg(value_name = "PLAN")]
    plans: Vec<String>,
    /// All plans that are queued or running, including new ones
    #[arg(long, conflicts_with = "plans")]
    all: bool,
}

/// A plan that is watched.
struct WatchedPlan {
    plan: NamedPlan,
    feed: LiveFeed,
    /// True if the plan was worked on at the first look; `None` before it.
    was_live: Option<bool>,
    /// As it stood when it came to rest; none before.
    rests: Option<Box<PlanDetails>>,
}

pub(super) async fn run(args: WatchArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let settings = invocation.settings(Vec::new(), &[])?;
    let engine = invocation.engine_of_data(&settings).await?;
    let rings = settings.word(SettingKey::NotifyBell) == "on" && invocation.style.is_live;
    let mut watched: Vec<WatchedPlan> = Vec::new();
    if !args.all {
        let words = if args.plans.is_empty() { vec!["@last".to_owned()] } else { args.plans };
        for word in words {
            let plan = invocation.plan(&engine, &word).await?;
            if !watched.iter().any(|known| known.plan.id == plan.id) {
                watched.push(WatchedPlan::new(plan));
            }
        }
    }
    loop {
        if args.all {
            newcomers(&engine, &mut watched).await?;
        }
        let is_one = watched.len() == 1 && !args.all;
        for plan in watched.iter_mut().filter(|plan| plan.rests.is_none()) {
            if !plan.print_news(&engine, invocation, is_one).await? {
                return Ok(CommandReport::new(Value::Null, Vec::new()));
            }
            if rings && plan.came_to_need_somebody() {
                // A terminal that cannot ring is none to complain to.
                let _ = std::io::stderr().write_all(b"\x07");
            }
        }
        let Some(next) = watched.iter().find(|plan| plan.rests.is_none()) else {
            return Ok(final_report(&watched, is_one, invocation));
        };
        let plans = u32::try_from(watched.len()).unwrap_or(u32::MAX);
        let pause = LOOK_EVERY.saturating_mul(plans).min(LOOK_EVERY_MAX);
        engine.plan_waiter(next.plan.id).wait(pause).await;
    }
}

/// Adds the plans that wait or are worked on and are not watched yet.
async fn newcomers(engine: &Engine, watched: &mut Vec<WatchedPlan>) -> Result<(), CommandError> {
    let jobs = engine.store().live_jobs().await;
    let jobs = jobs.map_err(|error| CommandError::new(&codes::STORE_FAILED, error.to_string()))?;
    let is_new = |plan: PlanId, watched: &[WatchedPlan]| {
        !watched.iter().any(|known| known.plan.id == plan && known.rests.is_none())
    };
    for job in jobs.iter().filter(|job| job.state == JobState::Running || !job.is_held()) {
        if is_new(job.plan, watched) {
            let short = short_id(engine, job.plan).await?;
            // A plan that rested and continues is watched from its last event.
            match watched.iter_mut().find(|known| known.plan.id == job.plan) {
                Some(known) if known.rests.as_ref().is_some_and(|details| !details.owner_is_gone) => {
                    known.rests = None;
                }
                Some(_) => {}
                None => watched.push(WatchedPlan::new(NamedPlan { id: job.plan, short })),
            }
        }
    }
    Ok(())
}

impl WatchedPlan {
    fn new(plan: NamedPlan) -> WatchedPlan {
        let feed = LiveFeed::new(plan.id, 0);
        WatchedPlan { plan, feed, was_live: None, rests: None }
    }

    /// Shows what happened; says whether anybody still reads.
    async fn print_news(
        &mut self,
        engine: &Engine,
        invocation: &Invocation,
        is_one: bool,
    ) -> Result<bool, CommandError> {
        // The plan is looked at before its events, so that none of its last ones is missed.
        let details = super::details(engine, &self.plan).await?;
        let waits_for_somebody = details.place.is_some_and(|place| place.is_held && !place.is_served);
        let is_worked_on = details.live_job.is_some() && !details.owner_is_gone && !waits_for_somebody;
        let is_live = is_worked_on || details.goes_on;
        self.was_live.get_or_insert(is_live);
        let news = self.feed.news(engine).await.map_err(|error| from_engine::store(&error))?;
        for item in &news {
            if !show(item, &self.plan, is_one, invocation) {
                return Ok(false);
            }
        }
        if is_live && is_one && invocation.style.is_live {
            let size = screen_size().unwrap_or(SIZE_DEFAULT);
            let (what, paint) = (words_of(&details), invocation.style.err_paint);
            let elapsed = render::timeline::running_ms(&details);
            let now = self.feed.now();
            live_block::draw(&live_lines(&self.plan.short, what, elapsed, &now, size, paint));
        }
        if !is_live {
            live_block::clear();
            self.rests = Some(Box::new(details));
        }
        Ok(true)
    }

    /// Returns whether the plan needs the user now, and did not at the first look.
    fn came_to_need_somebody(&self) -> bool {
        let needs = |details: &PlanDetails| Need::from_plan(details).is_some();
        self.was_live == Some(true) && self.rests.as_deref().is_some_and(needs)
    }
}

/// Returns the report when all of them rest.
fn final_report(watched: &[WatchedPlan], is_one: bool, invocation: &Invocation) -> CommandReport {
    let rested = || watched.iter().filter_map(|plan| Some((&plan.plan, plan.rests.as_deref()?)));
    let plans: Vec<Value> =
        rested().map(|(plan, details)| render::plan::to_json(details, &plan.short)).collect();
    let data = json!({ "plans": plans });
    if let (true, Some((plan, details))) = (is_one, rested().next()) {
        return CommandReport { data, ..run::plan_report(details, plan, invocation) };
    }
    let mut table = TextTable::new(&["title", "state", "files", "plan"])
        .with_flexible(0)
        .with_colours(STATE_COLUMN, state::coloured);
    let mut worst = Exit::Done;
    for (plan, details) in rested() {
        let exit =
            render::failure::failure_of(details, &plan.short).map_or(Exit::Done, |failure| failure.exit());
        worst = worse(worst, exit);
        table.row(vec![
            one_line(&details.plan.title),
            words_of(details).to_owned(),
            details.net.len().to_string(),
            plan.short.clone(),
        ]);
    }
    let text = match watched.is_empty() {
        true => "no plan waits for its turn or is worked on\n".to_owned(),
        false => table.render(&invocation.style),
    };
    let mut report = CommandReport::new(data, text);
    report.exit = worst;
    report
}

/// A failure is worse than a refusal, that is worse than a cancel; all are worse than nothing.
fn worse(one: Exit, other: Exit) -> Exit {
    match (one, other) {
        (Exit::Done, other) => other,
        (one, Exit::Done) => one,
        (one, other) => one.min(other),
    }
}

/// Shows an event at once; says whether anybody still reads.
fn show(item: &NewsItem, plan: &NamedPlan, is_one: bool, invocation: &Invocation) -> bool {
    let (style, event) = (&invocation.style, &item.event);
    let line = match style.format {
        Format::Json => escape_json(&to_json(event, plan).to_string()),
        // Of a stream of documents, each line of JSON is one.
        Format::Yaml => format!("--- {}", escape_json(&to_json(event, plan).to_string())),
        Format::Rich | Format::Plain => {
            let Some((what, tone)) = activity::event_words(event, item.call.as_ref()) else { return true };
            let at = style.paint.dim(&clock(event.at));
            let whose = if is_one { String::new() } else { format!("{}  ", style.paint.bold(&plan.short)) };
            let what = escape_control_chars(&what).replace('\n', " ");
            let what = match tone {
                Tone::Good => style.paint.green(&what),
                Tone::Bad => style.paint.red(&what),
                Tone::Plain => what,
            };
            format!("{at}  {whose}{what}")
        }
    };
    write_out(format!("{line}\n").as_bytes()).is_ok()
}

fn to_json(event: &EventRecord, plan: &NamedPlan) -> Value {
    json!({
        "plan": plan.id, "n": event.n, "at": stamp(event.at), "kind": event.kind.as_str(), "data": event.data,
    })
}
