//! Runs jobs of a store. A job is one phase of one plan. The caller passes its work in as a [`JobRunner`].
//!
//! # Where to begin
//! - [`AsyncWorker`]: claims jobs, renews their leases, runs them, cancels them, stops.
//! - [`PlanExecutionContext`]: the changesets of a running plan, each written through its own
//!   [`ChangesetHandle`].
//! - [`ErrorRecoveryService`]: records a failure and decides what to do about it, in one step.
//!
//! # Invariants
//! 1. Time, ids, tasks and threads come in through ports ([`sync::Clock`], [`Ids`], [`Runtime`]), so that a
//!    test or a simulation owns them.
//! 2. No lock is held across an `.await`, and no foreign code runs under one.
//!
//! # Not here
//! The phases of a plan and everything that they need: `engine`.

#![forbid(unsafe_code)]

mod claim_loop;
mod config;
mod error_recovery;
mod heartbeat;
mod ids;
mod job_run;
mod plan_context;
mod runtime;
mod worker;

pub use config::{WorkerConfig, WorkerConfigError};
pub use error_recovery::ErrorRecoveryService;
pub use ids::{Ids, RandomIds};
pub use job_run::{JobRun, JobRunner, JobSettlement, RunFailure};
pub use plan_context::{ChangesetHandle, EndedCall, PlanError, PlanExecutionContext};
pub use runtime::{Runtime, TaskKind, TokioRuntime};
pub use worker::{
    AsyncWorker, Ports, RunningJob, StopMode, StopReport, WorkerNews, WorkerReport, WorkerStartError,
};
