//! The errors of an agent.
//!
//! # Invariants
//! Every message names the agent and what was being done.

use domain::{ErrorCategory, ErrorClass};
use sync::CancelReason;

/// The error of an agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcpError {
    /// It did not answer in time.
    #[error("the agent {agent} did not answer within {seconds} s in {doing}{also}")]
    TookTooLong {
        /// The agent.
        agent: String,
        /// The step under way: `initialize`, `session/new`, `session/prompt`.
        doing: &'static str,
        /// The limit.
        seconds: u64,
        /// Further facts, as the end of a sentence.
        also: String,
    },
    /// It is gone, or the connection to it.
    #[error("the agent {agent} disconnected in {doing}{also}")]
    Gone {
        /// The agent.
        agent: String,
        /// The operation that was under way.
        doing: &'static str,
        /// The known facts, as the end of a sentence.
        also: String,
    },
    /// It said what the protocol does not know.
    #[error("the agent {agent} broke the protocol in {doing}: {what}")]
    NotTheProtocol {
        /// The agent.
        agent: String,
        /// The operation that was under way.
        doing: &'static str,
        /// The unexpected text.
        what: String,
    },
    /// It answered that it cannot.
    #[error("the agent {agent} failed in {doing}: {message}")]
    Refused {
        /// The agent.
        agent: String,
        /// The operation that was under way.
        doing: &'static str,
        /// Its message.
        message: String,
    },
    /// It wants a person to log in.
    #[error("the agent {agent} requires a login{ways}: start it once by hand, or provide its key")]
    NeedsLogin {
        /// The agent.
        agent: String,
        /// The ways to log in, as the end of a clause.
        ways: String,
    },
    /// Called off. Not a failure.
    #[error("the agent {agent} was cancelled: {reason}")]
    Cancelled {
        /// The agent.
        agent: String,
        /// The reason.
        reason: CancelReason,
    },
}

impl AcpError {
    /// The category of the failure; for a cancel it means nothing.
    pub const fn category(&self) -> ErrorCategory {
        match self {
            Self::TookTooLong { .. } => ErrorCategory::Timeout,
            Self::Gone { .. } => ErrorCategory::Connection,
            Self::NotTheProtocol { .. } | Self::Refused { .. } => ErrorCategory::Tool,
            Self::NeedsLogin { .. } => ErrorCategory::Auth,
            Self::Cancelled { .. } => ErrorCategory::Internal,
        }
    }

    /// The class of the failure.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Cancelled { .. } => ErrorClass::Cancelled,
            Self::TookTooLong { .. } | Self::Gone { .. } => ErrorClass::Transient,
            Self::NotTheProtocol { .. } | Self::Refused { .. } | Self::NeedsLogin { .. } => {
                ErrorClass::Permanent
            }
        }
    }
}
