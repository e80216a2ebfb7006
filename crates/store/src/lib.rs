//! Where plans, changes, errors and jobs are kept.
//!
//! Three ports, each an object-safe async trait beside the words of its errors: [`ChangesetStore`], [`ErrorStore`]
//! and [`JobStore`]. [`MemoryStore`] implements all three on the pure rules of `domain`.
//!
//! # Invariants
//! 1. Every call is one atomic step: it happened whole when it returned `Ok`, and not at all otherwise.
//! 2. Every write of a plan shows a claim, and a stale one is refused with `LeaseLost` in that same step.
//! 3. Every write can be asked for again after an unknown outcome: those that name an id made by the caller, ends and
//!    releases answer as the first time; a heartbeat or a seal does no more; a claim is found out by its lease.
//! 4. Writes that are effects of a plan demand an [`Effect`](sync::Effect) or a [`Finisher`](sync::Finisher):
//!    code that forgot the gate does not compile.
//!
//! # Not here
//! Rules: what a write does is decided in `domain`, and every store runs the same functions. Policy, retries and
//! waiting: the engine's.

#![forbid(unsafe_code)]

mod changeset_store;
mod error_store;
mod job_store;
mod memory;
mod store_error;

pub use changeset_store::{ChangesetStore, ChangesetStoreError};
pub use error_store::ErrorStore;
pub use job_store::{JobEnd, JobStore, JobStoreError, QUEUED_JOBS_MAX};
pub use memory::MemoryStore;
pub use store_error::StoreError;

/// A store for everything; whoever implements the three ports has it.
pub trait Store: ChangesetStore + ErrorStore + JobStore {}

impl<S: ChangesetStore + ErrorStore + JobStore> Store for S {}
