//! The in-memory store: the pure rules of `domain` in one critical section per call.
//!
//! It keeps nothing beyond the process. It is what the tests, the model checker and the simulation run on, and the
//! measure for the other stores: all pass one conformance suite.
//!
//! # Where to look
//! Here are changesets and errors; `plans`, `jobs`, `calls`, `nodes`, `contexts`, `contents`, `ledger`, `locks`, `applies` and
//! `consents` have the other ports.
//!
//! # Invariants
//! 1. All of a plan is under one lock, that of [`KeyedHistories`]; no call takes it twice, none awaits inside.
//! 2. Contents have a lock of their own, and so have the accounts of days; each may be taken inside the first and never
//!    around it. The locks that are rows have one more, and so have the consents; these are never taken together with
//!    another.
//! 3. The clock is read before a lock is taken, so instants may be a little out of order; no rule relies on it.
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
    ChangeEntry, Changeset, ChangesetId, Claim, Closed, Ending, ErrorHistory, Job, JobId, JobRefused,
    LeaseLost, Lock, LockResource, Ms, NewChange, NewError, Op, Plan, PlanId, PlanRecord, PlanState, Policy,
    Recorded, Recovery, Started,
};
use sync::primitives::Mutex;
use sync::{Clock, Effect, Finisher, KeyedHistories};

use crate::{ChangedPlace, ChangesetStore, ChangesetStoreError, ErrorStore, StoreError};
use consents::Consents;
use contents::Contents;
pub use image::MemoryImage;
use ledger::Days;

/// Keeps everything in memory.
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

fn plan_of(plans: &mut Plans, job: JobId) -> Result<&mut PlanRecord, JobRefused> {
    plans.values_mut().find(|plan| plan.job(job).is_some()).ok_or(JobRefused::NotFound { job })
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

    /// One write to the plan that the claim names. A plan or a job that nobody knows has no owner.
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
    ) -> Result<Started, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.start_changeset(claim, id))?)
    }

    async fn record(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<Recorded, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.record(claim, id, change))?)
    }

    async fn record_latest(
        &self,
        _: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<Recorded, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.record_latest(claim, change))?)
    }

    async fn close(&self, _: &Effect, claim: &Claim, id: ChangesetId) -> Result<Closed, ChangesetStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.close(claim, id, now))?)
    }

    async fn finish(
        &self,
        _: &Finisher,
        claim: &Claim,
        how: Ending,
    ) -> Result<Vec<Closed>, ChangesetStoreError> {
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

    async fn changed_places(
        &self,
        states: &[PlanState],
        entries_max: usize,
    ) -> Result<Vec<ChangedPlace>, StoreError> {
        let mut found = self.plans.update_all(|plans| {
            let rows = plans.values().filter_map(|record| Some((record.row()?, record)));
            let asked = rows.filter(|(plan, _)| states.contains(&plan.state));
            asked.flat_map(|(plan, record)| changes_of(plan, record)).collect::<Vec<_>>()
        });
        found.sort_by_key(|(plan, _)| std::cmp::Reverse(*plan));
        found.truncate(entries_max);
        Ok(found.into_iter().flat_map(|(_, places)| places).collect())
    }

    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError> {
        let all = |record: &PlanRecord| record.changesets().iter().cloned().collect();
        Ok(self.plans.read(&plan, |record| record.map(all).unwrap_or_default()))
    }
}

/// The places of each entry of the plan's present attempt.
fn changes_of(plan: &Plan, record: &PlanRecord) -> Vec<(PlanId, Vec<ChangedPlace>)> {
    let sets = record.changesets().iter().filter(|set| set.attempt == plan.attempt);
    let entries = sets.flat_map(|set| &set.entries);
    let places = entries.filter_map(|entry| {
        let root = plan.projects.get(usize::from(entry.root.0))?.root.as_bytes();
        let from = match &entry.op {
            Op::Rename { from } => Some(from),
            Op::Create | Op::Modify | Op::Delete | Op::Mode => None,
        };
        let paths = [Some(&entry.path), from].into_iter().flatten();
        Some((plan.id, paths.map(|path| ChangedPlace::new(plan.id, root, path.as_bytes())).collect()))
    });
    places.collect()
}

#[async_trait]
impl ErrorStore for MemoryStore {
    async fn record_error(
        &self,
        claim: &Claim,
        policy: &Policy,
        error: NewError,
        jitter: u16,
    ) -> Result<Recovery, StoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.record_error(claim, policy, error, now, jitter))?)
    }

    async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError> {
        Ok(self.plans.read(&plan, |record| match record {
            Some(record) => record.errors().clone(),
            None => ErrorHistory::of(plan),
        }))
    }
}
