//! The fixture of a promise: a store, the clock that it reads, and owners of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use domain::context::ContextRecord;
use domain::{
    ApplyRecord, CallCategory, CallEnd, CallNumber, Changeset, ChangesetEnding, ChangesetId, ChangesetState,
    Claim, ClaimRequest, ClosedChangeset, Decision, ErrorHistory, EventRecord, Job, Ledger, Lock, Ms,
    NewApply, NewCall, NewChange, NewDecision, NewError, NewJob, NewSpend, NodeRun, NodeWait, Plan, PlanId,
    RecordedChange, RecoveryAdvice, RecoveryPolicy, SandboxRecord, SettledCall, Spend, SpendId, SpendKind,
    StartedChangeset, StepDecision, ToolCall,
};
use store::{
    CallAuthority, CallOutcome, ChangesetStoreError, DecisionStoreError, JobEnd, JobStoreError,
    LedgerStoreError, StagedContent, Store, StoreError,
};
use sync::{CancelReason, Clock, Effect, EffectGate, Finisher, ManualClock};

use super::sample::{ANN, LEASE, STRANGER, call_end, new_job, reasons, request};

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
    locks: Vec<Lock>,
    plans: BTreeMap<PlanId, PlanSnapshot>,
}

/// All that a store tells about one plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanSnapshot {
    row: Option<Plan>,
    decisions: Vec<Decision>,
    changesets: Vec<Changeset>,
    calls: Vec<ToolCall>,
    nodes: Vec<NodeRun>,
    contexts: Vec<ContextRecord>,
    sandboxes: Vec<SandboxRecord>,
    applies: Vec<ApplyRecord>,
    history: ErrorHistory,
    events: Vec<EventRecord>,
    ledger: Ledger,
    spends: Vec<Spend>,
}

impl PlanSnapshot {
    /// Returns whether nothing at all is stored of it.
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            row,
            decisions,
            changesets,
            calls,
            nodes,
            contexts,
            sandboxes,
            applies,
            history,
            events,
            ledger,
            spends,
        } = self;
        row.is_none()
            && decisions.is_empty()
            && changesets.is_empty()
            && calls.is_empty()
            && nodes.is_empty()
            && contexts.is_empty()
            && sandboxes.is_empty()
            && applies.is_empty()
            && history.recorded() == 0
            && events.is_empty()
            && *ledger == Ledger::default()
            && spends.is_empty()
    }
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

    /// The number of changesets of the plan that still take entries.
    pub(crate) async fn open_changesets(&self, plan: PlanId) -> usize {
        let is_open = |set: &Changeset| set.state == ChangesetState::Open;
        self.changesets(plan).await.into_iter().filter(is_open).count()
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        let jobs = self.store.jobs(None).await.unwrap();
        let known: BTreeSet<PlanId> = jobs.iter().map(|job| job.plan).chain([STRANGER]).collect();
        let mut plans = BTreeMap::new();
        for plan in known {
            plans.insert(plan, self.plan_snapshot(plan).await);
        }
        Snapshot { jobs, locks: self.store.locks().await.unwrap(), plans }
    }

    pub(crate) async fn plan_snapshot(&self, plan: PlanId) -> PlanSnapshot {
        PlanSnapshot {
            row: self.store.plan(plan).await.ok(),
            decisions: self.store.decisions(plan).await.unwrap(),
            changesets: self.changesets(plan).await,
            calls: self.store.calls(plan).await.unwrap(),
            nodes: self.store.node_runs(plan).await.unwrap(),
            contexts: self.store.contexts(plan).await.unwrap(),
            sandboxes: self.store.sandboxes(plan).await.unwrap(),
            applies: self.store.applies(plan).await.unwrap(),
            history: self.history(plan).await,
            events: self.events(plan).await,
            ledger: self.store.ledger(plan).await.unwrap(),
            spends: self.store.spends(plan).await.unwrap(),
        }
    }

    /// The plan, which was made.
    pub(crate) async fn plan(&self, plan: PlanId) -> Plan {
        self.store.plan(plan).await.unwrap()
    }

    /// All that happened to a plan.
    pub(crate) async fn events(&self, plan: PlanId) -> Vec<EventRecord> {
        self.store.events(plan, 0, usize::MAX).await.unwrap()
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

/// A writer that shows a claim with every write.
#[derive(Clone)]
pub(crate) struct Owner {
    store: Arc<dyn Store>,
    pub(crate) claim: Claim,
}

impl Owner {
    pub(crate) async fn start(&self, id: ChangesetId) -> Result<StartedChangeset, ChangesetStoreError> {
        self.store.start(&effect(), &self.claim, id).await
    }

    pub(crate) async fn record(
        &self,
        id: ChangesetId,
        change: &NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        self.store.record(&effect(), &self.claim, id, change.clone()).await
    }

    pub(crate) async fn record_latest(
        &self,
        change: &NewChange,
    ) -> Result<RecordedChange, ChangesetStoreError> {
        self.store.record_latest(&effect(), &self.claim, change.clone()).await
    }

    pub(crate) async fn close(&self, id: ChangesetId) -> Result<ClosedChangeset, ChangesetStoreError> {
        self.store.close(&effect(), &self.claim, id).await
    }

    pub(crate) async fn finish(
        &self,
        how: ChangesetEnding,
    ) -> Result<Vec<ClosedChangeset>, ChangesetStoreError> {
        self.store.finish(&finisher(), &self.claim, how).await
    }

    pub(crate) async fn record_error(
        &self,
        policy: &RecoveryPolicy,
        error: &NewError,
    ) -> Result<RecoveryAdvice, StoreError> {
        self.store.record_error(&self.claim, policy, error.clone(), 0).await
    }

    pub(crate) async fn heartbeat(&self) -> Result<Job, JobStoreError> {
        self.store.heartbeat(&self.claim, LEASE).await
    }

    pub(crate) async fn settled_node(&self) -> Result<(), JobStoreError> {
        self.store.settled_node(&effect(), &self.claim).await
    }

    pub(crate) async fn decide(&self, decision: NewDecision) -> Result<Decision, DecisionStoreError> {
        self.store.decide(&effect(), &self.claim, decision).await
    }

    pub(crate) async fn decide_all(
        &self,
        decisions: Vec<StepDecision>,
    ) -> Result<Vec<Decision>, DecisionStoreError> {
        self.store.decide_all(&effect(), &self.claim, decisions).await
    }

    pub(crate) async fn settle_nodes(&self, runs: Vec<NodeRun>) -> Result<(), StoreError> {
        self.store.settle_nodes(CallAuthority::Effect(&effect()), &self.claim, runs).await
    }

    /// Settles nodes after the gate was closed.
    pub(crate) async fn settle_nodes_late(&self, runs: Vec<NodeRun>) -> Result<(), StoreError> {
        self.store.settle_nodes(CallAuthority::Finisher(&finisher()), &self.claim, runs).await
    }

    pub(crate) async fn keep_context(
        &self,
        record: ContextRecord,
        text: StagedContent,
    ) -> Result<(), StoreError> {
        self.store.keep_context(&effect(), &self.claim, record, text).await
    }

    pub(crate) async fn begin_call(&self, new: NewCall) -> Result<ToolCall, StoreError> {
        self.store.begin_call(&effect(), &self.claim, new).await
    }

    pub(crate) async fn begin_counted(
        &self,
        new: NewCall,
        count_as: CallCategory,
    ) -> Result<ToolCall, LedgerStoreError> {
        self.store.begin_counted(&effect(), &self.claim, new, count_as).await
    }

    /// Begins a node that asks a model.
    pub(crate) async fn node_waits(&self, wait: NodeWait) -> Result<(), StoreError> {
        self.store.node_waits(&effect(), &self.claim, wait).await
    }

    pub(crate) async fn keep_call(
        &self,
        call: NewCall,
        count_as: CallCategory,
        end: CallEnd,
    ) -> Result<ToolCall, LedgerStoreError> {
        self.keep_call_and_settle(SettledCall { call, count_as, end, settles: Vec::new() }).await
    }

    pub(crate) async fn keep_call_and_settle(&self, kept: SettledCall) -> Result<ToolCall, LedgerStoreError> {
        let kept = self.keep_calls(vec![kept]).await?;
        Ok(kept.into_iter().next().unwrap())
    }

    pub(crate) async fn keep_calls(&self, kept: Vec<SettledCall>) -> Result<Vec<ToolCall>, LedgerStoreError> {
        self.store.keep_calls(&effect(), &self.claim, kept).await
    }

    pub(crate) async fn add_spent(&self, kind: SpendKind, amount: u64) -> Result<(), LedgerStoreError> {
        self.store.add_spent(CallAuthority::Finisher(&finisher()), &self.claim, kind, amount).await
    }

    pub(crate) async fn end_call(
        &self,
        outcome: CallOutcome,
    ) -> Result<Vec<RecordedChange>, ChangesetStoreError> {
        self.store.end_call(CallAuthority::Effect(&effect()), &self.claim, outcome).await
    }

    /// Ends a call after the gate was closed.
    pub(crate) async fn end_call_late(
        &self,
        outcome: CallOutcome,
    ) -> Result<Vec<RecordedChange>, ChangesetStoreError> {
        self.store.end_call(CallAuthority::Finisher(&finisher()), &self.claim, outcome).await
    }

    pub(crate) async fn sandbox_opened(&self, record: SandboxRecord) -> Result<(), StoreError> {
        self.store.sandbox_opened(&effect(), &self.claim, record).await
    }

    pub(crate) async fn seal_apply(&self, new: NewApply) -> Result<(), JobStoreError> {
        self.store.seal_apply(&effect(), &self.claim, new).await
    }

    pub(crate) async fn reserve(&self, new: NewSpend) -> Result<Spend, LedgerStoreError> {
        self.store.reserve(&effect(), &self.claim, new).await
    }

    pub(crate) async fn settle(&self, id: SpendId, actual: u64) -> Result<Spend, LedgerStoreError> {
        self.store.settle(CallAuthority::Effect(&effect()), &self.claim, id, actual).await
    }

    /// Settles after the gate was closed.
    pub(crate) async fn settle_late(&self, id: SpendId, actual: u64) -> Result<Spend, LedgerStoreError> {
        self.store.settle(CallAuthority::Finisher(&finisher()), &self.claim, id, actual).await
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

/// The end of call `no` of the first attempt, with these changes in a changeset.
pub(crate) fn outcome(no: u32, changeset: ChangesetId, changes: Vec<NewChange>) -> CallOutcome {
    CallOutcome {
        attempt: 1,
        no: CallNumber(no),
        end: call_end(),
        changeset: Some(changeset),
        changes,
        contents: Vec::new(),
        settles: Vec::new(),
    }
}

/// An apply that something stands in the way of.
pub(crate) fn constrained() -> JobEnd {
    JobEnd::Constrained { reasons: reasons() }
}

/// A job that could not be done.
pub(crate) fn failed() -> JobEnd {
    JobEnd::Failed { why: "it's \"broken\"; é".to_owned() }
}
