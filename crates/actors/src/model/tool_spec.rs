//! A tool as it is offered: to a model, and to the gate that runs it.
//!
//! # Invariants
//! 1. `input` and `output` are JSON schemas of objects.
//! 2. A provider gets the name, the description and `input`; the rest is for the gate.
//!
//! # Not here
//! The tools themselves, and what runs them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The description of a tool, and its permissions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name; that of a server's tool is `SERVER.tool`.
    pub name: String,
    /// Its description, for the model.
    pub description: String,
    /// The schema of its arguments.
    pub input: Value,
    /// The schema of its result.
    pub output: Value,
    /// It reads the project.
    pub reads: bool,
    /// It can change the project: refused while strategizing, and alone in the sandbox while it runs.
    pub writes: bool,
    /// It reaches beyond this machine.
    pub network: bool,
    /// The time limit of a call.
    pub timeout_s: u32,
    /// Its source.
    pub source: ToolSource,
}

/// The origin of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSource {
    /// The program.
    Builtin,
    /// An action's file.
    Action,
    /// A server that speaks MCP.
    Mcp,
}
