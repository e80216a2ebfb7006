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

pub mod excluded_path;
pub mod failure;
pub mod id;
pub mod record;
pub mod suggest;

pub mod time;

pub mod duration;

pub mod path;

pub mod change;

pub mod job;

pub mod plan;

pub mod arg;

pub mod template;

pub mod expr;

pub mod decision;

pub mod context;

pub mod lock;

pub mod ledger;
pub mod money;

pub mod diff;

pub mod merge;

pub mod redact;

pub use arg::{ARG_BYTES_MAX, Arg, ArgError, ArgType};
pub use change::changeset::{
    Changeset, ChangesetError, ChangesetState, Changesets, Closed, Ending, Recorded, Started,
};
pub use change::digest::{ChangesetDigest, changeset_digest};
pub use change::file_state::{FileState, Hash, Kind, TEXT_BYTES_MAX, TEXT_PROBE_BYTES, is_text};
pub use change::inverse::{inverse, undoing};
pub use change::net::{End, Folding, NetChange, carriers, fold, fold_all, net_hash};
pub use change::selection::{
    Choosable, Chosen, ChosenPart, ProjectAlias, Selection, SelectionError, change_address,
};
pub use change::zero_runs::{ZeroRun, zero_runs};
pub use change::{Base, ChangeEntry, Draft, NewChange, Op, pair_renames};
pub use decision::{
    Alternative, Decision, DecisionInvalid, DecisionKind, NewDecision, StepDecision, affected,
};
pub use diff::{
    Hunk, HunkPart, Line, LineTag, LinesChanged, Narrowed, apply_hunks, hunks, hunks_in_conflict,
    lines_changed, narrow, unified, unified_from,
};
pub use duration::{DURATION_UNITS, allowed_durations, seconds_in, typed_seconds};
pub use excluded_path::{NO_PROJECT, is_name_of_no_project, is_of_no_project};
pub use expr::{Expr, ExprFlaw, TypeError};
pub use failure::advice::shown_wait;
pub use failure::class::ErrorClass;
pub use failure::detail::{DETAIL_BYTES_MAX, DETAIL_VALUES_MAX, Detail, Details, LEFT_OUT_KEY, merge_detail};
pub use failure::history::{ErrorHistory, ErrorRecord, Folded, RECORDS_MAX};
pub use failure::retry::{
    Action, BACKOFF_MAX, Gate, Policy, PolicyError, RETRIES_PER_STEP_MAX, Recovery, Verdict, WAIT_MAX, Why,
    backoff, decide,
};
pub use failure::{ErrorCategory, MESSAGE_BYTES_MAX, NewError, StepId};
pub use id::{
    ApplyId, BootId, CallNo, ChangeId, ChangesetId, Claim, ContextId, DecisionId, ErrorId, Fence, IdError,
    JobId, PlanId, RootNo, SpendId, WorkerId,
};
pub use job::{
    APPLY_WITHDRAWN, CancelRequest, ClaimRequest, HELD, Job, JobEvent, JobRefused, JobState, LOST_LEASES_MAX,
    LeaseLost, NewJob, STOPPED_TO_REPLAN, pick,
};
pub use ledger::{
    Account, CountAs, Day, DayLimit, LIMIT_KEY, Ledger, LimitReached, LimitTooLow, Limits, NewSpend,
    PlanLedger, Scope, Settle, Spend, SpendKind, count_in, reserve_in,
};
pub use lock::{Lock, LockHeld, LockRequest, LockResource};
pub use merge::{
    ConflictKind, FileMerge, LinesVerdict, Merge, Place, Region, ReplacedLines, Sides, compare_lines, merge,
    merge_file, replaced_lines,
};
pub use path::{PATH_BYTES_MAX, PathError, RelPath};
pub use plan::automation::{AskWhy, Automation, GateFacts, GatePoint, GateVerdict, verdict};
pub use plan::graph::{Graph, GraphEnd, GraphFlaw, MEMBER_SEPARATOR, Next, NodeState};
pub use plan::home_paths;
pub use plan::invariant::{INVARIANTS_MAX, Invariant, InvariantScope, Rule, Touched, Violation, violations};
pub use plan::phase::Phase;
pub use plan::timeline::{PhaseTime, phase_times};
pub use plan::validation::{
    CHECKS_MAX, Outcome, Validation, ValidationMode, ValidationResult, ValidationSummary, sum_up,
    trust_digest,
};
pub use plan::{
    ApplyState, BadTransition, ByteText, CommandTask, DefinitionSource, Does, ExternalTask, FIX_ATTEMPTS,
    HandDecisions, HandMove, HandMoved, Instructions, ModelTask, NewPlan, On, PARALLEL, PARALLEL_MAX, Plan,
    PlanEvent, PlanMoveError, PlanRefused, PlanSpec, PlanState, ProjectLink, REPEAT_MAX, REVERSIONS_MAX,
    RULE_PREFIX, Reason, Repeat, Run, STEPS_MAX, Step, Strategist, TITLE_CHARS_MAX, Walls, Work, follow,
    invariant_check_name, why_constrained,
};
pub use record::apply::{ApplyEnd, ApplyKind, ApplyMoves, ApplyRecord, ApplyStage, NewApply};
pub use record::event::{EVENT_BYTES_MAX, EventKind, EventRecord};
pub use record::node_run::{NODE_TEXT_BYTES_MAX, NodeOutcome, NodeRun, NodeWait, Usage};
pub use record::sandbox::{LeftOutKind, LeftOutPart, NotCaptured, SandboxRecord, TreeCompared};
pub use record::tool_call::{CallEnd, CallState, FinishedCall, KeptCall, KeptOutput, NewCall, ToolCall};
pub use record::{DecideError, PlanRecord, RecordError, ReserveError};
pub use redact::{
    Redactor, RedactorError, SECRET_BYTES_MIN, SecretKind, SecretPrint, UnknownMark, contains_mark,
    key_fingerprint,
};
pub use suggest::{did_you_mean, nearest};
pub use template::{
    ExpandError, Known, Template, TemplateFlaw, TemplatePath, Values, expand_argv, value_text,
};
pub use time::{Ms, WallMs};
