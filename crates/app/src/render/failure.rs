//! Renders the failure of a plan: its error, the reason why it stopped, and the command that repairs it.
//!
//! # Invariants
//! 1. Every error names something to type, chosen by what went wrong and where.
//! 2. A plan that needs a message from the user says so, and does not merely suggest a retry.
//!
//! # Not here
//! What can be done with a plan that is well (`next_steps`); the whole history of its errors
//! (`cli::plan::errors`).

use domain::{
    ApplyState, AskReason, ErrorCategory, ErrorRecord, GateDecision, GatePoint, Phase, Plan, PlanState,
    RecoveryAction, WorkState,
};
use engine::{ConstrainedBy, ExecuteError, PlanDetails, retained_dir_of};
use serde_json::json;

use super::usage;
use crate::errors::{CommandError, codes, from_engine};
use crate::output::one_line;

/// The engine's words for a command that failed without the network and printed that it wants it.
const NETWORK_WORDS: &str = "it probably wanted the network";

/// The store's words for a plan that it gave up because the plan took its workers with it.
const WORKER_DIED_WORDS: &str = "its worker died ";

/// Returns the error at which the plan stopped; `None` if it is in no error state.
pub fn last_error(facts: &PlanDetails) -> Option<&ErrorRecord> {
    let is_errored = matches!(
        facts.plan.state,
        PlanState::Strategize(WorkState::Errored)
            | PlanState::Execute(WorkState::Errored)
            | PlanState::Apply(ApplyState::Errored)
    );
    facts.errors.last_failure().filter(|_| is_errored)
}

/// Returns the reason why the plan did not come where it was sent: none when it did.
pub fn failure_of(facts: &PlanDetails, id: &str) -> Option<CommandError> {
    if facts.owner_is_gone {
        return Some(interrupted_error(facts, id));
    }
    match facts.plan.state {
        PlanState::Strategize(WorkState::Errored)
        | PlanState::Execute(WorkState::Errored)
        | PlanState::Apply(ApplyState::Errored) => Some(plan_error(facts, id)),
        PlanState::Strategize(WorkState::Cancelled)
        | PlanState::Execute(WorkState::Cancelled)
        | PlanState::Apply(ApplyState::Cancelled) => Some(cancelled_error(facts, id)),
        PlanState::Apply(ApplyState::Constrained) => {
            let reasons = &facts.plan.constrained_by;
            match ConstrainedBy::from_reasons(reasons) {
                ConstrainedBy::Recheck => return Some(from_engine::recheck(reasons, id)),
                ConstrainedBy::MovingTree => return Some(from_engine::tree_moving(reasons, id)),
                ConstrainedBy::Other => {}
            }
            let failure =
                CommandError::new(&codes::CONFLICTS, format!("plan {id} not applied, nothing was written"));
            let failure = facts.plan.constrained_by.iter().fold(failure, |failure, reason| {
                failure.line(format!("{}  {}", reason.subject, reason.message))
            });
            Some(
                failure
                    .hint(format!("see `agents plan diff {id} --conflicts`, then `agents plan apply {id}`")),
            )
        }
        // It was not sent further than to here, and says what it waits for.
        PlanState::Execute(WorkState::Complete)
            if facts.validations.waits_for_trust() && !is_sent_on(facts) =>
        {
            None
        }
        PlanState::Execute(WorkState::Complete) if !facts.validations.may_be_applied() => {
            Some(from_engine::validation(&facts.validations, id))
        }
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => None,
    }
}

/// Returns true if the plan was to reach the user's files by itself.
pub fn is_sent_on(facts: &PlanDetails) -> bool {
    let spec = &facts.plan.spec;
    spec.apply == GateDecision::Auto || spec.automation.apply == GateDecision::Auto
}

fn plan_error(facts: &PlanDetails, id: &str) -> CommandError {
    let phase = facts.plan.state.phase();
    let Some(record) = facts.errors.last_failure() else {
        return CommandError::new(&codes::PLAN_ERRORED, format!("plan {id} failed in {phase}"))
            .hint(format!("try again with `agents plan resume {id}`"));
    };
    if let Some(command) = usage::raise_command(record, facts, id) {
        let message = format!("plan {id} stopped in {phase}: {}", record.error.message());
        return CommandError::new(&codes::LIMIT_REACHED, message)
            .detail(json!({ "category": record.error.category(), "phase": phase, "limit": record.error.detail() }))
            .hint(format!("let it use more and go on: `{command}`"));
    }
    let code = if asks(facts) { &codes::PLAN_ASKS } else { &codes::PLAN_ERRORED };
    let failure = CommandError::new(code, format!("plan {id} failed in {phase}: {}", record.error.message()))
        .detail(json!({ "category": record.error.category(), "phase": phase }));
    let category = record.error.category();
    if category == ErrorCategory::Sandbox && record.error.phase() != Phase::Apply {
        return failure.hint(format!(
            "see what this machine offers with `agents doctor`; try again with `agents plan resume {id}`"
        ));
    }
    if let Some(hint) = not_by_itself(record, id) {
        return failure.hint(format!("{hint}: `{}`", command_for(record, facts, id)));
    }
    if took_its_workers(record) {
        return failure.hint(hint_for(record, facts, id));
    }
    let failure = failure.hint(format!("see `agents plan logs {id}` and `agents plan errors {id}`"));
    let command = command_for(record, facts, id);
    if asks_for_word(record, facts).is_some() {
        return failure
            .hint(format!("say what to do differently: `{command}`"))
            .hint(format!("or try again as it is with `agents plan resume {id}`"));
    }
    failure.hint(match wants_network(record, facts) {
        true => format!("let it use the network: `{command}`"),
        false => format!("try again with `{command}`"),
    })
}

fn cancelled_error(facts: &PlanDetails, id: &str) -> CommandError {
    let message =
        format!("plan {id} was cancelled; what it changed so far is kept, your files are untouched");
    let failure = CommandError::new(&codes::CANCELLED, message);
    match facts.errors.last_failure().and_then(|last| retained_dir_of(&last.error)) {
        None => failure,
        Some(dir) => failure
            .line(format!(
                "what its last command changed could not be captured; its sandbox is kept in {dir}"
            ))
            .hint("copy what you need from there, then clear it with `agents plan gc`"),
    }
}

/// Nobody works on the plan, and it is not done.
pub fn interrupted_error(facts: &PlanDetails, id: &str) -> CommandError {
    let phase = facts.plan.state.phase();
    let message = format!("plan {id} was broken off in {phase}: the process that worked on it is gone");
    CommandError::new(&codes::PLAN_NOT_READY, message).hint(format!(
        "go on with `agents plan resume {id}`, or stop it for good with `agents plan cancel {id}`"
    ))
}

/// Refuses a plan that was rolled back: nothing is left to continue or to stop.
///
/// # Errors
/// Returns an error if it was.
pub fn refuse_undone(facts: &PlanDetails, id: &str) -> Result<(), CommandError> {
    match facts.plan.undone_at {
        None => Ok(()),
        Some(_) => Err(CommandError::new(
            &codes::PLAN_FINAL,
            format!("plan {id} was applied and undone: there is nothing to go on with, and nothing to stop"),
        )
        .hint(format!("to apply it again: `agents plan apply {id}`"))),
    }
}

/// Returns the command to type about an error of the plan.
pub fn command_for(record: &ErrorRecord, facts: &PlanDetails, id: &str) -> String {
    if facts.plan.state.is_final() && retained_dir_of(&record.error).is_some() {
        return "agents doctor".to_owned();
    }
    let once_more = match record.error.phase() {
        Phase::Apply => format!("agents plan apply {id}"),
        Phase::Strategize | Phase::Execute => format!("agents plan resume {id}"),
    };
    if asks_for_word(record, facts).is_some() {
        return say_differently(&facts.plan, id);
    }
    match record.error.category() {
        // An apply needs no sandbox: what stood in its way is in the project itself.
        ErrorCategory::Sandbox if record.error.phase() == Phase::Apply => once_more,
        ErrorCategory::Sandbox => "agents doctor".to_owned(),
        ErrorCategory::InvalidInput if record.error.phase() != Phase::Apply => ask_again_command(facts),
        // Of two nodes of the plan itself: only another attempt is without it.
        ErrorCategory::MergeConflict if record.error.phase() != Phase::Apply => {
            format!("agents plan prompt {id} \"…\" --replan")
        }
        ErrorCategory::MergeConflict => format!("agents plan diff {id} --conflicts"),
        ErrorCategory::Tool if wants_network(record, facts) => with_network(facts),
        ErrorCategory::Budget => usage::raise_command(record, facts, id).unwrap_or(once_more),
        ErrorCategory::Tool
        | ErrorCategory::Timeout
        | ErrorCategory::Connection
        | ErrorCategory::Overloaded
        | ErrorCategory::RateLimit
        | ErrorCategory::Resource
        | ErrorCategory::ModelOutput
        | ErrorCategory::Validation
        | ErrorCategory::Auth
        | ErrorCategory::InvalidInput
        | ErrorCategory::Internal => once_more,
    }
}

/// Returns the hint about an error of the plan.
pub fn hint_for(record: &ErrorRecord, facts: &PlanDetails, id: &str) -> String {
    if let Some(why) = asks_for_word(record, facts) {
        return format!(
            "another strategy is called for, and {why}: say what to do differently, or resume it as it is"
        );
    }
    if retained_dir_of(&record.error).is_some() {
        return "resuming captures what is in the sandbox, for as long as `capture.wait` allows; that of a cancelled plan stays until `agents plan gc`".to_owned();
    }
    if let Some(hint) = not_by_itself(record, id) {
        return hint;
    }
    match took_its_workers(record) {
        true => format!(
            "each process that worked on it was killed or crashed, so it is not given to another by itself: see how far it came with `agents plan logs {id}`, then try once more with `agents plan resume {id}`"
        ),
        false => record.recovery.hint.clone(),
    }
}

/// Returns the user's remedy for an error that no retry can repair.
fn not_by_itself(record: &ErrorRecord, id: &str) -> Option<String> {
    let category = record.error.category();
    if record.error.phase() == Phase::Apply {
        None
    } else if category == ErrorCategory::Auth {
        Some("see to the key or the permission that is named, then go on with it".to_owned())
    } else if category == ErrorCategory::InvalidInput {
        Some(format!(
            "if what stood in its way lies outside of the plan, mend that and `agents plan resume {id}`; else mend the \
             definition or ask differently, in a new plan, since this one keeps what it was made from"
        ))
    } else {
        None
    }
}

/// Returns true if the user has to say how the plan continues.
pub fn asks(facts: &PlanDetails) -> bool {
    last_error(facts).is_some_and(|record| record.recovery.action == RecoveryAction::Ask)
        || wants_word(facts).is_some()
}

/// Returns the reason why a plan that failed does not begin again by itself, though another strategy is
/// called for.
fn wants_word(facts: &PlanDetails) -> Option<AskReason> {
    facts.gate.filter(|gate| gate.point == GatePoint::Replan)?.asks()
}

/// Returns the same for one of its errors: the plan stopped only at the last one.
fn asks_for_word(record: &ErrorRecord, facts: &PlanDetails) -> Option<AskReason> {
    let is_last = last_error(facts).is_some_and(|last| last.recovery.seq == record.recovery.seq);
    wants_word(facts).filter(|_| is_last)
}

/// Returns the command that has a plan done another way: with a new strategy if it has a strategist, else
/// heeded by its actor.
pub fn say_differently(plan: &Plan, id: &str) -> String {
    let replan = if plan.spec.strategist.is_some() { " --replan" } else { "" };
    format!("agents plan prompt {id} \"…\"{replan}")
}

/// Returns true if the command failed for want of the network, as far as its output shows.
pub fn wants_network(record: &ErrorRecord, facts: &PlanDetails) -> bool {
    !facts.plan.spec.uses_network() && record.error.message().contains(NETWORK_WORDS)
}

/// Returns the command to ask again: the sources of the plan are frozen in it.
pub fn ask_again_command(facts: &PlanDetails) -> String {
    let spec = &facts.plan.spec;
    let actor = spec.sources.iter().find(|source| source.kind == "actor");
    match (&spec.action, actor) {
        (Some(action), _) => format!("agents run {action}"),
        (None, Some(actor)) => format!("agents run \"…\" --actor {}", actor.name),
        (None, None) => "agents run …".to_owned(),
    }
}

/// Why a plan was not executed, in the light of its checks: what has done its work and failed a check is
/// neither well nor to be resumed.
pub fn not_executed(error: &ExecuteError, facts: &PlanDetails, id: &str) -> CommandError {
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
    if !is_done || facts.validations.lets_through() {
        return failure;
    }
    let (what, names) = match facts.validations.failed.as_slice() {
        [] => ("has not run for its present changes", &facts.validations.not_run),
        _ => ("failed", &facts.validations.failed),
    };
    let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
    let message = format!("plan {id} has done its work, and a required check {what}: {}", names.join(", "));
    CommandError::new(failure.code, message)
        .hint(format!("see what it printed with `agents plan logs {id}`, what was changed with `agents plan diff {id}`"))
        .hint(format!(
            "say what to do differently with `agents plan prompt {id} \"…\"`, then do it anew with `agents plan \
             execute {id} --again`"
        ))
}

/// The network is frozen in the plan, so only a new plan can have it.
pub fn with_network(facts: &PlanDetails) -> String {
    let command = facts.shown.clone();
    // What was cut cannot be typed.
    let command = if one_line(&command) == command { command } else { "…".to_owned() };
    format!("agents run --network -- {command}")
}

/// Returns true if the plan was given up because each process that worked on it died.
fn took_its_workers(record: &ErrorRecord) -> bool {
    record.error.category() == ErrorCategory::Resource
        && record.error.message().starts_with(WORKER_DIED_WORDS)
}
