//! The effects of a job on its plan: every move of a job that matters to the plan is one event of the plan.
//!
//! # Invariants
//! A plan is `processing` exactly while a job of its phase runs: the store moves both in one step, by this
//! function.

use super::PlanEvent;
use super::phase::Phase;
use crate::job::{Job, JobState};

/// Returns what the move of a job means for its plan; `None` if it means nothing, as a renewed lease or a
/// takeover.
///
/// `constrained` says that the job ended because a gate or a conflict blocked it.
pub fn follow(before: &Job, after: &Job, constrained: bool) -> Option<PlanEvent> {
    match (before.state, after.state) {
        (JobState::Queued, JobState::Running) => Some(PlanEvent::Start),
        (JobState::Running, JobState::Queued) => Some(PlanEvent::Release),
        (JobState::Running, JobState::Succeeded) => Some(match after.phase {
            Phase::Strategize | Phase::Execute => PlanEvent::Complete,
            Phase::Apply => PlanEvent::Applied,
        }),
        (JobState::Running, JobState::Failed) if constrained && after.phase == Phase::Apply => {
            Some(PlanEvent::Constrain)
        }
        (JobState::Running, JobState::Failed) => Some(PlanEvent::Fail),
        // It is over, and the plan is not: who stopped it sends the plan back.
        (JobState::Running, JobState::Cancelled) if after.is_stopped_to_replan() => Some(PlanEvent::Fail),
        // The apply is over, and the plan is as it was before it.
        (JobState::Queued | JobState::Running, JobState::Cancelled) if after.is_withdrawn() => {
            Some(PlanEvent::Withdraw)
        }
        // It is over, and the plan can be resumed and revised.
        (JobState::Queued | JobState::Running, JobState::Cancelled) if after.interruption().is_some() => {
            Some(PlanEvent::Fail)
        }
        (JobState::Queued | JobState::Running, JobState::Cancelled) => Some(PlanEvent::Cancel),
        (JobState::Queued, JobState::Queued | JobState::Succeeded | JobState::Failed)
        | (JobState::Running, JobState::Running)
        | (JobState::Succeeded | JobState::Failed | JobState::Cancelled, _) => None,
    }
}
