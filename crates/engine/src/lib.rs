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

#[cfg(not(shuttle))]
mod apply;
#[cfg(not(shuttle))]
mod clock;
mod contain;
#[cfg(not(shuttle))]
pub mod context;
#[cfg(not(shuttle))]
mod data_files;
#[cfg(not(shuttle))]
pub mod definition;
#[cfg(not(shuttle))]
mod engine;
mod event;
mod ids;
#[cfg(not(shuttle))]
mod maintenance;
#[cfg(not(shuttle))]
mod mcp_servers;
#[cfg(not(shuttle))]
mod models;
#[cfg(not(shuttle))]
mod plan;
mod plan_context;
#[cfg(not(shuttle))]
mod query;
mod recovery;
#[cfg(not(shuttle))]
mod redaction;
#[cfg(not(shuttle))]
mod run;
mod runtime;
mod strategies;
#[cfg(not(shuttle))]
pub mod tools;
mod worker;
#[cfg(not(shuttle))]
mod workers;

#[cfg(not(shuttle))]
pub use apply::abandon::{SetAside, SetAsideError};
#[cfg(not(shuttle))]
pub use apply::check_validity::{CheckedTree, ChecksAtApply, ConstrainedBy, RecheckWhen, RerunCheck};
#[cfg(not(shuttle))]
pub use apply::crash_recovery::{
    FoundJournal, OpenApply, OpenWhy, RecoveredApply, RecoveredEnd, RecoveryError,
};
#[cfg(not(shuttle))]
pub use apply::locks::LocksError;
#[cfg(not(shuttle))]
pub use apply::merge::{Conflict, ConflictPlace, MergingError};
#[cfg(not(shuttle))]
pub use apply::{ApplyError, ApplyRequest, ApplySummary, Preview};
#[cfg(not(shuttle))]
pub use clock::{BootClock, wall_now};
#[cfg(not(shuttle))]
pub use context::answer::context_answer;
#[cfg(not(shuttle))]
pub use engine::{Engine, EngineOpenError, EngineOptions};
pub use event::{BreakerMove, Event, EventSink};
pub use ids::{Ids, RandomIds};
#[cfg(not(shuttle))]
pub use maintenance::doctor::{DoctorReport, Finding, Leftovers, doctor_without_store};
#[cfg(not(shuttle))]
pub use maintenance::gc::{GcError, GcReport, GcRequest};
#[cfg(not(shuttle))]
pub use maintenance::retained_sandboxes::{KeptSandbox, kept_in};
#[cfg(not(shuttle))]
pub use mcp_servers::{McpSettings, ServerSettings, Servers};
#[cfg(not(shuttle))]
pub use models::{
    Cast, Mode, ModelsError, ModelsSetup, OfModels, Price, ProviderSettings, ProviderView, Renewal, Speaks,
    builtin_providers, cast_of,
};
#[cfg(not(shuttle))]
pub use plan::cancel::{CancelError, CancelReport};
#[cfg(not(shuttle))]
pub use plan::create::{NewPlanRequest, UseError};
#[cfg(not(shuttle))]
pub use plan::execute::{ExecuteError, ExecuteOptions};
#[cfg(not(shuttle))]
pub use plan::gates::Gated;
#[cfg(not(shuttle))]
pub use plan::guidance::{GUIDANCE_BYTES_MAX, GuideError, Guided, Taken};
#[cfg(not(shuttle))]
pub use plan::limits::LimitsError;
pub use plan_context::{ChangesetHandle, EndedCall, PlanError, PlanExecutionContext};
#[cfg(not(shuttle))]
pub use query::artifacts::{Artifact, ArtifactsError};
#[cfg(not(shuttle))]
pub use query::decisions::{Affected, DecisionFacts, FindDecisionError};
#[cfg(not(shuttle))]
pub use query::details::{ASK_MODEL, PlanFacts, PlanRow, StepFacts, Waits};
#[cfg(not(shuttle))]
pub use query::diff::{ChangedFiles, DiffFacts, DiffRequest, FileDiff, Unread};
#[cfg(not(shuttle))]
pub use query::error_times::ErrorMoment;
#[cfg(not(shuttle))]
pub use query::find::{FindError, SHORT_ID_CHARS_MIN, shortest};
#[cfg(not(shuttle))]
pub use query::forecast::{Forecast, ForecastKind, ForecastPath, Forecasts};
#[cfg(not(shuttle))]
pub use query::logs::{CallLog, Reveal};
#[cfg(not(shuttle))]
pub use query::overview::{Glance, GlanceStep, Glances, Seen};
#[cfg(not(shuttle))]
pub use query::queue_position::QueuePlace;
pub use recovery::ErrorRecoveryService;
#[cfg(not(shuttle))]
pub use redaction::SecretFilter;
pub use runtime::{Runtime, TaskKind, TokioRuntime};
pub use strategies::ContextStrategies;
pub use worker::{
    AsyncWorker, JobRun, JobRunner, Ports, RunFailure, RunningJob, Settled, StartError, Stop, StopReport,
    WorkerConfig, WorkerConfigError, WorkerNews, WorkerReport,
};
#[cfg(not(shuttle))]
pub use workers::breaker_log::{BreakerChange, StrategyBreaker, reset_strategy_breakers, strategy_breakers};
#[cfg(not(shuttle))]
pub use workers::notify::{Onlooker, Waiter};
#[cfg(not(shuttle))]
pub use workers::pool::{ServeEnd, ServeError, ServeNews, ServeOptions, ServeReport};
#[cfg(not(shuttle))]
pub use workers::registry::Starting;
