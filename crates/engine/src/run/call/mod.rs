//! The calls of a plan: commands, tools, servers and agent programs.
//!
//! Each kind of call has a file, and each goes through the same four steps:
//!
//! 1. `admit`: the call waits for its turn in the sandbox. It is counted in the plan's accounts, stored as
//!    running under its number, and marked in the sandbox. From then on it is one value, `sandbox_call`.
//! 2. Run: a `process` in the sandbox, which may be spoken to (`piped`); or the work of a tool.
//! 3. `capture`: when nothing of it can write any more, what changed is captured: after a failure and a
//!    time-out too. Writes of a call that may only look are rolled back (`write_guard`).
//! 4. `record`: its end (`result`), its changes and their contents are stored as one step. If they cannot be,
//!    the sandbox is retained.
//!
//! | kind of call | file |
//! |---|---|
//! | a command | `command` |
//! | a tool | `tool` |
//! | the start of an MCP server; its tools are called through `tool` | `mcp_server` |
//! | an agent program | `agent_program` |
//!
//! A run that is interrupted stops between 2 and 3; `shutdown` does the rest, for the mark that the call
//! leaves.

pub(crate) mod admit;
pub(crate) mod agent_program;
pub(crate) mod capture;
pub(crate) mod command;
pub(crate) mod home;
pub(crate) mod mcp_server;
pub(crate) mod piped;
pub(crate) mod process;
pub(crate) mod record;
pub(crate) mod result;
pub(crate) mod sandbox_call;
pub(crate) mod tool;
pub(crate) mod write_guard;
