//! What a promise is tried on: a store, the clock that it reads, and owners of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use domain::{
    Changeset, ChangesetId, ChangesetState, Claim, ClaimRequest, Closed, Ending, ErrorHistory, Job, Ms,
    NewChange, NewError, NewJob, PlanId, Policy, Recorded, Recovery, Started,
};
use store::{ChangesetStoreError, JobEnd, JobStoreError, Store, StoreError};
use sync::{CancelReason, Clock, Effect, EffectGate, Finisher, ManualClock};

use super::sample::{ANN, LEASE, STRANGER, new_job, request};

/// Makes an empty store that reads this clock.
pub(crate) type MakeStore = fn(ManualClock) -> Arc<dyn Store>;

/// When every bench begins, so that no time is zero by chance.
const BEGIN: Duration = Duration::from_secs(1_000);

/// An empty store and its clock. `Clone` is the same store.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    clock: ManualClock,
    make: MakeStore,
}

/// All that a store tells about what it holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    jobs: Vec<Job>,
    plans: BTreeMap<PlanId, (Vec<Changeset>, ErrorHistory)>,
}

impl Bench {
    pub(crate) fn new(make: MakeStore) -> Self {
        let clock = ManualClock::new();
        clock.advance(BEGIN);
        Self { store: make(clock.clone()), clock, make }
    }

    /// An empty store of the same kind.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.make)
    }

    pub(crate) fn pass(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(crate) fn now(&self) -> Ms {
        Ms::from(self.clock.now())
    }

    /// The moment `duration` from now.
    pub(crate) fn after(&self, duration: Duration) -> Ms {
        self.now().saturating_add(duration)
    }

    pub(crate) async fn enqueue(&self, new: NewJob) -> Job {
        self.store.enqueue(new).await.unwrap()
    }

    pub(crate) async fn claim(&self, request: ClaimRequest) -> Option<Job> {
        self.store.claim(&request).await.unwrap()
    }

    /// Ann, who owns job n of plan n.
    pub(crate) async fn owner(&self, n: u64) -> Owner {
        self.owner_of(new_job(n)).await
    }

    /// Ann, who owns this job.
    pub(crate) async fn owner_of(&self, new: NewJob) -> Owner {
        self.enqueue(new).await;
        let only = Some(new.plan);
        let job = self.claim(ClaimRequest { only, ..request(ANN) }).await.unwrap();
        self.as_owner(job.claim())
    }

    /// Somebody who shows this claim, rightly or not.
    pub(crate) fn as_owner(&self, claim: Claim) -> Owner {
        Owner { store: Arc::clone(&self.store), claim }
    }

    pub(crate) async fn job(&self, new: NewJob) -> Job {
        self.store.job(new.id).await.unwrap()
    }

    pub(crate) async fn changesets(&self, plan: PlanId) -> Vec<Changeset> {
        self.store.changesets(plan).await.unwrap()
    }

    pub(crate) async fn history(&self, plan: PlanId) -> ErrorHistory {
        self.store.history(plan).await.unwrap()
    }

    /// How many changesets of the plan still take entries.
    pub(crate) async fn open_changesets(&self, plan: PlanId) -> usize {
        let is_open = |set: &Changeset| set.state == ChangesetState::Open;
        self.changesets(plan).await.into_iter().filter(is_open).count()
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        let jobs = self.store.jobs(None).await.unwrap();
        let known: BTreeSet<PlanId> = jobs.iter().map(|job| job.plan).chain([STRANGER]).collect();
        let mut plans = BTreeMap::new();
        for plan in known {
            plans.insert(plan, (self.changesets(plan).await, self.history(plan).await));
        }
        Snapshot { jobs, plans }
    }

    /// Runs `body` on so many threads that all start at once, and gathers what they return.
    ///
    /// Threads of the machine, not tasks: tasks that never wait would run one after the other.
    pub(crate) fn on_threads<R, F>(&self, count: usize, body: impl Fn(usize) -> F + Sync) -> Vec<R>
    where
        R: Send,
        F: Future<Output = R>,
    {
        let runtime = tokio::runtime::Handle::current();
        let start = Barrier::new(count);
        let run = |index| {
            start.wait();
            runtime.block_on(body(index))
        };
        tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let run = &run;
                let threads: Vec<_> = (0..count).map(|index| scope.spawn(move || run(index))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            })
        })
    }
}

pub(crate) fn effect() -> Effect {
    EffectGate::new().enter().unwrap()
}

pub(crate) fn finisher() -> Finisher {
    EffectGate::new().close(CancelReason::User).unwrap()
}

/// Whoever shows a claim with every write.
#[derive(Clone)]
pub(crate) struct Owner {
    store: Arc<dyn Store>,
    pub(crate) claim: Claim,
}

impl Owner {
    pub(crate) async fn start(&self, id: ChangesetId) -> Result<Started, ChangesetStoreError> {
        self.store.start(&effect(), &self.claim, id).await
    }

    pub(crate) async fn record(
        &self,
        id: ChangesetId,
        change: &NewChange,
    ) -> Result<Recorded, ChangesetStoreError> {
        self.store.record(&effect(), &self.claim, id, change.clone()).await
    }

    pub(crate) async fn record_latest(&self, change: &NewChange) -> Result<Recorded, ChangesetStoreError> {
        self.store.record_latest(&effect(), &self.claim, change.clone()).await
    }

    pub(crate) async fn close(&self, id: ChangesetId) -> Result<Closed, ChangesetStoreError> {
        self.store.close(&effect(), &self.claim, id).await
    }

    pub(crate) async fn finish(&self, how: Ending) -> Result<Vec<Closed>, ChangesetStoreError> {
        self.store.finish(&finisher(), &self.claim, how).await
    }

    pub(crate) async fn record_error(
        &self,
        policy: &Policy,
        error: &NewError,
    ) -> Result<Recovery, StoreError> {
        self.store.record_error(&self.claim, policy, error.clone(), 0).await
    }

    pub(crate) async fn heartbeat(&self) -> Result<Job, JobStoreError> {
        self.store.heartbeat(&self.claim, LEASE).await
    }

    pub(crate) async fn settled_node(&self) -> Result<(), JobStoreError> {
        self.store.settled_node(&effect(), &self.claim).await
    }

    pub(crate) async fn seal(&self) -> Result<(), JobStoreError> {
        self.store.seal(&effect(), &self.claim).await
    }

    pub(crate) async fn end(&self, end: JobEnd) -> Result<Job, JobStoreError> {
        self.store.end(&finisher(), &self.claim, end).await
    }

    pub(crate) async fn release(&self) -> Result<Job, JobStoreError> {
        self.store.release(&finisher(), &self.claim).await
    }
}

/// A job that could not be done.
pub(crate) fn failed() -> JobEnd {
    JobEnd::Failed { why: "it's \"broken\"; é".to_owned() }
}
