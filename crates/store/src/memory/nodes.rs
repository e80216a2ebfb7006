//! Nodes in memory.

use async_trait::async_trait;
use domain::{Claim, NodeRun, NodeWait, PlanId};
use sync::Effect;

use super::MemoryStore;
use crate::{CallAuthority, NodeStore, StoreError};

#[async_trait]
impl NodeStore for MemoryStore {
    async fn settle_nodes(
        &self,
        _: CallAuthority<'_>,
        claim: &Claim,
        runs: Vec<NodeRun>,
    ) -> Result<(), StoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.settle_nodes(claim, runs, now))?)
    }

    async fn node_waits(&self, _: &Effect, claim: &Claim, wait: NodeWait) -> Result<(), StoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.node_waits(claim, &wait, now))?)
    }

    async fn node_runs(&self, plan: PlanId) -> Result<Vec<NodeRun>, StoreError> {
        let mut runs = self
            .plans
            .read(&plan, |record| record.map(|record| record.node_runs().to_vec()).unwrap_or_default());
        NodeRun::sort(&mut runs);
        Ok(runs)
    }
}
