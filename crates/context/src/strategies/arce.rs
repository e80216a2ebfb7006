//! Further rounds over the findings of the other strategies. Not built: the rounds gained less than half a
//! point of recall when they were tried, so every receipt lists the strategy as unavailable.

use domain::context::{Candidate, Name};

use super::{Confidence, ContextStrategy};
use crate::request_inputs::RequestInputs;
use crate::{SearchStrategy, StopCheck, StrategyError};

/// Would look again with the words of what was found.
#[derive(Clone, Debug)]
pub struct Arce {
    pub(super) name: Name,
}

impl SearchStrategy for Arce {
    type Prepared = RequestInputs;
    type Candidate = Candidate;

    fn name(&self) -> &Name {
        &self.name
    }

    fn find(&self, _: &RequestInputs, _: usize, _: &StopCheck) -> Result<Vec<Candidate>, StrategyError> {
        Err(StrategyError::failed("further rounds are not built"))
    }
}

impl ContextStrategy for Arce {
    fn confidence(&self, _: &RequestInputs) -> Confidence {
        Confidence::none("further rounds are not built")
    }
}
