//! Stores of plans, changes, errors and jobs.
//!
//! Ports, each an object-safe trait next to its error types: [`PlanStore`], [`ChangesetStore`],
//! [`CallStore`], [`NodeStore`], [`ContextStore`], [`ContentStore`], [`ErrorStore`], [`JobStore`],
//! [`LedgerStore`], [`LockStore`], [`ApplyStore`] and [`ConsentStore`]. [`MemoryStore`] and `SqliteStore`
//! implement all of them on the pure rules of `domain`.
//!
//! # Invariants
//! 1. Every call is one atomic step: it happened whole when it returned `Ok`, and not at all otherwise.
//! 2. Every write of a plan shows a claim, and a stale one is refused with `LeaseLost` in that same step.
//! 3. Every write can be repeated after an unknown outcome. A write that names an id made by the caller, an
//!    end and a release answer as the first time. A repeated heartbeat or seal changes nothing. A claim whose
//!    outcome is unknown ends with its lease. Only the admission of a call and the record of a decision have
//!    no such id: repeated, they make another one.
//! 4. Writes that are effects of a plan demand an [`Effect`](sync::Effect) or a [`Finisher`](sync::Finisher):
//!    code that forgot the gate does not compile.
//! 5. An event is recorded in the step in which it happened: a plan's events have no gaps and agree with its
//!    rows.
//!
//! # Not here
//! Rules: `domain` decides the effect of a write, and every store runs the same functions. Policy, retries
//! and waiting: the engine.

#![forbid(unsafe_code)]

mod apply_store;
mod call_store;
mod changeset_store;
mod consent_store;
mod content_store;
mod context_store;
mod error_store;
mod job_store;
mod ledger_store;
mod lock_store;
mod memory;
mod node_store;
mod plan_store;
#[cfg(not(shuttle))]
mod sqlite;
mod store_error;

pub use apply_store::ApplyStore;
pub use call_store::{CallAuthority, CallOutcome, CallStore};
pub use changeset_store::{ChangedPlan, ChangesetStore, ChangesetStoreError};
pub use consent_store::ConsentStore;
pub use content_store::{
    CollectedContents, ContentStore, INLINE_BYTES_MAX, ReclaimedSpace, STAGED_KEPT, StagedContent, StoredFile,
};
pub use context_store::ContextStore;
pub use error_store::ErrorStore;
pub use job_store::{JobEnd, JobStore, JobStoreError, QUEUED_JOBS_MAX};
pub use ledger_store::{LedgerStore, LedgerStoreError};
pub use lock_store::{LockStore, LockStoreError};
pub use memory::{MemoryImage, MemoryStore};
pub use node_store::NodeStore;
pub use plan_store::{DecisionStoreError, FinishedPlans, PlanFilter, PlanMove, PlanStore, PlanStoreError};
#[cfg(not(shuttle))]
pub use sqlite::{SqliteOptions, SqliteStore, StoreOpenError};
pub use store_error::StoreError;

/// A store for what the owner of a job records: its calls and what they changed.
pub trait RecordStore: ChangesetStore + CallStore {}

impl<S: ChangesetStore + CallStore> RecordStore for S {}

/// A store for everything; every type that implements the ports implements it.
pub trait Store:
    PlanStore
    + RecordStore
    + NodeStore
    + ContextStore
    + ContentStore
    + ErrorStore
    + JobStore
    + LedgerStore
    + LockStore
    + ApplyStore
    + ConsentStore
{
}

impl<S> Store for S where
    S: PlanStore
        + ChangesetStore
        + CallStore
        + NodeStore
        + ContextStore
        + ContentStore
        + ErrorStore
        + JobStore
        + LedgerStore
        + LockStore
        + ApplyStore
        + ConsentStore
{
}
