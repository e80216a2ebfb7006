//! Turns errors of a context request into command errors.
//!
//! # Invariants
//! Every match names all variants.

use engine::context::{ContextError, PipelineError, RulesError};

use super::{CommandError, codes, hints};
use crate::config::ConfigError;

/// There is no context.
pub fn context(error: ContextError) -> CommandError {
    match error {
        ContextError::Pipeline(error) => pipeline(&error),
        ContextError::Rules(error) => rules(error),
        ContextError::Config(error) => CommandError::new(&codes::CONFIG_VALUE_INVALID, error.to_string()),
        error @ ContextError::NoRedactor => {
            CommandError::new(&codes::IO_FAILED, error.to_string()).hint(hints::REDACTION_KEY)
        }
        error @ ContextError::Root { .. } => CommandError::new(&codes::PROJECT_NOT_FOUND, error.to_string()),
        error @ ContextError::Panicked(_) => CommandError::new(&codes::INTERNAL, error.to_string()),
    }
}

fn pipeline(error: &PipelineError) -> CommandError {
    let message = error.to_string();
    match error {
        PipelineError::Cancelled(_) => {
            CommandError::new(&codes::CANCELLED, "the search for a context was stopped; nothing was changed")
        }
        PipelineError::StrategyUnknown { .. } => CommandError::new(&codes::STRATEGY_UNKNOWN, message),
        PipelineError::FocusNotFound { .. } | PipelineError::FocusBeyond { .. } => {
            CommandError::new(&codes::FOCUS_NOT_FOUND, message)
        }
        PipelineError::FocusAmbiguous { .. } => CommandError::new(&codes::FOCUS_AMBIGUOUS, message),
        PipelineError::FocusExcluded { .. } => CommandError::new(&codes::FOCUS_EXCLUDED, message),
        PipelineError::FocusTooMany { .. } => CommandError::new(&codes::USAGE, message),
        PipelineError::ProjectUnknown(_) | PipelineError::NoProject => {
            CommandError::new(&codes::PROJECT_NOT_FOUND, message)
        }
        PipelineError::Glob(_) => CommandError::new(&codes::CONFIG_VALUE_INVALID, message),
        PipelineError::Projects(_) => CommandError::new(&codes::IO_FAILED, message),
    }
}

/// Settings that cannot be used are reported in the same way everywhere.
fn rules(error: RulesError) -> CommandError {
    match error.source.downcast::<ConfigError>() {
        Ok(error) => CommandError::from(*error),
        Err(other) => CommandError::new(&codes::CONFIG_FILE_INVALID, other.to_string()),
    }
}
