//! The host of tools; the engine implements it over the sandbox of a plan.
//!
//! # Invariants
//! 1. `perform` admits, runs, captures and stores: when it has returned, the call and all that it changed are
//!    stored.
//! 2. The knowledge of the node ([`FileKnowledge`]) is compared in the same step that writes: no other write
//!    comes between.
//! 3. Results come redacted and bounded.

use std::sync::Arc;

use async_trait::async_trait;
use domain::Hash;
use serde_json::Value;

use crate::model::ToolSpec;

use super::catalog::{ForeignTool, Tool};
use super::context_tools::{ContextQuestion, HistoryQuestion};
use super::error::ToolError;
use super::read_tracker::FileKnowledge;
use super::resolve_path::{ToolPath, ToolProject};

/// The data that a call is recorded by.
#[derive(Clone, Debug)]
pub struct CallInfo {
    /// The tool; `None` if there is no such tool.
    pub tool: Option<Arc<Tool>>,
    /// Its name, as it was called.
    pub name: String,
    /// The arguments as they were asked for.
    pub requested: Value,
    /// The arguments as they are used: with defaults, paths made plain.
    pub effective: Value,
}

/// A command as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandText {
    /// For `sh -c`.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

/// A path that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FocusPlace {
    /// The path.
    pub place: ToolPath,
    /// First and last line; `None`: all of the file.
    pub lines: Option<(u32, u32)>,
}

/// The work that a tool is to do.
#[derive(Clone)]
pub enum ToolRequest {
    /// Reads lines of a file.
    Read {
        /// The file.
        place: ToolPath,
        /// The first line, from 1.
        offset: u64,
        /// The number of lines.
        limit: u64,
    },
    /// Lists a directory.
    List {
        /// The directory.
        place: ToolPath,
        /// The number of levels.
        depth: u32,
        /// Also what git ignores.
        ignored: bool,
    },
    /// Searches files.
    Search {
        /// The path to search in.
        place: ToolPath,
        /// The pattern, a regular expression.
        pattern: String,
        /// In which files.
        glob: Option<String>,
        /// The number of lines around a match.
        context: u32,
        /// The number of matches.
        max: u32,
    },
    /// Writes a whole file.
    Write {
        /// The file.
        place: ToolPath,
        /// The new content.
        content: String,
        /// The node's knowledge of the file.
        known: FileKnowledge,
    },
    /// Replaces a piece of a file.
    Edit {
        /// The file.
        place: ToolPath,
        /// The piece.
        old: String,
        /// The replacement.
        new: String,
        /// Every occurrence, not the only one.
        replace_all: bool,
        /// The node's knowledge of the file.
        known: FileKnowledge,
    },
    /// Removes a file or a directory.
    Delete {
        /// The file or directory.
        place: ToolPath,
        /// A directory with all that is in it.
        recursive: bool,
    },
    /// Moves a file or a directory.
    Move {
        /// The file or directory.
        from: ToolPath,
        /// The target path.
        to: ToolPath,
        /// In place of what is there.
        overwrite: bool,
    },
    /// Runs a command.
    Run {
        /// The command.
        command: CommandText,
        /// The working directory.
        cwd: ToolPath,
        /// Its time limit.
        timeout_s: u32,
        /// Variables that it sees.
        env: Vec<(String, String)>,
        /// The standard input.
        stdin: Option<String>,
    },
    /// Records a choice.
    Decide {
        /// The arguments of the node about the choice.
        said: Value,
    },
    /// Assembles a context.
    Context {
        /// The question.
        question: ContextQuestion,
        /// The place of each thing in focus; `None`: it is the name of a definition.
        places: Vec<Option<FocusPlace>>,
    },
    /// Looks through the past.
    History(HistoryQuestion),
    /// Reports the rest of the context budget.
    ContextBudget,
    /// Calls a tool that is none of ours.
    Foreign {
        /// The tool.
        tool: Arc<dyn ForeignTool>,
        /// Its arguments.
        arguments: Value,
    },
}

/// The outcome of a tool request.
#[derive(Clone, Debug)]
pub struct ToolOutcome {
    /// The result, which fits the tool's schema.
    pub outcome: Result<Value, ToolError>,
    /// The number of files that changed.
    pub changed: u32,
    /// The known present states of files; `None`: the file is gone.
    pub seen: Vec<(ToolPath, Option<Hash>)>,
}

/// Runs the tools.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// The reason that ends the run of the node itself: a cancel, a limit, a store that fails.
    type Stopped: Send;

    /// The projects.
    fn projects(&self) -> &[ToolProject];

    /// Returns the reason why the tool may not be used now; `None` if it may.
    fn forbids(&self, tool: &ToolSpec) -> Option<String>;

    /// Stores a call that was refused before it began.
    async fn refused(&self, call: CallInfo, why: &ToolError) -> Result<(), Self::Stopped>;

    /// Does the work of a call.
    async fn perform(&self, call: CallInfo, work: ToolRequest) -> Result<ToolOutcome, Self::Stopped>;
}
