//! A request to the context pipeline.
//!
//! # Invariants
//! 1. A request names everything that the answer depends on except the projects and the configuration: its id
//!    and its time too.
//!
//! # Not here
//! Checking it against projects: crate `context`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::{AssembledContext, Budget, ContextView, Depth, FileLocation, Focus, Name};
use crate::change::file_state::Hash;
use crate::id::{ContextId, PlanId};
use crate::time::WallMs;

/// Limits how long a query may be; what is longer is cut, with a note.
pub const QUERY_BYTES_MAX: usize = 16 * 1024;
/// Limits how many things a request may be about for sure.
pub const FOCUS_MAX: usize = 64;
/// Limits how many hops from what it is about are followed at most.
pub const BREADTH_MAX: u8 = 4;

/// A question to the pipeline, and the amount of the answer.
///
/// ```
/// use domain::ContextId;
/// use domain::context::{Budget, ContextRequest, Depth};
///
/// let request = ContextRequest {
///     query: "why does login fail".to_owned(),
///     ..ContextRequest::new(ContextId::from_u128(1), Budget::fixed(8000))
/// };
/// assert_eq!((request.depth, request.breadth), (Depth::Full, 2));
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct ContextRequest {
    /// Names the answer.
    pub id: ContextId,
    /// The time of the request, for people to read.
    pub at: WallMs,
    /// In the words of who asks; at most 16 KiB.
    pub query: String,
    /// The places that it is certainly about; at most 64.
    pub focus: Vec<Focus>,
    /// The view whose rules decide what may be seen.
    pub view: ContextView,
    /// The token budget.
    pub budget: Budget,
    /// The greatest depth at which a place is shown.
    pub depth: Depth,
    /// The limit of references between the focus and a place that is looked at; 0..=4.
    pub breadth: u8,
    /// These strategies and no others, also those that are not enabled; empty: the enabled ones.
    pub only: Vec<Name>,
    /// Strategies that weigh half as much again.
    pub prefer: Vec<Name>,
    /// The time limit; `None`: that of the configuration.
    pub deadline: Option<Duration>,
    /// The facts about the plan that asks.
    pub plan: Option<PlanFacts>,
    /// The fragments that were given before and are not given again.
    pub shown: Vec<PriorFragment>,
    /// True if the reader of the answer has the tool `request_context`; the answer says so.
    pub can_ask: bool,
    /// The context of the parent plan.
    #[serde(skip)]
    pub parent: Option<Arc<AssembledContext>>,
}

impl ContextRequest {
    /// A request for anything, with what is usual.
    pub fn new(id: ContextId, budget: Budget) -> ContextRequest {
        ContextRequest {
            id,
            at: WallMs::default(),
            query: String::new(),
            focus: Vec::new(),
            view: ContextView::default(),
            budget,
            depth: Depth::default(),
            breadth: 2,
            only: Vec::new(),
            prefer: Vec::new(),
            deadline: None,
            plan: None,
            shown: Vec::new(),
            can_ask: false,
            parent: None,
        }
    }
}

/// A fragment that was given before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PriorFragment {
    /// Its location.
    pub place: FileLocation,
    /// The depth at which it was shown.
    pub depth: Depth,
    /// The content of the file then: of another content it is worth showing again.
    #[serde(serialize_with = "hex")]
    pub hash: Hash,
}

fn hex<S: serde::Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(hash)
}

/// The facts about the plan that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanFacts {
    /// The plan.
    pub plan: PlanId,
    /// The decisions in force of the plan and its ancestors, newest first.
    pub decisions: Vec<DecisionFact>,
    /// The files that it has changed.
    pub touched: Vec<FileLocation>,
    /// The findings of validations and errors about a place.
    pub findings: Vec<(FileLocation, String)>,
}

/// A decision that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionFact {
    /// The question.
    pub question: String,
    /// The choice.
    pub chosen: String,
    /// The reason.
    pub why: String,
    /// The number of levels above this plan at which it was taken; 0: by this plan.
    pub distance: u32,
}
