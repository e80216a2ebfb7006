//! Event records: bounded, under words that parse back.

use std::collections::BTreeSet;

use domain::record::event_draft::*;
use domain::*;
use serde_json::json;

use crate::manual_transition::new_plan;
use crate::sample::{PLAN, claim_by, new_job};

fn call(node: &str) -> ToolCall {
    let new = NewCall {
        attempt: 1,
        node: node.to_owned(),
        tool: "command".to_owned(),
        requested: json!({"secret": "x".repeat(100_000)}),
        effective: json!(null),
    };
    ToolCall { plan: PLAN, no: CallNumber(3), started: WallMs(1), new, end: None }
}

#[test]
fn kinds_are_unique_and_parse_back() {
    let words: BTreeSet<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(words.len(), EventKind::ALL.len());
    for kind in EventKind::ALL {
        assert_eq!(EventKind::parse(kind.as_str()), Some(*kind));
    }
    assert_eq!(EventKind::parse("plan"), None);
    let stages: BTreeSet<&str> = ApplyStage::ALL.iter().map(|stage| stage.as_str()).collect();
    assert_eq!(stages.len(), 4);
    assert!(ApplyStage::ALL.into_iter().all(|stage| ApplyStage::parse(stage.as_str()) == Some(stage)));
    assert!(ApplyKind::ALL.into_iter().all(|kind| ApplyKind::parse(kind.as_str()) == Some(kind)));
    assert!(CallState::ALL.into_iter().all(|state| CallState::parse(state.as_str()) == Some(state)));
    assert_eq!(
        (ApplyStage::parse("begun"), ApplyKind::parse(""), CallState::parse("OK")),
        (None, None, None)
    );
}

#[test]
fn a_move_tells_where_from_where_to_by_what_and_by_whom() {
    let plan = Plan::new(new_plan(), WallMs(1));
    let moved = plan.moved(PlanEvent::Start, Vec::new(), WallMs(2)).unwrap();
    let (kind, data) = plan_moved(&plan, &moved, PlanEvent::Start, Initiator::Job);
    let from_to = ("strategize/queued", "strategize/processing");
    assert_eq!(kind, EventKind::PlanMoved);
    assert_eq!(
        data,
        json!({"from": from_to.0, "to": from_to.1, "event": "start", "by": "job", "attempt": 1})
    );
    assert_eq!(plan_created(&plan), (EventKind::PlanCreated, json!({"title": "make"})));
}

#[test]
fn what_is_too_long_is_left_out_and_says_so() {
    let long = call(&"n".repeat(EVENT_BYTES_MAX));
    let (kind, data) = tool_started(&long);
    assert_eq!(kind, EventKind::ToolStarted);
    let left_out = data["left_out_bytes"].as_u64().unwrap();
    assert!(left_out > EVENT_BYTES_MAX as u64);
    let (_, data) = tool_started(&call("execute"));
    assert_eq!(data, json!({"call": 3, "node": "execute", "tool": "command"}), "arguments are not told");
    let failed = Job { why: Some("w".repeat(100_000)), ..Job::new(new_job(Phase::Execute), Ms(1)) };
    let (_, data) = job_queued(&failed);
    assert!(data.to_string().len() <= EVENT_BYTES_MAX);
}

#[test]
fn a_call_that_runs_has_not_finished() {
    assert_eq!(tool_finished(&call("execute"), 0), None);
}

#[test]
fn a_job_is_told_when_its_state_or_its_owner_changed() {
    let queued = Job::new(new_job(Phase::Execute), Ms(1));
    let kinds = |before: &Job, after: &Job| -> Vec<EventKind> {
        job_moved(before, after).into_iter().map(|(kind, _)| kind).collect()
    };
    let running = queued.next(&claim_by(crate::sample::ANN), Ms(2)).unwrap();
    assert_eq!(kinds(&queued, &running), [EventKind::JobMoved]);
    let beat = JobEvent::Heartbeat { fence: running.fence, lease: crate::sample::LEASE };
    assert_eq!(kinds(&running, &running.next(&beat, Ms(9)).unwrap()), []);
    let asked = running.next(&JobEvent::Cancel { reason: "enough".to_owned() }, Ms(9)).unwrap();
    assert_eq!(kinds(&running, &asked), [EventKind::CancelRequested]);
    let again = asked.next(&JobEvent::Cancel { reason: "really".to_owned() }, Ms(9)).unwrap();
    assert_eq!(kinds(&asked, &again), [], "the first request is told once");
    let taken = running.next(&crate::sample::take_over_by(crate::sample::BOB), Ms(40)).unwrap();
    assert_eq!(kinds(&running, &taken), [EventKind::JobMoved], "a new owner is told");
    let cancelled = queued.next(&JobEvent::Cancel { reason: "enough".to_owned() }, Ms(9)).unwrap();
    assert_eq!(kinds(&queued, &cancelled), [EventKind::CancelRequested, EventKind::JobMoved]);
}
