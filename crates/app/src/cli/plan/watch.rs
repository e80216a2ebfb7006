//! `agents plan watch`: a line for each thing that happens to a plan, until it waits for somebody or has ended.
//!
//! # Invariants
//! Every event is shown once, in order, also those that happened before. A plan whose process is gone waits for somebody.

use std::io::Write;
use std::time::Duration;

use domain::{EventKind, EventRecord};
use serde_json::{Value, json};

use crate::cli::{Invocation, run};
use crate::diff_view::counted;
use crate::failure::{Failure, from_engine};
use crate::output::{Report, calm};
use crate::time::{local, stamp};

/// How often the store is asked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const EVENTS_MAX: usize = 500;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct WatchArgs {
    /// Which plan
    #[arg(default_value = "@last")]
    plan: String,
}

pub(super) async fn run(args: WatchArgs, invocation: &Invocation) -> Result<Report, Failure> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let failed = |error| from_engine::store(&error);
    let (mut after, mut told) = (0, Vec::new());
    loop {
        // The plan is looked at before its events, so that none of its last ones is missed.
        let facts = super::facts(&engine, &plan).await?;
        loop {
            let events = engine.store().events(plan.id, after, EVENTS_MAX).await.map_err(failed)?;
            let Some(last) = events.last() else { break };
            after = last.n;
            for event in &events {
                if !show(event, invocation) {
                    return Ok(Report::new(Value::Null, Vec::new()));
                }
                told.push(to_json(event));
            }
        }
        if facts.live_job.is_none() || facts.owner_is_gone {
            let report = run::shown(&facts, &plan, invocation);
            let data = json!({ "events": told, "plan": report.data });
            return Ok(Report { data, failure: None, exit: crate::failure::Exit::Done, ..report });
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Shows an event at once; says whether anybody still reads.
fn show(event: &EventRecord, invocation: &Invocation) -> bool {
    let what = if invocation.look.format.is_for_programs() { None } else { told(event) };
    let Some(what) = what else { return true };
    let at = invocation.look.paint.dim(&local(event.at));
    writeln!(std::io::stdout(), "{at}  {}", calm(&what)).is_ok()
}

fn to_json(event: &EventRecord) -> Value {
    json!({ "n": event.n, "at": stamp(event.at), "kind": event.kind.as_str(), "data": event.data })
}

/// The event in words; none for what only programs want to know.
fn told(event: &EventRecord) -> Option<String> {
    let data = &event.data;
    let word = |key: &str| match data.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    Some(match event.kind {
        EventKind::PlanCreated => format!("made: {}", word("title")),
        EventKind::PlanMoved => {
            format!("{} -> {} ({} by {})", word("from"), word("to"), word("event"), word("by"))
        }
        EventKind::PlanUndone if data.get("undone") == Some(&Value::Bool(true)) => "undone".to_owned(),
        EventKind::PlanUndone => "applied again".to_owned(),
        EventKind::DecisionRecorded => format!("decision {}: {}", word("seq"), word("question")),
        EventKind::ToolStarted => format!("call {} {} began", word("call"), word("node")),
        EventKind::ToolFinished => {
            let entries = data.get("entries").and_then(Value::as_u64).unwrap_or(0);
            let changes = counted(usize::try_from(entries).unwrap_or(usize::MAX), "change");
            format!("call {} {}: {}, {} ms, {changes}", word("call"), word("node"), word("state"), word("ms"))
        }
        EventKind::ErrorRecorded => {
            format!("error, {}: {} ({})", word("category"), word("message"), word("action"))
        }
        EventKind::CancelRequested => format!("cancel asked for: {}", word("reason")),
        EventKind::Sandbox if data.get("closed").is_some() => "sandbox closed".to_owned(),
        EventKind::Sandbox => format!("sandbox opened: {}", word("rung")),
        EventKind::ChangesetClosed | EventKind::JobMoved => return None,
    })
}
