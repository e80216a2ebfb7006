//! The ways to find candidates, a file each.
//!
//! | strategy | goes by |
//! |---|---|
//! | [`SimpleKeyword`] | the words of the query |
//! | [`BreadthDepthNavigator`] | references between files, from what matches or is named |
//! | [`TemporalArchaeology`] | messages of commits, and files that changed together |
//! | [`PlanDecisionContext`] | the files of the plan's changes, messages and decisions |
//! | [`SemanticEmbedding`] | nothing yet: no embedding model can be configured |
//! | [`Arce`] | nothing yet: further rounds over what the others found |
//!
//! # Invariants
//! 1. A strategy reads what was prepared and nothing else, and has no state: equal input, equal candidates.
//! 2. What a strategy cannot do it says in its [`Confidence`]; it never pretends.
//! 3. Each looks at [`StopCheck`](crate::StopCheck) after at most 1 ms of work.

mod arce;
mod keyword;
mod navigator;
mod plan_decision;
mod semantic_embedding;
mod temporal;

use std::sync::Arc;

use domain::context::{Candidate, Name};

pub use self::arce::Arce;
pub use self::keyword::SimpleKeyword;
pub use self::navigator::BreadthDepthNavigator;
pub use self::plan_decision::PlanDecisionContext;
pub use self::semantic_embedding::SemanticEmbedding;
pub use self::temporal::TemporalArchaeology;
use crate::SearchStrategy;
use crate::request_inputs::{FileIndex, RequestInputs};

/// A strategy of the context pipeline.
pub trait ContextStrategy: SearchStrategy<Prepared = RequestInputs, Candidate = Candidate> {
    /// Returns the confidence that the strategy is of use for this request.
    fn confidence(&self, prepared: &RequestInputs) -> Confidence;

    /// Returns the weight of the strategy if the configuration sets none.
    fn weight(&self) -> f32;
}

/// The confidence of a strategy that it is of use.
#[derive(Clone, Debug, PartialEq)]
pub enum Confidence {
    /// From 0 to 1; what is outside is brought inside, and no number is 0.
    Of(f32),
    /// It has nothing to go by, and why.
    None(String),
}

impl Confidence {
    fn none(why: &str) -> Confidence {
        Confidence::None(why.to_owned())
    }
}

/// All of them, in a fixed order.
pub fn built_in() -> Vec<Arc<dyn ContextStrategy>> {
    vec![
        Arc::new(SimpleKeyword::default()),
        Arc::new(BreadthDepthNavigator::default()),
        Arc::new(TemporalArchaeology::default()),
        Arc::new(PlanDecisionContext::default()),
        Arc::new(SemanticEmbedding::default()),
        Arc::new(Arce::default()),
    ]
}

/// The names of those that can find something.
pub(crate) fn enabled_by_default() -> Vec<Name> {
    let enabled: [Arc<dyn ContextStrategy>; 4] = [
        Arc::new(SimpleKeyword::default()),
        Arc::new(BreadthDepthNavigator::default()),
        Arc::new(TemporalArchaeology::default()),
        Arc::new(PlanDecisionContext::default()),
    ];
    enabled.iter().map(|strategy| strategy.name().clone()).collect()
}

/// A name that is known to be one.
fn built_in_name(text: &str) -> Name {
    text.parse().unwrap_or_else(|_| Name::unnamed())
}

/// Files with their scores as candidates.
fn candidates(prepared: &RequestInputs, scored: Vec<(FileIndex, f32)>) -> Vec<Candidate> {
    scored.into_iter().map(|(file, score)| Candidate { place: prepared.place(file), score }).collect()
}
