//! The types of the context pipeline: the request, the proposals, the answer and its receipt.
//!
//! | word | what it is |
//! |---|---|
//! | [`ContextRequest`] | the request for a context, and its limits |
//! | [`FileLocation`], [`Depth`] | the place of a thing, and how much of it is shown |
//! | [`Candidate`] | a place that a strategy proposes |
//! | [`Fragment`], [`AssembledContext`] | what is shown, and all of it as one text |
//! | [`Receipt`] | what is in, what was left out and why, which strategies ran |
//! | [`ContextRecord`] | all of that as it is stored |
//!
//! # Invariants
//! 1. All are values: none refers to anything that may change.
//! 2. A strategy proposes places, never text. Only the pipeline reads the text that is shown.
//!
//! # Not here
//! Finding, counting, packing and rendering, and the check that a place exists: crate `context`.

mod budget;
mod fragment;
mod location;
mod receipt;
mod record;
mod request;
mod strategy_name;

pub use budget::Budget;
pub use fragment::{AssembledContext, Candidate, Fragment, FragmentKind};
pub use location::{ContextView, Depth, FileLocation, Focus, ProjectIndex, UnknownDepth, UnknownView};
pub use receipt::{
    BudgetLine, EXCLUDED_LINES_MAX, ExcludedLine, ExclusionReason, INCLUDED_LINES_MAX, IncludedLine,
    IndexLine, MoreLine, Receipt, StrategyLine, StrategyOutcome,
};
pub use record::{CONTEXT_JSON_BYTES_MAX, ContextRecord};
pub use request::{
    BREADTH_MAX, ContextRequest, DecisionFact, FOCUS_MAX, PlanFacts, PriorFragment, QUERY_BYTES_MAX,
};
pub use strategy_name::{Name, NameError};
