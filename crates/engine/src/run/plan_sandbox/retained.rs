//! Retains a sandbox if the changes of its command could not be captured or stored, and captures them when
//! the plan is resumed.
//!
//! # Invariants
//! 1. The changes of a command are never dropped because they could not be captured: its sandbox stays on the
//!    disk, and the error names it.
//! 2. A command whose end is known is not run again: resuming captures its changes, and its end remains.
//! 3. A sandbox is retained until its changes are stored.
//!
//! # Not here
//! Retaining and reopening the directory itself: crate `sandbox`. Clearing it: `maintenance::gc`.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{
    CallEnd, CallNumber, CallState, ErrorCategory, NewCall, NodeKind, NodeOutcome, NodeRun, PlanStep,
    StoredOutput,
};
use sandbox::NOTE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::blocking;
use super::location::log_dir;
use crate::engine::EngineInner;
use crate::query::details::RUN_COMMAND;
use crate::run::RunError;
use crate::run::call::admit::CallAccess;
use crate::run::call::result::{CommandResult, LAST_WORDS_BYTES};
use crate::run::call::sandbox_call::CAPTURED_FROM;
use crate::run::call::{capture, command};
use crate::run::context::{NodeContext, RunContext};
use crate::run::graph::GraphRun;
use crate::run::node::NodeOutput;
use crate::run::state::{RunState, SandboxSession};

/// The end of a command whose changes are still in its sandbox only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RetainedEnd {
    call: u32,
    state: String,
    exit: Option<i32>,
    duration_ms: u64,
    error: Option<String>,
    isolation: Option<Value>,
    /// The command in short.
    shown: String,
}

impl RetainedEnd {
    pub(crate) fn new(engine: &EngineInner, finished: &CommandResult) -> Self {
        Self {
            call: finished.call().no.0,
            state: finished.state().as_str().to_owned(),
            exit: finished.exit(),
            duration_ms: finished.duration_ms(),
            error: finished.failure().map(|failure| engine.redactor.redact_text(&failure)),
            isolation: finished.isolation(),
            shown: engine.redactor.redact_text(finished.shown()),
        }
    }

    /// As a note that fits.
    fn note(&self) -> String {
        let text = |end: &Self| serde_json::to_string(end).unwrap_or_default();
        let whole = text(self);
        if whole.len() <= NOTE_BYTES_MAX {
            return whole;
        }
        text(&Self { isolation: None, error: None, shown: String::new(), ..self.clone() })
    }
}

/// Retains the sandbox, and returns an error that says so: the problem in `message` prevents its changes from
/// being stored.
pub(crate) async fn keep(
    state: &RunState,
    end: &RetainedEnd,
    category: ErrorCategory,
    message: &str,
) -> RunError {
    let mut place = Arc::clone(&state.session).lock_owned().await;
    let (note, shown, message, no) =
        (end.note(), end.shown.clone(), message.to_owned(), CallNumber(end.call));
    let kept = blocking(move || {
        let Some(session) = place.as_mut() else { return RunError::Cancelled };
        let stopped = match session.sandbox.retain(&note) {
            Ok(()) => not_captured(session, category, &shown, &message),
            Err(error) => RunError::failed(
                category,
                format!(
                    "the changes of `{shown}` are lost: {message}, and its sandbox cannot be retained: {error}"
                ),
            ),
        };
        stopped.of_call(no)
    });
    kept.await.unwrap_or_else(|stopped| stopped)
}

fn not_captured(
    session: &mut SandboxSession,
    category: ErrorCategory,
    shown: &str,
    message: &str,
) -> RunError {
    let dir = session.sandbox.dir().display();
    let message = format!(
        "the changes of `{shown}` could not be captured: {message}; nothing is lost, its sandbox is retained in {dir}"
    );
    session.kept = Some(message.clone());
    // A new sandbox, which recovery would try for a failed one, does not help. Continuing with this one does.
    let is_sandbox = category == ErrorCategory::Sandbox;
    let category = if is_sandbox { ErrorCategory::Resource } else { category };
    RunError::failed(category, message)
}

/// Captures the changes in the retained sandbox. False if its command was interrupted, and must run again.
pub(crate) async fn capture_kept(
    actor: &GraphRun<'_>,
    settled: &BTreeSet<String>,
    note: &str,
) -> Result<bool, RunError> {
    let end: Option<RetainedEnd> = serde_json::from_str(note).ok();
    let Some(step) = step_of(actor, settled, end.as_ref()).await? else { return Ok(false) };
    match capture_all(actor, step, end.as_ref()).await {
        Err(RunError::Failed { category, message, .. }) => {
            let mut place = actor.state.session.lock().await;
            let session = place.as_mut().ok_or(RunError::Cancelled)?;
            let shown = command::one_line(&actor.engine.redactor.redact_text(&step.render()));
            return Err(not_captured(session, category, &shown, &message));
        }
        other => other?,
    }
    let Some(end) = end else { return Ok(false) };
    match CallState::parse(&end.state) {
        Some(CallState::Ok) => Ok(true),
        Some(CallState::Failed | CallState::TimedOut | CallState::Refused) => {
            let why = end.error.unwrap_or_else(|| format!("`{}` failed", end.shown));
            Err(RunError::failed(ErrorCategory::Tool, why))
        }
        Some(CallState::Cancelled | CallState::Running) | None => Ok(false),
    }
}

/// The step of that command: that of the call, or, if none is named, the first that has not settled. `None`
/// if the step is more than one command; it is done again as a whole.
async fn step_of<'a>(
    actor: &GraphRun<'a>,
    settled: &BTreeSet<String>,
    end: Option<&RetainedEnd>,
) -> Result<Option<&'a PlanStep>, RunError> {
    let node = match end {
        Some(end) => {
            let calls = actor.engine.calls(actor.plan).await?;
            calls.into_iter().find(|call| call.no == CallNumber(end.call)).map(|call| call.new.node)
        }
        None => None,
    };
    let is_it = |step: &&PlanStep| match &node {
        Some(node) => step.node == *node,
        None => !settled.contains(&step.node),
    };
    Ok(actor.steps.iter().find(is_it).filter(|step| matches!(step.does, NodeKind::Command(_))))
}

/// Stores the changes in the sandbox under a new call, with the end that the command had; then it is not
/// retained any more.
async fn capture_all(
    actor: &GraphRun<'_>,
    step: &PlanStep,
    end: Option<&RetainedEnd>,
) -> Result<(), RunError> {
    let RunContext { engine, state, plan, .. } = actor.run;
    let Some(command) = step.command() else { return Ok(()) };
    let context = NodeContext { path: &step.node, ..actor.run.phase_context() };
    let from = end.map(|end| end.call);
    let requested =
        json!({ "command": engine.redactor.redact_text(&command.run.render()), (CAPTURED_FROM): from });
    let new = NewCall {
        attempt: plan.attempt,
        node: step.node.clone(),
        tool: RUN_COMMAND.to_owned(),
        requested,
        effective: Value::Null,
    };
    let call = context.begin_call(CallAccess::Record, new).await?;
    let logs = match state.session.lock().await.as_ref() {
        Some(session) => from.map(|call| log_dir(session.sandbox.dir(), CallNumber(call))),
        None => return Err(RunError::Cancelled),
    };
    let recorded = call.end(&context, |staging, changed| {
        let kept =
            |name: &str| logs.as_ref().and_then(|logs| capture::store_log(engine, staging, &logs.join(name)));
        let outputs = [kept("stdout"), kept("stderr")];
        let end = call_end(engine, end.cloned(), &logs_tail(engine, logs.as_deref()), outputs, changed);
        let settles = settles(actor, step, &end, changed);
        Ok((end, settles))
    });
    recorded.await?;
    let mut place = Arc::clone(&state.session).lock_owned().await;
    blocking(move || {
        if let Some(session) = place.as_mut() {
            // It goes with its owner; should the owner die before, what is captured is captured once more.
            let _ = session.sandbox.unretain();
        }
    })
    .await
}

/// The end of the node, if its command succeeded. Its output is in its log.
fn settles(actor: &GraphRun<'_>, step: &PlanStep, end: &CallEnd, changed: usize) -> Option<NodeRun> {
    if end.state != CallState::Ok || step.repeat.is_some() {
        return None;
    }
    let now = actor.engine.wall();
    let left = NodeOutput {
        exit: end.exit,
        text: end.result["last_words"].as_str().unwrap_or_default().to_owned(),
        changed: u32::try_from(changed).unwrap_or(u32::MAX),
        ..NodeOutput::default()
    };
    Some(NodeRun {
        attempt: actor.plan.attempt,
        phase: actor.phase(),
        path: step.node.clone(),
        tries: 1,
        ..left.node_run((now, now), NodeOutcome::Succeeded)
    })
}

fn call_end(
    engine: &EngineInner,
    end: Option<RetainedEnd>,
    last_words: &str,
    [stdout, stderr]: [Option<StoredOutput>; 2],
    changed: usize,
) -> CallEnd {
    let result = json!({ "changed": changed, "last_words": engine.redactor.redact_text(last_words) });
    let state = end.as_ref().and_then(|end| CallState::parse(&end.state)).unwrap_or(CallState::Cancelled);
    let (duration_ms, exit, error, isolation) = match end {
        Some(end) => (end.duration_ms, end.exit, end.error, end.isolation),
        None => (0, None, Some("it was interrupted".to_owned()), None),
    };
    CallEnd { state, duration_ms, exit, error, result, isolation, stdout, stderr }
}

/// Returns the last output of the command from its logs.
fn logs_tail(engine: &EngineInner, logs: Option<&std::path::Path>) -> String {
    let tail = |name: &str| {
        let bytes = logs.and_then(|logs| std::fs::read(logs.join(name)).ok()).unwrap_or_default();
        // Its secrets first: half of one is not known as one.
        let text = engine.redactor.redact_text(&String::from_utf8_lossy(&bytes));
        let from = text.len().saturating_sub(LAST_WORDS_BYTES);
        let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text[from..].trim_end().to_owned()
    };
    [tail("stdout"), tail("stderr")]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}
