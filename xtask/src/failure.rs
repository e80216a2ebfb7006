//! The failure of a command, and a hint for the next command to type.

use std::fmt;

/// A fact and, where there is one, advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    fact: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(fact: impl Into<String>) -> Self {
        Self { fact: fact.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn fact(&self) -> &str {
        &self.fact
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "error: {}", self.fact)?;
        match &self.hint {
            Some(hint) => write!(formatter, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
