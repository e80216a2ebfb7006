//! The errors of a server.
//!
//! # Invariants
//! Every message names the server and what was being done.

use domain::{ErrorCategory, ErrorClass};
use sync::CancelReason;

/// The reason why a server cannot be used, or a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// It could not be started.
    #[error("the MCP server {server} could not be started: {why}")]
    NotStarted {
        /// The server.
        server: String,
        /// The reason.
        why: String,
    },
    /// It did not answer in time.
    #[error("the MCP server {server} did not answer within {seconds} s in {doing}{also}")]
    TookTooLong {
        /// The server.
        server: String,
        /// The step under way: `tools/list`, `a call of NAME`.
        doing: String,
        /// The limit.
        seconds: u64,
        /// Further facts, as the end of a sentence.
        also: String,
    },
    /// It is gone, or the connection to it.
    #[error("the MCP server {server} disconnected in {doing}{also}")]
    Gone {
        /// The server.
        server: String,
        /// The operation that was under way.
        doing: String,
        /// The known facts, as the end of a sentence.
        also: String,
    },
    /// It answered what is no answer.
    #[error("the MCP server {server} broke the protocol in {doing}: {what}")]
    NotTheProtocol {
        /// The server.
        server: String,
        /// The operation that was under way.
        doing: String,
        /// The unexpected text.
        what: String,
    },
    /// It answered that it cannot.
    #[error("the MCP server {server} failed in {doing}: {message}")]
    Refused {
        /// The server.
        server: String,
        /// The operation that was under way.
        doing: String,
        /// Its message.
        message: String,
    },
    /// Called off. Not a failure.
    #[error("the start of the MCP server {server} was cancelled: {reason}")]
    Cancelled {
        /// The server.
        server: String,
        /// The reason.
        reason: CancelReason,
    },
}

impl McpError {
    /// The category of the failure; for a cancel it means nothing.
    pub const fn category(&self) -> ErrorCategory {
        match self {
            Self::NotStarted { .. } => ErrorCategory::InvalidInput,
            Self::TookTooLong { .. } => ErrorCategory::Timeout,
            Self::Gone { .. } => ErrorCategory::Connection,
            Self::NotTheProtocol { .. } | Self::Refused { .. } => ErrorCategory::Tool,
            Self::Cancelled { .. } => ErrorCategory::Internal,
        }
    }

    /// The class of the failure.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Cancelled { .. } => ErrorClass::Cancelled,
            Self::TookTooLong { .. } | Self::Gone { .. } => ErrorClass::Transient,
            Self::NotStarted { .. } | Self::NotTheProtocol { .. } | Self::Refused { .. } => {
                ErrorClass::Permanent
            }
        }
    }
}
