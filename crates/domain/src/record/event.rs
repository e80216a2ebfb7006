//! Events of a plan, in order, as they are stored and followed.
//!
//! # Invariants
//! 1. A plan's records are numbered from 1 without gaps, and each is written in the step that it describes.
//! 2. A record has at most [`EVENT_BYTES_MAX`] bytes of data, redacted.

use serde_json::Value;

use crate::time::WallMs;

/// Limits how large the data of a record may be.
pub const EVENT_BYTES_MAX: usize = 8 * 1024;

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// The kind of an event record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $name,)*
        }

        impl EventKind {
            /// All of them.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$name,)*];

            /// Its name, as stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(EventKind::$name => $word,)*
                }
            }

            /// The kind with this name.
            pub fn parse(word: &str) -> Option<EventKind> {
                EventKind::ALL.iter().copied().find(|kind| kind.as_str() == word)
            }
        }
    };
}

event_kinds! {
    /// The plan was made: `{title}`.
    PlanCreated = "plan.created",
    /// It moved: `{from, to, event, by}`.
    PlanMoved = "plan.moved",
    /// Its apply was undone, or done again: `{undone, apply}`.
    PlanUndone = "plan.undone",
    /// A decision was recorded: `{seq, kind, question}`.
    DecisionRecorded = "decision.recorded",
    /// Decisions gave way to a later one: `{by, seqs}`.
    DecisionSuperseded = "decision.superseded",
    /// The first call of a node was admitted, or its model is about to be asked: `{path}`. A node that only
    /// reads has no start event, only its end.
    NodeStarted = "node.started",
    /// A node waits for something that passes by itself: `{path, why, ms}`; `ms` is null if the length of the
    /// wait is unknown.
    NodeWaiting = "node.waiting",
    /// A node was settled: `{path, phase, outcome, tries}`.
    NodeFinished = "node.finished",
    /// A tool call was admitted: `{call, node, tool}`.
    ToolStarted = "tool.started",
    /// A tool call ended: `{call, node, tool, state, ms, entries}`.
    ToolFinished = "tool.finished",
    /// A node was given a context: `{context, node, tokens, files}`.
    ContextAssembled = "context.assembled",
    /// A changeset takes no more entries: `{id, entries, how}`.
    ChangesetClosed = "changeset.closed",
    /// Something failed: `{seq, category, action, attempt, after_ms, message}`.
    ErrorRecorded = "error.recorded",
    /// A job moved: `{job, phase, to, worker, fence, why}`.
    JobMoved = "job.moved",
    /// A stop of the plan was requested: `{reason}`.
    CancelRequested = "cancel.requested",
    /// A sandbox was opened or closed: `{attempt, rung, dir}` or `{attempt, closed}`.
    Sandbox = "sandbox",
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// Its place in the plan, from 1.
    pub n: u64,
    /// The time of the event.
    pub at: WallMs,
    /// The kind of the event.
    pub kind: EventKind,
    /// The particulars.
    pub data: Value,
}
