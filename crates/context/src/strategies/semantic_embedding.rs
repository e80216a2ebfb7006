//! Parts of files whose meaning is near that of the query. There is no embedding model to ask yet, and
//! nothing is called semantic that is not: every receipt lists the strategy as unavailable.

use domain::context::{Candidate, Name};

use super::{Confidence, ContextStrategy};
use crate::request_inputs::RequestInputs;
use crate::{SearchStrategy, StopCheck, StrategyError};

/// Would propose what means the same.
#[derive(Clone, Debug)]
pub struct SemanticEmbedding {
    pub(super) name: Name,
}

impl SearchStrategy for SemanticEmbedding {
    type Prepared = RequestInputs;
    type Candidate = Candidate;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(&self, _: &RequestInputs, _: usize, _: &StopCheck) -> Result<Vec<Candidate>, StrategyError> {
        Err(StrategyError::failed("no embedding model is configured"))
    }
}

impl ContextStrategy for SemanticEmbedding {
    fn confidence(&self, _: &RequestInputs) -> Confidence {
        Confidence::none("no embedding model configured")
    }
}
