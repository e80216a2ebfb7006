//! The agent programs that are known: how each is found, and how it is run without a person.
//!
//! # Invariants
//! 1. A row says what was seen to work, with the version that it was seen with, or that it was not tried.
//! 2. Their own questions and sandboxes are switched off: ours encloses them.
//! 3. Looking for a program runs nothing; only [`version`] does, and it ends.
//!
//! # Not here
//! The actors that run them: the engine's built-in definitions.

mod discovery;
mod table;

pub use discovery::{InstalledAgent, find, speaks, version};
pub use table::{AGENTS, Acp, Agent, PromptBy, TestedWays, login_of, named};
