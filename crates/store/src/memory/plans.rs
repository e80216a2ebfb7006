//! Plans in memory: made, moved, listed, forgotten.

use std::collections::BTreeSet;

use async_trait::async_trait;
use domain::{
    ApplyStage, Claim, DecideError, Decision, EventKind, EventRecord, ManualTransition, NewDecision, NewJob,
    NewPlan, Plan, PlanId, PlanMoveError, PlanRecord, StepDecision, WallMs,
};
use sync::Effect;
use sync::primitives::lock;

use super::jobs::may_be_queued;
use super::ledger::keep_days;
use super::{MemoryStore, Plans};
use crate::plan_store::may_be_forgotten;
use crate::{DecisionStoreError, FinishedPlans, PlanFilter, PlanMove, PlanStore, PlanStoreError, StoreError};

#[async_trait]
impl PlanStore for MemoryStore {
    async fn create(
        &self,
        new: NewPlan,
        decisions: Vec<NewDecision>,
        job: NewJob,
    ) -> Result<Plan, PlanStoreError> {
        let (id, now) = (new.id, self.now());
        self.plans.update_all(|plans| {
            if let Some(known) = plans.get_mut(&id).filter(|known| known.row().is_some()) {
                return known.create(new, decisions, job, now).map_err(|refused| from_move(id, refused));
            }
            may_be_queued(plans, &job)?;
            // One that is refused leaves no trace, not even an empty record.
            let mut record = plans.get(&id).cloned().unwrap_or_default();
            let plan = record.create(new, decisions, job, now).map_err(|refused| from_move(id, refused))?;
            plans.insert(id, record);
            Ok(plan)
        })
    }

    async fn move_plan(&self, request: PlanMove) -> Result<Plan, PlanStoreError> {
        let PlanMove { plan: id, version, event, by, job, request, decisions, record, contents, spec } =
            request;
        let now = self.now();
        self.plans.update_all(|plans| {
            let asked = ManualTransition { version, event, job, request, decisions, record, spec };
            if plans.get(&id).and_then(PlanRecord::row).is_none() {
                return Err(PlanStoreError::NotFound { plan: id });
            }
            if let Some(job) = &job {
                may_be_queued(plans, job)?;
            }
            let known = plans.get_mut(&id).ok_or(PlanStoreError::NotFound { plan: id })?;
            let moved = known.move_plan(&asked, by, now).map_err(|refused| from_move(id, refused))?;
            lock(&self.contents).keep(contents);
            Ok(moved)
        })
    }

    async fn find_plan(&self, id: PlanId) -> Result<Option<Plan>, StoreError> {
        Ok(self.plans.read(&id, |record| record.and_then(PlanRecord::row).cloned()))
    }

    async fn plans(&self, filter: &PlanFilter) -> Result<(Vec<Plan>, usize), StoreError> {
        let mut found: Vec<Plan> = self.plans.update_all(|plans| {
            let rows = plans.values().filter_map(PlanRecord::row);
            rows.filter(|plan| passes(plan, filter)).cloned().collect()
        });
        let count = found.len();
        found.sort_by_key(|plan| std::cmp::Reverse(plan.id));
        found.truncate(filter.limit);
        Ok((found, count))
    }

    async fn newest_plans(&self, filter: &PlanFilter) -> Result<Vec<Plan>, StoreError> {
        self.plans(filter).await.map(|(plans, _)| plans)
    }

    async fn newest_plan(&self, root: Option<&[u8]>) -> Result<Option<PlanId>, StoreError> {
        let filter = PlanFilter { root: root.map(<[u8]>::to_vec), ..PlanFilter::default() };
        let newest = |plans: &mut Plans| {
            let rows = plans.values().filter_map(PlanRecord::row);
            rows.filter(|plan| passes(plan, &filter)).map(|plan| plan.id).max()
        };
        Ok(self.plans.update_all(newest))
    }

    async fn plans_ending(&self, ends: &BTreeSet<String>) -> Result<Vec<PlanId>, StoreError> {
        let mut all = self.plans_like("", usize::MAX).await?;
        all.retain(|plan| ends.iter().any(|end| plan.to_string().ends_with(end)));
        Ok(all)
    }

    async fn ended_plans(&self, before: WallMs) -> Result<FinishedPlans, StoreError> {
        let has_ended = |record: &&PlanRecord| {
            let row = record.row().filter(|row| may_be_forgotten(row.state) && row.updated < before);
            row.is_some() && record.applies().all(|apply| apply.stage != ApplyStage::Sealed)
        };
        Ok(self.plans.update_all(|plans| {
            let ended: Vec<&PlanRecord> = plans.values().filter(has_ended).collect();
            FinishedPlans {
                plans: ended.iter().filter_map(|record| record.row()).map(|row| row.id).collect(),
                applies: ended.iter().flat_map(|record| record.applies()).map(|apply| apply.id).collect(),
            }
        }))
    }

    async fn plans_like(&self, prefix: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
        let mut found: Vec<PlanId> = self.plans.update_all(|plans| {
            let ids = plans.values().filter_map(PlanRecord::row).map(|plan| plan.id);
            ids.filter(|id| id.to_string().starts_with(prefix)).collect()
        });
        found.sort_unstable();
        found.truncate(limit);
        Ok(found)
    }

    async fn decide(
        &self,
        _: &Effect,
        claim: &Claim,
        decision: NewDecision,
    ) -> Result<Decision, DecisionStoreError> {
        let now = self.now();
        let decided = self.write(claim, |plan| plan.decide(claim, decision, now));
        decided.map_err(|error| DecisionStoreError::from_decide(claim.plan, error))
    }

    async fn decide_all(
        &self,
        _: &Effect,
        claim: &Claim,
        decisions: Vec<StepDecision>,
    ) -> Result<Vec<Decision>, DecisionStoreError> {
        let now = self.now();
        let decided = self.write(claim, |plan| plan.decide_all(claim, decisions, now));
        decided.map_err(|error| DecisionStoreError::from_decide(claim.plan, error))
    }

    async fn add_guidance(
        &self,
        plan: PlanId,
        guidance: NewDecision,
    ) -> Result<Decision, DecisionStoreError> {
        let now = self.now();
        let said = self.plans.update_known(&plan, |record| record.add_guidance(guidance, now));
        said.unwrap_or(Err(DecideError::NotFound))
            .map_err(|error| DecisionStoreError::from_decide(plan, error))
    }

    async fn decisions(&self, plan: PlanId) -> Result<Vec<Decision>, StoreError> {
        Ok(self
            .plans
            .read(&plan, |record| record.map(|record| record.decisions().to_vec()).unwrap_or_default()))
    }

    async fn events(&self, plan: PlanId, after: u64, limit: usize) -> Result<Vec<EventRecord>, StoreError> {
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        let page = |record: &PlanRecord| record.events().iter().skip(skipped).take(limit).cloned().collect();
        Ok(self.plans.read(&plan, |record| record.map(page).unwrap_or_default()))
    }

    async fn events_of(&self, plan: PlanId, kind: EventKind) -> Result<Vec<EventRecord>, StoreError> {
        let of_kind = |record: &PlanRecord| {
            record.events().iter().filter(|event| event.kind == kind).cloned().collect()
        };
        Ok(self.plans.read(&plan, |record| record.map(of_kind).unwrap_or_default()))
    }

    async fn last_event(&self, plan: PlanId) -> Result<u64, StoreError> {
        let last = |record: &PlanRecord| record.events().last().map(|event| event.n);
        Ok(self.plans.read(&plan, |record| record.and_then(last).unwrap_or(0)))
    }

    async fn forget(&self, plans: Vec<PlanId>) -> Result<Vec<PlanId>, StoreError> {
        Ok(self.plans.update_all(|known| {
            let forget = |plan: &PlanId| {
                let row = known.get(plan).and_then(PlanRecord::row);
                if !row.is_some_and(|row| may_be_forgotten(row.state)) {
                    return false;
                }
                let forgotten = known.remove(plan);
                forgotten.iter().for_each(|record| keep_days(&mut lock(&self.days), record));
                forgotten.is_some()
            };
            let mut plans = plans;
            plans.retain(forget);
            plans
        }))
    }
}

fn passes(plan: &Plan, filter: &PlanFilter) -> bool {
    let PlanFilter { phase, state, root, batch, limit: _ } = filter;
    let of_phase = phase.as_deref().is_none_or(|phase| plan.state.phase().as_str() == phase);
    let of_state = state.as_deref().is_none_or(|state| plan.state.word() == state);
    let at_root = |root: &Vec<u8>| plan.projects.iter().any(|project| project.root.as_bytes() == root);
    let of_batch = batch.is_none() || plan.spec.batch == *batch;
    of_phase && of_state && of_batch && root.as_ref().is_none_or(at_root)
}

fn from_move(plan: PlanId, error: PlanMoveError) -> PlanStoreError {
    match error {
        PlanMoveError::NotFound => PlanStoreError::NotFound { plan },
        PlanMoveError::Moved { plan } => PlanStoreError::Moved { plan },
        PlanMoveError::Refused(refused) => PlanStoreError::Refused(refused),
        PlanMoveError::Job(refused) => PlanStoreError::Job(refused),
        PlanMoveError::IdTaken { plan } => PlanStoreError::IdTaken { plan },
        PlanMoveError::Changes(error) => PlanStoreError::Changes(error),
    }
}
