//! Event drafts: the kind and the particulars of each event record, made in one place for all stores.
//!
//! # Invariants
//! 1. A step that changes nothing, asked again or refused, has no event.
//! 2. The events of one step are in this order: the requested cancel, the changesets that ended, the job, the
//!    plan, its decisions, its next job. When a plan is made, the order is: the plan, its prompt, its first
//!    job. A node begins before its first call and is settled after its last.

use serde_json::{Value, json};

use super::apply::ApplyKind;
use super::event::{EVENT_BYTES_MAX, EventKind};
use super::node_run::{NodeRun, NodeWait};
use super::sandbox::SandboxRecord;
use super::tool_call::ToolCall;
use crate::change::changeset::{ChangesetEnding, ClosedChangeset};
use crate::context::ContextRecord;
use crate::decision::Decision;
use crate::failure::NewError;
use crate::failure::retry::{RecoveryAction, RecoveryAdvice};
use crate::id::ApplyId;
use crate::job::Job;
use crate::plan::{Initiator, Plan, PlanEvent};

/// A record that has no number yet.
pub type EventDraft = (EventKind, Value);

/// A plan was made.
pub fn plan_created(plan: &Plan) -> EventDraft {
    bounded(EventKind::PlanCreated, json!({ "title": plan.title }))
}

/// A plan moved.
pub fn plan_moved(before: &Plan, after: &Plan, event: PlanEvent, by: Initiator) -> EventDraft {
    let data = json!({
        "from": before.state.to_string(), "to": after.state.to_string(), "event": event.as_str(), "by": by.as_str(),
        "attempt": after.attempt,
    });
    bounded(EventKind::PlanMoved, data)
}

/// A plan went these ways in the step in which it was made.
pub fn plan_made(first: &Plan, moves: &[(Plan, PlanEvent)]) -> Vec<EventDraft> {
    let befores = std::iter::once(first).chain(moves.iter().map(|(plan, _)| plan));
    befores
        .zip(moves)
        .map(|(before, (after, event))| plan_moved(before, after, *event, Initiator::Creation))
        .collect()
}

/// An apply was undone, or done again.
pub fn plan_undone(kind: ApplyKind, apply: ApplyId) -> EventDraft {
    bounded(EventKind::PlanUndone, json!({ "undone": kind == ApplyKind::Undo, "apply": apply }))
}

/// A decision was recorded.
pub fn decision_recorded(decision: &Decision) -> EventDraft {
    let question: String = decision.new.question.chars().take(200).collect();
    let data = json!({ "seq": decision.seq, "kind": decision.new.kind, "question": question });
    bounded(EventKind::DecisionRecorded, data)
}

/// Decisions gave way to decision `by`.
pub fn decision_superseded(seqs: &[u32], by: u32) -> EventDraft {
    bounded(EventKind::DecisionSuperseded, json!({ "by": by, "seqs": seqs }))
}

/// The first call of a node was admitted.
pub fn node_started(call: &ToolCall) -> EventDraft {
    bounded(EventKind::NodeStarted, json!({ "path": call.new.node }))
}

/// A node waits.
pub fn node_waits(wait: &NodeWait) -> EventDraft {
    let ms = wait.time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    bounded(EventKind::NodeWaiting, json!({ "path": wait.path, "why": wait.why, "ms": ms }))
}

/// A node was settled.
pub fn node_finished(run: &NodeRun) -> EventDraft {
    let data = json!({
        "path": run.path, "phase": run.phase, "outcome": run.outcome.as_str(), "tries": run.tries,
    });
    bounded(EventKind::NodeFinished, data)
}

/// A call was admitted.
pub fn tool_started(call: &ToolCall) -> EventDraft {
    let data = json!({ "call": call.no, "node": call.new.node, "tool": call.new.tool });
    bounded(EventKind::ToolStarted, data)
}

/// A call ended and left so many entries; nothing, while it runs.
pub fn tool_finished(call: &ToolCall, entries: usize) -> Option<EventDraft> {
    let end = call.end.as_ref()?;
    let data = json!({
        "call": call.no, "node": call.new.node, "tool": call.new.tool, "state": end.state.as_str(),
        "exit": end.exit, "ms": end.duration_ms, "entries": entries,
    });
    Some(bounded(EventKind::ToolFinished, data))
}

/// A node was given a context.
pub fn context_assembled(record: &ContextRecord) -> EventDraft {
    let files = record.receipt["included"].as_array().map_or(0, Vec::len);
    let data =
        json!({ "context": record.id, "node": record.node, "tokens": record.tokens(), "files": files });
    bounded(EventKind::ContextAssembled, data)
}

/// A changeset takes no more entries.
pub fn changeset_closed(closed: &ClosedChangeset, how: ChangesetEnding) -> EventDraft {
    let how = match how {
        ChangesetEnding::Closed => "closed",
        ChangesetEnding::Interrupted => "interrupted",
    };
    let data = json!({ "id": closed.id, "entries": closed.entries, "how": how });
    bounded(EventKind::ChangesetClosed, data)
}

/// Something failed, and this is done about it.
pub fn error_recorded(error: &NewError, recovery: &RecoveryAdvice) -> EventDraft {
    let (action, attempt, after_ms) = match recovery.action {
        RecoveryAction::Retry { after, attempt } => {
            ("retry", Some(attempt), Some(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)))
        }
        RecoveryAction::Revert => ("revert", None, None),
        RecoveryAction::Ask => ("ask", None, None),
        RecoveryAction::GiveUp => ("give_up", None, None),
        RecoveryAction::Told => ("told", None, None),
    };
    let data = json!({
        "seq": recovery.seq, "category": error.category().as_str(), "action": action, "attempt": attempt,
        "after_ms": after_ms, "message": error.message(),
    });
    bounded(EventKind::ErrorRecorded, data)
}

/// A job was queued.
pub fn job_queued(job: &Job) -> EventDraft {
    job_told(job)
}

/// A job moved: to another state or to another owner. A renewed lease, a settled node and a seal have no
/// event.
pub fn job_moved(before: &Job, after: &Job) -> Vec<EventDraft> {
    let mut told = Vec::new();
    if let Some(cancel) = after.cancel.as_ref().filter(|_| before.cancel != after.cancel) {
        told.push(bounded(EventKind::CancelRequested, json!({ "reason": cancel.reason })));
    }
    if before.state != after.state || before.fence != after.fence {
        told.push(job_told(after));
    }
    told
}

fn job_told(job: &Job) -> EventDraft {
    let data = json!({
        "job": job.id, "phase": job.phase, "to": job.state.as_str(), "worker": job.worker, "fence": job.fence,
        "why": job.why,
    });
    bounded(EventKind::JobMoved, data)
}

/// A sandbox was opened.
pub fn sandbox_opened(record: &SandboxRecord) -> EventDraft {
    bounded(EventKind::Sandbox, json!({ "attempt": record.attempt, "rung": record.rung }))
}

/// A sandbox was closed.
pub fn sandbox_closed(record: &SandboxRecord) -> EventDraft {
    bounded(EventKind::Sandbox, json!({ "attempt": record.attempt, "closed": true }))
}

/// The particulars, or a word that they were too many.
fn bounded(kind: EventKind, data: Value) -> EventDraft {
    let bytes = data.to_string().len();
    if bytes > EVENT_BYTES_MAX { (kind, json!({ "left_out_bytes": bytes })) } else { (kind, data) }
}
