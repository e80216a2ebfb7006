//! The host of tools; the engine implements it over the sandbox of a plan.
//!
//! # Invariants
//! 1. `perform` admits, runs, captures and stores: when it has returned, the call and all that it changed are
//!    kept.
//! 2. What the node has seen ([`FileKnowledge`]) is compared in the same step that writes: nobody gets
//!    between.
//! 3. Results come redacted and bounded.

use std::sync::Arc;

use async_trait::async_trait;
use domain::Hash;
use serde_json::Value;

use crate::model::ToolSpec;

use super::catalog::{ForeignTool, Tool};
use super::context::{ContextQuestion, HistoryQuestion};
use super::error::ToolError;
use super::read_tracker::FileKnowledge;
use super::resolve_path::{ToolPath, ToolProject};

/// The data that a call is recorded by.
#[derive(Clone, Debug)]
pub struct CallInfo {
    /// The tool; none when there is no such tool.
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
    /// Where.
    pub place: ToolPath,
    /// First and last line; none: all of the file.
    pub lines: Option<(u32, u32)>,
}

/// The work that a tool is to do.
#[derive(Clone)]
pub enum ToolRequest {
    /// Reads lines of a file.
    Read {
        /// Which.
        place: ToolPath,
        /// The first line, from 1.
        offset: u64,
        /// The number of lines.
        limit: u64,
    },
    /// Lists a directory.
    List {
        /// Which.
        place: ToolPath,
        /// The number of levels.
        depth: u32,
        /// Also what git ignores.
        ignored: bool,
    },
    /// Searches files.
    Search {
        /// Where.
        place: ToolPath,
        /// What for, a regular expression.
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
        /// Which.
        place: ToolPath,
        /// What is in it then.
        content: String,
        /// What the node has seen of it.
        known: FileKnowledge,
    },
    /// Replaces a piece of a file.
    Edit {
        /// Which.
        place: ToolPath,
        /// The piece.
        old: String,
        /// What takes its place.
        new: String,
        /// Every occurrence, not the only one.
        replace_all: bool,
        /// What the node has seen of it.
        known: FileKnowledge,
    },
    /// Removes a file or a directory.
    Delete {
        /// Which.
        place: ToolPath,
        /// A directory with all that is in it.
        recursive: bool,
    },
    /// Moves a file or a directory.
    Move {
        /// Which.
        from: ToolPath,
        /// Where to.
        to: ToolPath,
        /// In place of what is there.
        overwrite: bool,
    },
    /// Runs a command.
    Run {
        /// Which.
        command: CommandText,
        /// Where.
        cwd: ToolPath,
        /// Its time limit.
        timeout_s: u32,
        /// Variables that it sees.
        env: Vec<(String, String)>,
        /// What it reads.
        stdin: Option<String>,
    },
    /// Records a choice.
    Decide {
        /// What the node says of it.
        said: Value,
    },
    /// Assembles a context.
    Context {
        /// What is asked.
        question: ContextQuestion,
        /// The place of each thing in focus; none: it is the name of a definition.
        places: Vec<Option<FocusPlace>>,
    },
    /// Looks through the past.
    History(HistoryQuestion),
    /// Tells what is left of the context budget.
    ContextBudget,
    /// Calls a tool that is none of ours.
    Foreign {
        /// Who does it.
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
    /// What files are known to be now; none: gone.
    pub seen: Vec<(ToolPath, Option<Hash>)>,
}

/// Runs the tools.
#[async_trait]
pub trait ToolHost: Send + Sync {
    /// What ends the run of the node itself: a cancel, a limit, a store that fails.
    type Stopped: Send;

    /// The projects.
    fn projects(&self) -> &[ToolProject];

    /// Returns the reason why the tool may not be used now; none when it may.
    fn forbids(&self, tool: &ToolSpec) -> Option<String>;

    /// Keeps a call that was not let begin.
    async fn refused(&self, call: CallInfo, why: &ToolError) -> Result<(), Self::Stopped>;

    /// Does the work of a call.
    async fn perform(&self, call: CallInfo, work: ToolRequest) -> Result<ToolOutcome, Self::Stopped>;
}
