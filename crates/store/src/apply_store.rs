//! The port for applies: sealed under a claim or a lock, ended by the process that holds the journal.

use async_trait::async_trait;
use domain::{ApplyEnd, ApplyId, ApplyRecord, Claim, NewApply, PlanId};
use sync::Effect;

use crate::{JobStoreError, StoreError};

/// Keeps applies and undos.
#[async_trait]
pub trait ApplyStore: Send + Sync {
    /// Seals the owner's job and keeps the apply as sealed, in one step: from here on no cancel is accepted.
    ///
    /// Refused as [`JobStore::seal`](crate::JobStore::seal) is. The same id again answers as the first time,
    /// as long as it has not ended; one that ended, or is another apply, is `ApplyTaken`.
    async fn seal_apply(&self, effect: &Effect, claim: &Claim, new: NewApply) -> Result<(), JobStoreError>;

    /// Keeps an undo, or an apply of a plan that was undone, as sealed; such a one is no job of the plan's.
    /// The same id again does no more.
    async fn begin_apply(&self, new: NewApply) -> Result<(), StoreError>;

    /// Ends an apply, once; asked again, or of an unknown one, it does nothing and says false.
    ///
    /// The holder of the journal's lock calls this, owner or not: the owner may be dead. In the same step
    /// - `Applied` of an apply ends the plan's sealed job as succeeded and moves the plan to applied (or
    ///   clears its `undone_at`, when it is applied already; or brings it there from errored, when its job
    ///   was given up meanwhile); of an undo sets `undone_at`;
    /// - `RolledBack` of an apply ends the sealed job as failed and constrains the plan with the reasons;
    /// - `NeverBegan` breaks the seal, so that the job can be released or cancelled; not while another apply
    ///   of the plan is sealed.
    ///
    /// The rules are those of [`ApplyRecord::moves`].
    async fn end_apply(&self, id: ApplyId, end: ApplyEnd) -> Result<bool, StoreError>;

    /// The applies of a plan in order of id; none for an unknown plan.
    async fn applies(&self, plan: PlanId) -> Result<Vec<ApplyRecord>, StoreError>;

    /// The applies of all plans that are sealed and have not ended, in order of id.
    async fn open_applies(&self) -> Result<Vec<ApplyRecord>, StoreError>;

    /// One apply.
    async fn apply(&self, id: ApplyId) -> Result<Option<ApplyRecord>, StoreError>;
}
