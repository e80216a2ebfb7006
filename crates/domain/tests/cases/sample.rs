//! Values that the tests share.

use std::time::Duration;

use domain::*;

pub(crate) const PLAN: PlanId = PlanId::from_u128(100);
pub(crate) const JOB: JobId = JobId::from_u128(200);
pub(crate) const BOOT: BootId = BootId::from_u128(300);
pub(crate) const OTHER_BOOT: BootId = BootId::from_u128(301);
pub(crate) const ANN: WorkerId = WorkerId::from_u128(400);
pub(crate) const BOB: WorkerId = WorkerId::from_u128(401);
pub(crate) const LEASE: Duration = Duration::from_millis(30);

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

/// The creation of a file of this name and content, named by `id`.
pub(crate) fn change(id: u128, content: &str) -> NewChange {
    let draft =
        ChangeDraft::between(path("file"), None, Some(FileState::file(content.as_bytes(), 0o644))).unwrap();
    NewChange {
        id: ChangeId::from_u128(id),
        call: CallNumber(1),
        root: RootIndex(0),
        base: Base::Known,
        draft,
    }
}

/// The entry that `change` becomes.
pub(crate) fn entry(changeset: ChangesetId, seq: u32, no: u64, change: &NewChange) -> ChangeEntry {
    ChangeEntry {
        id: change.id,
        changeset,
        seq,
        no,
        call: change.call,
        root: change.root,
        path: change.draft.path().clone(),
        op: change.draft.op().clone(),
        before: change.draft.before().copied(),
        after: change.draft.after().copied(),
        base: change.base,
    }
}

pub(crate) fn new_job(phase: Phase) -> NewJob {
    NewJob { id: JOB, plan: PLAN, phase, not_before: Ms(0) }
}

pub(crate) fn claim_by(worker: WorkerId) -> JobEvent {
    JobEvent::Claim { worker, boot: BOOT, lease: LEASE }
}

pub(crate) fn take_over_by(worker: WorkerId) -> JobEvent {
    JobEvent::TakeOver { worker, boot: BOOT, lease: LEASE }
}

pub(crate) fn step(attempt: u32, node: &str) -> StepId {
    StepId { attempt, node: node.to_owned(), visit: 1 }
}

pub(crate) fn error(id: u128, step: StepId, category: ErrorCategory) -> NewError {
    NewError::new(ErrorId::from_u128(id), Phase::Execute, step, category, "it failed")
}
