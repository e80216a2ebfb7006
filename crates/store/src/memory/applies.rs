//! Applies in memory.

use async_trait::async_trait;
use domain::{ApplyEnd, ApplyId, ApplyRecord, ApplyStage, Claim, NewApply, PlanId, PlanRecord};
use sync::Effect;

use super::MemoryStore;
use crate::{ApplyStore, JobStoreError, StoreError};

#[async_trait]
impl ApplyStore for MemoryStore {
    async fn seal_apply(&self, _: &Effect, claim: &Claim, new: NewApply) -> Result<(), JobStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.seal_apply(claim, new, now))?)
    }

    async fn begin_apply(&self, new: NewApply) -> Result<(), StoreError> {
        let (plan, now) = (new.plan, self.now());
        self.plans.update(&plan, |record| record.begin_apply(new, now));
        Ok(())
    }

    async fn end_apply(&self, id: ApplyId, end: ApplyEnd) -> Result<bool, StoreError> {
        let now = self.now();
        Ok(self.plans.update_all(|plans| {
            let found = plans.values_mut().find(|record| record.apply(id).is_some());
            found.is_some_and(|record| record.end_apply(id, end, now))
        }))
    }

    async fn applies(&self, plan: PlanId) -> Result<Vec<ApplyRecord>, StoreError> {
        let all = |record: &PlanRecord| record.applies().cloned().collect();
        Ok(self.plans.read(&plan, |record| record.map(all).unwrap_or_default()))
    }

    async fn open_applies(&self) -> Result<Vec<ApplyRecord>, StoreError> {
        let is_open = |apply: &&ApplyRecord| apply.stage == ApplyStage::Sealed;
        let mut open: Vec<ApplyRecord> = self.plans.update_all(|plans| {
            plans.values().flat_map(PlanRecord::applies).filter(is_open).cloned().collect()
        });
        open.sort_by_key(|apply| apply.id);
        Ok(open)
    }

    async fn apply(&self, id: ApplyId) -> Result<Option<ApplyRecord>, StoreError> {
        Ok(self.plans.update_all(|plans| plans.values().find_map(|record| record.apply(id)).cloned()))
    }
}
