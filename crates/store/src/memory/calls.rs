//! Tool calls and sandboxes in memory.

use async_trait::async_trait;
use domain::{Claim, FinishedCall, NewCall, PlanId, PlanRecord, RecordedChange, SandboxRecord, ToolCall};
use sync::Effect;
use sync::primitives::lock;

use super::MemoryStore;
use crate::{CallAuthority, CallOutcome, CallStore, ChangesetStoreError, StoreError};

#[async_trait]
impl CallStore for MemoryStore {
    async fn begin_call(&self, _: &Effect, claim: &Claim, new: NewCall) -> Result<ToolCall, StoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.begin_call(claim, new, now))?)
    }

    async fn end_call(
        &self,
        _: CallAuthority<'_>,
        claim: &Claim,
        outcome: CallOutcome,
    ) -> Result<Vec<RecordedChange>, ChangesetStoreError> {
        let now = self.now();
        let CallOutcome { attempt, no, end, changeset, changes, contents, settles } = outcome;
        let finished = FinishedCall { attempt, no, end, changeset, changes, settles };
        Ok(self.write(claim, |plan| {
            let recorded = plan.end_call(claim, finished, now)?;
            // A collection waits for the plan's lock, so these are named before it can remove them.
            lock(&self.contents).keep(contents);
            Ok::<_, domain::RecordError>(recorded)
        })?)
    }

    async fn calls(&self, plan: PlanId) -> Result<Vec<ToolCall>, StoreError> {
        let all = |record: &PlanRecord| record.calls().cloned().collect();
        Ok(self.plans.read(&plan, |record| record.map(all).unwrap_or_default()))
    }

    async fn sandbox_opened(
        &self,
        _: &Effect,
        claim: &Claim,
        record: SandboxRecord,
    ) -> Result<(), StoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.sandbox_opened(claim, record, now))?)
    }

    async fn sandbox_closed(&self, record: SandboxRecord) -> Result<(), StoreError> {
        let now = self.now();
        let plan = record.plan;
        self.plans.update_known(&plan, |known| known.sandbox_closed(record, now));
        Ok(())
    }

    async fn sandboxes(&self, plan: PlanId) -> Result<Vec<SandboxRecord>, StoreError> {
        let all = |record: &PlanRecord| record.sandboxes().cloned().collect();
        Ok(self.plans.read(&plan, |record| record.map(all).unwrap_or_default()))
    }
}
