//! A virtual machine for the engine: a clock that stands still, a runtime on it, a scripted runner, a store
//! with faults.
//!
//! Tests run on one thread and wait for conditions by yielding, so that nothing depends on real time.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Base, BootId, CallNumber, ChangeDraft, ChangeId, Changeset, ChangesetEnding, ChangesetId, Claim,
    ClaimRequest, ClosedChangeset, ErrorHistory, FileState, Job, JobId, JobState, Ms, NewChange, NewError,
    NewJob, Phase, PlanId, RecordedChange, RecoveryAdvice, RecoveryPolicy, RelPath, RootIndex,
    StartedChangeset, WorkerId,
};
use futures_util::future::BoxFuture;
use store::{
    ChangesetStore, ChangesetStoreError, ErrorStore, JobEnd, JobStore, JobStoreError, MemoryStore, StoreError,
};
use sync::{CancelReason, CancellationToken, Effect, Finisher, ManualClock};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use worker::{AsyncWorker, Ids, JobRun, JobRunner, Ports, RunFailure, Runtime, TaskKind, WorkerConfig};

pub(crate) const BOOT: BootId = BootId::from_u128(1);
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Ids 1, 2, 3, …
#[derive(Default)]
pub(crate) struct CountingIds(AtomicU64);

impl Ids for CountingIds {
    fn ulid(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1
    }
}

/// Tasks on this test's thread, sleeping on the virtual clock.
pub(crate) struct VirtualRuntime {
    pub(crate) clock: ManualClock,
}

impl Runtime for VirtualRuntime {
    fn spawn(&self, _: TaskKind, task: BoxFuture<'static, ()>) -> io::Result<()> {
        Handle::current().spawn(task);
        Ok(())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.clock.sleep(duration))
    }
}

/// Another worker, number `n`, that asks for a job.
pub(crate) fn rival(n: u128) -> ClaimRequest {
    let worker = WorkerId::from_u128(n);
    ClaimRequest {
        worker,
        boot: BOOT,
        lease: LEASE,
        concurrency_max: 64,
        only: None,
        variables: Default::default(),
    }
}

/// What a job does, by the number of its plan.
pub(crate) type Script =
    Arc<dyn for<'a> Fn(&'a JobRun) -> BoxFuture<'a, Result<(), RunFailure>> + Send + Sync>;

/// Runs jobs by a script, and records what happens.
pub(crate) struct ScriptedRunner {
    script: Script,
    pub(crate) events: Mutex<Vec<(JobId, Note)>>,
    /// Records a change in `wind_down`, as a capture would.
    capture: Option<Arc<FaultyStore>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Began,
    Returned,
    Killed(CancelReason),
    WoundDown(Option<CancelReason>),
}

impl ScriptedRunner {
    fn note(&self, run: &JobRun, note: Note) {
        self.events.lock().unwrap().push((run.job().id, note));
    }

    /// What happened to a job, but for the kills.
    pub(crate) fn notes(&self, job: JobId) -> Vec<Note> {
        let all = self.all_notes(job);
        all.into_iter().filter(|note| !matches!(note, Note::Killed(_))).collect()
    }

    pub(crate) fn all_notes(&self, job: JobId) -> Vec<Note> {
        self.events.lock().unwrap().iter().filter(|(id, _)| *id == job).map(|(_, note)| *note).collect()
    }

    pub(crate) fn began(&self) -> usize {
        self.events.lock().unwrap().iter().filter(|(_, note)| *note == Note::Began).count()
    }
}

#[async_trait]
impl JobRunner for ScriptedRunner {
    async fn run(&self, run: &JobRun) -> Result<(), RunFailure> {
        self.note(run, Note::Began);
        let result = (self.script)(run).await;
        self.note(run, Note::Returned);
        result
    }

    fn kill(&self, run: &JobRun, reason: CancelReason) {
        self.note(run, Note::Killed(reason));
    }

    async fn wind_down(&self, run: &JobRun, finisher: &Finisher, interrupted: Option<CancelReason>) {
        self.note(run, Note::WoundDown(interrupted));
        if let Some(store) = &self.capture {
            let _ = store.record_latest(finisher.effect(), &run.claim(), change(9_999)).await;
        }
    }
}

pub(crate) fn script<F>(body: F) -> Script
where
    F: for<'a> Fn(&'a JobRun) -> BoxFuture<'a, Result<(), RunFailure>> + Send + Sync + 'static,
{
    Arc::new(body)
}

/// Succeeds at once.
pub(crate) fn succeed() -> Script {
    script(|_| Box::pin(async { Ok(()) }))
}

/// Waits for its scope to be cancelled, and returns then.
pub(crate) fn until_cancelled() -> Script {
    script(|run| {
        Box::pin(async move {
            let reason = run.scope().cancelled().await;
            Err(RunFailure::failed(reason.to_string()))
        })
    })
}

/// Never returns, whatever is cancelled.
pub(crate) fn stubborn() -> Script {
    script(|_| Box::pin(std::future::pending()))
}

/// Waits for `go`, then succeeds.
pub(crate) fn gated(go: Arc<Notify>) -> Script {
    script(move |_| {
        let go = Arc::clone(&go);
        Box::pin(async move {
            go.notified().await;
            Ok(())
        })
    })
}

/// One machine with a store; workers are made on it.
pub(crate) struct Machine {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) ids: Arc<CountingIds>,
    pub(crate) token: CancellationToken,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let store = FaultyStore::new(MemoryStore::new(Arc::new(clock.clone())));
        Self { clock, store: Arc::new(store), ids: Arc::default(), token: CancellationToken::new() }
    }

    pub(crate) fn worker(&self, script: Script) -> (AsyncWorker, Arc<ScriptedRunner>) {
        self.worker_with(WorkerConfig::new(BOOT, LEASE), script, None)
    }

    pub(crate) fn capturing_worker(&self, script: Script) -> (AsyncWorker, Arc<ScriptedRunner>) {
        let store = Some(Arc::clone(&self.store));
        self.worker_with(WorkerConfig::new(BOOT, LEASE), script, store)
    }

    pub(crate) fn worker_with(
        &self,
        config: WorkerConfig,
        script: Script,
        capture: Option<Arc<FaultyStore>>,
    ) -> (AsyncWorker, Arc<ScriptedRunner>) {
        let runner = Arc::new(ScriptedRunner { script, events: Mutex::default(), capture });
        let ports = Ports {
            store: Arc::clone(&self.store) as Arc<dyn store::Store>,
            runner: Arc::clone(&runner) as Arc<dyn JobRunner>,
            runtime: Arc::new(VirtualRuntime { clock: self.clock.clone() }),
            clock: Arc::new(self.clock.clone()),
            ids: Arc::clone(&self.ids) as Arc<dyn Ids>,
            token: self.token.clone(),
        };
        let worker = AsyncWorker::new(config, ports).unwrap();
        worker.start().unwrap();
        (worker, runner)
    }

    /// A worker that has begun job 1.
    pub(crate) async fn begun(&self, script: Script) -> (AsyncWorker, Arc<ScriptedRunner>, JobId) {
        let (worker, runner) = self.worker(script);
        let id = self.enqueue(1).await;
        worker.hint();
        until("it runs", || runner.began() == 1).await;
        (worker, runner, id)
    }

    /// Queues job `n` of plan `n`.
    pub(crate) async fn enqueue(&self, n: u128) -> JobId {
        self.enqueue_phase(n, Phase::Execute).await
    }

    pub(crate) async fn enqueue_phase(&self, n: u128, phase: Phase) -> JobId {
        let (id, plan) = (JobId::from_u128(n), PlanId::from_u128(n));
        self.store.enqueue(NewJob { id, plan, phase, not_before: Ms(0) }).await.unwrap();
        id
    }

    pub(crate) async fn job(&self, id: JobId) -> Job {
        self.store.job(id).await.unwrap()
    }

    pub(crate) async fn state(&self, id: JobId) -> JobState {
        self.job(id).await.state
    }

    /// Lets the tasks run until the job is in `state`.
    pub(crate) async fn wait_for(&self, id: JobId, state: JobState) -> Job {
        for _ in 0..YIELDS_MAX {
            let job = self.job(id).await;
            if job.state == state {
                return job;
            }
            tokio::task::yield_now().await;
        }
        panic!("the job did not become {state:?}: {:?}", self.job(id).await);
    }

    /// Moves the clock in small steps, letting the tasks run at each.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(100);
        for _ in 0..time.as_millis() / step.as_millis() {
            self.clock.advance(step);
            run_ready_tasks().await;
        }
    }
}

const YIELDS_MAX: usize = 10_000;

/// Lets the tasks run until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..YIELDS_MAX {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("this did not come about: {what}");
}

/// Lets every task run as far as it can without time passing.
pub(crate) async fn run_ready_tasks() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Change `n`: file `n` created.
pub(crate) fn change(n: u128) -> NewChange {
    let path = RelPath::new(format!("src/{n}.rs")).unwrap();
    let draft = ChangeDraft::between(path, None, Some(FileState::file(b"fn main() {}\n", 0o644))).unwrap();
    NewChange {
        id: ChangeId::from_u128(n),
        call: CallNumber(1),
        root: RootIndex(0),
        base: Base::Known,
        draft,
    }
}

/// The calls that faults can be put before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Claim,
    Heartbeat,
    End,
    Release,
    Start,
}

/// What goes wrong with a call.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Busy,
    Broken,
    Panic,
    /// Never answers.
    Hang,
    /// Is done, and then says that it was not.
    BusyAfterwards,
    /// Waits, before it does anything.
    Pause(Arc<Pause>),
}

/// A place in a store where a call stops until it may go on.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    pub(crate) reached: Notify,
    pub(crate) go: Notify,
}

/// The in-memory store, with faults before chosen calls.
pub(crate) struct FaultyStore {
    inner: MemoryStore,
    faults: Mutex<VecDeque<(Call, Fault)>>,
    always: Mutex<Option<(Call, Fault)>>,
    pub(crate) heartbeats: AtomicU64,
}

impl FaultyStore {
    fn new(inner: MemoryStore) -> Self {
        Self { inner, faults: Mutex::default(), always: Mutex::default(), heartbeats: AtomicU64::new(0) }
    }

    /// Puts a fault before the next call of this kind.
    pub(crate) fn fail_next(&self, call: Call, fault: Fault) {
        self.faults.lock().unwrap().push_back((call, fault));
    }

    /// Puts a fault before every call of this kind, or before none.
    pub(crate) fn fail_always(&self, fault: Option<(Call, Fault)>) {
        *self.always.lock().unwrap() = fault;
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        if let Some(position) = faults.iter().position(|(next, _)| *next == call) {
            return faults.remove(position).map(|(_, fault)| fault);
        }
        self.always
            .lock()
            .unwrap()
            .as_ref()
            .filter(|(always, _)| *always == call)
            .map(|(_, fault)| fault.clone())
    }

    async fn before(&self, call: Call) -> Result<Afterwards, StoreError> {
        match self.fault(call) {
            None => Ok(Afterwards::Answer),
            Some(Fault::Busy) => Err(StoreError::Busy),
            Some(Fault::Broken) => Err(StoreError::Broken { why: "by the test".to_owned() }),
            Some(Fault::Panic) => panic!("the store panicked in {call:?}"),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::BusyAfterwards) => Ok(Afterwards::SayBusy),
            Some(Fault::Pause(pause)) => {
                pause.reached.notify_one();
                pause.go.notified().await;
                Ok(Afterwards::Answer)
            }
        }
    }
}

enum Afterwards {
    Answer,
    SayBusy,
}

impl Afterwards {
    fn of<T, E: From<StoreError>>(self, answer: Result<T, E>) -> Result<T, E> {
        match self {
            Self::Answer => answer,
            Self::SayBusy => Err(StoreError::Busy.into()),
        }
    }
}

#[async_trait]
impl ChangesetStore for FaultyStore {
    async fn start(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<StartedChangeset, ChangesetStoreError> {
        let afterwards = self.before(Call::Start).await?;
        afterwards.of(self.inner.start(effect, claim, id).await)
    }

    async fn record(
        &self,
        effect: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        self.inner.record(effect, claim, id, change).await
    }

    async fn record_latest(
        &self,
        effect: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        self.inner.record_latest(effect, claim, change).await
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
impl ErrorStore for FaultyStore {
    async fn record_error(
        &self,
        claim: &Claim,
        policy: &RecoveryPolicy,
        error: NewError,
        jitter: u16,
    ) -> Result<RecoveryAdvice, StoreError> {
        self.inner.record_error(claim, policy, error, jitter).await
    }

    async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError> {
        self.inner.history(plan).await
    }
}

#[async_trait]
impl JobStore for FaultyStore {
    async fn enqueue(&self, new: NewJob) -> Result<Job, JobStoreError> {
        self.inner.enqueue(new).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Job>, JobStoreError> {
        let afterwards = self.before(Call::Claim).await?;
        afterwards.of(self.inner.claim(request).await)
    }

    async fn heartbeat(&self, claim: &Claim, lease: Duration) -> Result<Job, JobStoreError> {
        let afterwards = self.before(Call::Heartbeat).await?;
        self.heartbeats.fetch_add(1, Ordering::Relaxed);
        afterwards.of(self.inner.heartbeat(claim, lease).await)
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
        let afterwards = self.before(Call::End).await?;
        afterwards.of(self.inner.end(finisher, claim, end).await)
    }

    async fn release(&self, finisher: &Finisher, claim: &Claim) -> Result<Job, JobStoreError> {
        let afterwards = self.before(Call::Release).await?;
        afterwards.of(self.inner.release(finisher, claim).await)
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

delegate_other_ports!(FaultyStore);
