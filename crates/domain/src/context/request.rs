//! A request to the context pipeline.
//!
//! # Invariants
//! 1. A request names everything that the answer depends on beside the projects and the configuration: its id
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
    /// When it was asked, for people to read.
    pub at: WallMs,
    /// In the words of who asks; at most 16 KiB.
    pub query: String,
    /// What it is about for sure; at most 64.
    pub focus: Vec<Focus>,
    /// Whose rules decide what may be seen.
    pub view: ContextView,
    /// How many tokens it may fill.
    pub budget: Budget,
    /// How much of a thing may be shown at most.
    pub depth: Depth,
    /// How many references away from what it is about is still looked at; 0..=4.
    pub breadth: u8,
    /// These strategies and no others, also those that are not enabled; empty: the enabled ones.
    pub only: Vec<Name>,
    /// Strategies that weigh half as much again.
    pub prefer: Vec<Name>,
    /// How long it may take; none: what the configuration says.
    pub deadline: Option<Duration>,
    /// What is known of the plan that asks.
    pub plan: Option<PlanFacts>,
    /// What was given before, and is not given again.
    pub shown: Vec<PriorFragment>,
    /// Whether who reads the answer has the tool `request_context`, and is told so.
    pub can_ask: bool,
    /// What the plan above this one was given.
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
    /// Where it stands.
    pub place: FileLocation,
    /// How much of it was shown.
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
    /// Its decisions and its ancestors' that stand, newest first.
    pub decisions: Vec<DecisionFact>,
    /// What it has changed.
    pub touched: Vec<FileLocation>,
    /// What validations and errors said of a place.
    pub findings: Vec<(FileLocation, String)>,
}

/// A decision that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionFact {
    /// What was asked.
    pub question: String,
    /// What was chosen.
    pub chosen: String,
    /// Why.
    pub why: String,
    /// How many plans up it was taken; 0: by this one.
    pub distance: u32,
}
