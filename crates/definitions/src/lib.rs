//! Definitions: actions and actors as people write them, in YAML, and the frozen form that a plan stores.
//!
//! # The lifecycle of a definition
//! `search_path` finds a file by its name, reads it once and hashes it. `yaml` makes a tree of it in which
//! everything has its source position. `reader`, `action`, `actor` and `node` make an [`Action`] or an
//! [`Actor`] of the tree. `check` looks at templates and conditions, `flatten` puts nested actors into one
//! list of steps, and `freeze` joins all that with the arguments into a [`FrozenDefinition`], which a plan
//! stores.
//!
//! # Invariants
//! 1. Everything that is not understood is a [`Diagnostic`] with its position; nothing is guessed or left
//!    out. All diagnostics of a definition are reported at once.
//! 2. A definition that has no diagnostic can be frozen with any arguments that fit.
//! 3. A file is read once: what was checked is what is frozen and hashed.
//! 4. No value of an argument ever becomes a part of a shell's text or an option of a program.
//!
//! # Not here
//! Running any of it (`engine`), and reading settings: the caller passes them in.

#![forbid(unsafe_code)]

mod action;
mod actor;
mod builtin;
mod check;
mod error;
mod flatten;
mod freeze;
mod inherit;
mod keys;
mod listing;
mod node;
mod node_references;
mod reader;
mod repair_step;
mod schema;
mod search_path;
mod server_tool;
mod show;
mod spans;
mod unknown_keys;
mod yaml;

pub use action::{Action, ActorRef, Check, StrategistRef};
pub use actor::{Actor, RepairNode};
pub use error::{DefinitionError, Diagnostic, DiagnosticKind, SourcePosition};
pub use freeze::{
    ChosenActor, FreezeOptions, FrozenDefinition, RequestedLimits, StrategistDefault, freeze_action,
    freeze_actor, preview_action, preview_actor,
};
pub use listing::DefinitionListing;
pub use node::{NodeDef, NodeKindDef, RunSpec};
pub use schema::{action_schema, actor_schema};
pub use search_path::{
    ConfiguredNames, DEFINITION_BYTES_MAX, DefinitionOrigin, Kind, Library, LoadedDefinition, is_name,
    is_reference,
};
pub use server_tool::ServerTool;
pub use show::{action_value, actor_value};
pub use spans::NodeSpans;

use actors::tool::PLAN_DECIDE;

/// The tools that a node or a model can name, and the groups of them.
pub const TOOL_NAMES: [&str; 9] = [
    "read_file",
    "list_directory",
    "search_files",
    "write_file",
    "edit_file",
    "delete_file",
    "move_file",
    "run_command",
    PLAN_DECIDE,
];
/// The groups of tools that a model can be given.
pub const TOOL_GROUPS: [&str; 3] = ["read", "write", "shell"];
