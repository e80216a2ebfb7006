//! The recorded work: the calls of a plan with their changes, or change after change.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::{
    Base, BootId, CallEnd, CallNumber, CallState, ChangeDraft, ChangeId, ChangesetId, Claim, ClaimRequest,
    DecisionKind, FileState, JobId, Ms, NewCall, NewChange, NewDecision, NewJob, NewPlan, Phase, PlanId,
    ProjectLink, RelPath, RootIndex, WallMs, WorkerId,
};
use serde_json::json;
use store::{
    CallAuthority, CallOutcome, CallStore, ChangesetStore, ContentStore, JobStore, PlanStore, SqliteOptions,
    SqliteStore, StagedContent,
};
use sync::{Effect, EffectGate, SystemClock};

const CALLS: u32 = 200;
const CHANGES_PER_CALL: u32 = 20;
const TASKS: u32 = 8;
const CHANGES_PER_TASK: u32 = 500;

const PLAN: PlanId = PlanId::from_u128(1);
const SET: ChangesetId = ChangesetId::from_u128(1);

/// One way to record.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Calls,
    OneByOne,
}

impl Work {
    pub(crate) const ALL: [Work; 2] = [Work::Calls, Work::OneByOne];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Calls => "record_calls_of_20",
            Work::OneByOne => "record_from_8_tasks",
        }
    }

    pub(crate) fn entries(self) -> u32 {
        match self {
            Work::Calls => CALLS * CHANGES_PER_CALL,
            Work::OneByOne => TASKS * CHANGES_PER_TASK,
        }
    }
}

/// The recorded work.
pub(crate) enum Prepared {
    Calls(Vec<CallOutcome>),
    OneByOne(Vec<Vec<NewChange>>),
}

/// A fresh store, and the owner of a plan in it.
pub(crate) struct Owned {
    store: Arc<SqliteStore>,
    gate: EffectGate,
    claim: std::sync::OnceLock<Claim>,
}

impl Owned {
    pub(crate) async fn new(dir: &Path) -> Owned {
        let options = SqliteOptions { dir: dir.to_owned(), clock: Arc::new(SystemClock::new()), wall };
        let store = Arc::new(SqliteStore::open(options).unwrap());
        Owned { store, gate: EffectGate::new(), claim: std::sync::OnceLock::new() }
    }

    fn effect(&self) -> Effect {
        self.gate.enter().unwrap()
    }

    fn claim(&self) -> Claim {
        *self.claim.get().unwrap()
    }

    /// Makes the plan, takes its job and starts a changeset.
    pub(crate) async fn begin(&self) {
        let job = NewJob { id: JobId::from_u128(1), plan: PLAN, phase: Phase::Strategize, not_before: Ms(0) };
        self.store.create(new_plan(), vec![prompt()], job).await.unwrap();
        let request = ClaimRequest {
            worker: WorkerId::from_u128(1),
            boot: BootId::from_u128(1),
            lease: Duration::from_secs(3600),
            concurrency_max: 4,
            only: None,
            variables: Default::default(),
        };
        let claim = self.store.claim(&request).await.unwrap().unwrap().claim();
        self.claim.set(claim).unwrap();
        self.store.start(&self.effect(), &claim, SET).await.unwrap();
    }

    /// All that is to be recorded, hashed and ready, as a capture hands it over.
    pub(crate) fn prepare(&self, work: Work) -> Prepared {
        match work {
            Work::Calls => Prepared::Calls((0..CALLS).map(|call| self.outcome(call)).collect()),
            Work::OneByOne => {
                let of_task = |task| task * CHANGES_PER_TASK..(task + 1) * CHANGES_PER_TASK;
                let changes = |task| of_task(task).map(|n| change(n, CallNumber(1))).collect();
                Prepared::OneByOne((0..TASKS).map(changes).collect())
            }
        }
    }

    fn outcome(&self, call: u32) -> CallOutcome {
        let numbers = call * CHANGES_PER_CALL..(call + 1) * CHANGES_PER_CALL;
        let stage = |n| self.store.stage(&mut content(n).as_bytes()).unwrap();
        let contents: Vec<StagedContent> = numbers.clone().map(stage).collect();
        // Calls are numbered from 1 on.
        let no = CallNumber(call + 1);
        let changes = numbers.map(|n| change(n, no)).collect();
        CallOutcome {
            attempt: 1,
            no,
            end: call_end(),
            changeset: Some(SET),
            changes,
            contents,
            settles: Vec::new(),
        }
    }

    pub(crate) async fn run(&self, prepared: Prepared) {
        match prepared {
            Prepared::Calls(outcomes) => self.calls(outcomes).await,
            Prepared::OneByOne(tasks) => self.one_by_one(tasks).await,
        }
    }

    async fn calls(&self, outcomes: Vec<CallOutcome>) {
        for outcome in outcomes {
            let effect = self.effect();
            let begun = self.store.begin_call(&effect, &self.claim(), new_call()).await.unwrap();
            assert_eq!(begun.no, outcome.no);
            self.store.end_call(CallAuthority::Effect(&effect), &self.claim(), outcome).await.unwrap();
        }
    }

    async fn one_by_one(&self, tasks: Vec<Vec<NewChange>>) {
        let record = |changes: Vec<NewChange>| {
            let (store, effect, claim) = (Arc::clone(&self.store), self.effect(), self.claim());
            tokio::spawn(async move {
                for change in changes {
                    store.record(&effect, &claim, SET, change).await.unwrap();
                }
            })
        };
        let tasks: Vec<_> = tasks.into_iter().map(record).collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}

fn wall() -> WallMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// About 1 KB.
fn content(n: u32) -> String {
    format!("fn f{n}() {{}}\n").repeat(64)
}

fn change(n: u32, call: CallNumber) -> NewChange {
    let path = RelPath::new(format!("src/m{:03}/f{n:06}.rs", n / 50)).unwrap();
    let before = FileState::file(format!("before {n}\n").as_bytes(), 0o644);
    let after = FileState::file(content(n).as_bytes(), 0o644);
    let draft = ChangeDraft::between(path, Some(before), Some(after)).unwrap();
    NewChange {
        id: ChangeId::from_u128(u128::from(n) + 1),
        call,
        root: RootIndex(0),
        base: Base::Known,
        draft,
    }
}

fn new_plan() -> NewPlan {
    let spec = json!({
        "task": {"run": ["make"], "env": [], "pass_env": []},
        "validations": [], "ignore": ["@gitignored"], "max_file_bytes": 1_u64 << 30, "sandbox": "auto",
        "isolation_required": true, "time_limit_s": 7_200,
    });
    let project =
        ProjectLink { alias: "web".to_owned(), root: b"/srv/web".to_vec().into(), read_only: false };
    let spec = serde_json::from_value(spec).unwrap();
    NewPlan { id: PLAN, title: "make".to_owned(), spec, projects: vec![project] }
}

fn prompt() -> NewDecision {
    NewDecision {
        parent: None,
        attempt: 1,
        phase: Phase::Strategize,
        kind: DecisionKind::Prompt,
        question: "what?".to_owned(),
        chosen: "make it".to_owned(),
        rationale: String::new(),
        confidence: None,
        alternatives: Vec::new(),
        depends_on: Vec::new(),
        node: None,
        at_entry: 0,
        supersedes: Vec::new(),
    }
}

fn new_call() -> NewCall {
    NewCall {
        attempt: 1,
        node: "command".to_owned(),
        tool: "run_command".to_owned(),
        requested: json!({"command": ["make"]}),
        effective: json!({"command": ["make"], "cwd": "."}),
    }
}

fn call_end() -> CallEnd {
    CallEnd {
        state: CallState::Ok,
        duration_ms: 12,
        exit: Some(0),
        error: None,
        result: json!({"changed": CHANGES_PER_CALL}),
        isolation: Some(json!({"rung": "namespaces"})),
        stdout: None,
        stderr: None,
    }
}
