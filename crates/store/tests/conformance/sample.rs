//! Values that the promises share.
//!
//! No two changes, changesets or errors of one test have the same id unless the promise is about that:
//! whether such names are unique in a plan or in the whole store is left to the store.

use std::time::Duration;

use domain::{
    ApplyId, ApplyKind, Base, BootId, CallEnd, CallNumber, CallState, CaptureOmissions, ChangeDraft,
    ChangeEntry, ChangeId, ChangesetId, ClaimRequest, ConstraintReason, DecisionKind, ErrorCategory, ErrorId,
    FileState, Hash, JobId, Ms, NewApply, NewCall, NewChange, NewDecision, NewError, NewJob, NewPlan,
    NewSpend, NodeOutcome, NodeRun, Phase, PlanId, ProjectLink, RecordedChange, RelPath, RootIndex,
    SandboxRecord, SpendId, SpendKind, StepId, TokenUsage, WallMs, WorkerId,
};
use serde_json::{Value, json};

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const ONE_MS: Duration = Duration::from_millis(1);
pub(crate) const BOOT: BootId = BootId::from_u128(0xb001);
pub(crate) const OTHER_BOOT: BootId = BootId::from_u128(0xb002);
pub(crate) const ANN: WorkerId = WorkerId::from_u128(0xa);
pub(crate) const BOB: WorkerId = WorkerId::from_u128(0xb);

/// A plan that no store has heard of.
pub(crate) const STRANGER: PlanId = PlanId::from_u128(u128::MAX);

pub(crate) fn plan_id(n: u64) -> PlanId {
    PlanId::from_u128(n.into())
}

pub(crate) fn job_id(n: u64) -> JobId {
    JobId::from_u128(n.into())
}

pub(crate) fn changeset_id(n: u64) -> ChangesetId {
    ChangesetId::from_u128(n.into())
}

pub(crate) fn path(bytes: impl AsRef<[u8]>) -> RelPath {
    RelPath::new(bytes.as_ref()).unwrap()
}

/// Job n, to execute plan n at once.
pub(crate) fn new_job(n: u64) -> NewJob {
    NewJob { id: job_id(n), plan: plan_id(n), phase: Phase::Execute, not_before: Ms(0) }
}

/// Job n, to apply plan n at once.
pub(crate) fn new_apply(n: u64) -> NewJob {
    NewJob { phase: Phase::Apply, ..new_job(n) }
}

/// Whatever comes first, without a limit.
pub(crate) fn request(worker: WorkerId) -> ClaimRequest {
    ClaimRequest {
        worker,
        boot: BOOT,
        lease: LEASE,
        concurrency_max: u32::MAX,
        only: None,
        variables: Default::default(),
    }
}

/// The creation of a file, named by `n`.
pub(crate) fn change(n: u64) -> NewChange {
    let after = FileState::file(b"content", 0o644);
    change_between(n, "file", None, Some(after))
}

pub(crate) fn change_between(
    n: u64,
    at: impl AsRef<[u8]>,
    before: Option<FileState>,
    after: Option<FileState>,
) -> NewChange {
    NewChange {
        id: ChangeId::from_u128(n.into()),
        call: CallNumber(1),
        root: RootIndex(0),
        base: Base::Known,
        draft: ChangeDraft::between(path(at), before, after).unwrap(),
    }
}

/// The entry that `change` became.
pub(crate) fn entry(recorded: RecordedChange, change: &NewChange) -> ChangeEntry {
    ChangeEntry {
        id: change.id,
        changeset: recorded.changeset,
        seq: recorded.seq,
        no: recorded.no,
        call: change.call,
        root: change.root,
        path: change.draft.path().clone(),
        op: change.draft.op().clone(),
        before: change.draft.before().copied(),
        after: change.draft.after().copied(),
        base: change.base,
    }
}

pub(crate) fn step(attempt: u32, node: &str) -> StepId {
    StepId { attempt, node: node.to_owned(), visit: 1 }
}

/// A failure of the node `code` in the first attempt, named by `n`.
pub(crate) fn error(n: u64, category: ErrorCategory) -> NewError {
    error_at(n, step(1, "code"), category)
}

pub(crate) fn error_at(n: u64, step: StepId, category: ErrorCategory) -> NewError {
    NewError::new(ErrorId::from_u128(n.into()), Phase::Execute, step, category, "it failed")
}

/// Plan n, as somebody asks for it.
pub(crate) fn new_plan(n: u64) -> NewPlan {
    let spec = json!({
        "task": {"run": ["make", "it's", [0xff, 0x20]], "env": [["A", "b"]], "pass_env": ["HOME"]},
        "validations": [{"name": "tests", "run": "make test", "mode": "required", "timeout_s": 60}],
        "ignore": ["@gitignored"], "max_file_bytes": 1_u64 << 40, "sandbox": "auto", "isolation_required": true,
        "time_limit_s": 7_200,
    });
    NewPlan {
        id: plan_id(n),
        title: format!("make é {n}"),
        spec: serde_json::from_value(spec).unwrap(),
        projects: vec![project("web", b"/srv/w\xe9b"), project("api", b"/srv/api")],
    }
}

pub(crate) fn project(alias: &str, root: &[u8]) -> ProjectLink {
    ProjectLink { alias: alias.to_owned(), root: root.to_vec().into(), read_only: alias == "api" }
}

/// The prompt of a plan: its first decision.
pub(crate) fn prompt() -> NewDecision {
    NewDecision { parent: None, kind: DecisionKind::Prompt, ..decision("make it") }
}

/// A choice that follows from the prompt.
pub(crate) fn decision(chosen: &str) -> NewDecision {
    NewDecision {
        parent: Some(1),
        attempt: 1,
        phase: Phase::Strategize,
        kind: DecisionKind::Choice,
        question: "how?".to_owned(),
        chosen: chosen.to_owned(),
        rationale: "é".to_owned(),
        confidence: Some(0.5),
        alternatives: Vec::new(),
        depends_on: Vec::new(),
        node: None,
        at_entry: 0,
        supersedes: Vec::new(),
    }
}

/// The end of a node of the first attempt's execute, a little after the others.
pub(crate) fn node_run(path: &str, outcome: NodeOutcome, finished: u64) -> NodeRun {
    NodeRun {
        attempt: 1,
        phase: Phase::Execute,
        path: path.to_owned(),
        tries: 2,
        outcome,
        exit: Some(-1),
        text: format!("é of {path}"),
        json: json!({"ok": [true, null, 1.5]}),
        changed: 3,
        usage: TokenUsage { tokens_in: 1 << 40, tokens_out: 7, cost_micros: 9 },
        guidance_seen: 4,
        started: WallMs(finished.saturating_sub(1)),
        finished: WallMs(finished),
    }
}

/// The kth job of plan n.
pub(crate) fn plan_job(n: u64, k: u64, phase: Phase) -> NewJob {
    NewJob { id: job_id(n * 1_000 + k), plan: plan_id(n), phase, not_before: Ms(0) }
}

pub(crate) fn new_call(attempt: u32, node: &str) -> NewCall {
    NewCall {
        attempt,
        node: node.to_owned(),
        tool: "command".to_owned(),
        requested: json!({"run": ["make"]}),
        effective: json!({"run": ["make", "-j2"], "cwd": "/srv"}),
    }
}

pub(crate) fn call_end() -> CallEnd {
    CallEnd {
        state: CallState::Ok,
        duration_ms: 1 << 40,
        exit: Some(-1),
        error: Some("é".to_owned()),
        result: json!({"lines": 3}),
        isolation: Some(json!({"namespaces": true})),
        stdout: None,
        stderr: None,
    }
}

pub(crate) fn reasons() -> Vec<ConstraintReason> {
    let reason = |kind: &str, subject: &str| ConstraintReason {
        kind: kind.to_owned(),
        subject: subject.to_owned(),
        message: "both sides changed it".to_owned(),
    };
    vec![reason("conflict", "web:src/é.rs"), reason("validation", "tests")]
}

/// An apply or undo of plan `plan`, named by n.
pub(crate) fn an_apply(n: u64, plan: u64, kind: ApplyKind) -> NewApply {
    NewApply {
        id: ApplyId::from_u128(n.into()),
        plan: plan_id(plan),
        kind,
        net_hash: Hash::from_content(b"net"),
        selection: Value::Null,
        summary: json!({"files": 3}),
    }
}

pub(crate) fn sandbox(plan: u64, attempt: u32) -> SandboxRecord {
    SandboxRecord {
        plan: plan_id(plan),
        attempt,
        rung: "overlay".to_owned(),
        passed_over: vec![("reflink".to_owned(), "not this file system".to_owned())],
        dir: b"/tmp/\xff".to_vec(),
        boot: BOOT,
        opened: WallMs(7),
        closed: None,
        not_captured: CaptureOmissions::default(),
        tree: None,
    }
}

/// Calls of tools that are about to be made, named by n.
pub(crate) fn spend(n: u64, amount: u64) -> NewSpend {
    NewSpend::new(SpendId::from_u128(n.into()), SpendKind::ToolCalls, amount)
}
