//! Runs plans: what joins the pure rules, the stores and the workers of this machine.
//!
//! # Where to begin
//! - [`PlanExecutionContext`]: what a running phase records its changes through.
//! - [`ErrorRecoveryService`]: what a failure is reported to, and what answers what to do about it.
//! - `definition`: actions and actors as people write them, and what a plan freezes of them.
//! - `plans::Engine`: the verbs on plans: use, execute, apply, undo, cancel.
//! - [`AsyncWorker`]: claims jobs, keeps their leases, runs them, cancels them, stops.
//! - `contexts::Contexts`: from a request to the files and lines that a model is given.
//! - [`ContextStrategies`]: the strategies of the context pipeline behind their circuit breakers.
//!
//! # Invariants
//! 1. A phase never reaches back: it returns a value, and the engine stores it.
//! 2. Time, ids, tasks and threads come in through ports ([`sync::Clock`], [`Ids`], [`Runtime`]), so that a test or a
//!    simulation owns them.
//! 3. No lock is held across an `.await`, and no foreign code runs under one.
//!
//! # Not here
//! Rules (`domain`), SQL (`store`), and how anything is shown to people (the program).

#![forbid(unsafe_code)]

mod contain;
#[cfg(not(shuttle))]
mod context_answer;
#[cfg(not(shuttle))]
pub mod contexts;
#[cfg(not(shuttle))]
pub mod definition;
mod event;
#[cfg(not(shuttle))]
pub mod history;
mod ids;
mod plan_context;
#[cfg(not(shuttle))]
pub mod plans;
mod recovery;
mod runtime;
mod strategies;
#[cfg(not(shuttle))]
pub mod tools;
mod worker;

#[cfg(not(shuttle))]
pub use context_answer::context_answer;
pub use event::{BreakerMove, Event, EventSink};
pub use ids::{Ids, RandomIds};
pub use plan_context::{ChangesetHandle, EndedCall, PlanError, PlanExecutionContext};
pub use recovery::ErrorRecoveryService;
pub use runtime::{Runtime, TaskKind, TokioRuntime};
pub use strategies::ContextStrategies;
pub use worker::{
    AsyncWorker, JobRun, JobRunner, Ports, RunFailure, RunningJob, Settled, StartError, Stop, StopReport,
    WorkerConfig, WorkerConfigError, WorkerNews, WorkerReport,
};
