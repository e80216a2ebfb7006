//! Renders the failure of a plan: its error, the reason why it stopped, and the hint that repairs it.
//!
//! # Invariants
//! 1. Every error names something to type, chosen by what went wrong and where.
//! 2. A plan that needs a message from the user says so, and does not merely suggest a retry.
//!
//! # Not here
//! The commands to type next (`next_steps`); the texts of the hints (`errors::codes`); the whole history of
//! its errors (`cli::plan::errors`).

use domain::{
    ApplyState, AskReason, CallEnd, ErrorCategory, ErrorRecord, GateDecision, GatePoint, LOST_LEASES,
    NodeKind, Phase, Plan, PlanEvent, PlanState, PlanStep, RecoveryAction, ToolCall, WorkState,
};
use engine::{ConstrainedBy, ExecuteError, NETWORK_SUSPECTED, PlanDetails, RAISED_SETTING, retained_dir_of};
use serde_json::{Value, json};

use super::diff::counted;
use super::next_steps::{command_for, more_time_command, raise_command};
use super::output_tail;
use crate::errors::{CommandError, Hint, codes, from_engine, hints};
use crate::output::{escape_control_chars, one_line, one_line_of};
use crate::time::format_typed;

/// The characters of a message that the state of a plan shows; `plan errors` has all of it.
const MESSAGE_CHARS_MAX: usize = 400;

/// Returns the error at which the plan stopped; `None` if it is in no error state.
pub fn last_error(details: &PlanDetails) -> Option<&ErrorRecord> {
    let is_errored = matches!(
        details.plan.state,
        PlanState::Strategize(WorkState::Errored)
            | PlanState::Execute(WorkState::Errored)
            | PlanState::Apply(ApplyState::Errored)
    );
    details.errors.last_failure().filter(|_| is_errored && !details.is_interrupted)
}

/// The error for programs; null if the plan is in no error state.
pub(super) fn error_json(details: &PlanDetails, id: &str) -> Value {
    match last_error(details) {
        Some(record) => json!({
            "category": record.error.category(), "message": record.error.message(), "hint": hint_for(record, details, id),
            "command": command_for(record, details, id), "exit_status": failed_call(record, details).and_then(|end| end.exit),
            "output": output_tail::of_error(record, details),
        }),
        None => Value::Null,
    }
}

/// The error for people; empty if the plan is in no error state.
pub(super) fn error_line(details: &PlanDetails) -> String {
    let Some(record) = last_error(details) else { return String::new() };
    let message = one_line_of(record.error.message(), MESSAGE_CHARS_MAX);
    format!("  {}: {}\n", record.error.category(), escape_control_chars(&message))
}

/// Returns the reason why the plan did not come where it was sent: none when it did.
pub fn failure_of(details: &PlanDetails, id: &str) -> Option<CommandError> {
    if details.owner_is_gone {
        return Some(interrupted_error(details, id));
    }
    if details.is_interrupted {
        return Some(stopped_by_signal(details, id));
    }
    match details.plan.state {
        PlanState::Strategize(WorkState::Errored)
        | PlanState::Execute(WorkState::Errored)
        | PlanState::Apply(ApplyState::Errored) => Some(plan_error(details, id)),
        PlanState::Strategize(WorkState::Cancelled)
        | PlanState::Execute(WorkState::Cancelled)
        | PlanState::Apply(ApplyState::Cancelled) => Some(cancelled_error(details, id)),
        PlanState::Apply(ApplyState::Constrained) => {
            let reasons = &details.plan.constrained_by;
            match ConstrainedBy::from_reasons(reasons) {
                ConstrainedBy::Recheck => return Some(from_engine::recheck(reasons, id)),
                ConstrainedBy::MovingTree => return Some(from_engine::tree_moving(reasons, id)),
                ConstrainedBy::Other => {}
            }
            let failure =
                CommandError::new(&codes::CONFLICTS, format!("plan {id} not applied, nothing was written"));
            let failure = details.plan.constrained_by.iter().fold(failure, |failure, reason| {
                failure.line(format!("{}  {}", reason.subject, reason.message))
            });
            Some(failure.hint(hints::SEE_CONFLICTS).plan(id))
        }
        // It was not sent further than to here, and says what it waits for.
        PlanState::Execute(WorkState::Complete)
            if details.validations.waits_for_trust() && !is_sent_on(details) =>
        {
            None
        }
        PlanState::Execute(WorkState::Complete) if !details.validations.may_be_applied() => {
            Some(check_error(details, id))
        }
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => None,
    }
}

/// Returns true if the plan was to reach the user's files by itself.
pub fn is_sent_on(details: &PlanDetails) -> bool {
    let spec = &details.plan.spec;
    spec.apply == GateDecision::Auto || spec.automation.apply == GateDecision::Auto
}

fn plan_error(details: &PlanDetails, id: &str) -> CommandError {
    let phase = details.plan.state.phase();
    let Some(record) = details.errors.last_failure() else {
        return CommandError::new(&codes::PLAN_ERRORED, format!("plan {id} failed in {phase}")).plan(id);
    };
    if let Some(command) = raise_command(record, details, id) {
        let message = format!("plan {id} stopped in {phase}: {}", record.error.message());
        return CommandError::new(&codes::LIMIT_REACHED, message)
            .detail(json!({ "category": record.error.category(), "phase": phase, "limit": record.error.detail() }))
            .field("command", command);
    }
    if let Some(end) = failed_command(record, details) {
        return command_error(record, end, details, id);
    }
    let code = if asks(details) { &codes::PLAN_ASKS } else { &codes::PLAN_ERRORED };
    let message = one_line_of(record.error.message(), MESSAGE_CHARS_MAX);
    let failure = CommandError::new(code, format!("plan {id} failed in {phase}: {message}"))
        .detail(json!({ "category": record.error.category(), "phase": phase }))
        .field("command", command_for(record, details, id))
        .plan(id);
    if record.error.category() == ErrorCategory::Sandbox && record.error.phase() != Phase::Apply {
        return failure.hint(hints::SEE_MACHINE);
    }
    if let Some(hint) = not_by_itself(record) {
        return failure.hint(hint);
    }
    if took_its_workers(record) {
        return failure.hint(hints::WORKERS_DIED);
    }
    if let Some(setting) = raised_setting(record, details) {
        return failure.field("setting", setting).hint(hints::RAISE_SETTING);
    }
    failure.hint(match asks_for_word(record, details) {
        Some(_) => hints::SAY_DIFFERENTLY,
        None if wants_network(record, details) => hints::ALLOW_NETWORK,
        None => hints::TRY_AGAIN,
    })
}

/// The error of a plan whose own command failed. No person is needed for that: it is a failure.
fn command_error(record: &ErrorRecord, end: &CallEnd, details: &PlanDetails, id: &str) -> CommandError {
    let failure = CommandError::new(&codes::COMMAND_FAILED, format!("plan {id}: {}", record.error.message()))
        .detail(json!({
            "category": record.error.category(), "phase": details.plan.state.phase(), "exit_status": end.exit,
            "output": output_tail::of_error(record, details),
        }))
        .field("command", command_for(record, details, id))
        .plan(id);
    if let Some(setting) = raised_setting(record, details) {
        return failure.field("setting", setting).hint(hints::RAISE_SETTING);
    }
    if wants_network(record, details) {
        return failure.hint(hints::ALLOW_NETWORK);
    }
    if let Some((limit, command)) = more_time_command(record, details) {
        let limit = format_typed(limit);
        return failure.field("limit", limit).field("command", command).hint(hints::MORE_TIME);
    }
    match details.net.len() {
        0 => failure.own_hint(),
        files => failure.field("files", counted(files, "file")).hint(hints::PARTIAL_OR_AGAIN),
    }
}

/// Returns the end of the plan's own command at which it failed; `None` if it failed at something else, or if a
/// message of the user can change what happens next.
pub(super) fn failed_command<'a>(record: &ErrorRecord, details: &'a PlanDetails) -> Option<&'a CallEnd> {
    let call = details.calls.iter().find(|call| Some(call.no) == record.error.tool_call())?;
    let is_its_own = matches!(
        record.error.category(),
        ErrorCategory::Tool | ErrorCategory::Overloaded | ErrorCategory::Timeout
    );
    let is_it = details.is_own_command(call) && is_its_own && asks_for_word(record, details).is_none();
    call.end.as_ref().filter(|_| is_it)
}

/// The error of a plan that did its work and failed a required check, or has not run it.
fn check_error(details: &PlanDetails, id: &str) -> CommandError {
    let failure = from_engine::validation(&details.validations, id);
    match details.validations.failed.is_empty() {
        true => failure,
        false => failure.only_hint(after_failed_check(details)),
    }
}

/// Returns the hint for a plan whose check failed: a model heeds a message, a command does not.
fn after_failed_check(details: &PlanDetails) -> Hint {
    match heeds_messages(&details.plan) {
        true => hints::CHECK_OR_REVISE,
        false => hints::CHECK_OR_AGAIN,
    }
}

/// Returns whether a model or an agent program of the plan reads messages of the user.
fn heeds_messages(plan: &Plan) -> bool {
    let reads = |step: &PlanStep| match &step.does {
        NodeKind::Model(_) | NodeKind::External(_) => true,
        NodeKind::Command(_)
        | NodeKind::Read { .. }
        | NodeKind::Write { .. }
        | NodeKind::Edit { .. }
        | NodeKind::Wait { .. }
        | NodeKind::Tool { .. }
        | NodeKind::Actor { .. } => false,
    };
    plan.spec.strategist.is_some() || plan.spec.steps.iter().any(reads)
}

fn cancelled_error(details: &PlanDetails, id: &str) -> CommandError {
    let failure =
        CommandError::new(&codes::CANCELLED, format!("plan {id} was cancelled; {}", left_words(details)));
    if let Some(failure) = with_retained_sandbox(&failure, details) {
        return failure.hint(hints::COPY_THEN_CLEAR);
    }
    match details.net.is_empty() {
        true => failure,
        false => failure.hint(hints::TAKE_PART).hint(hints::CONTINUE_OR_DISCARD).plan(id),
    }
}

/// The error of a plan that a signal interrupted.
fn stopped_by_signal(details: &PlanDetails, id: &str) -> CommandError {
    let phase = details.plan.state.phase();
    let message = format!("plan {id} was interrupted in {phase}; {}", left_words(details));
    let failure = CommandError::new(&codes::INTERRUPTED, message);
    if let Some(failure) = with_retained_sandbox(&failure, details) {
        return failure.hint(hints::RESUME_CAPTURES).plan(id);
    }
    let is_revisable = details.plan.state.next(PlanEvent::Revise).is_ok();
    let failure = if is_revisable { failure.hint(hints::RESUME_OR_REVISE) } else { failure };
    match details.net.is_empty() {
        true => failure.plan(id),
        false => failure.hint(hints::TAKE_PART).plan(id),
    }
}

fn left_words(details: &PlanDetails) -> &'static str {
    match details.net.is_empty() {
        true => "it had changed nothing, your files are untouched",
        false => "its changes so far are stored, your files are untouched",
    }
}

/// Returns the failure of a plan whose last changes could not be captured; `None` if all are stored.
fn with_retained_sandbox(failure: &CommandError, details: &PlanDetails) -> Option<CommandError> {
    let dir = details.errors.last_failure().and_then(|last| retained_dir_of(&last.error))?;
    let line =
        format!("the changes of its last command could not be captured; its sandbox is retained in {dir}");
    Some(failure.clone().line(line))
}

/// Nobody works on the plan, and it is not done.
pub fn interrupted_error(details: &PlanDetails, id: &str) -> CommandError {
    let phase = details.plan.state.phase();
    let message = format!("plan {id} was interrupted in {phase}: the process that worked on it is gone");
    CommandError::new(&codes::PLAN_NOT_READY, message).hint(hints::RESUME_OR_CANCEL).plan(id)
}

/// Refuses a plan that was rolled back: nothing is left to continue or to stop.
///
/// # Errors
/// Returns an error if it was.
pub fn refuse_undone(details: &PlanDetails, id: &str) -> Result<(), CommandError> {
    match details.plan.undone_at {
        None => Ok(()),
        Some(_) => Err(CommandError::new(
            &codes::PLAN_FINAL,
            format!("plan {id} was applied and undone: there is nothing to continue, and nothing to stop"),
        )
        .hint(hints::APPLY_AGAIN)
        .plan(id)),
    }
}

/// Returns the hint about an error of the plan.
pub fn hint_for(record: &ErrorRecord, details: &PlanDetails, id: &str) -> String {
    let why = asks_for_word(record, details);
    let of_table = if why.is_some() {
        Some(hints::ANOTHER_STRATEGY)
    } else if retained_dir_of(&record.error).is_some() {
        Some(hints::RESUME_CAPTURES)
    } else {
        not_by_itself(record).or_else(|| took_its_workers(record).then_some(hints::WORKERS_DIED))
    };
    let field = |name: &str| match name {
        "why" => why.map(|why| why.to_string()),
        "command" => Some(command_for(record, details, id)),
        _ => Some(id.to_owned()),
    };
    of_table.map_or_else(|| record.recovery.hint.clone(), |hint| hint.fill(&field))
}

/// Returns the user's remedy for an error that no retry can repair.
fn not_by_itself(record: &ErrorRecord) -> Option<Hint> {
    let category = record.error.category();
    if record.error.phase() == Phase::Apply {
        None
    } else if category == ErrorCategory::Auth {
        Some(hints::CHECK_KEY)
    } else if category == ErrorCategory::InvalidInput {
        Some(hints::ASK_AGAIN)
    } else {
        None
    }
}

/// Returns true if the user has to say how the plan continues.
pub fn asks(details: &PlanDetails) -> bool {
    last_error(details).is_some_and(|record| record.recovery.action == RecoveryAction::Ask)
        || wants_word(details).is_some_and(|_| heeds_messages(&details.plan))
}

/// Returns the reason why a plan that failed does not begin again by itself, though another strategy is
/// called for.
fn wants_word(details: &PlanDetails) -> Option<AskReason> {
    details.gate.filter(|gate| gate.point == GatePoint::Replan)?.asks()
}

/// Returns the same for one of its errors: the plan stopped only at the last one.
pub fn asks_for_word(record: &ErrorRecord, details: &PlanDetails) -> Option<AskReason> {
    let is_last = last_error(details).is_some_and(|last| last.recovery.seq == record.recovery.seq);
    wants_word(details).filter(|_| is_last && heeds_messages(&details.plan))
}

/// Returns the setting, as KEY=VALUE, that raises the resource limit at which the command failed.
fn raised_setting(record: &ErrorRecord, details: &PlanDetails) -> Option<String> {
    let setting = &failed_call(record, details)?.result[RAISED_SETTING];
    Some(format!("{}={}", setting["key"].as_str()?, setting["value"].as_u64()?))
}

/// Returns the end of the call that the error is about.
pub(super) fn failed_call<'a>(record: &ErrorRecord, details: &'a PlanDetails) -> Option<&'a CallEnd> {
    let failed = |call: &&ToolCall| Some(call.no) == record.error.tool_call();
    details.calls.iter().find(failed).and_then(|call| call.end.as_ref())
}

/// Returns true if the command failed for want of the network, as far as its output shows.
pub fn wants_network(record: &ErrorRecord, details: &PlanDetails) -> bool {
    let end = failed_call(record, details);
    !details.plan.spec.uses_network() && end.is_some_and(|end| end.result[NETWORK_SUSPECTED] == true)
}

/// Returns the reason why a plan was not executed. A plan that did its work and failed a check has neither
/// succeeded nor can it be resumed.
pub fn not_executed(error: &ExecuteError, details: &PlanDetails, id: &str) -> CommandError {
    let failure = from_engine::execute(error, id);
    let is_done = match error {
        ExecuteError::Complete { .. } => true,
        ExecuteError::NotReady { state, .. } => *state == PlanState::Execute(WorkState::Complete),
        ExecuteError::Busy { .. }
        | ExecuteError::Final { .. }
        | ExecuteError::Plan(_)
        | ExecuteError::Unstored { .. }
        | ExecuteError::NoWorker(_) => false,
    };
    if !is_done || details.validations.lets_through() {
        return failure;
    }
    let (what, names) = match details.validations.failed.as_slice() {
        [] => ("has not run for its present changes", &details.validations.not_run),
        _ => ("failed", &details.validations.failed),
    };
    let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
    let message = format!("plan {id} has done its work, and a required check {what}: {}", names.join(", "));
    CommandError::new(failure.code, message).hint(after_failed_check(details)).plan(id)
}

/// Returns true if the plan was given up because each process that worked on it died.
fn took_its_workers(record: &ErrorRecord) -> bool {
    record.error.detail().contains_key(LOST_LEASES)
}
