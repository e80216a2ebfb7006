//! The strategies that find candidates, a file each.
//!
//! [`STRATEGIES`] lists them with their names and weights; docs/context.md is printed from it.
//!
//! # Invariants
//! 1. A strategy reads what was prepared and nothing else, and has no state: equal input, equal candidates.
//! 2. A strategy reports what it cannot do in its [`Confidence`]; it never pretends.
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

    /// Returns the weight of the strategy if the configuration sets none: that of [`STRATEGIES`], and 1 for a
    /// strategy that is not listed there.
    fn weight(&self) -> f32 {
        let row = STRATEGIES.iter().find(|row| row.name == self.name().as_str());
        row.map_or(1.0, |row| row.weight)
    }
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

/// A row of the table of strategies.
#[derive(Clone, Copy, Debug)]
pub struct StrategyRow {
    /// The name, which is the key of the circuit breaker, of the weight and of the receipt.
    pub name: &'static str,
    /// The weight of its candidates in the fusion, if the configuration sets none.
    pub weight: f32,
    /// False if it is not built yet: it is listed in receipts as unavailable, and not asked by default.
    pub is_available: bool,
    /// The files that it finds, as one phrase.
    pub finds: &'static str,
    make: fn(Name) -> Arc<dyn ContextStrategy>,
}

/// All strategies, in the order in which receipts list them.
pub const STRATEGIES: [StrategyRow; 6] = [
    StrategyRow {
        name: "simple-keyword",
        weight: 1.0,
        is_available: true,
        finds: "files and parts with the words of the question, rare words before common ones",
        make: |name| Arc::new(SimpleKeyword { name }),
    },
    StrategyRow {
        name: "breadth-depth-navigator",
        weight: 0.3,
        is_available: true,
        finds: "files that refer to found or named files, or that these refer to",
        make: |name| Arc::new(BreadthDepthNavigator { name }),
    },
    StrategyRow {
        name: "temporal-archaeology",
        weight: 1.0,
        is_available: true,
        finds: "files that commits with such a message changed, and files that change together with them",
        make: |name| Arc::new(TemporalArchaeology { name }),
    },
    StrategyRow {
        name: "plan-decision-context",
        weight: 0.7,
        is_available: true,
        finds: "changes and decisions of a plan, and findings of its checks",
        make: |name| Arc::new(PlanDecisionContext { name }),
    },
    StrategyRow {
        name: "semantic-embedding",
        weight: 0.5,
        is_available: false,
        finds: "parts that mean the same as the question",
        make: |name| Arc::new(SemanticEmbedding { name }),
    },
    StrategyRow {
        name: "arce",
        weight: 0.3,
        is_available: false,
        finds: "more files, in further rounds over what the others found",
        make: |name| Arc::new(Arce { name }),
    },
];

impl StrategyRow {
    fn to_name(self) -> Name {
        self.name.parse().unwrap_or_else(|_| Name::unnamed())
    }
}

/// All strategies, in the order of [`STRATEGIES`].
pub fn built_in() -> Vec<Arc<dyn ContextStrategy>> {
    STRATEGIES.iter().map(|row| (row.make)(row.to_name())).collect()
}

/// The names of those that can find something.
pub(crate) fn enabled_by_default() -> Vec<Name> {
    STRATEGIES.iter().filter(|row| row.is_available).map(|row| row.to_name()).collect()
}

/// The table of strategies as Markdown.
pub fn table_markdown() -> String {
    let mut table = String::from("| strategy | finds | weight |\n|---|---|---|\n");
    for StrategyRow { name, weight, is_available, finds, .. } in STRATEGIES {
        let available = if is_available { "" } else { "not available yet: " };
        table.push_str(&format!("| `{name}` | {available}{finds} | {weight:.1} |\n"));
    }
    table
}

/// Files with their scores as candidates.
fn candidates(prepared: &RequestInputs, scored: Vec<(FileIndex, f32)>) -> Vec<Candidate> {
    scored.into_iter().map(|(file, score)| Candidate { place: prepared.place(file), score }).collect()
}
