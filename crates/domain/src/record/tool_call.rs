//! A tool call: the request, the action that was really taken, and its end.
//!
//! # Invariants
//! 1. A call's number is given by the store when it is admitted, rising from 1 within its attempt.
//! 2. A call that ended stays as it ended.
//! 3. A call runs only while its plan's job does: the step that takes the job from its owner ends the calls
//!    that still run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node_run::NodeRun;
use crate::change::NewChange;
use crate::change::file_state::Hash;
use crate::id::{CallNumber, ChangesetId, PlanId};
use crate::ledger::CallCategory;
use crate::time::WallMs;

/// The error of a call whose owner went before it could record how the call ended.
const INTERRUPTED: &str = "it was interrupted: its run ended before its end was recorded";

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Admitted; nothing is known of its end.
    Running,
    /// It did what it was asked.
    Ok,
    /// It failed.
    Failed,
    /// It was stopped because it took too long.
    TimedOut,
    /// A gate did not let it begin.
    Refused,
    /// It was stopped: with its plan, with its node, or with the process that made it.
    Cancelled,
}

impl CallState {
    /// All of them.
    pub const ALL: [CallState; 6] = [
        CallState::Running,
        CallState::Ok,
        CallState::Failed,
        CallState::TimedOut,
        CallState::Refused,
        CallState::Cancelled,
    ];

    /// Its name, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            CallState::Running => "running",
            CallState::Ok => "ok",
            CallState::Failed => "failed",
            CallState::TimedOut => "timed_out",
            CallState::Refused => "refused",
            CallState::Cancelled => "cancelled",
        }
    }

    /// The state with this name.
    pub fn parse(word: &str) -> Option<CallState> {
        CallState::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// One stream of a command's output, stored as a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredOutput {
    /// The stored content.
    pub hash: Hash,
    /// The number of bytes that the command wrote.
    pub total: u64,
    /// The number of bytes that were not stored.
    pub left_out: u64,
}

/// A call to be admitted.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCall {
    /// The plan's attempt.
    pub attempt: u32,
    /// The node of the actor: `execute`, `validate/NAME`.
    pub node: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments as they were asked for, redacted.
    pub requested: Value,
    /// The arguments as they were used, redacted.
    pub effective: Value,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallEnd {
    /// The final state.
    pub state: CallState,
    /// The duration of the call.
    pub duration_ms: u64,
    /// The exit status of its process, where there was one.
    pub exit: Option<i32>,
    /// The error, redacted.
    pub error: Option<String>,
    /// The answer, redacted and bounded.
    pub result: Value,
    /// The isolation that was in force.
    pub isolation: Option<Value>,
    /// The output of the command.
    pub stdout: Option<StoredOutput>,
    /// The error output of the command.
    pub stderr: Option<StoredOutput>,
}

impl NewCall {
    /// Returns whether it is a call of this node in this attempt.
    pub fn is_of(&self, attempt: u32, node: &str) -> bool {
        self.attempt == attempt && self.node == node
    }
}

/// A stored call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The plan.
    pub plan: PlanId,
    /// Its number within the attempt, from 1.
    pub no: CallNumber,
    /// The time when it was admitted.
    pub started: WallMs,
    /// The request.
    pub new: NewCall,
    /// The end; `None` while it runs, and until its job moves if its owner died.
    pub end: Option<CallEnd>,
}

impl ToolCall {
    /// One that ended at `now`.
    pub fn ended(plan: PlanId, no: CallNumber, new: NewCall, end: CallEnd, now: WallMs) -> ToolCall {
        let started = WallMs(now.0.saturating_sub(end.duration_ms));
        ToolCall { plan, no, started, new, end: Some(end) }
    }

    /// Ends a call that still runs, at `now`, because its owner has gone.
    pub fn interrupt(&mut self, now: WallMs) -> &ToolCall {
        if self.end.is_none() {
            self.end = Some(CallEnd {
                state: CallState::Cancelled,
                duration_ms: now.0.saturating_sub(self.started.0),
                exit: None,
                error: Some(INTERRUPTED.to_owned()),
                result: Value::Null,
                isolation: None,
                stdout: None,
                stderr: None,
            });
        }
        self
    }

    /// Returns the state of the call.
    pub fn state(&self) -> CallState {
        self.end.as_ref().map_or(CallState::Running, |end| end.state)
    }
}

/// A call that comes to its end, with all that it changed.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedCall {
    /// The plan's attempt.
    pub attempt: u32,
    /// The call.
    pub no: CallNumber,
    /// The end of the call.
    pub end: CallEnd,
    /// The changeset that its changes go into.
    pub changeset: Option<ChangesetId>,
    /// The changes of the call, in order.
    pub changes: Vec<NewChange>,
    /// The nodes that are settled by it.
    pub settles: Vec<NodeRun>,
}

/// A call that has taken place and changed nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct SettledCall {
    /// The request.
    pub call: NewCall,
    /// The category under which it is counted.
    pub count_as: CallCategory,
    /// The end of the call.
    pub end: CallEnd,
    /// The nodes that are settled by it.
    pub settles: Vec<NodeRun>,
}
