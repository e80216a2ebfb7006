//! The state of a plan in one or two plain words, and their colour.

use domain::{ApplyState, CheckObstacle, Plan, PlanState, WorkState};
use engine::PlanDetails;

use crate::output::Paint;

/// The facts beyond its stored state that decide how a plan's state is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateFacts {
    /// True if it changed files.
    pub has_changes: bool,
    /// True if the process that ran it is gone.
    pub is_interrupted: bool,
    /// The reason why its checks do not let it be applied.
    pub obstacle: Option<CheckObstacle>,
}

/// Returns the state of a plan in words.
pub fn state_words(plan: &Plan, facts: StateFacts) -> &'static str {
    if facts.is_interrupted {
        return "interrupted";
    }
    match plan.state {
        PlanState::Strategize(WorkState::Queued) | PlanState::Execute(WorkState::Queued) => "queued",
        PlanState::Strategize(WorkState::Processing) => "planning",
        PlanState::Strategize(WorkState::Complete) => "to approve",
        PlanState::Execute(WorkState::Processing) => "running",
        PlanState::Execute(WorkState::Complete) => match facts.obstacle {
            Some(CheckObstacle::Failed) => "check failed",
            Some(CheckObstacle::NotRun) => "check not run",
            None if facts.has_changes => "ready",
            None => "no changes",
        },
        PlanState::Strategize(WorkState::Errored) | PlanState::Execute(WorkState::Errored) => "failed",
        PlanState::Apply(ApplyState::Queued | ApplyState::Processing) => "applying",
        PlanState::Apply(ApplyState::Applied) if plan.undone_at.is_some() => "undone",
        PlanState::Apply(ApplyState::Applied) => "applied",
        PlanState::Apply(ApplyState::Constrained) => "conflict",
        PlanState::Apply(ApplyState::Errored) => "apply failed",
        PlanState::Strategize(WorkState::Cancelled)
        | PlanState::Execute(WorkState::Cancelled)
        | PlanState::Apply(ApplyState::Cancelled) => "cancelled",
    }
}

/// Returns the state of a plan of which all is known, in words.
pub fn words_of(details: &PlanDetails) -> &'static str {
    let facts = StateFacts {
        has_changes: !details.net.is_empty(),
        is_interrupted: details.owner_is_gone || details.is_interrupted,
        obstacle: details.validations.obstacle(),
    };
    state_words(&details.plan, facts)
}

/// Colours the words of a state, which may be padded: green is good, red is bad, yellow continues or waits.
pub fn coloured(words: &str, paint: Paint) -> String {
    match words.trim_end() {
        "done" | "passed" | "applied" | "ready" => paint.green(words),
        "failed" | "refused" | "cancelled" | "interrupted" | "check failed" | "conflict" | "apply failed" => {
            paint.red(words)
        }
        "running" | "planning" | "applying" | "queued" | "not run" | "check not run" | "undone"
        | "to approve" => paint.yellow(words),
        _ => words.to_owned(),
    }
}
