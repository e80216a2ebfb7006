//! Files that hold the words of the query.
//!
//! # Not here
//! The scores themselves: they are prepared, since other strategies start from them.

use domain::context::{Candidate, Name};

use super::{Confidence, ContextStrategy, candidates};
use crate::request_inputs::RequestInputs;
use crate::{SearchStrategy, StopCheck, StrategyError};

/// Proposes what matches the words of the query.
#[derive(Clone, Debug)]
pub struct SimpleKeyword {
    pub(super) name: Name,
}

impl SearchStrategy for SimpleKeyword {
    type Prepared = RequestInputs;
    type Candidate = Candidate;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(
        &self,
        prepared: &RequestInputs,
        limit: usize,
        stop: &StopCheck,
    ) -> Result<Vec<Candidate>, StrategyError> {
        stop.check()?;
        Ok(candidates(prepared, prepared.best_lexical(limit)))
    }
}

impl ContextStrategy for SimpleKeyword {
    fn confidence(&self, prepared: &RequestInputs) -> Confidence {
        if prepared.has_hits() {
            Confidence::Of(1.0)
        } else if prepared.terms().is_empty() {
            Confidence::none("the query has no words to look for")
        } else {
            Confidence::none("no file holds a word of the query")
        }
    }
}
