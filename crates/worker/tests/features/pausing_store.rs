//! A store that does what the in-memory store does, and stops before or after the step where a scenario says
//! so.
//!
//! "Before" means that the caller is inside the store's method and nothing of its write is visible; "after"
//! that the write is visible and the caller has not been answered.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Changeset, ChangesetEnding, ChangesetId, Claim, ClaimRequest, ClosedChangeset, ErrorHistory, Job, JobId,
    NewChange, NewError, NewJob, PlanId, RecordedChange, RecoveryAdvice, RecoveryPolicy, StartedChangeset,
    WorkerId,
};
use store::{
    ChangesetStore, ChangesetStoreError, ErrorStore, JobEnd, JobStore, JobStoreError, MemoryStore, StoreError,
};
use sync::{Clock, Effect, Finisher};

use crate::threads::{Held, Pauses};

/// A place in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Before(Op),
    After(Op),
}

/// What the store is asked for, as far as scenarios stop there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    StartChangeset,
    Record,
    RecordLatest,
    RecordError,
    Claim(WorkerId),
    End,
}

pub(crate) struct PausingStore {
    inner: MemoryStore,
    pauses: Pauses<Point>,
}

impl PausingStore {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::new(clock), pauses: Pauses::default() })
    }

    /// The next one who comes to `point` stops there.
    pub(crate) fn hold(&self, point: Point) -> Held {
        self.pauses.hold(point)
    }

    async fn paused<T>(&self, op: Op, step: impl Future<Output = T>) -> T {
        self.pauses.at_async(Point::Before(op)).await;
        let answer = step.await;
        self.pauses.at_async(Point::After(op)).await;
        answer
    }
}

#[async_trait]
impl ChangesetStore for PausingStore {
    async fn start(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<StartedChangeset, ChangesetStoreError> {
        self.paused(Op::StartChangeset, self.inner.start(effect, claim, id)).await
    }

    async fn record(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        self.paused(Op::Record, self.inner.record(effect, claim, id, change)).await
    }

    async fn record_latest(
        &self,
        effect: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        self.paused(Op::RecordLatest, self.inner.record_latest(effect, claim, change)).await
    }

    async fn close(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<ClosedChangeset, ChangesetStoreError> {
        self.inner.close(effect, claim, id).await
    }

    async fn finish(
        &self,
        finisher: &Finisher,
        claim: &Claim,
        how: ChangesetEnding,
    ) -> Result<Vec<ClosedChangeset>, ChangesetStoreError> {
        self.inner.finish(finisher, claim, how).await
    }

    async fn entries(&self, plan: PlanId, attempt: u32) -> Result<Vec<domain::ChangeEntry>, StoreError> {
        self.inner.entries(plan, attempt).await
    }

    async fn changed_plans(
        &self,
        states: &[domain::PlanState],
        plans_max: usize,
    ) -> Result<(Vec<store::ChangedPlan>, usize), StoreError> {
        self.inner.changed_plans(states, plans_max).await
    }

    async fn changed_plan(&self, plan: PlanId) -> Result<Option<store::ChangedPlan>, StoreError> {
        self.inner.changed_plan(plan).await
    }

    async fn store_footprint(
        &self,
        plan: PlanId,
        stamp: (u32, u64),
        files: usize,
        bytes: Vec<u8>,
    ) -> Result<(), StoreError> {
        self.inner.store_footprint(plan, stamp, files, bytes).await
    }

    async fn files_changed(
        &self,
        plans: &[PlanId],
    ) -> Result<std::collections::BTreeMap<PlanId, usize>, StoreError> {
        self.inner.files_changed(plans).await
    }

    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError> {
        self.inner.changesets(plan).await
    }
}

#[async_trait]
impl ErrorStore for PausingStore {
    async fn record_error(
        &self,
        claim: &Claim,
        policy: &RecoveryPolicy,
        error: NewError,
        jitter: u16,
    ) -> Result<RecoveryAdvice, StoreError> {
        self.paused(Op::RecordError, self.inner.record_error(claim, policy, error, jitter)).await
    }

    async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError> {
        self.inner.history(plan).await
    }
}

#[async_trait]
impl JobStore for PausingStore {
    async fn enqueue(&self, new: NewJob) -> Result<Job, JobStoreError> {
        self.inner.enqueue(new).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Job>, JobStoreError> {
        self.paused(Op::Claim(request.worker), self.inner.claim(request)).await
    }

    async fn heartbeat(&self, claim: &Claim, lease: Duration) -> Result<Job, JobStoreError> {
        self.inner.heartbeat(claim, lease).await
    }

    async fn settled_node(&self, effect: &Effect, claim: &Claim) -> Result<(), JobStoreError> {
        self.inner.settled_node(effect, claim).await
    }

    async fn cancel(&self, job: JobId, reason: &str) -> Result<Job, JobStoreError> {
        self.inner.cancel(job, reason).await
    }

    async fn cancel_own(&self, claim: &Claim, reason: &str) -> Result<Job, JobStoreError> {
        self.inner.cancel_own(claim, reason).await
    }

    async fn seal(&self, effect: &Effect, claim: &Claim) -> Result<(), JobStoreError> {
        self.inner.seal(effect, claim).await
    }

    async fn end(&self, finisher: &Finisher, claim: &Claim, end: JobEnd) -> Result<Job, JobStoreError> {
        self.paused(Op::End, self.inner.end(finisher, claim, end)).await
    }

    async fn release(&self, finisher: &Finisher, claim: &Claim) -> Result<Job, JobStoreError> {
        self.inner.release(finisher, claim).await
    }

    async fn free_leases(&self, worker: WorkerId) -> Result<usize, JobStoreError> {
        self.inner.free_leases(worker).await
    }

    async fn job(&self, id: JobId) -> Result<Job, JobStoreError> {
        self.inner.job(id).await
    }

    async fn jobs(&self, plan: Option<PlanId>) -> Result<Vec<Job>, JobStoreError> {
        self.inner.jobs(plan).await
    }
}

delegate_other_ports!(PausingStore);
