//! Contexts in memory.

use async_trait::async_trait;
use domain::context::ContextRecord;
use domain::{Claim, ContextId, PlanId};
use sync::Effect;
use sync::primitives::lock;

use super::MemoryStore;
use crate::{ContextStore, StagedContent, StoreError};

#[async_trait]
impl ContextStore for MemoryStore {
    async fn keep_context(
        &self,
        _: &Effect,
        claim: &Claim,
        record: ContextRecord,
        text: StagedContent,
    ) -> Result<(), StoreError> {
        let now = self.now();
        self.write(claim, |plan| {
            plan.keep_context(claim, record, now)?;
            lock(&self.contents).keep(vec![text]);
            Ok(())
        })
    }

    async fn contexts(&self, plan: PlanId) -> Result<Vec<ContextRecord>, StoreError> {
        Ok(self
            .plans
            .read(&plan, |record| record.map(|record| record.contexts().to_vec()).unwrap_or_default()))
    }

    async fn context(&self, id: ContextId) -> Result<Option<ContextRecord>, StoreError> {
        Ok(self.plans.update_all(|plans| {
            let mut all = plans.values().flat_map(|record| record.contexts());
            all.find(|context| context.id == id).cloned()
        }))
    }
}
