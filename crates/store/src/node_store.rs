//! The port for the nodes of a plan's actors: the outcome of each, stored so that a killed run resumes after
//! them.
//!
//! # Not here
//! The end of a node whose last call ends with it: that is one step with the call, by
//! [`CallOutcome::settles`](crate::CallOutcome::settles) and
//! [`SettledCall::settles`](domain::SettledCall::settles).

use async_trait::async_trait;
use domain::{Claim, NodeRun, NodeWait, PlanId};
use sync::Effect;

use crate::StoreError;
use crate::call_store::CallAuthority;

/// Stores the ends of nodes.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Stores the ends of nodes that do not end with a call: skipped, cancelled before they began, answered
    /// by a model alone. All are stored, or none. A run replaces an earlier one of the same attempt, phase
    /// and path. The same request again changes nothing.
    async fn settle_nodes(
        &self,
        by: CallAuthority<'_>,
        claim: &Claim,
        runs: Vec<NodeRun>,
    ) -> Result<(), StoreError>;

    /// Records the event that a node waits. Nothing else is stored of it; two calls record two events.
    async fn node_waits(&self, effect: &Effect, claim: &Claim, wait: NodeWait) -> Result<(), StoreError>;

    /// The nodes of a plan that are settled, as [`NodeRun::sort`] orders them; none for an unknown plan.
    async fn node_runs(&self, plan: PlanId) -> Result<Vec<NodeRun>, StoreError>;
}
