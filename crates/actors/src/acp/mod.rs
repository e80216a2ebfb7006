//! Agent programs that speak the Agent Client Protocol on their standard streams.
//!
//! ```text
//!  Pipes ─► initialize ─► session/new ─► session/prompt ─► AcpAnswer
//!                                          │ updates ─► AcpHost::on_update
//!                                          │ files, permissions ─► AcpHost (the engine: the tool gate, the policy)
//! ```
//!
//! # Invariants
//! 1. Every wait has a limit or a scope that ends it. A cancel is sent to the agent, which has a moment to
//!    stop; then its processes end. They also end whichever way [`run`] returns.
//! 2. The user is never asked. A policy answers requests for permission, and every other question of an agent
//!    is refused at once, so that it does not wait.
//! 3. One message is dealt with after the other, and the next is not read before: an agent that floods us
//!    waits.
//! 4. A line has a bound, the text that is stored has a bound.
//!
//! # Not here
//! Terminals: they are not offered. Models' usage and prices: the protocol does not report them reliably.

mod error;
mod host;
mod last_message;
mod run;
mod session;
mod wire;

pub use error::AcpError;
pub use host::{AcpHost, AcpUpdate, Permission};
pub use run::{AcpAnswer, AcpStop, AcpTask, EarlierSession, run};
