//! The words and rules of CleverAgents: what a plan's jobs, changes and errors are, and how they may change.
//!
//! Everything here is a value and a function on values. A store keeps the values and calls the functions
//! inside its own atomic step; a test or a simulation calls the same functions without a store.
//!
//! # Where to begin
//! [`PlanRecord`] is all that is kept of one plan's run, and its methods are every write to it. They join
//! three parts: [`job`] (who may write), [`changeset`] (what was changed) and [`error_history`] with
//! [`recovery`] (what failed, and what is done about it).
//!
//! # Invariants
//! 1. No IO, no clock, no locks, no randomness, no threads: time, ids and jitter are arguments.
//! 2. No input makes a function here panic.
//! 3. Transitions are total: every state meets every event in a `match` without a default arm.
//!
//! # Not here
//! Concurrency (crate `sync`), persistence (crate `store`), codes and exit status of errors (the program).

#![forbid(unsafe_code)]

pub mod id;

pub mod time;

pub mod class;
pub mod phase;

pub mod path;

pub mod file_state;

pub mod change;

pub mod changeset;
mod changeset_digest;

pub mod detail;
pub mod error;

pub mod error_history;

pub mod recovery;

mod advice;

pub mod job;

pub mod plan_record;

pub use change::{Base, ChangeEntry, Draft, NewChange, Op, pair_renames};
pub use changeset::{
    Changeset, ChangesetError, ChangesetState, Changesets, Closed, Ending, Recorded, Started,
};
pub use changeset_digest::changeset_digest;
pub use class::ErrorClass;
pub use detail::{DETAIL_BYTES_MAX, DETAIL_VALUES_MAX, Detail, Details, LEFT_OUT_KEY, merge_detail};
pub use error::{ErrorCategory, MESSAGE_BYTES_MAX, NewError, StepId};
pub use error_history::{ErrorHistory, ErrorRecord, Folded, RECORDS_MAX};
pub use file_state::{FileState, Hash, Kind, TEXT_BYTES_MAX, TEXT_PROBE_BYTES, is_text};
pub use id::{
    BootId, CallNo, ChangeId, ChangesetId, Claim, ErrorId, Fence, IdError, JobId, PlanId, RootNo, WorkerId,
};
pub use job::{
    CancelRequest, ClaimRequest, Job, JobEvent, JobRefused, JobState, LOST_LEASES_MAX, LeaseLost, NewJob,
    pick,
};
pub use path::{PATH_BYTES_MAX, PathError, RelPath};
pub use phase::Phase;
pub use plan_record::{PlanRecord, RecordError};
pub use recovery::{
    Action, BACKOFF_MAX, Gate, Policy, PolicyError, Recovery, Verdict, WAIT_MAX, Why, backoff, decide,
};
pub use time::Ms;
