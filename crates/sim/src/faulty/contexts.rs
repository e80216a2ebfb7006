//! Contexts of nodes.

use async_trait::async_trait;
use domain::context::ContextRecord;
use domain::{Claim, ContextId, PlanId};
use store::{ContextStore, StagedContent, StoreError};
use sync::Effect;

use super::{FaultyStore, Kind, is_lost};

#[async_trait]
impl ContextStore for FaultyStore {
    async fn keep_context(
        &self,
        effect: &Effect,
        claim: &Claim,
        record: ContextRecord,
        text: StagedContent,
    ) -> Result<(), StoreError> {
        self.before("keep_context", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().keep_context(effect, &shown, record, text).await;
        self.owner_wrote(claim, "a context", &answer, answer.as_ref().is_err_and(is_lost));
        answer?;
        self.after("keep_context", Kind::Write, Some(claim.plan)).await
    }

    async fn contexts(&self, plan: PlanId) -> Result<Vec<ContextRecord>, StoreError> {
        self.before("contexts", Kind::Read).await?;
        self.inner().contexts(plan).await
    }

    async fn context(&self, id: ContextId) -> Result<Option<ContextRecord>, StoreError> {
        self.before("context", Kind::Read).await?;
        self.inner().context(id).await
    }
}
