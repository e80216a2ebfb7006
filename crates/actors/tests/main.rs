//! The promises of the actors crate, by what they are about.
//!
//! | module | promises |
//! |---|---|
//! | `openai` | what is sent to chat completions, and every way in which servers answer |
//! | `anthropic` | the same for Anthropic's messages |
//! | `faults` | what each failure of a server is called, and whether it may have cost something |
//! | `local_model` | a real model on this machine, asked through its provider |
//! | `pieces` | an answer is the same however its bytes are cut |
//! | `guard` | the breaker before a provider |
//! | `replay` | recording, repeating, and what drift is called |
//! | `acp` | what agent programs may ask, and every way in which they fail |
//! | `acp_real` | agents from npm, with a scripted model |
//! | `agents` | how agent programs are found, and that those from npm work as the table says |
//! | `mcp` | what MCP servers offer, and every way in which they fail |
//! | `mcp_serve` | our own MCP server, and what callers may write to it |
//! | `mcp_real` | the reference file-system server, from npm |
//! | `providers` | who serves a model, and what is said when something is missing |
//!
//! Servers are real ones on loopback that send the bytes which the test gives them. Nothing sleeps: a test
//! waits for what it tests, and a watchdog ends one whose event never comes.
//!
//! Further modules: `peers`, `scripted`, `support`.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and has no readers but its own"
)]

#[path = "cases/acp.rs"]
mod acp;
#[path = "cases/acp_real.rs"]
mod acp_real;
#[path = "cases/agents.rs"]
mod agents;
#[path = "cases/anthropic.rs"]
mod anthropic;
#[path = "cases/faults.rs"]
mod faults;
#[path = "cases/guard.rs"]
mod guard;
#[path = "cases/local_model.rs"]
mod local_model;
#[path = "cases/mcp.rs"]
mod mcp;
#[path = "cases/mcp_real.rs"]
mod mcp_real;
#[path = "cases/mcp_serve.rs"]
mod mcp_serve;
#[path = "cases/openai.rs"]
mod openai;
#[path = "cases/pieces.rs"]
mod pieces;
#[path = "cases/providers.rs"]
mod providers;
#[path = "cases/replay.rs"]
mod replay;
#[path = "cases/support.rs"]
mod support;
