//! The port for applies: sealed under a claim or a lock, ended by the process that holds the journal.

use async_trait::async_trait;
use domain::{ApplyEnd, ApplyId, ApplyRecord, Claim, NewApply, PlanId};
use sync::Effect;

use crate::{JobStoreError, StoreError};

/// Stores applies and undos.
#[async_trait]
pub trait ApplyStore: Send + Sync {
    /// Seals the owner's job and stores the apply as sealed, in one step: from here on no cancel is accepted.
    ///
    /// Refused as [`JobStore::seal`](crate::JobStore::seal) is. The same id again answers as the first time,
    /// as long as it has not ended; one that ended, or is another apply, is `ApplyTaken`.
    async fn seal_apply(&self, effect: &Effect, claim: &Claim, new: NewApply) -> Result<(), JobStoreError>;

    /// Stores an undo, or an apply of a plan that was undone, as sealed. Neither is a job of the plan. The
    /// same id again changes nothing.
    async fn begin_apply(&self, new: NewApply) -> Result<(), StoreError>;

    /// Ends an apply, once. Returns false and does nothing if it has ended already, or is not known.
    ///
    /// The holder of the journal's lock calls this, owner or not: the owner may be dead. The end has these
    /// effects in the same step:
    /// - `Applied` of an apply ends the plan's sealed job as succeeded and moves the plan to applied. It does
    ///   so from errored too, if the job was given up meanwhile. If the plan is applied already, it clears
    ///   its `undone_at`. `Applied` of an undo sets `undone_at`;
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
