//! The tools that a model calls: what they are, what they take, and the runner that every call goes through.
//!
//! ```text
//!  ToolUse ─► ToolRunner: resolve, input schema, policy, paths ─► ToolHost: permit, admit, run, capture, store ─► ToolAnswer
//! ```
//!
//! # Invariants
//! 1. A wrong call is an answer, never an end: the model gets the error and the allowed values.
//! 2. Every call reaches the [`ToolHost`], which stores it: also one that was refused.
//! 3. A node that makes the same call again and again, and gets the same answer, is stopped
//!    ([`REPEATS_MAX`]).
//!
//! # Not here
//! Sandboxes and stores: the engine implements [`ToolHost`] over both.

mod arguments;
mod builtin;
mod catalog;
mod context_tools;
mod error;
mod host;
mod read_tracker;
mod render;
mod repeat_detector;
mod resolve_path;
mod runner;
mod schema;
mod truncate;

pub use crate::model::{ToolResult, ToolSource, ToolSpec, ToolUse};
pub use builtin::{
    CONTENT_BYTES_MAX, DEPTH_MAX, ENTRIES_MAX, MATCHES_MAX, PLAN_DECIDE, READ_BYTES_MAX, READ_LINES,
    RUN_TIMEOUT_S, RUN_TIMEOUT_S_MAX, builtin_tools,
};
pub use catalog::{Catalog, ForeignTool, GROUPS, Tool, group};
pub use context_tools::{
    CONTEXT_TOKENS, CONTEXT_TOKENS_MAX, CONTEXT_TOKENS_MIN, ContextQuestion, DEPTHS, HISTORY_MATCHES,
    HISTORY_MATCHES_MAX, HISTORY_TEXT_CHARS_MAX, HistoryKind, HistoryQuestion,
};
pub use domain::text::head_and_tail;
pub use error::ToolError;
pub use host::{CallInfo, CommandText, FocusPlace, ToolHost, ToolOutcome, ToolRequest};
pub use read_tracker::FileKnowledge;
pub use render::result_text;
pub use repeat_detector::{REPEATS_MAX, REPEATS_TOLD};
pub use resolve_path::{ToolPath, ToolProject};
pub use runner::{Halt, ReadPolicy, ToolAnswer, ToolRunner};
pub use schema::{Schema, SchemaError};
pub use truncate::{
    HEAD_BYTES, RESULT_BYTES_MAX, RESULT_LINES_MAX, TAIL_BYTES, first_and_last_lines, first_lines,
};
