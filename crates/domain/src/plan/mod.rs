//! A plan: one run of a command or an action on projects, from its strategy to the user's files.
//!
//! # Where to look
//! `state` has the states, `transitions` the one function that moves them, `spec` and `step` the request of
//! the plan, `job_effects` the moves that follow its job, `manual_transition` the moves that no job makes.
//!
//! # Invariants
//! 1. Every move goes through [`PlanState::next`], called by [`Plan::moved`] alone.
//! 2. `version` grows by one with every move and every undo; `attempt` = 1 + reversions + times executed
//!    again + revisions.
//! 3. A plan is reverted at most [`REVERSIONS_MAX`] times.
//! 4. The request of a plan never changes after it was created.
//!
//! # Not here
//! The storage of plans, and the right to move them.

pub mod automation;
pub mod builtin_paths;
pub mod graph;
mod initiator;
pub mod invariant;
mod job_effects;
mod manual_transition;
mod node_path;
pub mod phase;
mod spec;
mod state;
mod step;
pub mod strategy;
pub mod timeline;
pub mod toolchain_env;
mod transitions;
pub mod validation;

pub use initiator::Initiator;
pub use job_effects::follow;
pub use manual_transition::{
    ManualTransition, MoveRecord, PlanMoveError, TransitionDecisions, TransitionResult,
};
pub use node_path::NodePath;
pub use spec::{
    ByteText, CommandLine, CommandTask, DefinitionSource, FIX_ATTEMPTS, Instructions, IsolationOptions,
    PARALLEL, PARALLEL_MAX, PlanSpec, ProjectLink, RULE_PREFIX, Strategist, invariant_check_name,
};
pub use state::{ApplyState, PlanState, WorkState};
pub use step::{
    ExternalTask, ModelTask, NeedsCondition, NodeKind, PLAN_STEPS_MAX, PlanStep, REPEAT_MAX, Repeat,
};
pub use transitions::{BadTransition, PlanEvent, table_markdown};

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision::DecisionInvalid;
use crate::id::PlanId;
use crate::time::WallMs;
use phase::Phase;

/// Limits how often a plan may go back to strategize.
pub const REVERSIONS_MAX: u8 = 3;
/// Limits how long a title may be.
pub const TITLE_CHARS_MAX: usize = 72;

/// The reason why a plan did not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanTransitionRejection {
    /// Its state does not allow the event.
    #[error(transparent)]
    BadTransition(#[from] BadTransition),
    /// It was reverted as often as may be.
    #[error("the plan was reverted {REVERSIONS_MAX} times already")]
    ReversionsSpent,
    /// A decision that comes with it may not be recorded.
    #[error("a decision is not valid: {0}")]
    Decision(#[from] DecisionInvalid),
}

/// The reason why a plan is constrained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintReason {
    /// `validation`, `invariant`, `conflict`, `content_missing`, `left`.
    pub kind: String,
    /// The place or the name that it is about.
    pub subject: String,
    /// A sentence for people.
    pub message: String,
}

/// The reasons on one line: why the job of a constrained plan failed.
pub fn why_constrained(reasons: &[ConstraintReason]) -> String {
    const SHOWN_MAX: usize = 3;
    if reasons.is_empty() {
        return "constrained".to_owned();
    }
    let shown: Vec<String> = reasons
        .iter()
        .take(SHOWN_MAX)
        .map(|reason| format!("{} {}: {}", reason.kind, reason.subject, reason.message))
        .collect();
    match reasons.len().saturating_sub(SHOWN_MAX) {
        0 => format!("constrained: {}", shown.join("; ")),
        more => format!("constrained: {}; and {more} more", shown.join("; ")),
    }
}

/// A stored plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its name.
    pub id: PlanId,
    /// One line for people, at most [`TITLE_CHARS_MAX`] characters.
    pub title: String,
    /// Its task. It is settled when the plan is made, and again by a revision that names another actor or more
    /// checks; all readers share it.
    pub spec: Arc<PlanSpec>,
    /// The projects in which it works, by number from 0.
    pub projects: Vec<ProjectLink>,
    /// Its state.
    pub state: PlanState,
    /// Counted from 1; a new one with each revert, revision and execution again.
    pub attempt: u32,
    /// The number of its reversions to strategize.
    pub reversions: u8,
    /// Grows with every write to it.
    pub version: u64,
    /// The reasons why it is constrained; empty in every other state.
    pub constrained_by: Vec<ConstraintReason>,
    /// The selection of the changes by the person who asked for the apply, as the engine wrote it down; null
    /// for all. The move into apply sets it, and it stays until the next one.
    pub request: Value,
    /// The time at which its apply was undone; `None` if it was not.
    pub undone_at: Option<WallMs>,
    /// The time when it was made.
    pub created: WallMs,
    /// The time when it last moved.
    pub updated: WallMs,
}

/// A plan to be made, named by its caller.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPlan {
    /// Making the same id again makes it once.
    pub id: PlanId,
    /// One line for people.
    pub title: String,
    /// The task.
    pub spec: PlanSpec,
    /// The projects in which it works.
    pub projects: Vec<ProjectLink>,
}

impl Plan {
    /// A plan at its beginning.
    pub fn new(new: NewPlan, now: WallMs) -> Plan {
        let NewPlan { id, title, spec, projects } = new;
        Plan {
            id,
            title: title.chars().take(TITLE_CHARS_MAX).collect(),
            spec: Arc::new(spec),
            projects,
            state: PlanState::FIRST,
            attempt: 1,
            reversions: 0,
            version: 1,
            constrained_by: Vec::new(),
            request: Value::Null,
            undone_at: None,
            created: now,
            updated: now,
        }
    }

    /// Returns a plan at its beginning, and the moves that take it to its first job. A plan whose strategy is
    /// known when it is made skips strategize.
    pub fn made_for(new: NewPlan, phase: Phase, now: WallMs) -> (Plan, Vec<(Plan, PlanEvent)>) {
        let way: &[PlanEvent] = match phase {
            Phase::Execute => &[PlanEvent::Start, PlanEvent::Complete, PlanEvent::Advance],
            // An apply needs work that was done: such a plan does not wait for its job, and is refused.
            Phase::Strategize | Phase::Apply => &[],
        };
        let first = Plan::new(new, now);
        let mut moves: Vec<(Plan, PlanEvent)> = Vec::new();
        for event in way {
            let before = moves.last().map_or(&first, |(plan, _)| plan);
            let Ok(after) = before.moved(*event, Vec::new(), now) else { break };
            moves.push((after, *event));
        }
        (first, moves)
    }

    /// Returns whether its changes are in the user's files: it was applied, and not undone since.
    pub fn is_applied(&self) -> bool {
        self.state == PlanState::Apply(ApplyState::Applied) && self.undone_at.is_none()
    }

    /// The plan after `event`; `reasons` are stored if the event constrains it.
    ///
    /// # Errors
    /// Returns an error if its state does not allow the event, or it was reverted too often.
    pub fn moved(
        &self,
        event: PlanEvent,
        reasons: Vec<ConstraintReason>,
        now: WallMs,
    ) -> Result<Plan, PlanTransitionRejection> {
        let state = self.state.next(event)?;
        let (attempts, reversions) = match event {
            PlanEvent::Again | PlanEvent::Revise => (1, 0),
            PlanEvent::Revert if self.reversions >= REVERSIONS_MAX => {
                return Err(PlanTransitionRejection::ReversionsSpent);
            }
            PlanEvent::Revert => (1, 1),
            PlanEvent::Start
            | PlanEvent::Release
            | PlanEvent::Complete
            | PlanEvent::Fail
            | PlanEvent::Advance
            | PlanEvent::Applied
            | PlanEvent::Constrain
            | PlanEvent::Reapply
            | PlanEvent::Withdraw
            | PlanEvent::Retry
            | PlanEvent::Cancel
            | PlanEvent::Amend
            | PlanEvent::Accept => (0, 0),
        };
        Ok(Plan {
            state,
            attempt: self.attempt.saturating_add(attempts),
            reversions: self.reversions.saturating_add(reversions),
            version: self.version.saturating_add(1),
            constrained_by: if event == PlanEvent::Constrain { reasons } else { Vec::new() },
            updated: now,
            ..self.clone()
        })
    }

    /// The plan after its apply was undone at `at`, or was done again.
    #[must_use]
    pub fn undone(&self, at: Option<WallMs>, now: WallMs) -> Plan {
        Plan { undone_at: at, version: self.version.saturating_add(1), updated: now, ..self.clone() }
    }

    /// Returns whether it was made from the same request.
    pub fn was_made_by(&self, new: &NewPlan) -> bool {
        let NewPlan { id, title, spec, projects } = new;
        let is_cut_so = title.chars().take(TITLE_CHARS_MAX).eq(self.title.chars());
        self.id == *id && is_cut_so && *self.spec == *spec && self.projects == *projects
    }
}
