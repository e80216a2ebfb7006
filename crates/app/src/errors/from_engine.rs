//! The engine's errors as failures: each with its code, in words that name the plan, with the way on.
//!
//! # Invariants
//! Every match names all variants: an error that the engine learns gets its words here before it compiles.

use std::io;

use domain::{
    ApplyState, ConstraintReason, HunkAddress, PlanState, REVERSIONS_MAX, SelectionError, ValidationSummary,
    WorkState,
};
use engine::{
    AbandonError, ApplyError, ArtifactsError, CancelError, Conflict, EngineOpenError, ExecuteError,
    FindDecisionError, FindError, GcError, GuidanceError, LimitsError, LocksError, UseError,
};
use serde_json::json;
use store::{DecisionStoreError, PlanStoreError, StoreError, StoreOpenError};

use super::{Code, CommandError, codes};
use crate::output::one_line;

const FREE_SPACE: &str = "free some space on the disk of the data directory, then try again";
const FULL: &str =
    "the disk of the store of plans is full, so this could not be written; nothing before it is lost";

/// The store failed.
pub fn store(error: &StoreError) -> CommandError {
    match error {
        StoreError::TooNew { .. } => too_new(error),
        StoreError::Unreadable { .. } => {
            CommandError::new(&codes::PLAN_UNREADABLE, format!("{error}; it was left as it is"))
                .hint("a newer `agents` made it, most likely: use that one; all other plans go on")
        }
        StoreError::Damaged { .. } => CommandError::new(&codes::CHANGES_DAMAGED, error.to_string())
            .hint("restore `agents.db` of the data directory from a backup, or run the work again; all other plans go on"),
        StoreError::Full => CommandError::new(&codes::STORE_FULL, FULL).hint(FREE_SPACE),
        StoreError::Busy => store_busy(),
        StoreError::LeaseLost(_) | StoreError::Broken { .. } => {
            CommandError::new(&codes::STORE_FAILED, format!("the store of plans failed: {error}"))
                .hint("see `agents doctor`")
        }
    }
}

/// Another process has held the store for longer than any command waits.
fn store_busy() -> CommandError {
    CommandError::new(
        &codes::STORE_BUSY,
        "another process has kept the store of plans locked for 10 seconds, so this could not be written",
    )
    .hint(
        "find out who holds `agents.db` of the data directory (a backup, an open `sqlite3`), then try again",
    )
}

/// A newer program has been at the store.
fn too_new(error: &impl std::fmt::Display) -> CommandError {
    CommandError::new(&codes::STORE_TOO_NEW, format!("{error}; it was left as it is"))
        .hint("use the newer `agents`, or another data directory: `--data-dir DIR`")
}

/// No plan was found.
pub fn find(error: &FindError) -> CommandError {
    match error {
        FindError::NotFound { word } if word == "@last" => {
            CommandError::new(&codes::PLAN_NOT_FOUND, "there is no plan yet")
                .hint("start one with `agents run -- COMMAND`")
        }
        FindError::NotFound { word } => {
            CommandError::new(&codes::PLAN_NOT_FOUND, format!("there is no plan `{word}`"))
                .hint("see `agents plan list`; a plan is named by its id, the beginning of its id, or @last")
        }
        FindError::NotHere { newest, roots } => {
            let shown: Vec<String> =
                roots.iter().map(|root| String::from_utf8_lossy(root).into_owned()).collect();
            CommandError::new(
                &codes::PLAN_NOT_FOUND,
                format!(
                    "there is no plan of this project; the newest is {newest} of {}",
                    one_line(&shown.join(", "))
                ),
            )
            .detail(json!({ "newest": newest, "roots": shown }))
            .hint(format!("name it if you mean it: `agents plan status {newest}`"))
        }
        FindError::Ambiguous { word, candidates } => {
            let ids: Vec<String> = candidates.iter().map(ToString::to_string).collect();
            let failure = CommandError::new(
                &codes::PLAN_AMBIGUOUS,
                format!("`{word}` is the beginning of several plans' ids"),
            );
            let failure = ids.iter().fold(failure, |failure, id| failure.line(id.clone()));
            failure.detail(json!({ "candidates": ids })).hint("give more letters of the id")
        }
        FindError::Store(error) => store(error),
    }
}

/// A plan could not be read or moved.
pub fn plan(error: &PlanStoreError, id: &str) -> CommandError {
    match error {
        PlanStoreError::NotFound { .. } => {
            CommandError::new(&codes::PLAN_NOT_FOUND, format!("there is no plan {id}"))
                .hint("see `agents plan list`")
        }
        PlanStoreError::Moved { .. } | PlanStoreError::Job(_) => busy(id, "somebody moved it just now"),
        PlanStoreError::QueueFull { queued } => {
            CommandError::new(&codes::QUEUE_FULL, format!("{queued} plans wait already, and no more can"))
                .hint("see them with `agents plan list --state queued`")
                .hint("cancel all that wait: `agents plan cancel --state queued --all`")
        }
        PlanStoreError::Refused(refused) => {
            CommandError::new(&codes::BAD_TRANSITION, format!("plan {id} was not moved: {refused}"))
        }
        PlanStoreError::IdTaken { .. } => CommandError::new(&codes::INTERNAL, error.to_string()),
        PlanStoreError::Store(error) => store(error),
    }
}

fn busy(id: &str, why: &str) -> CommandError {
    CommandError::new(&codes::PLAN_BUSY, format!("plan {id} is busy: {why}"))
        .hint(format!("follow it with `agents plan watch {id}`, or stop it with `agents plan cancel {id}`"))
}

/// The engine could not be opened.
pub fn open(error: &EngineOpenError) -> CommandError {
    match error {
        EngineOpenError::DataDir { .. } => CommandError::new(&codes::IO_FAILED, error.to_string())
            .hint("name another one with `--data-dir DIR`"),
        EngineOpenError::Store(error) => open_store(error),
        EngineOpenError::Contexts(error) => {
            CommandError::new(&codes::CONFIG_VALUE_INVALID, error.to_string())
        }
        EngineOpenError::Recovery(error) => CommandError::new(
            &codes::JOURNAL_STUCK,
            format!("an apply that was interrupted can be neither finished nor taken back yet: {error}"),
        )
        .hint("remove the cause (often a full disk), then run any command: it goes on where it stopped")
        .hint("see what is open with `agents doctor`; to give it up: `agents plan gc --set-aside ID`"),
    }
}

fn open_store(error: &StoreOpenError) -> CommandError {
    let failure = |message: String| CommandError::new(&codes::STORE_FAILED, message);
    match error {
        StoreOpenError::TooNew { .. } => too_new(error),
        StoreOpenError::Foreign { .. } => failure(format!("{error}; it was left as it is"))
            .hint("move the file away, or use another data directory: `--data-dir DIR`"),
        StoreOpenError::ForeignLog { log } => failure(format!("{error}; both were left as they are")).hint(format!(
            "move {} away, or put the right one in its place: then all that is in the store is there again",
            log.display()
        )),
        StoreOpenError::Corrupt { path, .. } => failure(format!("{error}; it was left as it is")).hint(format!(
            "save what can be read with `sqlite3 {} .recover`, then move it away; a new store begins empty",
            path.display()
        )),
        StoreOpenError::Unsupported { .. } => {
            failure(error.to_string()).hint("use a directory of this machine: `--data-dir DIR`")
        }
        StoreOpenError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => CommandError::new(
            &codes::STORE_FULL,
            format!("{error}: its disk is full; nothing that is there is lost"),
        )
        .hint(FREE_SPACE),
        StoreOpenError::Io { source, .. } => failure(format!("{error}: {source}"))
            .hint("see who may write there and whether there is space, or use another one: `--data-dir DIR`"),
        StoreOpenError::Busy => store_busy(),
    }
}

/// No plan was made.
pub fn use_plan(error: &UseError) -> CommandError {
    match error {
        UseError::Preflight { findings } => {
            let failure = CommandError::new(
                &codes::PREFLIGHT_FAILED,
                "the plan cannot run as asked; nothing was stored",
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
            format!("plan {id} has done its work already, which is kept"),
        )
        .hint(format!("see it with `agents plan diff {id}`, apply it with `agents plan apply {id}`"))
        .hint(format!("to do it anew: `agents plan execute {id} --again`")),
        ExecuteError::NotReady { state, .. } => not_ready(*state, id),
        ExecuteError::Final { state, .. } => ended(*state, id),
        ExecuteError::Plan(error) => plan(error, id),
        ExecuteError::Unstored { why, .. } => CommandError::new(
            &codes::STORE_FAILED,
            format!("plan {id} failed, which could not be stored: {why}"),
        )
        .hint(format!("free some space on the disk of the data directory, then `agents plan resume {id}`")),
        ExecuteError::NoWorker(why) => {
            CommandError::new(&codes::IO_FAILED, format!("no work can be done: {why}"))
                .hint("see `agents doctor`: most often the disk of the data directory is full")
        }
    }
}

fn ended(state: PlanState, id: &str) -> CommandError {
    let failure =
        CommandError::new(&codes::PLAN_FINAL, format!("plan {id} is {}, which is final", state.word()));
    match state {
        PlanState::Apply(ApplyState::Applied) => {
            failure.hint(format!("to take it back: `agents plan undo {id}`"))
        }
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => {
            failure.hint(format!("what it changed is kept: `agents plan diff {id}`"))
        }
    }
}

fn not_ready(state: PlanState, id: &str) -> CommandError {
    let failure = |code: &'static Code, message: String| CommandError::new(code, message);
    match state {
        PlanState::Strategize(WorkState::Errored)
        | PlanState::Execute(WorkState::Errored)
        | PlanState::Apply(ApplyState::Errored) => {
            failure(&codes::PLAN_NOT_READY, format!("plan {id} failed in {}", state.phase()))
                .hint(format!("see why with `agents plan errors {id}`, then `agents plan resume {id}`"))
        }
        PlanState::Apply(ApplyState::Constrained) => {
            failure(&codes::PLAN_NOT_READY, format!("plan {id} was not applied: something stands in the way"))
                .hint(format!(
                    "see it with `agents plan diff {id} --conflicts`, then `agents plan apply {id}`"
                ))
        }
        PlanState::Execute(WorkState::Complete) => {
            failure(&codes::PLAN_NOT_READY, format!("plan {id} has done its work; nothing of it failed"))
                .hint(format!("apply it with `agents plan apply {id}`"))
        }
        PlanState::Strategize(WorkState::Queued | WorkState::Complete)
        | PlanState::Execute(WorkState::Queued) => {
            failure(&codes::PLAN_NOT_READY, format!("plan {id} has not been executed yet"))
                .hint(format!("execute it with `agents plan execute {id}`"))
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
        GuidanceError::Length { .. } => CommandError::new(&codes::DECISION_INVALID, error.to_string())
            .hint("put what is longer into a file of the project, and name the file"),
        GuidanceError::Final { state, .. } => ended(*state, id),
        GuidanceError::Busy { state, .. } => busy(id, &format!("it is {state}, and cannot begin again now"))
            .hint(format!(
                "what is said without `--replan` is heeded as it goes on: `agents plan prompt {id} TEXT`"
            )),
        GuidanceError::NotStopped { .. } => {
            busy(id, "it is asked to stop, has not answered yet, and begins again when it has")
                .hint(format!("follow it with `agents plan watch {id}`"))
        }
        GuidanceError::ReversionsSpent { .. } => CommandError::new(
            &codes::REVERSIONS_SPENT,
            format!("plan {id} has begun again {REVERSIONS_MAX} times, which is as often as it may"),
        )
        .hint(format!("say it without `--replan`, or do the work anew: `agents plan execute {id} --again`")),
        GuidanceError::Plan(error) => plan(error, id),
        GuidanceError::Decision(error) => match error {
            DecisionStoreError::Invalid(_) => CommandError::new(&codes::DECISION_INVALID, error.to_string()),
            DecisionStoreError::NotFound { .. } => {
                CommandError::new(&codes::PLAN_NOT_FOUND, format!("there is no plan {id}"))
            }
            DecisionStoreError::Final { state, .. } => ended(*state, id),
            DecisionStoreError::Store(error) => store(error),
        },
    }
}

/// No decision was found.
pub fn find_decision(error: &FindDecisionError) -> CommandError {
    match error {
        FindDecisionError::NotFound { .. } => CommandError::new(&codes::DECISION_NOT_FOUND, error.to_string())
            .hint("see the decisions of a plan with `agents plan tree ID`; one is named by its id or as PLAN:NUMBER"),
        FindDecisionError::Ambiguous { candidates, .. } => {
            let failure = CommandError::new(&codes::DECISION_AMBIGUOUS, error.to_string());
            let failure = candidates.iter().fold(failure, |failure, one| failure.line(one.clone()));
            failure.hint("give more letters, or name it as PLAN:NUMBER")
        }
        FindDecisionError::Plan(error) => find(error),
        FindDecisionError::Store(error) => store(error),
    }
}

/// The limits of a plan were not set.
pub fn limits(error: &LimitsError, id: &str) -> CommandError {
    match error {
        LimitsError::Final { state, .. } => ended(*state, id),
        LimitsError::TooLow(low) => CommandError::new(&codes::LIMIT_TOO_LOW, format!("plan {id}: {low}"))
            .hint(format!("see what it has used with `agents plan status {id}`")),
        LimitsError::Plan(error) => plan(error, id),
        LimitsError::Ledger(error) => CommandError::new(&codes::INTERNAL, error.to_string()),
    }
}

/// A plan was not applied.
pub fn apply(error: &ApplyError, id: &str) -> CommandError {
    match error {
        ApplyError::NotReady { state, .. } => not_ready(*state, id),
        ApplyError::Busy { worker, .. } => busy(id, &format!("{worker} works on it")),
        ApplyError::OtherChoice { worker, .. } => {
            CommandError::new(&codes::PLAN_BUSY, format!("plan {id} is being applied with another choice by {worker}"))
                .hint(format!(
                    "wait for it with `agents plan watch {id}`, then `agents plan undo {id}`; or stop the plan for good with `agents plan cancel {id}`"
                ))
        }
        ApplyError::AlreadyApplied { files, of, left_out, .. } => already_applied(*files, *of, left_out, id),
        ApplyError::Settled { .. } => busy(id, "another process has just brought it to this end"),
        ApplyError::Selection(error) => selection(error, id),
        ApplyError::ReadOnly { .. } => {
            CommandError::new(&codes::PLAN_READ_ONLY, format!("plan {id} was made to read only: it is done"))
                .hint(format!("see what it found with `agents plan logs {id}`"))
        }
        ApplyError::NothingToApply { .. } => {
            CommandError::new(&codes::NOTHING_TO_APPLY, format!("plan {id} has nothing to apply"))
                .hint("if an apply of nothing is meant, add `--allow-empty`")
        }
        ApplyError::Validation { summary, .. } => validation(summary, id),
        ApplyError::Recheck { reasons, .. } => recheck(reasons, id),
        ApplyError::TreeMoving { reasons, .. } => tree_moving(reasons, id),
        ApplyError::TooLarge { files, .. } => {
            let failure = CommandError::new(
                &codes::TOO_LARGE,
                format!(
                    "plan {id} changed files whose content was not kept: they are larger than capture.max_file_mb, or could not be read"
                ),
            );
            let failure = files.iter().fold(failure, |failure, file| failure.line(file.clone()));
            failure.hint("leave them out with `--reject FILE`, or raise the setting and execute again")
        }
        ApplyError::Conflicts { conflicts, reasons, .. } => {
            let told: Vec<(String, String)> = if conflicts.is_empty() {
                reasons.iter().map(|reason| (reason.subject.clone(), reason.message.clone())).collect()
            } else {
                conflicts.iter().map(|found| (found.address.clone(), found.kind.sentence())).collect()
            };
            conflict_failure(&told, conflicts, id)
        }
        ApplyError::UndoExpired { .. } => CommandError::new(
            &codes::UNDO_EXPIRED,
            format!("plan {id} cannot be undone any more: its journal was removed"),
        )
        .hint("use your version control to take the changes back"),
        ApplyError::UndoDamaged { journal, .. } => CommandError::new(
            &codes::JOURNAL_DAMAGED,
            format!(
                "plan {id} cannot be undone: its journal is damaged; nothing was written, and {} is left as it is",
                journal.display()
            ),
        )
        .hint("use your version control to take the changes back"),
        ApplyError::BranchExists { name } => {
            CommandError::new(&codes::BRANCH_EXISTS, format!("there is a branch `{name}` already"))
                .hint("choose another name: `--branch NAME`")
        }
        ApplyError::Withdrawn { .. } => CommandError::new(
            &codes::CANCELLED,
            format!("stopped; nothing was written, and plan {id} is as it was"),
        )
        .hint(format!("apply it when you like: `agents plan apply {id}`")),
        ApplyError::Cancelled { .. } => CommandError::new(
            &codes::CANCELLED,
            format!("the apply of plan {id} was cancelled; nothing was written"),
        ),
        ApplyError::Failed { why, .. } => CommandError::new(
            &codes::PLAN_ERRORED,
            format!("plan {id} was not applied, your files are as they were: {why}"),
        )
        .hint(format!("when the cause is gone: `agents plan apply {id}`; or leave the file out with `--reject FILE`")),
        ApplyError::Stuck { why, .. } => CommandError::new(
            &codes::JOURNAL_STUCK,
            format!("the apply of plan {id} can be neither finished nor rolled back, some of its files may be written: {why}"),
        )
        .hint("remove the cause (often a full disk), then run any command: it finishes the apply or rolls it back"),
        ApplyError::Locks(error) => locks(error, id),
        ApplyError::Merging(error) => CommandError::new(
            &codes::IO_FAILED,
            format!("plan {id} was not applied, nothing was written: {error}"),
        )
        .hint(format!("when the cause is gone: `agents plan apply {id}`; or leave the file out with `--reject FILE`")),
        ApplyError::Plan(error) => plan(error, id),
        ApplyError::Execute(error) => execute(error, id),
    }
}

/// The plan or a project could not be locked.
fn locks(error: &LocksError, id: &str) -> CommandError {
    match error {
        LocksError::Held { .. } => busy(id, &error.to_string()),
        LocksError::Store(error) => store(error),
        LocksError::Root { .. } | LocksError::Presence(_) => CommandError::new(
            &codes::IO_FAILED,
            format!("plan {id} was not applied, nothing was written: {error}"),
        )
        .hint("see `agents doctor`; when the cause is gone, try again"),
    }
}

fn selection(error: &SelectionError, id: &str) -> CommandError {
    let failure = CommandError::new(&codes::NO_SUCH_HUNK, error.to_string());
    match error {
        SelectionError::NoSuchHunk { word, .. } if domain::contains_mark(word) => failure
            .hint("a secret in a name is shown as a mark; choose the file by a pattern, such as `*.txt`"),
        SelectionError::NoSuchHunk { nearest: Some(nearest), .. } => {
            failure.hint(format!("did you mean `{nearest}`? All addresses: `agents plan diff {id} --stat`"))
        }
        SelectionError::NoSuchHunk { nearest: None, .. } => failure.hint("the plan changed nothing"),
        SelectionError::TakesHunk { file, .. } => {
            failure.hint(format!("take the whole file: `--take {file}`"))
        }
    }
}

/// The plan is applied already, and another choice was asked for.
fn already_applied(files: usize, of: usize, left_out: &[String], id: &str) -> CommandError {
    let message = format!(
        "plan {id} is applied already, with {files} of {of} files and another choice; nothing was done"
    );
    let failure = CommandError::new(&codes::ALREADY_APPLIED, message);
    let failure =
        left_out.iter().fold(failure, |failure, address| failure.line(format!("left out: {address}")));
    failure
        .detail(json!({ "files": files, "of": of, "left_out": left_out }))
        .hint(format!("undo it first: `agents plan undo {id}`, then choose anew: `agents plan apply {id}`"))
}

/// Converts the error of an apply that could not be abandoned.
pub fn set_aside(error: &AbandonError, id: &str) -> CommandError {
    match error {
        AbandonError::NotOpen { .. } => {
            CommandError::new(&codes::NO_OPEN_APPLY, format!("plan {id} has no interrupted apply"))
                .hint("see what is open with `agents doctor`")
        }
        AbandonError::Busy { .. } => busy(id, "somebody works on its apply or on its project"),
        AbandonError::Io(_) => CommandError::new(&codes::IO_FAILED, error.to_string()),
        AbandonError::Store(error) => store(error),
    }
}

/// Checks that failed or did not run stand in the way.
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
        .hint(format!(
            "see their output with `agents plan logs {id}`; try anew with `agents plan execute {id} --again`"
        ))
}

/// Checks failed on the merged tree.
pub fn recheck(reasons: &[ConstraintReason], id: &str) -> CommandError {
    let message = format!("the checks of plan {id} fail on your present tree; nothing was written");
    with_reasons(CommandError::new(&codes::RECHECK_FAILED, message), reasons)
        .hint(format!("see the output of the checks with `agents plan logs {id}`"))
        .hint(format!(
            "do the work anew on your present tree: `agents plan execute {id} --again`; apply it all the same: `agents plan apply {id} --no-recheck`"
        ))
}

/// The tree does not come to rest.
pub fn tree_moving(reasons: &[ConstraintReason], id: &str) -> CommandError {
    let message =
        format!("plan {id} is not applied: your tree changes while its checks run; nothing was written");
    with_reasons(CommandError::new(&codes::TREE_MOVING, message), reasons)
        .hint(format!("when what writes there has ended: `agents plan apply {id}`"))
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
        .hint("in the project: see what they run with `agents trust --list`, trust them with `agents trust`")
        .hint(format!("then apply the plan, which runs them first: `agents plan apply {id}`"))
        .hint(format!("or apply without them: `agents plan apply {id} --unchecked`"))
}

/// Conflicts, named one by one.
fn conflict_failure(told: &[(String, String)], conflicts: &[Conflict], id: &str) -> CommandError {
    let count = if told.len() == 1 { "1 conflict".to_owned() } else { format!("{} conflicts", told.len()) };
    let width = told.iter().map(|(address, _)| address.chars().count()).max().unwrap_or(0);
    let failure =
        CommandError::new(&codes::CONFLICTS, format!("plan {id} not applied: {count}, nothing was written"));
    let failure = told
        .iter()
        .fold(failure, |failure, (address, sentence)| failure.line(format!("{address:width$}  {sentence}")));
    let detail: Vec<_> = if conflicts.is_empty() {
        told.iter().map(|(address, sentence)| json!({ "address": address, "message": sentence })).collect()
    } else {
        conflicts.iter().map(conflict_json).collect()
    };
    let reject = told.first().map_or("FILE", |(address, _)| address.as_str());
    let hunk = reject.parse::<HunkAddress>();
    let take = hunk.as_ref().map_or(reject, |hunk| hunk.file.as_str());
    failure.detail(json!({ "conflicts": detail })).hint(format!(
        "see `agents plan diff {id} --conflicts`; leave out with `agents plan apply {id} --reject {reject}`, accept the plan's with `agents plan apply {id} --take {take}`"
    ))
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
                    .hint(format!("to apply it again: `agents plan apply {id}`"))
            }
            PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => CommandError::new(
                &codes::NOT_APPLIED,
                format!("plan {id} is not applied ({state}): there is nothing to undo"),
            ),
        };
    }
    let mut failure = apply(error, id);
    failure.message = failure.message.replacen("not applied", "not undone", 1);
    if let ApplyError::Withdrawn { .. } = error {
        failure.hints = vec![format!("take it back when you like: `agents plan undo {id}`")];
    }
    if let ApplyError::Conflicts { .. } = error {
        let hint = "you edited the same lines since: change them back by hand, then undo again";
        failure.hints = vec![hint.to_owned()];
    }
    failure
}

/// A plan was not cancelled.
pub fn cancel(error: &CancelError, id: &str) -> CommandError {
    match error {
        CancelError::TooLate { .. }
        | CancelError::Final { state: PlanState::Apply(ApplyState::Applied), .. } => CommandError::new(
            &codes::CANCEL_TOO_LATE,
            format!("plan {id} cannot be cancelled any more: it is being applied, or has been"),
        )
        .hint(format!("to take it back: `agents plan undo {id}`")),
        CancelError::Final { state, .. } => ended(*state, id),
        CancelError::Unconfirmed { worker, .. } => CommandError::new(
            &codes::CANCEL_UNCONFIRMED,
            format!("the cancel of plan {id} is requested, not yet confirmed by {worker}"),
        )
        .hint("its processes are killed at once; it is confirmed when what they changed is stored (`capture.wait`)")
        .hint(format!("it will be obeyed; look again with `agents plan status {id}`")),
        CancelError::Plan(error) => plan(error, id),
        CancelError::Execute(error) => execute(error, id),
    }
}

/// Artifacts were not listed or written.
pub fn artifacts(error: &ArtifactsError, id: &str) -> CommandError {
    match error {
        ArtifactsError::Plan(error) => plan(error, id),
        ArtifactsError::Write { .. } => CommandError::new(&codes::IO_FAILED, error.to_string())
            .hint("name an empty directory, or one that is not there yet"),
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
