//! The calls of a plan (commands, tools and models) with their output, and the result text of the plan. That
//! is the text of the node that its actor names as its result.
//!
//! # Invariants
//! 1. The secrets of an output are hidden, unless the reader requests otherwise. It is stored as it was
//!    written.
//! 2. A call whose process died is reported as such as soon as no process can work on it. That is the case if
//!    the plan rests, or has another owner than when the call began.
//! 3. Only a node that succeeded has a result text. If it ran again to repair the findings of a check, its
//!    last text counts. The text has lost its secrets where it was made, and has the bound of every node's
//!    text.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use domain::{
    CallNumber, CallState, EventKind, JobState, NodeKind, NodeOutcome, NodePath, NodeRun, Phase, Plan,
    PlanId, PlanSpec, StoredOutput, ToolCall, WallMs,
};
use serde_json::Value;
use store::{PlanStoreError, StoreError};

use super::details::{ASK_MODEL, END_SERVER, RECHECK, RUN_COMMAND, START_SERVER, VALIDATE};
use super::effective_changes::TAKE_BACK;
use crate::engine::{Engine, EngineInner};
use crate::run::plan_sandbox::content::StoreContents;
use crate::run::plan_sandbox::location::log_dir;

/// The display of secrets: hidden or shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reveal {
    /// A mark replaces each secret.
    Hidden,
    /// They are shown.
    Shown,
}

/// The output of one call.
#[derive(Clone, Debug)]
pub struct CallLog {
    /// The call.
    pub call: ToolCall,
    /// True if what there is to see of it is what a process printed, and not an answer.
    pub is_printed: bool,
    /// The part of its output, or of its answer, that was stored.
    pub stdout: Vec<u8>,
    /// The part of its error output that was stored.
    pub stderr: Vec<u8>,
    /// The number of bytes of both that were not stored.
    pub left_out: u64,
    /// True if its end is not known, since its process is gone.
    pub is_broken_off: bool,
    /// True if what it says is the plan's answer.
    pub is_answer: bool,
}

impl Engine {
    /// The outputs of the present attempt, of one call or of all, in the order in which the calls began.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn logs(
        &self,
        id: PlanId,
        only: Option<CallNumber>,
        reveal: Reveal,
    ) -> Result<Vec<CallLog>, PlanStoreError> {
        let plan = self.inner.store.plan(id).await?;
        let calls = self.inner.calls(&plan).await?;
        let answering = self.answering_call(&plan, &calls).await?;
        let lived_since = self.lived_since(id, &calls).await?;
        let sandboxes = self.inner.store.sandboxes(id).await?;
        let sandbox = sandboxes.into_iter().rfind(|sandbox| sandbox.attempt == plan.attempt);
        // Until the store has a record of it, a new sandbox is assumed to be at its usual place.
        let dir = sandbox
            .map_or_else(|| self.inner.sandbox_home(&plan), |sandbox| OsString::from_vec(sandbox.dir).into());
        let wanted = |call: &ToolCall| only.is_none_or(|no| no == call.no);
        let logs = calls.into_iter().filter(wanted).map(|call| CallLog {
            is_broken_off: call.end.is_none() && lived_since.is_none_or(|since| call.started < since),
            is_answer: answering == Some(call.no),
            ..self.inner.log_of(&dir, call)
        });
        Ok(match reveal {
            Reveal::Hidden => logs.map(|log| self.inner.hidden(log)).collect(),
            Reveal::Shown => logs.collect(),
        })
    }

    /// The question to a model whose answer is the plan's.
    async fn answering_call(
        &self,
        plan: &Plan,
        calls: &[ToolCall],
    ) -> Result<Option<CallNumber>, StoreError> {
        let runs = self.inner.store.node_runs(plan.id).await?;
        let Some(node) = answer(plan, &runs).map(|run| speaker(&plan.spec, run)) else { return Ok(None) };
        let is_it = |call: &&ToolCall| {
            call.new.tool == ASK_MODEL && call.new.node == node && call.state() == CallState::Ok
        };
        Ok(calls.iter().rfind(is_it).map(|call| call.no))
    }

    /// Returns the time since which the present owner works on the plan; `None` if it has no owner. Not
    /// looked up when all calls have ended.
    async fn lived_since(&self, id: PlanId, calls: &[ToolCall]) -> Result<Option<WallMs>, StoreError> {
        if calls.iter().all(|call| call.end.is_some()) {
            return Ok(None);
        }
        let job = self.live_job(id).await?;
        if !job.is_some_and(|job| job.state == JobState::Running && !self.owner_is_gone(&job)) {
            return Ok(None);
        }
        let moves = self.inner.store.events_of(id, EventKind::JobMoved).await?;
        let claimed = moves.iter().rfind(|event| event.data["to"] == JobState::Running.as_str());
        Ok(claimed.map(|event| event.at))
    }
}

impl EngineInner {
    fn hidden(&self, log: CallLog) -> CallLog {
        let hide = |bytes: Vec<u8>| match self.redactor.redactor() {
            Some(redactor) => redactor.redact(&bytes).into_owned(),
            None => b"[text withheld: no redactor]\n".to_vec(),
        };
        CallLog { stdout: hide(log.stdout), stderr: hide(log.stderr), ..log }
    }

    fn log_of(&self, sandbox: &Path, call: ToolCall) -> CallLog {
        let kept = |output: Option<StoredOutput>| {
            output
                .and_then(|output| StoreContents(self.store.as_ref()).read(&output.hash).ok())
                .unwrap_or_default()
        };
        let is_printed = is_printed(&call.new.tool);
        let (stdout, stderr, left_out) = match &call.end {
            Some(end) => {
                let stdout = match is_printed {
                    true => kept(end.stdout),
                    false => answered(&end.result).into_bytes(),
                };
                let outputs = [end.stdout, end.stderr].into_iter().flatten();
                (stdout, kept(end.stderr), outputs.map(|output| output.left_out).sum())
            }
            None => {
                let read_log = |name| std::fs::read(log_dir(sandbox, call.no).join(name)).unwrap_or_default();
                (read_log("stdout"), read_log("stderr"), 0)
            }
        };
        CallLog { call, is_printed, stdout, stderr, left_out, is_broken_off: false, is_answer: false }
    }
}

/// Returns true if what there is to see of such a call is what its process printed.
fn is_printed(tool: &str) -> bool {
    [RUN_COMMAND, VALIDATE, RECHECK, START_SERVER, END_SERVER, TAKE_BACK].contains(&tool)
}

/// Returns the answer of a tool or a model as text: its words, its small diff, or all of it.
fn answered(result: &Value) -> String {
    match result {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let text = result["text"].as_str().or_else(|| result["diff"].as_str());
            text.map_or_else(|| result.to_string(), str::to_owned)
        }
    }
}

/// The run whose text is the answer of the plan's present attempt, among runs that are in order.
pub(crate) fn answer<'a>(plan: &Plan, runs: &'a [NodeRun]) -> Option<&'a NodeRun> {
    let node = plan.spec.result_step()?.node.as_str();
    let is_of_it = |path: &str| path == node || NodePath::parse(path).step() == Some(node);
    let of_attempt = |run: &&NodeRun| run.phase == Phase::Execute && run.attempt == plan.attempt;
    let succeeded = |run: &&NodeRun| run.outcome == NodeOutcome::Succeeded && is_of_it(&run.path);
    runs.iter().filter(of_attempt).rfind(succeeded)
}

/// The node that itself said what this run says: of a nested actor, the one that answers for it.
pub(crate) fn speaker<'a>(spec: &'a PlanSpec, run: &'a NodeRun) -> &'a str {
    let mut node = run.path.as_str();
    // Nested actors are no deeper than their steps are many.
    for _ in &spec.steps {
        match spec.steps.iter().find(|step| step.node == node).map(|step| &step.does) {
            Some(NodeKind::Actor { result, .. }) => node = result,
            Some(_) | None => break,
        }
    }
    node
}
