//! A failure of a plan, as it is reported: its category, its step and its details.
//!
//! # Invariants
//! 1. A [`NewError`] is bounded from the moment it is made: a message of at most 2 KiB, details of at most 16
//!    KiB.
//! 2. A cut is marked: `…` ends the message, the key `…` counts the details that were left out.
//!
//! # Not here
//! The action that follows ([`retry`]), and its storage
//! ([`ErrorHistory`](crate::ErrorHistory)). A cancel is no error and is never reported as one.

pub(crate) mod advice;
pub mod detail;
pub mod error_history;
pub mod retry;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{CallNumber, ErrorId};
use crate::plan::phase::Phase;
use crate::text::first_bytes;
use detail::{Detail, bounded};

/// The class of an error, which says what a caller may do. Retry decisions depend on it only, never on the
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The same call may succeed later, unchanged.
    Transient,
    /// The same call will be refused again: a person has to change something first.
    Permanent,
    /// The work was called off, or belongs to another owner by now. Not a failure.
    Cancelled,
    /// The caller broke the rules of this crate.
    Bug,
}

/// Limits how long a message may be.
pub const MESSAGE_BYTES_MAX: usize = 2 * 1024;

const CUT_MARK: &str = "…";

/// The category of a failure: this alone decides the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCategory {
    /// The other side did not answer in time.
    Timeout,
    /// The other side could not be reached.
    Connection,
    /// The other side has too much to do.
    Overloaded,
    /// The other side limits our requests and says wait.
    RateLimit,
    /// Disk, memory or handles ran out.
    Resource,
    /// A key or a permission is missing.
    Auth,
    /// The request cannot be done as it was asked.
    InvalidInput,
    /// A tool failed so that the actor cannot continue.
    Tool,
    /// A model answered what cannot be used.
    ModelOutput,
    /// A required check failed.
    Validation,
    /// The user's files and the plan's changes do not fit together.
    MergeConflict,
    /// The sandbox could not be made, or broke.
    Sandbox,
    /// A limit of the plan is reached.
    Budget,
    /// A fault of ours.
    Internal,
}

impl ErrorCategory {
    /// All of them.
    pub const ALL: [ErrorCategory; 14] = [
        ErrorCategory::Timeout,
        ErrorCategory::Connection,
        ErrorCategory::Overloaded,
        ErrorCategory::RateLimit,
        ErrorCategory::Resource,
        ErrorCategory::Auth,
        ErrorCategory::InvalidInput,
        ErrorCategory::Tool,
        ErrorCategory::ModelOutput,
        ErrorCategory::Validation,
        ErrorCategory::MergeConflict,
        ErrorCategory::Sandbox,
        ErrorCategory::Budget,
        ErrorCategory::Internal,
    ];

    /// Its name, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorCategory::Timeout => "timeout",
            ErrorCategory::Connection => "connection",
            ErrorCategory::Overloaded => "overloaded",
            ErrorCategory::RateLimit => "rate_limit",
            ErrorCategory::Resource => "resource",
            ErrorCategory::Auth => "auth",
            ErrorCategory::InvalidInput => "invalid_input",
            ErrorCategory::Tool => "tool",
            ErrorCategory::ModelOutput => "model_output",
            ErrorCategory::Validation => "validation",
            ErrorCategory::MergeConflict => "merge_conflict",
            ErrorCategory::Sandbox => "sandbox",
            ErrorCategory::Budget => "budget",
            ErrorCategory::Internal => "internal",
        }
    }

    /// Returns whether it is likely to pass by itself.
    pub const fn is_transient(self) -> bool {
        match self {
            ErrorCategory::Timeout
            | ErrorCategory::Connection
            | ErrorCategory::Overloaded
            | ErrorCategory::RateLimit => true,
            ErrorCategory::Resource
            | ErrorCategory::Auth
            | ErrorCategory::InvalidInput
            | ErrorCategory::Tool
            | ErrorCategory::ModelOutput
            | ErrorCategory::Validation
            | ErrorCategory::MergeConflict
            | ErrorCategory::Sandbox
            | ErrorCategory::Budget
            | ErrorCategory::Internal => false,
        }
    }
}

impl fmt::Display for ErrorCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The unit that is retried and counted: a node of the actor graph, in one attempt of the plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId {
    /// The plan's attempt, from 1: it grows when the plan starts again.
    pub attempt: u32,
    /// The node's path. Two nodes of one attempt never have the same, also in different phases.
    pub node: String,
    /// The number of the visit of the node, from 1: a loop visits a node several times.
    pub visit: u32,
}

/// A failure to be recorded, named by its caller.
///
/// ```
/// use std::time::Duration;
/// use domain::{ErrorCategory, ErrorId, NewError, Phase, StepId};
///
/// let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
/// let error = NewError::new(ErrorId::from_u128(1), Phase::Execute, step, ErrorCategory::RateLimit, "429")
///     .with_retry_after(Duration::from_secs(7));
/// assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
/// assert!(!error.is_idempotent());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NewError {
    id: ErrorId,
    phase: Phase,
    step: StepId,
    category: ErrorCategory,
    message: String,
    tool_call: Option<CallNumber>,
    detail: Detail,
    retry_after: Option<Duration>,
    idempotent: bool,
    handled: bool,
}

impl NewError {
    /// A failure without details. The message is expected redacted, and is cut at [`MESSAGE_BYTES_MAX`].
    pub fn new(
        id: ErrorId,
        phase: Phase,
        step: StepId,
        category: ErrorCategory,
        message: impl Into<String>,
    ) -> NewError {
        NewError {
            id,
            phase,
            step,
            category,
            message: truncate_message(message.into()),
            tool_call: None,
            detail: Detail::new(),
            retry_after: None,
            idempotent: false,
            handled: false,
        }
    }

    /// The tool call that failed.
    #[must_use]
    pub fn with_tool_call(self, call: CallNumber) -> NewError {
        NewError { tool_call: Some(call), ..self }
    }

    /// Adds details. The part beyond [`DETAIL_BYTES_MAX`](crate::DETAIL_BYTES_MAX) is left out, and the key
    /// `…` says how many keys that were.
    #[must_use]
    pub fn with_detail(self, detail: Detail) -> NewError {
        NewError { detail: bounded(detail), ..self }
    }

    /// Sets the time that the other side asked us to wait.
    #[must_use]
    pub fn with_retry_after(self, wait: Duration) -> NewError {
        NewError { retry_after: Some(wait), ..self }
    }

    /// Doing it again does no harm, so a failed tool may be tried again.
    #[must_use]
    pub fn idempotent(self) -> NewError {
        NewError { idempotent: true, ..self }
    }

    /// Marks the error as handled: its node continues, because the model has the error, and nothing is to be
    /// decided.
    #[must_use]
    pub fn handled(self) -> NewError {
        NewError { handled: true, ..self }
    }

    /// Its name.
    pub fn id(&self) -> ErrorId {
        self.id
    }

    /// The phase in which it failed.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The step that failed.
    pub fn step(&self) -> &StepId {
        &self.step
    }

    /// Returns the category of the failure.
    pub fn category(&self) -> ErrorCategory {
        self.category
    }

    /// Returns the message for the user.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The tool call that failed.
    pub fn tool_call(&self) -> Option<CallNumber> {
        self.tool_call
    }

    /// Returns what else is known.
    pub fn detail(&self) -> &Detail {
        &self.detail
    }

    /// Returns how long the other side asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns whether it was dealt with inside its node.
    pub fn is_handled(&self) -> bool {
        self.handled
    }

    /// Returns whether doing it again does no harm.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }
}

fn truncate_message(message: String) -> String {
    if message.len() <= MESSAGE_BYTES_MAX {
        return message;
    }
    format!("{}{CUT_MARK}", first_bytes(&message, MESSAGE_BYTES_MAX - CUT_MARK.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn error(message: &str) -> NewError {
        let step = StepId { attempt: 1, node: "code".to_owned(), visit: 2 };
        NewError::new(ErrorId::from_u128(7), Phase::Execute, step, ErrorCategory::Tool, message)
    }

    #[test]
    fn a_category_has_one_name_everywhere() {
        let names = [
            "timeout",
            "connection",
            "overloaded",
            "rate_limit",
            "resource",
            "auth",
            "invalid_input",
            "tool",
            "model_output",
            "validation",
            "merge_conflict",
            "sandbox",
            "budget",
            "internal",
        ];
        assert_eq!(ErrorCategory::ALL.map(ErrorCategory::as_str), names);
        for (category, name) in ErrorCategory::ALL.into_iter().zip(names) {
            assert_eq!(format!("{category:>15}"), format!("{name:>15}"));
            assert_eq!(serde_json::to_value(category).unwrap(), json!(name));
            assert_eq!(serde_json::from_value::<ErrorCategory>(json!(name)).unwrap(), category);
        }
    }

    #[test]
    fn four_categories_are_likely_to_pass() {
        let transient: Vec<_> =
            ErrorCategory::ALL.into_iter().filter(|category| category.is_transient()).collect();
        assert_eq!(
            transient,
            [
                ErrorCategory::Timeout,
                ErrorCategory::Connection,
                ErrorCategory::Overloaded,
                ErrorCategory::RateLimit
            ]
        );
    }

    #[test]
    fn an_error_says_what_it_was_told() {
        let plain = error("no");
        assert_eq!(
            (plain.id(), plain.phase(), plain.category(), plain.message()),
            (ErrorId::from_u128(7), Phase::Execute, ErrorCategory::Tool, "no")
        );
        assert_eq!(plain.step(), &StepId { attempt: 1, node: "code".to_owned(), visit: 2 });
        assert_eq!(
            (plain.tool_call(), plain.retry_after(), plain.is_idempotent(), plain.detail()),
            (None, None, false, &Detail::new())
        );
        let detail = Detail::from([("k".to_owned(), json!(1))]);
        let full = error("no")
            .with_tool_call(CallNumber(3))
            .with_retry_after(Duration::from_secs(7))
            .idempotent()
            .with_detail(detail.clone());
        assert_eq!(
            (full.tool_call(), full.retry_after(), full.is_idempotent(), full.detail()),
            (Some(CallNumber(3)), Some(Duration::from_secs(7)), true, &detail)
        );
    }

    #[test]
    fn a_long_message_is_cut_between_characters_and_marked() {
        let longest = "a".repeat(2048);
        assert_eq!(error(&longest).message(), longest);
        assert_eq!(error(&format!("{longest}b")).message(), format!("{}…", "a".repeat(2045)));
        assert_eq!(error(&"é".repeat(1025)).message(), format!("{}…", "é".repeat(1022)));
    }

    #[test]
    fn details_beyond_16_kib_are_left_out_and_counted() {
        let large = json!("x".repeat(DETAIL_BYTES));
        let detail = Detail::from([("a".to_owned(), large), ("b".to_owned(), json!(1))]);
        let kept = Detail::from([("b".to_owned(), json!(1)), ("…".to_owned(), json!(1))]);
        assert_eq!(error("no").with_detail(detail).detail(), &kept);
    }

    const DETAIL_BYTES: usize = 16 * 1024;

    #[test]
    fn steps_are_ordered_by_attempt_then_node_then_visit() {
        let step = |attempt, node: &str, visit| StepId { attempt, node: node.to_owned(), visit };
        assert!(step(1, "b", 2) < step(2, "a", 1));
        assert!(step(1, "a", 2) < step(1, "b", 1));
        assert!(step(1, "a", 1) < step(1, "a", 2));
        assert_eq!(
            serde_json::to_value(step(1, "a", 2)).unwrap(),
            json!({"attempt": 1, "node": "a", "visit": 2})
        );
    }
}
