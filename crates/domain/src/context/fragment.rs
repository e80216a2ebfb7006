//! Candidates that strategies propose, the fragments that are shown of them, and the assembled text.
//!
//! # Invariants
//! 1. The hash of a [`Fragment`] of a file is that of the bytes which were read to make it.
//! 2. The hash of an [`AssembledContext`] is that of its text.

use serde::Serialize;

use super::{Depth, FileLocation, Name, Receipt};
use crate::change::file_state::Hash;
use crate::id::ContextId;

/// A place that a strategy holds to be worth showing.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The place.
    pub place: FileLocation,
    /// Its worth by the strategy's own measure. A candidate whose score is not above 0 or no number is
    /// dropped, and counted.
    pub score: f32,
}

/// The kind of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FragmentKind {
    /// Program text.
    Code,
    /// Text for people, with headings.
    Doc,
    /// Data that sets something up.
    Config,
    /// Any other text.
    Text,
    /// A choice that the plan has taken.
    Decision,
}

/// A piece of a context.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    /// Its location; `None` for a decision.
    pub place: Option<FileLocation>,
    /// Its kind.
    pub kind: FragmentKind,
    /// The depth at which the place is shown.
    pub depth: Depth,
    /// As it is shown.
    pub text: String,
    /// The cost of the text.
    pub tokens: u32,
    /// From 0 to 1.
    pub score: f32,
    /// The content of the file, or of the text of a decision.
    pub hash: Hash,
    /// True if all lines of the file are shown as they are: the reader has read the file.
    pub is_whole: bool,
    /// The strategies that proposed its file, with their strength.
    pub why: Vec<(Name, f32)>,
}

/// A context, ready to be given to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct AssembledContext {
    /// The request's.
    pub id: ContextId,
    /// All of it.
    pub text: String,
    /// The cost of the text; never above the budget.
    pub tokens: u32,
    /// Its pieces, in their order.
    pub fragments: Vec<Fragment>,
    /// Of the text.
    pub hash: Hash,
    /// The receipt: the included files, the others, and the reasons.
    pub receipt: Receipt,
}
