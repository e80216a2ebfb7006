//! The built-in tools, which read and change the trees of a plan.
//!
//! # Invariants
//! 1. Paths are opened beneath their root; the kernel refuses a path that leads out, in the step that opens
//!    it.
//! 2. A text for a model is shown without its secrets, and a text that the model writes has them again.
//! 3. The content that the model has read is compared with the replaced content when no other call can change
//!    that any more.
//!
//! # Not here
//! Admission and record of a call: `run::call::tool`. Arguments and results of the tools: `actors::tool`.

mod edit;
pub(crate) mod read;
mod redact_args;
pub(crate) mod write;

use actors::tool::ToolPath;
use domain::Hash;
use sandbox::WriteFileError;
use sandbox::fs::beneath::BeneathError;
use serde_json::Value;

pub use actors::tool::{Catalog, GROUPS, PLAN_DECIDE, ToolError, ToolSpec, group};
pub use read::{ReadTools, read, read_small};
pub use redact_args::{recorded_arguments, recorded_result};
pub use write::{WriteTools, write};

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// Its result.
    pub result: Value,
    /// The known present contents of files; `None`: the file is gone.
    pub seen: Vec<(ToolPath, Option<Hash>)>,
}

/// Returns the error for a path that could not be opened.
fn not_opened(tool: &str, place: &ToolPath, error: BeneathError) -> ToolError {
    match error {
        BeneathError::Escapes { .. } => ToolError::PathEscapes { path: place.shown.clone() },
        BeneathError::Io { source, .. } => not_done(tool, place, &source),
    }
}

/// Returns the error for a file that could not be read or changed.
fn not_done(tool: &str, place: &ToolPath, error: &std::io::Error) -> ToolError {
    use std::io::ErrorKind;
    let path = place.shown.clone();
    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
        return ToolError::NotFound { path };
    }
    if error.kind() == ErrorKind::IsADirectory {
        let what = "is a directory; list_directory shows what is in it".to_owned();
        return ToolError::InTheWay { path, what };
    }
    ToolError::Failed { tool: tool.to_owned(), message: format!("{path}: {error}") }
}

/// Returns the error for a file that could not be written, removed or moved.
fn not_changed(tool: &str, place: &ToolPath, error: WriteFileError) -> ToolError {
    let path = place.shown.clone();
    match error {
        WriteFileError::Protected { path } => ToolError::ProtectedPath { path: place.beside(&path) },
        WriteFileError::Escapes { .. } => ToolError::PathEscapes { path },
        WriteFileError::NotEmpty { .. } => {
            let what = "is a directory that is not empty; set `recursive` to remove all that is in it";
            ToolError::InTheWay { path, what: what.to_owned() }
        }
        WriteFileError::Exists { path } => {
            let what = "exists; choose another path, or for a file set `overwrite`";
            ToolError::InTheWay { path: place.beside(&path), what: what.to_owned() }
        }
        WriteFileError::Io { source, .. } => not_done(tool, place, &source),
        WriteFileError::Parents(sandbox::RestoreError::Sandbox { source }) => not_opened(tool, place, source),
        other @ (WriteFileError::NoSuchRoot(_) | WriteFileError::Base(_) | WriteFileError::Parents(_)) => {
            ToolError::Failed { tool: tool.to_owned(), message: other.to_string() }
        }
    }
}
