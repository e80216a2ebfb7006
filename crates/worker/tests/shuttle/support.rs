//! A claimed plan on the in-memory store, and the runtime that shuttle schedules.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::worker::{Ids, PlanExecutionContext, Runtime, TaskKind};
use domain::{
    Base, BootId, CallNumber, ChangeDraft, ChangeId, Claim, ClaimRequest, FileState, JobId, Ms, NewChange,
    NewJob, Phase, PlanId, RelPath, RootIndex, WorkerId,
};
use futures_util::future::BoxFuture;
use shuttle::future::block_on;
use store::{JobStore, MemoryStore};
use sync::primitives::atomic::{AtomicU64, Ordering};
use sync::{CancellationToken, EffectGate, ManualClock};

pub(crate) const BOOT: BootId = BootId::from_u128(1);
pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const PLAN: PlanId = PlanId::from_u128(1);

/// Ids 1, 2, 3, …
pub(crate) struct CountingIds(AtomicU64);

impl CountingIds {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(1))
    }
}

impl Ids for CountingIds {
    fn ulid(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Tasks that shuttle schedules, sleeping on a clock that tests move.
pub(crate) struct ShuttleRuntime(pub(crate) ManualClock);

impl Runtime for ShuttleRuntime {
    fn spawn(&self, _: TaskKind, task: BoxFuture<'static, ()>) -> io::Result<()> {
        drop(shuttle::future::spawn(task));
        Ok(())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.0.sleep(duration))
    }
}

pub(crate) fn enqueue(store: &MemoryStore) -> JobId {
    let id = JobId::from_u128(1);
    block_on(store.enqueue(NewJob { id, plan: PLAN, phase: Phase::Execute, not_before: Ms(0) })).unwrap();
    id
}

/// A store with one plan whose job is claimed.
pub(crate) fn claimed() -> (Arc<MemoryStore>, Claim) {
    let store = Arc::new(MemoryStore::new(Arc::new(ManualClock::new())));
    enqueue(&store);
    let request = ClaimRequest {
        worker: WorkerId::from_u128(1),
        boot: BOOT,
        lease: LEASE,
        concurrency_max: 4,
        only: None,
        variables: Default::default(),
    };
    let claim = block_on(store.claim(&request)).unwrap().unwrap().claim();
    (store, claim)
}

pub(crate) fn context(store: &Arc<MemoryStore>, claim: Claim) -> PlanExecutionContext {
    PlanExecutionContext::new(
        claim,
        CancellationToken::new().observe(),
        EffectGate::new(),
        Arc::clone(store) as _,
        Arc::new(CountingIds::new()),
    )
}

/// Change `n`: file `n` created.
pub(crate) fn change(n: u64) -> NewChange {
    let path = RelPath::new(format!("{n}")).unwrap();
    let draft = ChangeDraft::between(path, None, Some(FileState::file(b"", 0o644))).unwrap();
    NewChange {
        id: ChangeId::from_u128(n.into()),
        call: CallNumber(1),
        root: RootIndex(0),
        base: Base::Known,
        draft,
    }
}
