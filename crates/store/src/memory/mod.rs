//! The in-memory store: the pure rules of `domain` in one critical section per call.
//!
//! It stores nothing beyond the life of the process. The tests, the model checker and the simulation run on
//! it. It is the reference for the other stores: all pass one conformance suite.
//!
//! # Where to look
//! Here are changesets and errors; `plans`, `jobs`, `calls`, `nodes`, `contexts`, `contents`, `ledger`,
//! `locks`, `applies` and `consents` have the other ports.
//!
//! # Invariants
//! 1. All of a plan is under one lock, that of [`KeyedHistories`]; no call takes it twice, none awaits
//!    inside.
//! 2. Contents have a lock of their own, and so have the accounts of days. Each may be taken while the first
//!    is held, never before it. The rows of [`LockStore`](crate::LockStore) have one more, and so have the
//!    consents; these are never taken together with another.
//! 3. The clock is read before a lock is taken, so instants may be a little out of order; no rule relies on
//!    it.
//! 4. Wall time is the clock's.

mod applies;
mod calls;
mod consents;
mod contents;
mod contexts;
mod image;
mod jobs;
mod ledger;
mod locks;
mod nodes;
mod plans;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    ChangeEntry, Changeset, ChangesetEnding, ChangesetId, Claim, ClosedChangeset, ErrorHistory, Job, JobId,
    JobTransitionRejection, LeaseLost, Lock, LockResource, Ms, NewChange, NewError, PlanId, PlanRecord,
    PlanState, RecordedChange, RecoveryAdvice, RecoveryPolicy, StartedChangeset,
};
use sync::primitives::Mutex;
use sync::{Clock, Effect, Finisher, KeyedHistories};

use crate::{ChangedPlan, ChangesetStore, ChangesetStoreError, ErrorStore, StoreError};
use consents::Consents;
use contents::Contents;
pub use image::MemoryImage;
use ledger::Days;

/// Stores everything in memory.
///
/// ```
/// use std::sync::Arc;
/// use store::{JobStore, MemoryStore};
///
/// let store = MemoryStore::new(Arc::new(sync::SystemClock::new()));
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # runtime.block_on(async {
/// assert_eq!(store.jobs(None).await?, []);
/// # Ok::<(), store::JobStoreError>(())
/// # }).expect("an empty store");
/// ```
pub struct MemoryStore {
    plans: KeyedHistories<PlanId, PlanRecord>,
    contents: Mutex<Contents>,
    locks: Mutex<BTreeMap<LockResource, Lock>>,
    days: Mutex<Days>,
    consents: Mutex<Consents>,
    clock: Arc<dyn Clock>,
}

type Plans = HashMap<PlanId, PlanRecord>;

fn all_jobs(plans: &Plans) -> impl Iterator<Item = &Job> {
    plans.values().flat_map(PlanRecord::jobs)
}

fn plan_of(plans: &mut Plans, job: JobId) -> Result<&mut PlanRecord, JobTransitionRejection> {
    plans.values_mut().find(|plan| plan.job(job).is_some()).ok_or(JobTransitionRejection::NotFound { job })
}

impl MemoryStore {
    /// An empty store that reads its time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            plans: KeyedHistories::new(),
            contents: Mutex::new(Contents::default()),
            locks: Mutex::new(BTreeMap::new()),
            days: Mutex::new(Days::new()),
            consents: Mutex::new(Consents::new()),
            clock,
        }
    }

    fn now(&self) -> Ms {
        Ms::from(self.clock.now())
    }

    /// Does one write to the plan that the claim names. An unknown plan or job has no owner.
    fn write<T, E: From<LeaseLost>>(
        &self,
        claim: &Claim,
        write: impl FnOnce(&mut PlanRecord) -> Result<T, E>,
    ) -> Result<T, E> {
        let lost = LeaseLost { job: claim.job, fence: claim.fence };
        let known =
            self.plans.update_known(&claim.plan, |plan| plan.job(claim.job).is_some().then(|| write(plan)));
        known.flatten().unwrap_or_else(|| Err(lost.into()))
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("plans", &self.plans.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl ChangesetStore for MemoryStore {
    async fn start(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<StartedChangeset, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.start_changeset(claim, id))?)
    }

    async fn record(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.record(claim, id, change))?)
    }

    async fn record_latest(
        &self,
        _: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.record_latest(claim, change))?)
    }

    async fn close(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<ClosedChangeset, ChangesetStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.close(claim, id, now))?)
    }

    async fn finish(
        &self,
        _: &Finisher,
        claim: &Claim,
        how: ChangesetEnding,
    ) -> Result<Vec<ClosedChangeset>, ChangesetStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.finish(claim, how, now)).map_err(StoreError::from)?)
    }

    async fn entries(&self, plan: PlanId, attempt: u32) -> Result<Vec<ChangeEntry>, StoreError> {
        let of_attempt = |record: &PlanRecord| {
            let sets = record.changesets().iter().filter(|set| set.attempt == attempt);
            sets.flat_map(|set| set.entries.iter().cloned()).collect()
        };
        let mut entries: Vec<ChangeEntry> =
            self.plans.read(&plan, |record| record.map(of_attempt).unwrap_or_default());
        entries.sort_by_key(|entry| entry.no);
        Ok(entries)
    }

    async fn changed_plans(
        &self,
        states: &[PlanState],
        plans_max: usize,
    ) -> Result<(Vec<ChangedPlan>, usize), StoreError> {
        let mut found: Vec<ChangedPlan> = self.plans.update_all(|plans| {
            let asked = |record: &&PlanRecord| record.row().is_some_and(|row| states.contains(&row.state));
            plans.values().filter(asked).filter_map(changed_plan).collect()
        });
        found.sort_by_key(|changed| std::cmp::Reverse(changed.plan));
        let more = found.len().saturating_sub(plans_max);
        found.truncate(plans_max);
        Ok((found, more))
    }

    async fn changed_plan(&self, plan: PlanId) -> Result<Option<ChangedPlan>, StoreError> {
        Ok(self.plans.read(&plan, |record| record.and_then(changed_plan)))
    }

    /// In memory a footprint is as soon made as read.
    async fn store_footprint(
        &self,
        _: PlanId,
        _: (u32, u64),
        _: usize,
        _: Vec<u8>,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn files_changed(&self, _: &[PlanId]) -> Result<BTreeMap<PlanId, usize>, StoreError> {
        Ok(BTreeMap::new())
    }

    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError> {
        let all = |record: &PlanRecord| record.changesets().iter().cloned().collect();
        Ok(self.plans.read(&plan, |record| record.map(all).unwrap_or_default()))
    }
}

/// The plan as a forecast needs it; `None` if it changed nothing.
fn changed_plan(record: &PlanRecord) -> Option<ChangedPlan> {
    let row = record.row()?;
    let entries: usize = record.changesets().iter().map(|set| set.entries.len()).sum();
    (entries > 0).then(|| ChangedPlan {
        plan: row.id,
        projects: row.projects.clone(),
        attempt: row.attempt,
        entries: entries as u64,
        footprint: None,
    })
}

#[async_trait]
impl ErrorStore for MemoryStore {
    async fn record_error(
        &self,
        claim: &Claim,
        policy: &RecoveryPolicy,
        error: NewError,
        jitter: u16,
    ) -> Result<RecoveryAdvice, StoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.record_error(claim, policy, error, now, jitter))?)
    }

    async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError> {
        Ok(self.plans.read(&plan, |record| match record {
            Some(record) => record.errors().clone(),
            None => ErrorHistory::new(plan),
        }))
    }
}
