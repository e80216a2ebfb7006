//! The port for plans.

use std::collections::BTreeSet;

use async_trait::async_trait;
use domain::{
    Claim, Decision, EventKind, EventRecord, NewDecision, NewJob, NewPlan, Plan, PlanId, StepDecision, WallMs,
};
use sync::Effect;

use super::{create, decisions, forget, move_plan, queries};
use crate::sqlite::transaction::Tx;
use crate::sqlite::{FOR_POWER, FOR_PROCESS, SqliteStore, plan_heads};
use crate::{DecisionStoreError, FinishedPlans, PlanFilter, PlanMove, PlanStore, PlanStoreError, StoreError};

#[async_trait]
impl PlanStore for SqliteStore {
    async fn create(
        &self,
        new: NewPlan,
        decisions: Vec<NewDecision>,
        job: NewJob,
    ) -> Result<Plan, PlanStoreError> {
        let at = self.moment();
        self.write(FOR_POWER, move |tx| create(tx, new, decisions, job, at)).await
    }

    async fn move_plan(&self, request: PlanMove) -> Result<Plan, PlanStoreError> {
        let at = self.moment();
        self.write(FOR_POWER, move |tx| move_plan(tx, request, at)).await
    }

    async fn find_plan(&self, id: PlanId) -> Result<Option<Plan>, StoreError> {
        self.read(|tx| queries::of_id(tx, id))
    }

    async fn plans(&self, filter: &PlanFilter) -> Result<(Vec<Plan>, usize), StoreError> {
        self.read(|tx| Ok((queries::newest_plans(tx, filter)?, queries::count_plans(tx, filter)?)))
    }

    async fn newest_plans(&self, filter: &PlanFilter) -> Result<Vec<Plan>, StoreError> {
        self.read(|tx| queries::newest_plans(tx, filter))
    }

    async fn newest_plan(&self, root: Option<&[u8]>) -> Result<Option<PlanId>, StoreError> {
        self.read(|tx| queries::newest(tx, root))
    }

    async fn plans_ending(&self, ends: &BTreeSet<String>) -> Result<Vec<PlanId>, StoreError> {
        self.read(|tx| queries::ending(tx, ends))
    }

    async fn ended_plans(&self, before: WallMs) -> Result<FinishedPlans, StoreError> {
        self.read(|tx| queries::ended_before(tx, before))
    }

    async fn plans_like(&self, prefix: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        self.read(|tx| queries::like(tx, prefix, limit))
    }

    async fn decide(
        &self,
        _: &Effect,
        claim: &Claim,
        decision: NewDecision,
    ) -> Result<Decision, DecisionStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_PROCESS, move |tx| decisions::decide(tx, &claim, decision, at)).await
    }

    async fn decide_all(
        &self,
        _: &Effect,
        claim: &Claim,
        decisions: Vec<StepDecision>,
    ) -> Result<Vec<Decision>, DecisionStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_PROCESS, move |tx| decisions::decide_all(tx, &claim, decisions, at)).await
    }

    async fn add_guidance(
        &self,
        plan: PlanId,
        guidance: NewDecision,
    ) -> Result<Decision, DecisionStoreError> {
        let at = self.moment();
        self.write(FOR_POWER, move |tx| decisions::add_guidance(tx, plan, guidance, at)).await
    }

    async fn decisions(&self, plan: PlanId) -> Result<Vec<Decision>, StoreError> {
        self.read(|tx| match plan_heads::find(tx, plan)? {
            Some(head) => queries::decisions(tx, head, plan),
            None => Ok(Vec::new()),
        })
    }

    async fn events(&self, plan: PlanId, after: u64, limit: usize) -> Result<Vec<EventRecord>, StoreError> {
        self.read(|tx| plan_heads::list_events(tx, plan, after, limit))
    }

    async fn events_of(&self, plan: PlanId, kind: EventKind) -> Result<Vec<EventRecord>, StoreError> {
        self.read(|tx| plan_heads::list_events_of_kind(tx, plan, kind))
    }

    async fn last_event(&self, plan: PlanId) -> Result<u64, StoreError> {
        self.read(|tx| plan_heads::last_event(tx, plan))
    }

    async fn forget(&self, plans: Vec<PlanId>) -> Result<Vec<PlanId>, StoreError> {
        let forget_all = move |tx: &Tx<'_>| {
            let mut forgotten = Vec::new();
            for plan in plans {
                forgotten.extend(forget(tx, plan)?.then_some(plan));
            }
            Ok(forgotten)
        };
        self.write(FOR_POWER, forget_all).await
    }
}
