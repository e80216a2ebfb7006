//! The words of the context pipeline: what is asked for, what is proposed, what is given and what is said of
//! it.
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
//! 2. A strategy proposes places, never text: what is shown is read by one hand.
//!
//! # Not here
//! Finding, counting, packing and rendering: crate `context`. Whether a place exists.

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
