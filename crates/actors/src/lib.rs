//! The actors of a plan: models behind providers, the tools they call, agent programs.
//!
//! # Invariants
//! 1. This is the only crate that speaks HTTP, MCP or ACP.
//! 2. Nothing here is tried twice: the one retry loop is the engine's.
//! 3. A key is never shown, stored or logged.
//!
//! # Not here
//! Sandboxes, stores and context: the part of them that an actor needs is a small trait here, and the engine
//! implements it.

#![forbid(unsafe_code)]

pub mod acp;
pub mod agents;
pub mod mcp;
pub mod model;
pub mod program;
pub mod tool;
