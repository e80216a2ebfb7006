//! Values that the promises share.
//!
//! No two changes, changesets or errors of one test have the same id unless the promise is about that:
//! whether such names are unique in a plan or in the whole store is left to the store.

use std::time::Duration;

use domain::{
    Base, BootId, CallNo, ChangeEntry, ChangeId, ChangesetId, ClaimRequest, Draft, ErrorCategory, ErrorId,
    FileState, JobId, Ms, NewChange, NewError, NewJob, Phase, PlanId, Recorded, RelPath, RootNo, StepId,
    WorkerId,
};

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
    ClaimRequest { worker, boot: BOOT, lease: LEASE, concurrency_max: u32::MAX, only: None }
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
        call: CallNo(1),
        root: RootNo(0),
        base: Base::Known,
        draft: Draft::between(path(at), before, after).unwrap(),
    }
}

/// The entry that `change` became.
pub(crate) fn entry(recorded: Recorded, change: &NewChange) -> ChangeEntry {
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
