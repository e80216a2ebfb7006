//! The errors of a model call.
//!
//! # Invariants
//! 1. `was_sent` is false only where no token can have been spent: the request did not leave, or was turned
//!    away.
//! 2. A message never holds a key.
//! 3. The cause distinguishes a cancel from a failure; its category says nothing.

use std::time::Duration;

use domain::{ErrorCategory, ErrorClass};
use serde::{Deserialize, Serialize};
use sync::CancelReason;

use super::Drift;

/// The error of a model call.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of the failure.
    pub category: ErrorCategory,
    /// The message, for a person.
    pub message: String,
    /// The time that the other side asked us to wait.
    pub retry_after: Option<Duration>,
    /// True if tokens may have been spent.
    pub was_sent: bool,
    /// The request is longer than the model accepts; `None` if that is not the failure.
    pub overflow: Option<ContextOverflow>,
    /// Its cause.
    #[source]
    pub cause: Cause,
}

/// A request that is longer than the model accepts, by the words of its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextOverflow {
    /// The most tokens that the model accepts; `None` if the server does not say.
    pub window_tokens: Option<u64>,
    /// The tokens of the request as the server counts them; `None` if it does not say.
    pub sent_tokens: Option<u64>,
}

/// The cause of a [`ModelError`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Cause {
    /// The provider, or the way to it.
    #[error("the provider failed")]
    Provider,
    /// Nothing listens at its address, which is on this machine: a wait does not help, it has to be started.
    #[error("the provider is not running")]
    NotRunning,
    /// The scope was cancelled. Not a failure.
    #[error("cancelled: {0}")]
    Cancelled(CancelReason),
    /// The request differs from the recorded one.
    #[error("{0}")]
    Drift(Drift),
}

impl ModelError {
    /// A failure of the provider after the request was on its way.
    pub fn sent(category: ErrorCategory, message: impl Into<String>) -> ModelError {
        ModelError {
            category,
            message: message.into(),
            retry_after: None,
            was_sent: true,
            overflow: None,
            cause: Cause::Provider,
        }
    }

    /// A failure that cannot have cost anything.
    pub fn unsent(category: ErrorCategory, message: impl Into<String>) -> ModelError {
        ModelError { was_sent: false, ..ModelError::sent(category, message) }
    }

    /// Called off.
    pub fn cancelled(reason: CancelReason, was_sent: bool) -> ModelError {
        ModelError {
            category: ErrorCategory::Internal,
            message: format!("the call was cancelled: {reason}"),
            retry_after: None,
            was_sent,
            overflow: None,
            cause: Cause::Cancelled(reason),
        }
    }

    /// The class of the error.
    pub fn class(&self) -> ErrorClass {
        match &self.cause {
            Cause::Cancelled(_) => ErrorClass::Cancelled,
            Cause::Provider | Cause::NotRunning | Cause::Drift(_) => {
                if self.category.is_transient() {
                    ErrorClass::Transient
                } else {
                    ErrorClass::Permanent
                }
            }
        }
    }
}
