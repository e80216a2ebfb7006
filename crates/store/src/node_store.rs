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

/// Keeps how nodes ended.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Keeps how nodes ended that have no call to end with: skipped, cancelled before they began, answered by
    /// a model alone. All or none; a run of the same attempt, phase and path takes the place of an earlier
    /// one. Asked again, it does no more.
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
