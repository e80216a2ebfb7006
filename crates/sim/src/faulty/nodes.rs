//! Outcomes of nodes.

use async_trait::async_trait;
use domain::{Claim, NodeRun, NodeWait, PlanId};
use store::{CallAuthority, NodeStore, StoreError};
use sync::Effect;

use super::{FaultyStore, Kind, is_lost};

#[async_trait]
impl NodeStore for FaultyStore {
    async fn settle_nodes(
        &self,
        by: CallAuthority<'_>,
        claim: &Claim,
        runs: Vec<NodeRun>,
    ) -> Result<(), StoreError> {
        self.before("settle_nodes", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().settle_nodes(by, &shown, runs).await;
        self.owner_wrote(claim, "a settled node", &answer, answer.as_ref().is_err_and(is_lost));
        answer?;
        self.after("settle_nodes", Kind::Write, Some(claim.plan)).await
    }

    async fn node_waits(&self, effect: &Effect, claim: &Claim, wait: NodeWait) -> Result<(), StoreError> {
        self.before("node_waits", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().node_waits(effect, &shown, wait).await;
        self.owner_wrote(claim, "a wait", &answer, answer.as_ref().is_err_and(is_lost));
        answer?;
        self.after("node_waits", Kind::Write, Some(claim.plan)).await
    }

    async fn node_runs(&self, plan: PlanId) -> Result<Vec<NodeRun>, StoreError> {
        self.before("node_runs", Kind::Read).await?;
        self.inner().node_runs(plan).await
    }
}
