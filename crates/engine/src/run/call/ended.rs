//! The end of a call that was no process.
//!
//! # Not here
//! Commands, with their exit, their output and their isolation: `result`.

use domain::{CallEnd, CallState, WallMs};
use serde_json::Value;

use crate::engine::EngineInner;

impl EngineInner {
    /// The end of a call that began at `started`, now: its state, what went wrong, and what it answered. What
    /// went wrong loses its secrets here; the answer has lost them.
    pub(crate) fn ended(
        &self,
        started: WallMs,
        (state, error, result): (CallState, Option<String>, Value),
    ) -> CallEnd {
        CallEnd {
            state,
            duration_ms: self.wall().0.saturating_sub(started.0),
            exit: None,
            error: error.map(|error| self.redactor.redact_text(&error)),
            result,
            isolation: None,
            stdout: None,
            stderr: None,
        }
    }
}
