//! The advice for a user about a recovery: a hint, and the command to type.
//!
//! # Not here
//! The decision. Nothing reads these texts but people.

use std::time::Duration;

use super::retry::{RecoveryAction, RecoveryDecision, RecoveryReason};
use super::{ErrorCategory, NewError};
use crate::id::PlanId;
use crate::ledger::LIMIT_KEY;

pub(crate) fn hint(verdict: RecoveryDecision, error: &NewError) -> String {
    match verdict.action {
        RecoveryAction::Retry { after, attempt } => {
            format!("retry {attempt} of this step in {}", format_wait(after))
        }
        RecoveryAction::Revert => "the plan goes back and thinks again, with what was found".to_owned(),
        RecoveryAction::Ask | RecoveryAction::GiveUp => way_on(verdict.why, error),
        RecoveryAction::Told => "the model got the error, and continued".to_owned(),
    }
}

fn way_on(why: RecoveryReason, error: &NewError) -> String {
    match why {
        RecoveryReason::PlanRetriesSpent { limit } => {
            format!("all {limit} retries of the plan are used up; look at what fails, then resume")
        }
        RecoveryReason::WaitTooLong { wait } => {
            let wait = format_wait(wait);
            format!(
                "the other side asks to wait {wait}; resume then, or detach the plan, which waits by itself"
            )
        }
        RecoveryReason::AttemptOver { newest } => format!("its attempt is over; attempt {newest} goes on"),
        RecoveryReason::Apply => {
            "an apply is not retried by itself; resume when the cause is gone".to_owned()
        }
        RecoveryReason::NotIdempotent => "running the tool again might do harm; say how to go on".to_owned(),
        RecoveryReason::ReplanGate => "say what to do differently, and the plan begins anew".to_owned(),
        RecoveryReason::ReversionsSpent => {
            "the plan has begun anew as often as it may; say how to go on".to_owned()
        }
        RecoveryReason::StepRetriesSpent
        | RecoveryReason::RetriesLeft
        | RecoveryReason::Category
        | RecoveryReason::Handled => match is_bound_of_node(error) {
            true => "its work is kept; let it continue, or take what is there".to_owned(),
            false => by_category(error.category()).to_owned(),
        },
    }
}

/// Returns whether the failure is a bound that the node's own definition sets: one that no limit of the plan
/// raises.
fn is_bound_of_node(error: &NewError) -> bool {
    error.category() == ErrorCategory::Budget && !error.detail().contains_key(LIMIT_KEY)
}

fn by_category(category: ErrorCategory) -> &'static str {
    match category {
        ErrorCategory::Timeout
        | ErrorCategory::Connection
        | ErrorCategory::Overloaded
        | ErrorCategory::RateLimit => "resume when the other side answers",
        ErrorCategory::Resource => "free some disk, memory or handles, then resume",
        ErrorCategory::Auth => "check the key or the permission",
        ErrorCategory::InvalidInput => "it cannot be done as it was asked; ask differently",
        ErrorCategory::Tool => "the tool failed again after every retry; say how to go on",
        ErrorCategory::ModelOutput | ErrorCategory::Validation => "say what to do differently",
        ErrorCategory::MergeConflict => "look at the conflicts, then leave them out or take them",
        ErrorCategory::Sandbox => "no sandbox could be made; the reasons are listed",
        ErrorCategory::Budget => "a limit of the plan is reached; resume with a higher one",
        ErrorCategory::Internal => "this is a fault of agents; please report it with what the command shows",
    }
}

pub(crate) fn command(verdict: RecoveryDecision, error: &NewError, plan: Option<PlanId>) -> String {
    let category = error.category();
    // The details of the error name the limit.
    let limit = error.detail().get(LIMIT_KEY).and_then(|name| name.as_str()).unwrap_or("cost");
    let plan = plan.map_or_else(|| "@last".to_owned(), |plan| plan.to_string());
    let goes_on = matches!(
        verdict.action,
        RecoveryAction::Retry { .. } | RecoveryAction::Revert | RecoveryAction::Told
    ) || matches!(verdict.why, RecoveryReason::AttemptOver { .. });
    if goes_on {
        return format!("agents plan watch {plan}");
    }
    match category {
        ErrorCategory::Timeout
        | ErrorCategory::Connection
        | ErrorCategory::Overloaded
        | ErrorCategory::RateLimit
        | ErrorCategory::Resource => format!("agents plan resume {plan}"),
        ErrorCategory::Tool
        | ErrorCategory::ModelOutput
        | ErrorCategory::Validation
        | ErrorCategory::InvalidInput => format!("agents plan prompt {plan} \"…\" --replan"),
        ErrorCategory::Auth | ErrorCategory::Sandbox => "agents doctor".to_owned(),
        ErrorCategory::Budget if is_bound_of_node(error) => format!("agents plan resume {plan}"),
        ErrorCategory::Budget => format!("agents plan resume {plan} --limit {limit}=…"),
        ErrorCategory::MergeConflict => format!("agents plan diff {plan} --conflicts"),
        ErrorCategory::Internal => format!("agents plan errors {plan}"),
    }
}

/// A wait for people: in whole milliseconds below a second, in whole seconds below two minutes, else in whole
/// minutes.
pub fn format_wait(wait: Duration) -> String {
    match (wait.as_secs(), wait.as_millis()) {
        (0, ms) => format!("{ms} ms"),
        (secs @ 1..120, _) => format!("{secs} s"),
        (secs, _) => format!("{} min", secs / 60),
    }
}
