//! The log of applies and undos, and what a redo applies again.
//!
//! # Invariants
//! 1. An operation is in the log once it is done: one that was interrupted or rolled back is not.
//! 2. The newest is first. Of more plans than [`LOGGED_PLANS_MAX`] the newest ones are in the log.

use std::collections::BTreeSet;

use domain::{
    ApplyId, ApplyKind, ApplyRecord, ApplyStage, Plan, PlanId, WallMs, applies_in_force, latest_apply,
};
use store::{PlanFilter, PlanStoreError};

use super::{ApplyRequest, ApplySummary};
use crate::engine::Engine;

/// The number of applied plans whose operations are read.
pub const LOGGED_PLANS_MAX: usize = 1000;

/// An apply or an undo that was done.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The plan, as it is now.
    pub plan: Plan,
    /// The record.
    pub record: ApplyRecord,
    /// Its result; `None` if it was stored in another form.
    pub summary: Option<ApplySummary>,
    /// True if it is an apply whose changes are in the user's files.
    pub is_in_force: bool,
    /// True if it can be undone: it is in force and its journal is there.
    pub can_undo: bool,
}

impl Operation {
    /// The time at which it was done.
    pub fn at(&self) -> WallMs {
        self.record.ended.unwrap_or(self.record.started)
    }
}

impl Engine {
    /// Returns the applies and undos of the plans with a project at `root`; of all plans without one.
    ///
    /// # Errors
    /// The store failed.
    pub async fn operations(&self, root: Option<Vec<u8>>) -> Result<Vec<Operation>, PlanStoreError> {
        let filter = PlanFilter {
            state: Some("applied".to_owned()),
            root,
            limit: LOGGED_PLANS_MAX,
            ..PlanFilter::default()
        };
        let mut found = Vec::new();
        for plan in self.inner.store.newest_plans(&filter).await? {
            found.extend(self.operations_of(&plan).await?);
        }
        found.sort_by_key(|operation| std::cmp::Reverse((operation.at(), operation.record.id)));
        Ok(found)
    }

    /// Returns the applies and undos of one plan.
    ///
    /// # Errors
    /// The store failed.
    pub async fn operations_of(&self, plan: &Plan) -> Result<Vec<Operation>, PlanStoreError> {
        let applies = self.inner.store.applies(plan.id).await?;
        let in_force: BTreeSet<ApplyId> =
            applies_in_force(&applies).iter().filter(|_| plan.is_applied()).map(|apply| apply.id).collect();
        let done = applies.into_iter().filter(|record| record.stage == ApplyStage::Applied);
        let operation = |record: ApplyRecord| {
            let is_in_force = in_force.contains(&record.id);
            let summary = serde_json::from_value(record.summary.clone()).ok();
            let can_undo = is_in_force && self.inner.journals.undo_path(record.id).exists();
            Operation { plan: plan.clone(), record, summary, is_in_force, can_undo }
        };
        let mut found: Vec<Operation> = done.map(operation).collect();
        found.sort_by_key(|operation| std::cmp::Reverse((operation.at(), operation.record.id)));
        Ok(found)
    }

    /// Returns what the last apply of a plan that is undone was asked for; `None` if it is not undone.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn undone_request(&self, id: PlanId) -> Result<Option<ApplyRequest>, PlanStoreError> {
        let plan = self.inner.store.plan(id).await?;
        if plan.undone_at.is_none() {
            return Ok(None);
        }
        let applies = self.inner.store.applies(id).await?;
        let applied = latest_apply(&applies).filter(|apply| apply.kind == ApplyKind::Apply);
        Ok(applied
            .map(|apply| serde_json::from_value(apply.selection.clone()).ok().flatten().unwrap_or_default()))
    }
}
