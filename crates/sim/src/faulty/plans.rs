//! Plans, and the locks that are rows.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Claim, Decision, EventKind, EventRecord, Lock, LockRequest, NewDecision, NewJob, NewPlan, Plan, PlanId,
    StepDecision, WallMs,
};
use store::{
    DecisionStoreError, FinishedPlans, LockStore, LockStoreError, PlanFilter, PlanMove, PlanStore,
    PlanStoreError, StoreError,
};
use sync::Effect;

use super::{FaultyStore, Kind, is_lost};
use crate::broken_programs::BrokenProgram;

fn decision_is_lost<T>(answer: &Result<T, DecisionStoreError>) -> bool {
    matches!(answer, Err(DecisionStoreError::Store(error)) if is_lost(error))
}

#[async_trait]
impl PlanStore for FaultyStore {
    async fn create(
        &self,
        new: NewPlan,
        decisions: Vec<NewDecision>,
        job: NewJob,
    ) -> Result<Plan, PlanStoreError> {
        self.before("create", Kind::Synced).await?;
        let plan = new.id;
        let answer = self.inner().create(new, decisions, job).await?;
        self.after("create", Kind::Synced, Some(plan)).await?;
        Ok(answer)
    }

    async fn move_plan(&self, request: PlanMove) -> Result<Plan, PlanStoreError> {
        self.before("move_plan", Kind::Synced).await?;
        let plan = request.plan;
        let answer = self.inner().move_plan(request).await?;
        self.after("move_plan", Kind::Synced, Some(plan)).await?;
        Ok(answer)
    }

    async fn find_plan(&self, id: PlanId) -> Result<Option<Plan>, StoreError> {
        self.before("plan", Kind::Read).await?;
        let answer = self.inner().find_plan(id).await?;
        self.after("plan", Kind::Read, None).await?;
        Ok(answer)
    }

    async fn plans(&self, filter: &PlanFilter) -> Result<(Vec<Plan>, usize), StoreError> {
        self.before("plans", Kind::Read).await?;
        self.inner().plans(filter).await
    }

    async fn newest_plans(&self, filter: &PlanFilter) -> Result<Vec<Plan>, StoreError> {
        self.before("newest_plans", Kind::Read).await?;
        self.inner().newest_plans(filter).await
    }

    async fn newest_plan(&self, root: Option<&[u8]>) -> Result<Option<PlanId>, StoreError> {
        self.before("newest_plan", Kind::Read).await?;
        self.inner().newest_plan(root).await
    }

    async fn plans_ending(&self, ends: &BTreeSet<String>) -> Result<Vec<PlanId>, StoreError> {
        self.before("plans_ending", Kind::Read).await?;
        self.inner().plans_ending(ends).await
    }

    async fn ended_plans(&self, before: WallMs) -> Result<FinishedPlans, StoreError> {
        self.before("ended_plans", Kind::Read).await?;
        self.inner().ended_plans(before).await
    }

    async fn plans_like(&self, prefix: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        self.before("plans_like", Kind::Read).await?;
        self.inner().plans_like(prefix, limit).await
    }

    async fn decide(
        &self,
        effect: &Effect,
        claim: &Claim,
        decision: NewDecision,
    ) -> Result<Decision, DecisionStoreError> {
        self.before("decide", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().decide(effect, &shown, decision).await;
        self.owner_wrote(claim, "a decision", &answer, decision_is_lost(&answer));
        let decision = answer?;
        self.after("decide", Kind::Write, Some(claim.plan)).await?;
        Ok(decision)
    }

    async fn decide_all(
        &self,
        effect: &Effect,
        claim: &Claim,
        decisions: Vec<StepDecision>,
    ) -> Result<Vec<Decision>, DecisionStoreError> {
        self.before("decide_all", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().decide_all(effect, &shown, decisions).await;
        self.owner_wrote(claim, "decisions", &answer, decision_is_lost(&answer));
        let decisions = answer?;
        self.after("decide_all", Kind::Write, Some(claim.plan)).await?;
        Ok(decisions)
    }

    async fn add_guidance(
        &self,
        plan: PlanId,
        guidance: NewDecision,
    ) -> Result<Decision, DecisionStoreError> {
        self.before("add_guidance", Kind::Synced).await?;
        let answer = self.inner().add_guidance(plan, guidance).await?;
        self.after("add_guidance", Kind::Synced, Some(plan)).await?;
        Ok(answer)
    }

    async fn decisions(&self, plan: PlanId) -> Result<Vec<Decision>, StoreError> {
        self.before("decisions", Kind::Read).await?;
        self.inner().decisions(plan).await
    }

    async fn events(&self, plan: PlanId, after: u64, limit: usize) -> Result<Vec<EventRecord>, StoreError> {
        self.before("events", Kind::Read).await?;
        let mut events = self.inner().events(plan, after, limit).await?;
        if self.world.is_broken(BrokenProgram::EventGap)
            && events.len() > 2
            && self.world.random().chance(2_000)
        {
            events.remove(1);
        }
        Ok(events)
    }

    async fn events_of(&self, plan: PlanId, kind: EventKind) -> Result<Vec<EventRecord>, StoreError> {
        self.before("events_of", Kind::Read).await?;
        self.inner().events_of(plan, kind).await
    }

    async fn last_event(&self, plan: PlanId) -> Result<u64, StoreError> {
        self.before("last_event", Kind::Read).await?;
        self.inner().last_event(plan).await
    }

    async fn forget(&self, plans: Vec<PlanId>) -> Result<Vec<PlanId>, StoreError> {
        self.before("forget", Kind::Synced).await?;
        let first = plans.first().copied();
        let answer = self.inner().forget(plans).await?;
        self.after("forget", Kind::Synced, first).await?;
        Ok(answer)
    }
}

#[async_trait]
impl LockStore for FaultyStore {
    async fn take_lock(&self, request: LockRequest) -> Result<Lock, LockStoreError> {
        self.before("take_lock", Kind::Write).await?;
        let answer = self.inner().take_lock(request).await?;
        self.after("take_lock", Kind::Write, None).await?;
        Ok(answer)
    }

    async fn renew_lock(&self, lock: &Lock, lease: Duration) -> Result<bool, StoreError> {
        self.before("renew_lock", Kind::Beat).await?;
        let answer = self.inner().renew_lock(lock, lease).await?;
        self.after("renew_lock", Kind::Beat, None).await?;
        Ok(answer)
    }

    async fn release_lock(&self, lock: &Lock) -> Result<(), StoreError> {
        self.before("release_lock", Kind::Beat).await?;
        self.inner().release_lock(lock).await?;
        self.after("release_lock", Kind::Beat, None).await
    }

    async fn locks(&self) -> Result<Vec<Lock>, StoreError> {
        self.before("locks", Kind::Read).await?;
        self.inner().locks().await
    }
}
