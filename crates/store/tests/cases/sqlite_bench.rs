//! The files of the SQLite store's tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    ApplyId, ApplyKind, Base, BootId, CallEnd, CallNumber, CallState, CaptureOmissions, ChangeDraft,
    ChangeId, ChangesetId, Claim, ClaimRequest, DecisionKind, ErrorCategory, ErrorId, FileState, Hash, JobId,
    LockRequest, LockResource, Ms, NewApply, NewCall, NewChange, NewDecision, NewError, NewJob, NewPlan,
    NodeOutcome, NodeRun, Phase, PlanId, ProjectLink, RecoveryPolicy, RelPath, RootIndex, SandboxRecord,
    StepId, TokenUsage, WallMs, WorkerId,
};
use serde_json::json;
use store::{
    ApplyStore, CallAuthority, CallOutcome, CallStore, ChangesetStore, ConsentStore, ContentStore,
    ErrorStore, JobStore, LockStore, NodeStore, PlanStore, SqliteOptions, SqliteStore, Store, StoreOpenError,
};
use sync::{Clock, Effect, EffectGate, ManualClock, Parker, SystemClock};
use tempfile::TempDir;

/// A clock that takes a directory with it when the last store that reads it is gone.
struct ClockOfDir {
    clock: ManualClock,
    _dir: TempDir,
}

impl Clock for ClockOfDir {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn park_until(&self, parker: &Parker, at: Option<Duration>) {
        self.clock.park_until(parker, at);
    }
}

/// In memory where the machine has such a place: the rules are tried here, not the disk.
fn fast_dir() -> TempDir {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { TempDir::new_in(shared_memory).unwrap() } else { TempDir::new().unwrap() }
}

/// An empty store that reads this clock.
pub(crate) fn fresh(clock: ManualClock) -> Arc<dyn Store> {
    let dir = fast_dir();
    let options = SqliteOptions {
        dir: dir.path().to_owned(),
        clock: Arc::new(ClockOfDir { clock, _dir: dir }),
        wall: || WallMs(0),
    };
    Arc::new(SqliteStore::open(options).unwrap())
}

/// The store in this directory.
pub(crate) fn try_open(dir: &Path) -> Result<SqliteStore, StoreOpenError> {
    let clock = Arc::new(SystemClock::new());
    SqliteStore::open(SqliteOptions { dir: dir.to_owned(), clock, wall: || WallMs(7) })
}

pub(crate) fn open(dir: &Path) -> SqliteStore {
    try_open(dir).unwrap()
}

/// The same, telling people this time.
pub(crate) fn open_at(dir: &Path, wall: fn() -> WallMs) -> SqliteStore {
    let clock = Arc::new(SystemClock::new());
    SqliteStore::open(SqliteOptions { dir: dir.to_owned(), clock, wall }).unwrap()
}

pub(crate) fn database(dir: &Path) -> PathBuf {
    dir.join("agents.db")
}

pub(crate) const PLAN: PlanId = PlanId::from_u128(1);

/// A worker's claim of the job of this plan.
async fn claimed(store: &SqliteStore, plan: PlanId) -> Claim {
    let (worker, boot, lease) = (WorkerId::from_u128(1), BootId::from_u128(1), Duration::from_secs(3_600));
    let request = ClaimRequest {
        worker,
        boot,
        lease,
        concurrency_max: u32::MAX,
        only: Some(plan),
        variables: Default::default(),
    };
    store.claim(&request).await.unwrap().unwrap().claim()
}

/// A worker's claim of a new job of this plan, which is kept nowhere else.
pub(crate) async fn owner(store: &SqliteStore, plan: PlanId) -> Claim {
    let id = JobId::from_u128(plan.as_u128());
    store.enqueue(NewJob { id, plan, phase: Phase::Execute, not_before: Ms(0) }).await.unwrap();
    claimed(store, plan).await
}

/// The creation of a file, named by `n`.
pub(crate) fn change(n: u128, content: &[u8]) -> NewChange {
    let after = FileState::file(content, 0o644);
    NewChange {
        id: ChangeId::from_u128(n),
        call: CallNumber(1),
        root: RootIndex(0),
        base: Base::Known,
        draft: ChangeDraft::between(RelPath::new(format!("file{n}")).unwrap(), None, Some(after)).unwrap(),
    }
}

pub(crate) fn effect() -> Effect {
    EffectGate::new().enter().unwrap()
}

pub(crate) fn new_call() -> NewCall {
    NewCall {
        attempt: 1,
        node: "execute".to_owned(),
        tool: "command".to_owned(),
        requested: json!({"run": "make"}),
        effective: json!(null),
    }
}

pub(crate) fn call_end() -> CallEnd {
    CallEnd {
        state: CallState::Ok,
        duration_ms: 1,
        exit: Some(0),
        error: None,
        result: json!({}),
        isolation: None,
        stdout: None,
        stderr: None,
    }
}

/// Everything that the store returns about the plan, port by port.
pub(crate) async fn told(store: &SqliteStore) -> Vec<String> {
    vec![
        format!("{:?}", store.plan(PLAN).await),
        format!("{:?}", store.decisions(PLAN).await),
        format!("{:?}", store.events(PLAN, 0, 1_000).await),
        format!("{:?}", store.jobs(None).await),
        format!("{:?}", store.changesets(PLAN).await),
        format!("{:?}", store.calls(PLAN).await),
        format!("{:?}", store.node_runs(PLAN).await),
        format!("{:?}", store.consented(b"/p\xff", "digest").await),
        format!("{:?}", store.sandboxes(PLAN).await),
        format!("{:?}", store.applies(PLAN).await),
        format!("{:?}", store.history(PLAN).await),
        format!("{:?}", store.locks().await),
    ]
}

/// A worker's claim of the first job of this plan, which is made here.
pub(crate) async fn made(store: &SqliteStore, plan: PlanId) -> Claim {
    let job =
        NewJob { id: JobId::from_u128(plan.as_u128()), plan, phase: Phase::Strategize, not_before: Ms(0) };
    store.create(NewPlan { id: plan, ..new_plan() }, vec![prompt()], job).await.unwrap();
    claimed(store, plan).await
}

/// Keeps something of every kind.
pub(crate) async fn fill(store: &SqliteStore) {
    let claim = made(store, PLAN).await;
    let set = ChangesetId::from_u128(1);
    store.start(&effect(), &claim, set).await.unwrap();
    let call = store.begin_call(&effect(), &claim, new_call()).await.unwrap();
    let contents = [&b"small"[..], &[7; 40_000]].map(|bytes| store.stage(&mut &bytes[..]).unwrap());
    let outcome = CallOutcome {
        attempt: 1,
        no: call.no,
        end: call_end(),
        changeset: Some(set),
        changes: vec![change(1, b"small"), change(2, &[7; 40_000])],
        contents: contents.to_vec(),
        settles: vec![node_run("execute")],
    };
    store.end_call(CallAuthority::Effect(&effect()), &claim, outcome).await.unwrap();
    store.close(&effect(), &claim, set).await.unwrap();
    store.start(&effect(), &claim, ChangesetId::from_u128(2)).await.unwrap();
    store.record_latest(&effect(), &claim, change(3, b"")).await.unwrap();
    let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
    let error =
        NewError::new(ErrorId::from_u128(1), Phase::Strategize, step, ErrorCategory::Timeout, "no answer");
    store.record_error(&claim, &RecoveryPolicy::default(), error, 0).await.unwrap();
    let record = SandboxRecord {
        plan: PLAN,
        attempt: 1,
        rung: "copy".to_owned(),
        passed_over: vec![],
        dir: b"/tmp/x".to_vec(),
        boot: BootId::from_u128(1),
        opened: WallMs(1),
        closed: None,
        not_captured: CaptureOmissions::default(),
        tree: None,
    };
    store.sandbox_opened(&effect(), &claim, record).await.unwrap();
    let undo = NewApply {
        id: ApplyId::from_u128(1),
        plan: PLAN,
        kind: ApplyKind::Undo,
        net_hash: Hash::from_content(b""),
        selection: json!(null),
        summary: json!({}),
    };
    store.begin_apply(undo).await.unwrap();
    let request = LockRequest {
        resource: LockResource::Project(Hash::from_content(b"root")),
        owner: "me".to_owned(),
        boot: BootId::from_u128(1),
        lease: Duration::from_secs(1),
    };
    store.take_lock(request).await.unwrap();
    store.decide_all(&effect(), &claim, vec![choice("a").into(), choice("b").into()]).await.unwrap();
    store.consent(b"/p\xff", "digest").await.unwrap();
}

/// The end of a node.
pub(crate) fn node_run(path: &str) -> NodeRun {
    NodeRun {
        attempt: 1,
        phase: Phase::Execute,
        path: path.to_owned(),
        tries: 1,
        outcome: NodeOutcome::Succeeded,
        exit: Some(0),
        text: "said".to_owned(),
        json: json!({"ok": true}),
        changed: 2,
        usage: TokenUsage { tokens_in: 1, tokens_out: 2, cost_micros: 3 },
        guidance_seen: 1,
        started: WallMs(1),
        finished: WallMs(2),
    }
}

/// A choice that rests upon the prompt.
pub(crate) fn choice(chosen: &str) -> NewDecision {
    NewDecision { kind: DecisionKind::Choice, chosen: chosen.to_owned(), depends_on: vec![1], ..prompt() }
}

fn new_plan() -> NewPlan {
    let spec = json!({
        "task": {"run": "make"}, "max_file_bytes": 1, "sandbox": "auto", "isolation_required": false,
        "time_limit_s": 1,
    });
    let projects = vec![ProjectLink { alias: "p".to_owned(), root: "/p".into(), read_only: false }];
    NewPlan { id: PLAN, title: "make".to_owned(), spec: serde_json::from_value(spec).unwrap(), projects }
}

fn prompt() -> NewDecision {
    NewDecision {
        parent: None,
        attempt: 1,
        phase: Phase::Strategize,
        kind: DecisionKind::Prompt,
        question: String::new(),
        chosen: "make".to_owned(),
        rationale: String::new(),
        confidence: None,
        alternatives: Vec::new(),
        depends_on: Vec::new(),
        node: None,
        at_entry: 0,
        supersedes: Vec::new(),
    }
}
