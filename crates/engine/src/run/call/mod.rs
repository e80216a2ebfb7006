//! Every command, tool call, model call and server start goes through the same four steps: admit, run,
//! capture, record. Each file here does so for one kind of call.

pub(crate) mod capture;
pub(crate) mod command;
mod ended;
pub(crate) mod home;
pub(crate) mod mcp_server;
pub(crate) mod piped;
pub(crate) mod result;
pub(crate) mod sandbox_call;
pub(crate) mod tool;
pub(crate) mod write_guard;
