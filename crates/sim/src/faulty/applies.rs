//! Applies: sealed, ended.

use async_trait::async_trait;
use domain::{ApplyEnd, ApplyId, ApplyRecord, Claim, NewApply, PlanId};
use store::{ApplyStore, JobStoreError, StoreError};
use sync::Effect;

use super::{FaultyStore, Kind, is_lost};

#[async_trait]
impl ApplyStore for FaultyStore {
    async fn seal_apply(&self, effect: &Effect, claim: &Claim, new: NewApply) -> Result<(), JobStoreError> {
        self.before("seal_apply", Kind::Synced).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().seal_apply(effect, &shown, new).await;
        let lost = matches!(&answer, Err(JobStoreError::Store(error)) if is_lost(error));
        self.owner_wrote(claim, "a seal", &answer, lost);
        answer?;
        self.after("seal_apply", Kind::Synced, Some(claim.plan)).await?;
        Ok(())
    }

    async fn begin_apply(&self, new: NewApply) -> Result<(), StoreError> {
        self.before("begin_apply", Kind::Synced).await?;
        let plan = new.plan;
        self.inner().begin_apply(new).await?;
        self.after("begin_apply", Kind::Synced, Some(plan)).await
    }

    async fn end_apply(&self, id: ApplyId, end: ApplyEnd) -> Result<bool, StoreError> {
        self.before("end_apply", Kind::Synced).await?;
        let answer = self.inner().end_apply(id, end).await?;
        self.after("end_apply", Kind::Synced, None).await?;
        Ok(answer)
    }

    async fn applies(&self, plan: PlanId) -> Result<Vec<ApplyRecord>, StoreError> {
        self.before("applies", Kind::Read).await?;
        self.inner().applies(plan).await
    }

    async fn open_applies(&self) -> Result<Vec<ApplyRecord>, StoreError> {
        self.before("open_applies", Kind::Read).await?;
        self.inner().open_applies().await
    }

    async fn apply(&self, id: ApplyId) -> Result<Option<ApplyRecord>, StoreError> {
        self.before("apply", Kind::Read).await?;
        self.inner().apply(id).await
    }
}
