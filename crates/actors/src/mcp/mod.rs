//! The Model Context Protocol, both ways. The tools of a server become tools of an actor, behind the same
//! gate, and [`serve`] offers ours to other agents.
//!
//! ```text
//!  McpSettings ─► ProgramStarter (the engine: in the sandbox) ─► McpClient: handshake, list ─► (ToolSpec, ForeignTool)… ─► Catalog::add
//! ```
//!
//! # Invariants
//! 1. A server is never waited for without a limit: not to start, not to list, not to answer.
//! 2. The statements of a server about itself are not trusted. A tool with an unusable schema is left out and
//!    reported; the others stay. Only the settings say that a tool is read-only, not the hints of the server.
//! 3. A line has a bound, a list has a bound, an answer has a bound.
//! 4. A server's processes end with [`McpClient`]; its tools then answer that it has ended.
//!
//! # Not here
//! Resources, prompts, sampling and questions to the user: none of them is offered to servers. The right to
//! start a server: the engine.

mod client;
mod error;
mod serve;
mod settings;
mod tool;
mod tool_list;
mod wire;

pub use client::McpClient;
pub use error::McpError;
pub use serve::{ANSWER_BYTES_MAX, CALLS_MAX, McpServeError, ServedResult, ServedTool, ToolService, serve};
pub use settings::McpSettings;
pub use tool_list::{PAGES_MAX, SCHEMA_BYTES_MAX, TOOLS_MAX};
