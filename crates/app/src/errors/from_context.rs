//! Why there is no context, as failures.
//!
//! # Invariants
//! Every match names all variants.

use engine::context::{ContextError, PipelineError, RulesError};

use super::{Failure, codes};
use crate::config::ConfigError;

/// There is no context.
pub fn context(error: ContextError) -> Failure {
    match error {
        ContextError::Pipeline(error) => pipeline(&error),
        ContextError::Rules(error) => rules(error),
        ContextError::Config(error) => Failure::new(&codes::CONFIG_VALUE_INVALID, error.to_string()),
        error @ ContextError::NoRedactor => Failure::new(&codes::IO_FAILED, error.to_string()).hint(
            "see who may write `redaction.key` in the data directory, or name another: `--data-dir DIR`",
        ),
        error @ ContextError::Root { .. } => Failure::new(&codes::PROJECT_NOT_FOUND, error.to_string())
            .hint("check the path: a project is named by its directory"),
        error @ ContextError::Panicked(_) => Failure::new(&codes::INTERNAL, error.to_string()),
    }
}

fn pipeline(error: &PipelineError) -> Failure {
    let told = error.to_string();
    match error {
        PipelineError::Cancelled(_) => {
            Failure::new(&codes::CANCELLED, "the search for a context was stopped; nothing was changed")
        }
        PipelineError::StrategyUnknown { .. } => Failure::new(&codes::STRATEGY_UNKNOWN, told),
        PipelineError::FocusNotFound { .. } | PipelineError::FocusBeyond { .. } => {
            Failure::new(&codes::FOCUS_NOT_FOUND, told)
        }
        PipelineError::FocusAmbiguous { .. } => Failure::new(&codes::FOCUS_AMBIGUOUS, told)
            .hint("name the file that you mean, or some of its lines"),
        PipelineError::FocusExcluded { .. } => Failure::new(&codes::FOCUS_EXCLUDED, told)
            .hint("see what leaves it out with `agents config get context.exclude --origin`"),
        PipelineError::FocusTooMany { .. } => Failure::new(&codes::USAGE, told),
        PipelineError::ProjectUnknown(_) | PipelineError::NoProject => {
            Failure::new(&codes::PROJECT_NOT_FOUND, told)
        }
        PipelineError::Glob(_) => Failure::new(&codes::CONFIG_VALUE_INVALID, told),
        PipelineError::Projects(_) => Failure::new(&codes::IO_FAILED, told),
    }
}

/// Settings that cannot be used are told as they are told everywhere.
fn rules(error: RulesError) -> Failure {
    match error.source.downcast::<ConfigError>() {
        Ok(error) => Failure::from(*error),
        Err(other) => Failure::new(&codes::CONFIG_FILE_INVALID, other.to_string()),
    }
}
