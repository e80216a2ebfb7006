//! The state of a plan in one plain word, for tables.

use domain::{ApplyState, Plan, PlanState, WorkState};

/// Returns the state of a plan in words. `has_changes` says if it changed files, `is_interrupted` if the
/// process that ran it is gone.
pub fn state_words(plan: &Plan, has_changes: bool, is_interrupted: bool) -> &'static str {
    if is_interrupted {
        return "interrupted";
    }
    match plan.state {
        PlanState::Strategize(WorkState::Queued) | PlanState::Execute(WorkState::Queued) => "queued",
        PlanState::Strategize(WorkState::Processing) => "planning",
        PlanState::Strategize(WorkState::Complete) => "to approve",
        PlanState::Execute(WorkState::Processing) => "running",
        PlanState::Execute(WorkState::Complete) if has_changes => "ready",
        PlanState::Execute(WorkState::Complete) => "no changes",
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
