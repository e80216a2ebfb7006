//! Runs plans: joins the pure rules, the stores and the workers of this machine.
//!
//! # Where to begin
//! - [`Engine`]: the plans of one data directory, and the commands on them. `plan` creates, executes, moves
//!   on, cancels; `query` reads and never writes; `apply` is all that can touch the user's files, recovery
//!   included.
//! - `run`: the work of a claimed job: phases, nodes, calls, the plan's sandbox.
//! - `workers`: the only folder that knows of other processes. `maintenance`: `doctor` and `gc`.
//! - [`context::Contexts`]: from a request to the files and lines that a model is given.
//! - [`tools`]: the built-in tools. The crate `worker` is re-exported here.
//!
//! # Invariants
//! 1. A phase never reaches back: it returns a value, and the engine stores it.
//! 2. Time, ids, tasks and threads come in through ports ([`sync::Clock`], [`Ids`], [`Runtime`]), so that a
//!    test or a simulation owns them.
//! 3. No lock is held across an `.await`, and no foreign code runs under one.
//!
//! # Not here
//! Rules (`domain`), SQL (`store`), and printing anything for users (the program).

#![forbid(unsafe_code)]

mod apply;
mod clock;
pub mod context;
mod data_files;
mod engine;
mod maintenance;
mod mcp_servers;
mod models;
mod plan;
mod query;
mod redaction;
mod run;
pub mod tools;
mod workers;

pub use apply::abandon::{AbandonError, AbandonedApply};
pub use apply::check_again::CheckAgainError;
pub use apply::check_validity::{CheckedTree, ChecksAtApply, ConstrainedBy, RecheckWhen, RerunCheck};
pub use apply::crash_recovery::{
    JournalState, RecoveredApply, RecoveredEnd, RecoveryError, UnsettledApply, UnsettledReason,
};
pub use apply::locks::LocksError;
pub use apply::merge::{Conflict, ConflictPlace, MergeError};
pub use apply::operations::{LOGGED_PLANS_MAX, Operation};
pub use apply::{ApplyError, ApplyPreview, ApplyRequest, ApplySummary, ConflictMode};
pub use clock::{BootClock, wall_now};
pub use context::answer::context_answer;
pub use engine::{Engine, EngineOpenError, EngineOptions};
pub use maintenance::doctor::{DoctorFinding, DoctorReport, Leftovers, doctor_without_store};
pub use maintenance::gc::{GcError, GcReport, GcRequest};
pub use maintenance::retained_sandboxes::{RetainedSandbox, retained_dir_of};
pub use mcp_servers::{McpSettings, ServerSettings, Servers};
pub use models::{
    ModelSettings, ModelsError, ModelsSetup, Participants, Price, Protocol, ProviderSettings, ProviderView,
    RecordingMode, SettingsReload, builtin_providers, cast_of,
};
pub use plan::cancel::{CancelError, CancelReport};
pub use plan::create::{NewPlanRequest, UseError};
pub use plan::discard::DiscardError;
pub use plan::edit::{EDIT_BY_USER, EditError, HunkText};
pub use plan::execute::{ExecuteError, ExecuteOptions};
pub use plan::follow_up::FollowUpError;
pub use plan::gates::GateStatus;
pub use plan::guidance::{GUIDANCE_BYTES_MAX, GuidanceError, GuidanceMode, GuidanceOutcome};
pub use plan::limits::LimitsError;
pub use plan::notes::{NoteError, NoteLines, NotePlace, NotePlaceError, PlacedNote};
pub use plan::revise::ReviseError;
pub use plan::rollback::{Checkpoint, RollbackError, RollbackTarget};
pub use plan::shell::{SHELL_BY_USER, ShellEnd, ShellError, ShellRequest};
pub use query::artifacts::{Artifact, ArtifactsError};
pub use query::decisions::{Affected, DecisionDetails, FindDecisionError};
pub use query::details::{
    ASK_MODEL, ErrorMoment, PlanDetails, PlanRevision, PlanRow, StepDetails, WaitReason,
};
pub use query::diff::{ChangedFiles, DiffDetails, DiffRange, DiffRequest, FileDiff, UnreadContent};
pub use query::find::{
    FindError, ID_END_CHARS_MIN, PlanCandidate, SHORT_ID_CHARS_MIN, short_ids_in, shortest, shortest_end,
};
pub use query::forecast::{Forecast, ForecastKind, ForecastPath, Forecasts};
pub use query::live_output::{LiveOutput, OutputPosition};
pub use query::logs::{CallLog, Reveal};
pub use query::overview::{CurrentStep, OverviewSnapshot, PlanOverview, PlanSummary};
pub use query::queue_position::QueuePlace;
pub use redaction::SecretFilter;
pub use run::call::result::{NETWORK_SUSPECTED, RAISED_SETTING};
pub use worker::{
    AsyncWorker, ChangesetHandle, EndedCall, ErrorRecoveryService, Ids, JobRun, JobRunner, JobSettlement,
    PlanError, PlanExecutionContext, Ports, RandomIds, RunFailure, RunningJob, Runtime, StopMode, StopReport,
    TaskKind, TokioRuntime, WorkerConfig, WorkerConfigError, WorkerNews, WorkerReport, WorkerStartError,
};
pub use workers::breaker_log::{
    ProviderBreakerChange, StrategyBreaker, reset_strategy_breakers, strategy_breakers,
};
pub use workers::notify::{PlanWaiter, StoreWatcher};
pub use workers::pool::{ServeEnd, ServeError, ServeNews, ServeOptions, ServeReport};
pub use workers::registry::StartLock;
