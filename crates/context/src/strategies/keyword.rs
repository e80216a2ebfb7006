//! Files that hold the words of the query.
//!
//! # Not here
//! The scores themselves: they are prepared, since other strategies start from them.

use domain::context::{Candidate, Name};

use super::{Confidence, ContextStrategy, built_in_name, candidates};
use crate::request_inputs::Prepared;
use crate::{Stop, Strategy, StrategyError};

/// Proposes what matches the words of the query.
#[derive(Clone, Debug)]
pub struct SimpleKeyword {
    name: Name,
}

impl Default for SimpleKeyword {
    fn default() -> Self {
        Self { name: built_in_name("simple-keyword") }
    }
}

impl Strategy for SimpleKeyword {
    type Prepared = Prepared;
    type Candidate = Candidate;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(&self, prepared: &Prepared, limit: usize, stop: &Stop) -> Result<Vec<Candidate>, StrategyError> {
        stop.check()?;
        Ok(candidates(prepared, prepared.best_lexical(limit)))
    }
}

impl ContextStrategy for SimpleKeyword {
    fn confidence(&self, prepared: &Prepared) -> Confidence {
        if prepared.has_hits() {
            Confidence::Of(1.0)
        } else if prepared.terms().is_empty() {
            Confidence::none("the query has no words to look for")
        } else {
            Confidence::none("no file holds a word of the query")
        }
    }

    fn weight(&self) -> f32 {
        1.0
    }
}
