//! The engine's errors as failures: each with its code, in words that name the plan, with the way on.
//!
//! # Invariants
//! Every match names all variants: an error that the engine learns gets its words here before it compiles.

use std::io;

use domain::{
    ApplyState, ConstraintReason, PlanState, REVERSIONS_MAX, SelectionError, ValidationSummary, WorkState,
};
use engine::{
    AbandonError, ApplyError, ArtifactsError, CancelError, CheckAgainError, Conflict, DiscardError,
    EngineOpenError, ExecuteError, FindDecisionError, FindError, FollowUpError, GcError, GuidanceError,
    LimitsError, LocksError, NoteError, PlanCandidate, ReviseError, RollbackError, UseError,
};
use serde_json::json;
use store::{DecisionStoreError, PlanStoreError, StoreError, StoreOpenError};

use super::{CommandError, codes, hints};
use crate::output::one_line;

const FULL: &str =
    "the disk of the store of plans is full, so this could not be written; nothing before it is lost";

/// The store failed.
pub fn store(error: &StoreError) -> CommandError {
    match error {
        StoreError::TooNew { .. } => too_new(error),
        StoreError::Unreadable { .. } => {
            CommandError::new(&codes::PLAN_UNREADABLE, format!("{error}; it was not changed"))
        }
        StoreError::Damaged { .. } => CommandError::new(&codes::CHANGES_DAMAGED, error.to_string()),
        StoreError::Full => CommandError::new(&codes::STORE_FULL, FULL),
        StoreError::Busy => store_busy(),
        StoreError::LeaseLost(_) | StoreError::Broken { .. } => {
            CommandError::new(&codes::STORE_FAILED, format!("the store of plans failed: {error}"))
        }
    }
}

/// Another process has held the store for longer than any command waits.
fn store_busy() -> CommandError {
    CommandError::new(
        &codes::STORE_BUSY,
        "another process has had the store of plans locked for 10 seconds, so this could not be written",
    )
}

/// A newer program has been at the store.
fn too_new(error: &impl std::fmt::Display) -> CommandError {
    CommandError::new(&codes::STORE_TOO_NEW, format!("{error}; it was not changed"))
}

/// No plan was found.
pub fn find(error: &FindError) -> CommandError {
    match error {
        FindError::NotFound { word } if word == "@last" => {
            CommandError::new(&codes::PLAN_NOT_FOUND, "there is no plan yet").hint(hints::START_PLAN)
        }
        FindError::NotFound { word } => {
            CommandError::new(&codes::PLAN_NOT_FOUND, format!("there is no plan `{word}`"))
        }
        FindError::NotHere { newest, short, roots } => {
            let shown: Vec<String> =
                roots.iter().map(|root| String::from_utf8_lossy(root).into_owned()).collect();
            CommandError::new(
                &codes::PLAN_NOT_FOUND,
                format!(
                    "there is no plan of this project; the newest is {short} of {}",
                    one_line(&shown.join(", "))
                ),
            )
            .detail(json!({ "newest": newest, "roots": shown }))
            .hint(hints::NAME_PLAN)
            .field("id", short)
        }
        FindError::Ambiguous { word, candidates } => {
            let failure = CommandError::new(&codes::PLAN_AMBIGUOUS, format!("`{word}` names several plans"));
            let line = |one: &PlanCandidate| format!("{}  {}", one.short, one_line(&one.title));
            let failure = candidates.iter().map(line).fold(failure, CommandError::line);
            let ids: Vec<String> = candidates.iter().map(|one| one.plan.to_string()).collect();
            failure.detail(json!({ "candidates": ids }))
        }
        FindError::Store(error) => store(error),
    }
}

/// A plan could not be read or moved.
pub fn plan(error: &PlanStoreError, id: &str) -> CommandError {
    match error {
        PlanStoreError::NotFound { .. } => {
            CommandError::new(&codes::PLAN_NOT_FOUND, format!("there is no plan {id}"))
        }
        PlanStoreError::Moved { .. } | PlanStoreError::Job(_) => {
            busy(id, "another process has just changed its state")
        }
        PlanStoreError::QueueFull { queued } => CommandError::new(
            &codes::QUEUE_FULL,
            format!("{queued} plans wait already, which is the maximum"),
        ),
        PlanStoreError::Refused(refused) => {
            CommandError::new(&codes::BAD_TRANSITION, format!("plan {id} was not moved: {refused}")).plan(id)
        }
        PlanStoreError::IdTaken { .. } | PlanStoreError::Changes(_) => {
            CommandError::new(&codes::INTERNAL, error.to_string())
        }
        PlanStoreError::Store(error) => store(error),
    }
}

fn busy(id: &str, why: &str) -> CommandError {
    CommandError::new(&codes::PLAN_BUSY, format!("plan {id} is busy: {why}")).plan(id)
}

/// The engine could not be opened.
pub fn open(error: &EngineOpenError) -> CommandError {
    match error {
        EngineOpenError::DataDir { .. } => {
            CommandError::new(&codes::IO_FAILED, error.to_string()).hint(hints::OTHER_DATA_DIR)
        }
        EngineOpenError::Store(error) => open_store(error),
        EngineOpenError::Contexts(error) => {
            CommandError::new(&codes::CONFIG_VALUE_INVALID, error.to_string())
        }
        EngineOpenError::Recovery(error) => CommandError::new(
            &codes::JOURNAL_STUCK,
            format!("an apply that was interrupted can be neither finished nor rolled back yet: {error}"),
        )
        .hint(hints::REMOVE_CAUSE_OR_ABANDON),
    }
}

fn open_store(error: &StoreOpenError) -> CommandError {
    let failure = |message: String| CommandError::new(&codes::STORE_FAILED, message);
    match error {
        StoreOpenError::TooNew { .. } => too_new(error),
        StoreOpenError::Foreign { .. } => {
            failure(format!("{error}; it was not changed")).hint(hints::MOVE_FILE_AWAY)
        }
        StoreOpenError::ForeignLog { log } => failure(format!("{error}; neither was changed"))
            .hint(hints::MOVE_LOG_AWAY)
            .field("log", log.display()),
        StoreOpenError::Corrupt { path, .. } => failure(format!("{error}; it was not changed"))
            .hint(hints::RECOVER_STORE)
            .field("path", path.display()),
        StoreOpenError::Unsupported { .. } => failure(error.to_string()).hint(hints::LOCAL_DIRECTORY),
        StoreOpenError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            CommandError::new(
                &codes::STORE_FULL,
                format!("{error}: its disk is full; nothing that is there is lost"),
            )
        }
        StoreOpenError::Io { source, .. } => {
            failure(format!("{error}: {source}")).hint(hints::CHECK_STORE_FILE)
        }
        StoreOpenError::Busy => store_busy(),
    }
}

/// No plan was made.
pub fn use_plan(error: &UseError) -> CommandError {
    match error {
        UseError::Preflight { findings } => {
            let failure = CommandError::new(
                &codes::PREFLIGHT_FAILED,
                "the plan cannot run as requested; nothing was stored",
            );
            findings.iter().fold(failure, |failure, finding| failure.line(finding.clone()))
        }
        UseError::Store(error) => plan(error, "(new)"),
    }
}

/// A plan was not executed or resumed.
pub fn execute(error: &ExecuteError, id: &str) -> CommandError {
    match error {
        ExecuteError::Busy { worker, .. } => busy(id, &format!("{worker} works on it")),
        ExecuteError::Complete { .. } => CommandError::new(
            &codes::PLAN_COMPLETE,
            format!("plan {id} has done its work already, and its changes are stored"),
        )
        .plan(id),
        ExecuteError::NotReady { state, .. } => not_ready(*state, id),
        ExecuteError::Final { state, .. } => ended(*state, id),
        ExecuteError::Plan(error) => plan(error, id),
        ExecuteError::Unstored { why, .. } => CommandError::new(
            &codes::STORE_FAILED,
            format!("plan {id} failed, which could not be stored: {why}"),
        )
        .hint(hints::FREE_SPACE_AND_RESUME)
        .plan(id),
        ExecuteError::NoWorker(why) => {
            CommandError::new(&codes::IO_FAILED, format!("no work can be done: {why}"))
                .hint(hints::DISK_IS_FULL)
        }
    }
}

fn ended(state: PlanState, id: &str) -> CommandError {
    let failure =
        CommandError::new(&codes::PLAN_FINAL, format!("plan {id} is {}, which is final", state.word()));
    match state {
        PlanState::Apply(ApplyState::Applied) => failure.hint(hints::UNDO).plan(id),
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => {
            failure.hint(hints::CHANGES_ARE_STORED).hint(hints::CONTINUE_OR_DISCARD).plan(id)
        }
    }
}

fn not_ready(state: PlanState, id: &str) -> CommandError {
    let failure = |message: String| CommandError::new(&codes::PLAN_NOT_READY, message).plan(id);
    match state {
        PlanState::Strategize(WorkState::Errored)
        | PlanState::Execute(WorkState::Errored)
        | PlanState::Apply(ApplyState::Errored) => {
            failure(format!("plan {id} failed in {}", state.phase())).hint(hints::SEE_ERRORS)
        }
        PlanState::Apply(ApplyState::Constrained) => {
            failure(format!("plan {id} was not applied: there are conflicts")).hint(hints::SEE_CONFLICTS)
        }
        PlanState::Execute(WorkState::Complete) => {
            failure(format!("plan {id} has done its work; nothing of it failed")).hint(hints::APPLY)
        }
        PlanState::Strategize(WorkState::Queued | WorkState::Complete)
        | PlanState::Execute(WorkState::Queued) => {
            failure(format!("plan {id} has not been executed yet")).hint(hints::EXECUTE)
        }
        PlanState::Strategize(WorkState::Processing)
        | PlanState::Execute(WorkState::Processing)
        | PlanState::Apply(ApplyState::Queued | ApplyState::Processing) => {
            busy(id, &format!("{} is still running", state.phase()))
        }
        PlanState::Strategize(WorkState::Cancelled)
        | PlanState::Execute(WorkState::Cancelled)
        | PlanState::Apply(ApplyState::Applied | ApplyState::Cancelled) => ended(state, id),
    }
}

/// Nothing was said to a plan.
pub fn guide(error: &GuidanceError, id: &str) -> CommandError {
    match error {
        GuidanceError::Length { .. } => {
            CommandError::new(&codes::DECISION_INVALID, error.to_string()).hint(hints::SHORTER_PROMPT)
        }
        GuidanceError::Final { state, .. } => ended(*state, id),
        GuidanceError::Busy { state, .. } => {
            busy(id, &format!("it is {state}, and cannot begin again now")).hint(hints::CONTINUES_WITH_PROMPT)
        }
        GuidanceError::NotStopped { .. } => {
            busy(id, "it is asked to stop, has not answered yet, and begins again when it has")
                .hint(hints::FOLLOW)
        }
        GuidanceError::ReversionsSpent { .. } => CommandError::new(
            &codes::REVERSIONS_SPENT,
            format!("plan {id} has begun again {REVERSIONS_MAX} times, which is as often as it may"),
        )
        .plan(id),
        GuidanceError::Plan(error) => plan(error, id),
        GuidanceError::Decision(error) => decision(error, id),
    }
}

/// A decision was not recorded.
fn decision(error: &DecisionStoreError, id: &str) -> CommandError {
    match error {
        DecisionStoreError::Invalid(_) => CommandError::new(&codes::DECISION_INVALID, error.to_string()),
        DecisionStoreError::NotFound { .. } => {
            CommandError::new(&codes::PLAN_NOT_FOUND, format!("there is no plan {id}"))
        }
        DecisionStoreError::Final { state, .. } => ended(*state, id),
        DecisionStoreError::Store(error) => store(error),
    }
}

/// A plan was not revised.
pub fn revise(error: &ReviseError, id: &str) -> CommandError {
    match error {
        ReviseError::Message { bytes: 0 } => CommandError::new(
            &codes::DECISION_INVALID,
            format!(
                "there is nothing to revise plan {id} for: no message was given, and it has no open note"
            ),
        )
        .hint(hints::SAY_OR_NOTE)
        .plan(id),
        ReviseError::Message { .. } => {
            CommandError::new(&codes::DECISION_INVALID, error.to_string()).hint(hints::SHORTER_PROMPT)
        }
        ReviseError::Applied { .. } => CommandError::new(
            &codes::PLAN_FINAL,
            format!("plan {id} is applied: its changes are in your files"),
        )
        .plan(id),
        ReviseError::NotFinished { state, .. } => not_finished(*state, id, "be revised"),
        ReviseError::NoSuchDecision { seq, .. } => CommandError::new(
            &codes::DECISION_NOT_FOUND,
            format!("plan {id} has no decision {seq} that is in force"),
        ),
        ReviseError::OfStrategy { seq, .. } => CommandError::new(
            &codes::DECISION_INVALID,
            format!("decision {seq} of plan {id} belongs to its strategy, or is its task"),
        )
        .hint(hints::REPLAN)
        .plan(id),
        ReviseError::Use(error) => use_plan(error),
        ReviseError::Busy { .. } => busy(id, "another process moved it"),
        ReviseError::ContentGone { path, .. } => CommandError::new(
            &codes::CONTENT_GONE,
            format!("the content of {path} in plan {id} is not stored any more"),
        )
        .plan(id),
        ReviseError::Plan(error) => plan(error, id),
    }
}

/// No follow-up of an applied plan was made.
pub fn follow_up(error: &FollowUpError, id: &str) -> CommandError {
    match error {
        FollowUpError::Message { bytes: 0 } => CommandError::new(
            &codes::DECISION_INVALID,
            format!("plan {id} is applied, and a plan that continues it needs a message"),
        )
        .hint(hints::SAY_OR_NOTE)
        .plan(id),
        FollowUpError::Message { .. } => {
            CommandError::new(&codes::DECISION_INVALID, error.to_string()).hint(hints::SHORTER_PROMPT)
        }
        FollowUpError::Use(error) => use_plan(error),
        FollowUpError::Plan(error) => plan(error, id),
    }
}

/// A plan was not rolled back.
pub fn rollback(error: &RollbackError, id: &str) -> CommandError {
    match error {
        RollbackError::NoCheckpoint { entry, known, .. } => {
            let known: Vec<String> = known.iter().map(u64::to_string).collect();
            let message = format!("plan {id} has no checkpoint {entry}; it has 0, {}", known.join(", "));
            CommandError::new(&codes::NO_CHECKPOINT, message.trim_end_matches(", ")).plan(id)
        }
        RollbackError::NothingAfter { .. } => {
            CommandError::new(&codes::NO_CHECKPOINT, format!("plan {id} has no changes after it")).plan(id)
        }
        RollbackError::NotFinished { state, .. } => not_finished(*state, id, "be rolled back"),
        RollbackError::Busy { .. } => busy(id, "another process moved it"),
        RollbackError::Plan(error) => plan(error, id),
    }
}

/// A note was not written or resolved.
pub fn note(error: &NoteError, id: &str) -> CommandError {
    match error {
        NoteError::Length { .. } => CommandError::new(&codes::DECISION_INVALID, error.to_string()),
        NoteError::NoSuchPlace { .. } => CommandError::new(&codes::NO_SUCH_PLACE, error.to_string()).plan(id),
        NoteError::NoSuchNote { .. } => CommandError::new(&codes::NO_SUCH_NOTE, error.to_string()).plan(id),
        NoteError::Decision(error) => decision(error, id),
        NoteError::Plan(error) => plan(error, id),
    }
}

fn not_finished(state: PlanState, id: &str, action: &str) -> CommandError {
    if state.has_live_job() {
        return busy(id, &format!("it is {state}, and cannot {action} now"));
    }
    if state.is_final() {
        return ended(state, id);
    }
    CommandError::new(&codes::PLAN_NOT_READY, format!("plan {id} is {state}, and has no result to {action}"))
        .plan(id)
}

/// No decision was found.
pub fn find_decision(error: &FindDecisionError) -> CommandError {
    match error {
        FindDecisionError::NotFound { .. } => {
            CommandError::new(&codes::DECISION_NOT_FOUND, error.to_string())
        }
        FindDecisionError::Ambiguous { candidates, .. } => {
            let failure = CommandError::new(&codes::DECISION_AMBIGUOUS, error.to_string());
            candidates.iter().fold(failure, |failure, one| failure.line(one.clone()))
        }
        FindDecisionError::Plan(error) => find(error),
        FindDecisionError::Store(error) => store(error),
    }
}

/// The limits of a plan were not set.
pub fn limits(error: &LimitsError, id: &str) -> CommandError {
    match error {
        LimitsError::Final { state, .. } => ended(*state, id),
        LimitsError::TooLow(low) => {
            CommandError::new(&codes::LIMIT_TOO_LOW, format!("plan {id}: {low}")).plan(id)
        }
        LimitsError::Plan(error) => plan(error, id),
        LimitsError::Ledger(error) => CommandError::new(&codes::INTERNAL, error.to_string()),
    }
}

/// A plan was not applied.
pub fn apply(error: &ApplyError, id: &str) -> CommandError {
    not_done(error, id, "applied")
}

/// A plan was not `done`: applied or undone.
fn not_done(error: &ApplyError, id: &str, done: &str) -> CommandError {
    match error {
        ApplyError::NotReady { state, .. } => not_ready(*state, id),
        ApplyError::Busy { worker, .. } => busy(id, &format!("{worker} works on it")),
        ApplyError::OtherChoice { worker, .. } => CommandError::new(
            &codes::PLAN_BUSY,
            format!("plan {id} is being applied with another choice by {worker}"),
        )
        .hint(hints::WAIT_THEN_UNDO)
        .plan(id),
        ApplyError::Changed { .. } => CommandError::new(
            &codes::PLAN_BUSY,
            format!("plan {id} has other changes than the ones that were shown, so nothing was applied"),
        )
        .hint(hints::SEE_THEN_APPLY)
        .plan(id),
        ApplyError::AlreadyApplied { files, of, left_out, branch, .. } => {
            already_applied((*files, *of), left_out, branch.as_deref(), id)
        }
        ApplyError::Settled { .. } => busy(id, "another process has just brought it to this end"),
        ApplyError::Selection(error) => selection(error, id),
        ApplyError::ReadOnly { .. } => {
            CommandError::new(&codes::PLAN_READ_ONLY, format!("plan {id} was made to read only: it is done"))
                .plan(id)
        }
        ApplyError::NothingToApply { .. } => {
            CommandError::new(&codes::NOTHING_TO_APPLY, format!("plan {id} has nothing to apply"))
        }
        ApplyError::Validation { summary, .. } => validation(summary, id),
        ApplyError::Recheck { reasons, .. } => recheck(reasons, id),
        ApplyError::TreeMoving { reasons, .. } => tree_moving(reasons, id),
        ApplyError::TooLarge { files, .. } => {
            let failure = CommandError::new(
                &codes::TOO_LARGE,
                format!(
                    "plan {id} changed files whose content was not stored: they are larger than capture.max_file_mb, or could not be read"
                ),
            );
            files.iter().fold(failure, |failure, file| failure.line(file.clone()))
        }
        ApplyError::Conflicts { conflicts, reasons, .. } => {
            let listed: Vec<(String, String)> = if conflicts.is_empty() {
                reasons.iter().map(|reason| (reason.subject.clone(), reason.message.clone())).collect()
            } else {
                conflicts.iter().map(|found| (found.address.clone(), found.kind.sentence())).collect()
            };
            conflict_failure(&listed, conflicts, id, done)
        }
        ApplyError::UndoExpired { .. } => CommandError::new(
            &codes::UNDO_EXPIRED,
            format!("plan {id} can no longer be undone: its journal was removed"),
        ),
        ApplyError::UndoDamaged { journal, .. } => CommandError::new(
            &codes::JOURNAL_DAMAGED,
            format!(
                "plan {id} cannot be undone: its journal is damaged; nothing was written, and {} is not changed",
                journal.display()
            ),
        ),
        ApplyError::BranchExists { name } => {
            CommandError::new(&codes::BRANCH_EXISTS, format!("there is a branch `{name}` already"))
        }
        ApplyError::BranchMoved { name, commit, .. } => CommandError::new(
            &codes::BRANCH_MOVED,
            format!("plan {id} was not {done}: branch {name} has other commits than the plan's"),
        )
        .field("branch", name)
        .field("commit", commit.get(..12).unwrap_or(commit)),
        ApplyError::Withdrawn { .. } => CommandError::new(
            &codes::CANCELLED,
            format!("stopped; nothing was written, and plan {id} is as it was"),
        )
        .hint(hints::APPLY_LATER)
        .plan(id),
        ApplyError::Cancelled { .. } => CommandError::new(
            &codes::CANCELLED,
            format!("the apply of plan {id} was cancelled; nothing was written"),
        )
        .hint(hints::TAKE_PART)
        .plan(id),
        ApplyError::Failed { why, .. } => CommandError::new(
            &codes::PLAN_ERRORED,
            format!("plan {id} was not {done}, your files are as they were: {why}"),
        )
        .hint(hints::APPLY_WHEN_REPAIRED)
        .plan(id),
        ApplyError::Stuck { why, .. } => CommandError::new(
            &codes::JOURNAL_STUCK,
            format!(
                "the apply of plan {id} can be neither finished nor rolled back, some of its files may be written: {why}"
            ),
        ),
        ApplyError::Locks(error) => locks(error, id, done),
        ApplyError::Merging(error) => CommandError::new(
            &codes::IO_FAILED,
            format!("plan {id} was not {done}, nothing was written: {error}"),
        )
        .hint(hints::APPLY_WHEN_REPAIRED)
        .plan(id),
        ApplyError::Plan(error) => plan(error, id),
        ApplyError::Execute(error) => execute(error, id),
    }
}

/// The plan or a project could not be locked.
fn locks(error: &LocksError, id: &str, done: &str) -> CommandError {
    match error {
        LocksError::Held { .. } => busy(id, &error.to_string()),
        LocksError::Store(error) => store(error),
        LocksError::Root { .. } | LocksError::Presence(_) => CommandError::new(
            &codes::IO_FAILED,
            format!("plan {id} was not {done}, nothing was written: {error}"),
        )
        .hint(hints::SEE_DOCTOR_THEN_RETRY),
    }
}

fn selection(error: &SelectionError, id: &str) -> CommandError {
    let failure = CommandError::new(&codes::NO_SUCH_HUNK, error.to_string());
    match error {
        SelectionError::NoSuchHunk { word, .. } if domain::contains_mark(word) => {
            failure.hint(hints::ADDRESS_BY_PATTERN)
        }
        SelectionError::NoSuchHunk { nearest: Some(nearest), .. } => {
            failure.hint(hints::NEAREST_ADDRESS).field("nearest", nearest).plan(id)
        }
        SelectionError::NoSuchHunk { nearest: None, .. } => failure.hint(hints::NO_CHANGES),
        SelectionError::TakesLines { hunk, .. } => failure.hint(hints::TAKE_WHOLE_HUNK).field("hunk", hunk),
    }
}

/// The plan is applied already, and another choice was asked for.
fn already_applied(
    (files, of): (usize, usize),
    left_out: &[String],
    branch: Option<&str>,
    id: &str,
) -> CommandError {
    let place = branch.map(|branch| format!(" on branch {branch}")).unwrap_or_default();
    let message = format!(
        "plan {id} is applied already{place}, with {files} of {of} files and another choice; nothing was done"
    );
    let failure = CommandError::new(&codes::ALREADY_APPLIED, message);
    let failure =
        left_out.iter().fold(failure, |failure, address| failure.line(format!("left out: {address}")));
    failure.detail(json!({ "files": files, "of": of, "left_out": left_out, "branch": branch })).plan(id)
}

/// Converts the error of an apply that could not be abandoned.
pub fn set_aside(error: &AbandonError, id: &str) -> CommandError {
    match error {
        AbandonError::NotOpen { .. } => {
            CommandError::new(&codes::NO_OPEN_APPLY, format!("plan {id} has no interrupted apply"))
        }
        AbandonError::Busy { .. } => busy(id, "another process works on its apply or on its project"),
        AbandonError::Io(_) => CommandError::new(&codes::IO_FAILED, error.to_string()),
        AbandonError::Store(error) => store(error),
    }
}

/// Checks that failed or did not run block the apply.
pub fn validation(summary: &ValidationSummary, id: &str) -> CommandError {
    let ValidationSummary { failed, not_run, untrusted, .. } = summary;
    if summary.waits_for_trust() {
        return untrusted_checks(not_run, untrusted, id);
    }
    let (code, what, names) = if failed.is_empty() {
        (&codes::VALIDATION_NOT_RUN, "has not run for the plan's present changes", not_run)
    } else {
        (&codes::VALIDATION_FAILED, "failed", failed)
    };
    let count = match names.len() {
        1 => "a required validation".to_owned(),
        several => format!("{several} required validations"),
    };
    let failure = CommandError::new(code, format!("plan {id} is not applied: {count} {what}"));
    names
        .iter()
        .fold(failure, |failure, name| failure.line(one_line(name)))
        .detail(json!({ "failed": failed, "not_run": not_run, "untrusted": untrusted }))
        .plan(id)
}

/// The checks of a plan were not run again.
pub fn check_again(error: &CheckAgainError, id: &str) -> CommandError {
    match error {
        CheckAgainError::NoChecks { .. } => {
            CommandError::new(&codes::NO_SUCH_CHECK, format!("plan {id} has no checks"))
        }
        CheckAgainError::NoSuchCheck { name, known, .. } => {
            let message = format!("plan {id} has no check `{}`", one_line(name));
            let names: Vec<String> = known.iter().map(|name| format!("`{}`", one_line(name))).collect();
            CommandError::new(&codes::NO_SUCH_CHECK, message)
                .field("names", names.join(", "))
                .hint(hints::CHECK_NAMES)
        }
        CheckAgainError::NotFinished { state, .. } => CommandError::new(
            &codes::PLAN_NOT_READY,
            format!("the checks of plan {id} cannot be run again: it is {state}"),
        )
        .plan(id),
        CheckAgainError::Busy { .. } => CommandError::new(
            &codes::PLAN_BUSY,
            format!("plan {id} is being worked on or has changed meanwhile"),
        )
        .plan(id),
        CheckAgainError::Conflicts { conflicts, .. } => {
            let listed: Vec<(String, String)> =
                conflicts.iter().map(|found| (found.address.clone(), found.kind.sentence())).collect();
            conflict_failure(&listed, conflicts, id, "checked")
        }
        CheckAgainError::Stopped { .. } => {
            CommandError::new(&codes::CANCELLED, format!("stopped; plan {id} is as it was"))
                .hint(hints::CHECK_LATER)
                .plan(id)
        }
        CheckAgainError::Failed { why, .. } => CommandError::new(
            &codes::PLAN_ERRORED,
            format!("the checks of plan {id} could not be run: {why}"),
        )
        .hint(hints::SEE_MACHINE)
        .plan(id),
        CheckAgainError::Plan(error) => plan(error, id),
    }
}

/// Checks failed on the merged tree.
pub fn recheck(reasons: &[ConstraintReason], id: &str) -> CommandError {
    let message = format!("the checks of plan {id} fail on your present tree; nothing was written");
    with_reasons(CommandError::new(&codes::RECHECK_FAILED, message), reasons).plan(id)
}

/// The tree does not come to rest.
pub fn tree_moving(reasons: &[ConstraintReason], id: &str) -> CommandError {
    let message =
        format!("plan {id} is not applied: your tree changes while its checks run; nothing was written");
    with_reasons(CommandError::new(&codes::TREE_MOVING, message), reasons).plan(id)
}

/// The failure with the reasons, one on a line.
fn with_reasons(failure: CommandError, reasons: &[ConstraintReason]) -> CommandError {
    let failure = reasons.iter().fold(failure, |failure, reason| {
        failure.line(format!("{}  {}", one_line(&reason.subject), one_line(&reason.message)))
    });
    failure.detail(json!({ "reasons": reasons }))
}

/// Checks of the project that the user does not trust did not run.
fn untrusted_checks(not_run: &[String], untrusted: &[String], id: &str) -> CommandError {
    let count = match not_run.len() {
        1 => "a required validation of the project has".to_owned(),
        several => format!("{several} required validations of the project have"),
    };
    let message = format!("plan {id} is not applied: {count} not run, because you have not trusted it");
    let failure = CommandError::new(&codes::VALIDATION_UNTRUSTED, message);
    not_run
        .iter()
        .fold(failure, |failure, name| failure.line(one_line(name)))
        .detail(json!({ "failed": [], "not_run": not_run, "untrusted": untrusted }))
        .hint(hints::TRUST_CHECKS)
        .hint(hints::APPLY_RUNS_THEM)
        .hint(hints::APPLY_UNCHECKED)
        .plan(id)
}

/// Conflicts, named one by one.
fn conflict_failure(
    listed: &[(String, String)],
    conflicts: &[Conflict],
    id: &str,
    done: &str,
) -> CommandError {
    let count =
        if listed.len() == 1 { "1 conflict".to_owned() } else { format!("{} conflicts", listed.len()) };
    let width = listed.iter().map(|(address, _)| address.chars().count()).max().unwrap_or(0);
    let failure =
        CommandError::new(&codes::CONFLICTS, format!("plan {id} not {done}: {count}, nothing was written"));
    let failure = listed
        .iter()
        .fold(failure, |failure, (address, sentence)| failure.line(format!("{address:width$}  {sentence}")));
    let detail: Vec<_> = if conflicts.is_empty() {
        listed.iter().map(|(address, sentence)| json!({ "address": address, "message": sentence })).collect()
    } else {
        conflicts.iter().map(conflict_json).collect()
    };
    let reject = listed.first().map_or("FILE", |(address, _)| address.as_str());
    failure.detail(json!({ "conflicts": detail })).field("reject", reject).field("take", reject).plan(id)
}

/// A conflict as programs read it.
pub fn conflict_json(conflict: &Conflict) -> serde_json::Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let places: Vec<_> = conflict
        .places
        .iter()
        .map(|place| json!({ "line": place.line, "yours": text(&place.yours), "plans": text(&place.plans) }))
        .collect();
    json!({
        "address": conflict.address, "kind": conflict.kind.as_str(), "message": conflict.kind.sentence(),
        "places": places,
    })
}

/// A plan was not undone.
pub fn undo(error: &ApplyError, id: &str) -> CommandError {
    if let ApplyError::NotReady { state, .. } = error {
        return match state {
            PlanState::Apply(ApplyState::Applied) => {
                CommandError::new(&codes::NOT_APPLIED, format!("plan {id} is undone already"))
                    .hint(hints::APPLY_AGAIN)
                    .plan(id)
            }
            PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => CommandError::new(
                &codes::NOT_APPLIED,
                format!("plan {id} is not applied ({state}): there is nothing to undo"),
            )
            .plan(id),
        };
    }
    let mut failure = not_done(error, id, "undone");
    if let ApplyError::Withdrawn { .. } | ApplyError::Failed { .. } = error {
        failure = failure.only_hint(hints::UNDO_LATER);
    }
    if let ApplyError::Conflicts { .. } = error {
        failure = failure.only_hint(hints::CONFLICT_AT_UNDO);
    }
    failure
}

/// A plan was not cancelled.
pub fn cancel(error: &CancelError, id: &str) -> CommandError {
    match error {
        CancelError::TooLate { .. }
        | CancelError::Final { state: PlanState::Apply(ApplyState::Applied), .. } => CommandError::new(
            &codes::CANCEL_TOO_LATE,
            format!("plan {id} can no longer be cancelled: it is being applied, or has been"),
        )
        .plan(id),
        CancelError::Final { state, .. } => ended(*state, id),
        CancelError::Unconfirmed { worker, .. } => CommandError::new(
            &codes::CANCEL_UNCONFIRMED,
            format!("the cancel of plan {id} is requested, not yet confirmed by {worker}"),
        )
        .plan(id),
        CancelError::Plan(error) => plan(error, id),
        CancelError::Execute(error) => execute(error, id),
    }
}

/// A plan was not thrown away.
pub fn discard(error: &DiscardError, id: &str) -> CommandError {
    match error {
        DiscardError::Applied { .. } => discarded_applied(id),
        DiscardError::Busy { .. } => {
            CommandError::new(&codes::PLAN_BUSY, format!("plan {id} was taken up by another process"))
                .plan(id)
        }
        DiscardError::Cancel(error) => cancel(error, id),
        DiscardError::Plan(error) => plan(error, id),
        DiscardError::Io(_) => CommandError::new(&codes::IO_FAILED, error.to_string()),
    }
}

/// A plan that is in the user's files was to be thrown away.
pub fn discarded_applied(id: &str) -> CommandError {
    let message = format!("plan {id} is applied, so it cannot be discarded: its undo would be lost");
    CommandError::new(&codes::PLAN_FINAL, message).hint(hints::UNDO).plan(id)
}

/// Artifacts were not listed or written.
pub fn artifacts(error: &ArtifactsError, id: &str) -> CommandError {
    match error {
        ArtifactsError::Plan(error) => plan(error, id),
        ArtifactsError::Write { .. } => {
            CommandError::new(&codes::IO_FAILED, error.to_string()).hint(hints::EMPTY_DIRECTORY)
        }
    }
}

/// Nothing was cleared, or not all.
pub fn gc(error: &GcError) -> CommandError {
    match error {
        GcError::Store(error) => store(error),
        GcError::Io(error) => match error.get_ref().and_then(|error| error.downcast_ref::<StoreError>()) {
            Some(error) => store(error),
            None => {
                CommandError::new(&codes::IO_FAILED, format!("the data directory cannot be cleared: {error}"))
            }
        },
    }
}
