//! The types and rules of CleverAgents: a plan's jobs, changes and errors, and their transitions.
//!
//! Everything here is a value and a function on values. A store stores the values and calls the functions
//! inside its own atomic step. A test or a simulation calls the same functions without a store.
//!
//! # Where to begin
//! [`PlanRecord`] is all that is stored of one plan's run, and its methods are every write to it. They join
//! three parts: [`job`] (who may write), [`change::changeset`] (what was changed) and
//! [`failure::error_history`] with [`failure::retry`] (what failed, and what is done about it).
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
pub mod text;

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
    Changeset, ChangesetEnding, ChangesetError, ChangesetState, Changesets, ClosedChangeset, RecordedChange,
    StartedChangeset,
};
pub use change::digest::{ChangesetDigest, changeset_digest};
pub use change::file_state::{FileState, Hash, Kind, TEXT_BYTES_MAX, TEXT_PROBE_BYTES, is_text};
pub use change::net::{NetChange, NetChangeFold, PathChange, carriers, fold, fold_all, net_hash};
pub use change::selection::{
    ChangeChoice, ChangeSelection, ConflictTake, HunkAddress, HunkAddressInvalid, LineRanges,
    LineRangesInvalid, ProjectAlias, SelectableChange, SelectedChange, SelectedPart, SelectionError,
    TakenShare, change_address, selectable_lines,
};
pub use change::zero_runs::{ZeroRun, zero_runs};
pub use change::{Base, ChangeDraft, ChangeEntry, ChangeOp, NewChange, inverse, pair_renames, undoing};
pub use decision::{
    Alternative, Decision, DecisionInvalid, DecisionKind, NewDecision, StepDecision, affected,
};
pub use diff::{
    ChangedWords, DetectedRename, Hunk, HunkLine, HunkPart, LineTag, LinesChanged, NarrowedChange,
    PatchOptions, SIMILARITY_MIN, apply_hunks, changed_words, find_renames, hunks, hunks_by_conflict,
    hunks_in_conflict, lines_changed, narrow, new_text, unified, unified_from, unified_with, with_new_text,
};
pub use duration::{DURATION_UNITS, allowed_durations, format_seconds, seconds_in};
pub use excluded_path::{NO_PROJECT, is_name_of_no_project, is_of_no_project};
pub use expr::{Expr, ExprFlaw, TypeError};
pub use failure::ErrorClass;
pub use failure::advice::format_wait;
pub use failure::detail::{DETAIL_BYTES_MAX, DETAIL_VALUES_MAX, Detail, Details, LEFT_OUT_KEY, merge_detail};
pub use failure::error_history::{ErrorHistory, ErrorRecord, FoldedErrors, RECORDS_MAX};
pub use failure::retry::{
    BACKOFF_MAX, GateDecision, RETRIES_PER_STEP_MAX, RecoveryAction, RecoveryAdvice, RecoveryDecision,
    RecoveryPolicy, RecoveryPolicyError, RecoveryReason, WAIT_MAX, backoff, decide,
};
pub use failure::{ErrorCategory, MESSAGE_BYTES_MAX, NewError, StepId};
pub use id::{
    ApplyId, BootId, CallNumber, ChangeId, ChangesetId, Claim, ContextId, DecisionId, ErrorId, Fence,
    IdError, JobId, PlanId, RootIndex, SpendId, WorkerId,
};
pub use job::{
    APPLY_WITHDRAWN, CancelRequest, ClaimRequest, HELD, Job, JobEvent, JobState, JobTransitionRejection,
    LOST_LEASES, LOST_LEASES_MAX, LeaseLost, NewJob, PlanInterruption, STOPPED_TO_REPLAN, pick,
};
pub use ledger::{
    Account, CallCategory, Day, DayLimit, LIMIT_KEY, Ledger, LedgerScope, LimitReached, LimitTooLow, Limits,
    NewSpend, PlanLedger, Spend, SpendKind, SpendSettlement, count_in, reserve_in,
};
pub use lock::{Lock, LockHeld, LockRequest, LockResource};
pub use merge::{
    ConflictKind, FileMerge, LinesVerdict, MarkerNames, Merge, MergePlacement, MergeSides, Region,
    ReplacedLines, compare_lines, merge, merge_file, merge_marked, merge_taking, replaced_lines,
};
pub use path::{PATH_BYTES_MAX, PathError, RelPath};
pub use plan::automation::{AskReason, Automation, GateFacts, GatePoint, GateVerdict, verdict};
pub use plan::builtin_paths;
pub use plan::graph::{GraphEnd, GraphFlaw, MEMBER_SEPARATOR, NextSteps, NodeState, PlanGraph};
pub use plan::invariant::{
    CheckedFile, INVARIANTS_MAX, Invariant, InvariantRule, InvariantScope, InvariantViolation, violations,
};
pub use plan::phase::Phase;
pub use plan::timeline::{PhaseTime, phase_times};
pub use plan::toolchain_env;
pub use plan::validation::{
    CHECKS_MAX, CheckObstacle, Validation, ValidationMode, ValidationOutcome, ValidationResult,
    ValidationSummary, sum_up, trust_digest,
};
pub use plan::{
    ApplyState, BadTransition, ByteText, CommandLine, CommandTask, ConstraintReason, DefinitionSource,
    ExternalTask, FIX_ATTEMPTS, Initiator, Instructions, IsolationOptions, ManualTransition, ModelTask,
    MoveRecord, NeedsCondition, NewPlan, NodeKind, NodePath, PARALLEL, PARALLEL_MAX, PLAN_STEPS_MAX, Plan,
    PlanEvent, PlanMoveError, PlanSpec, PlanState, PlanStep, PlanTransitionRejection, ProjectLink,
    REPEAT_MAX, REVERSIONS_MAX, RULE_PREFIX, Repeat, Strategist, TITLE_CHARS_MAX, TransitionDecisions,
    TransitionResult, WorkState, follow, invariant_check_name, why_constrained,
};
pub use record::apply::{
    ApplyEnd, ApplyKind, ApplyMoves, ApplyRecord, ApplyStage, NewApply, applies_in_force, latest_apply,
};
pub use record::event::{EVENT_BYTES_MAX, EventKind, EventRecord};
pub use record::node_run::{NODE_TEXT_BYTES_MAX, NodeOutcome, NodeRun, NodeWait, TokenUsage};
pub use record::sandbox::{CaptureOmissions, OmissionKind, OmittedPart, SandboxRecord, TreeChanges};
pub use record::tool_call::{CallEnd, CallState, FinishedCall, NewCall, SettledCall, StoredOutput, ToolCall};
pub use record::{DecideError, PlanRecord, RecordError, ReserveError};
pub use redact::{
    Redactor, RedactorError, SECRET_BYTES_MIN, SecretKind, SecretPrint, UnknownMark, contains_mark,
    key_fingerprint,
};
pub use suggest::{did_you_mean, nearest};
pub use template::{
    ExpandError, Template, TemplateFlaw, TemplatePath, TemplateScope, Values, expand_argv, value_text,
};
pub use time::{Ms, WallMs};
