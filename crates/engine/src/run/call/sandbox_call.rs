//! A call in the sandbox. The right to work there, the changeset of the call's node and the admitted call are
//! one value.
//!
//! ```text
//!  admit    NodeContext::begin_call   wait for the turn ─► settle the mark of a stopped call ─► admit ─► mark
//!  run      the command, tool, server or agent program has the SandboxCall
//!  capture  SandboxCall::capture      scan the sandbox for what it changed
//!  record   SandboxCall::end          end + changes + contents in one step of the store ─► unmark ─► next turn
//! ```
//!
//! # Invariants
//! 1. One call at a time can change the sandbox, from before it is admitted until its [`SandboxCall`] goes.
//!    Calls that only look run concurrently with each other. Turns are served in order, and a cancel of the
//!    scope ends the waiting.
//! 2. A call that can change the sandbox is marked in it (`SandboxSession::mark`) before it begins. Only the
//!    step of the store that ends the call removes the mark. A `SandboxCall` that is dropped (an early
//!    return, a panic, a time limit, `select!`) leaves its mark.
//! 3. The next turn, of any kind, first settles the mark: it captures what is there, records it for the
//!    marked call and ends that call. A retry and the end of the run do the same. So no change is recorded
//!    for another call than its own. An end that the store took and whose answer did not arrive stays as it
//!    is.
//! 4. Changes are captured before the scope of the node is tested. The one exception is a run that is
//!    interrupted as a whole: `shutdown` captures, within its time limit.
//! 5. Changes are recorded through the [`ChangesetHandle`] of the call's node only.
//! 6. No call that can change the sandbox begins in one that is retained because its changes could not be
//!    captured.

use domain::ToolCall;
use sync::Effect;

use super::admit::SandboxTurn;
use worker::ChangesetHandle;

/// The argument of a call that captures changes from a retained sandbox: the number of the call that made
/// them.
pub(crate) const CAPTURED_FROM: &str = "captured_from_call";
/// The error of a call that was stopped before its end was recorded.
pub(crate) const STOPPED: &str = "it was stopped before its end was recorded";

/// A call that may have changed the sandbox and whose end is not stored.
#[derive(Clone)]
pub(crate) struct CallMark {
    pub(super) call: ToolCall,
    pub(super) changes: ChangeDisposition,
}

/// The treatment of the changes of a call.
#[derive(Clone)]
pub(super) enum ChangeDisposition {
    /// They are recorded into the changeset of its node.
    Recorded(ChangesetHandle),
    /// They are put back.
    PutBack,
}

impl CallMark {
    pub(crate) fn call(&self) -> &ToolCall {
        &self.call
    }

    /// Returns true if its changes are recorded.
    pub(crate) fn records(&self) -> bool {
        matches!(self.changes, ChangeDisposition::Recorded(_))
    }
}

/// A call that was admitted into the sandbox. [`end`](Self::end) gives the turn back with everything
/// recorded; dropping it gives the turn back with a mark, which the next turn settles.
#[must_use = "a call that is dropped is recorded as stopped"]
pub(crate) struct SandboxCall {
    pub(super) call: ToolCall,
    pub(super) effect: Effect,
    pub(super) work: SandboxUse,
    pub(super) _turn: SandboxTurn,
}

/// The use of the sandbox by the call.
pub(super) enum SandboxUse {
    /// The call is marked in the sandbox.
    Marked {
        mark: Box<CallMark>,
        /// True if what it changed is among what was found.
        is_captured: bool,
    },
    /// It is in the list of those that look.
    Looks,
}

impl SandboxCall {
    pub(crate) fn call(&self) -> &ToolCall {
        &self.call
    }

    pub(crate) fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Returns true if its changes are recorded.
    pub(crate) fn records(&self) -> bool {
        match &self.work {
            SandboxUse::Marked { mark, .. } => mark.records(),
            SandboxUse::Looks => false,
        }
    }

    /// The call works where nothing of it gets into the sandbox: there is nothing to capture.
    pub(crate) fn cannot_have_written(&mut self) {
        match &mut self.work {
            SandboxUse::Marked { is_captured, .. } => *is_captured = true,
            SandboxUse::Looks => {}
        }
    }
}
