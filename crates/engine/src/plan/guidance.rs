//! Guidance (`plan prompt`): messages of the user to an existing plan, and the transitions that they cause.
//!
//! # Invariants
//! 1. The message, the counters and the transition are one transaction: all of it is stored, or nothing.
//! 2. A plan that a process works on is not moved: it reads the message by itself. One that is to begin again
//!    is stopped first (`replan`).
//! 3. A preview of the effect writes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{
    HELD, Initiator, NewDecision, Phase, Plan, PlanEvent, PlanId, PlanState, PlanTransitionRejection,
    REVERSIONS_MAX, WorkState,
};
use store::{DecisionStoreError, PlanMove, PlanStoreError, StoreError};

use super::built_in_decisions;
use super::execute::{ExecuteError, ExecuteOptions};
use super::transition::plan_move;
use crate::engine::Engine;
use crate::query::decisions::Affected;
use crate::query::details::PlanDetails;

/// The time that the owner of a plan that is to begin again may take to stop: as long as for a cancel.
const REPLAN_WAIT: Duration = Duration::from_secs(180);

/// The maximum number of bytes of a person's message.
pub const GUIDANCE_BYTES_MAX: usize = 16 * 1024;

/// The way to take a person's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuidanceMode {
    /// As something to be heeded besides.
    Besides,
    /// As a reason to begin again with a new strategy.
    Replan,
}

/// The outcome of a message for its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuidanceOutcome {
    /// It stays as it was, and heeds the message when it continues.
    Kept,
    /// It had failed, and its phase is queued once more.
    Retried,
    /// It begins again with a new strategy, which is queued.
    Replanned,
    /// The same of a plan that was being worked on: its owner continues it.
    HandedOn,
}

/// Why nothing was said to a plan.
#[derive(Debug, thiserror::Error)]
pub enum GuidanceError {
    /// There is nothing said, or too much.
    #[error("a message to a plan has from 1 to {GUIDANCE_BYTES_MAX} bytes, this one has {bytes}")]
    Length {
        /// The number of bytes.
        bytes: usize,
    },
    /// It has ended for good.
    #[error("plan {plan} is {state}, which is final")]
    Final {
        /// The plan.
        plan: PlanId,
        /// Its end.
        state: PlanState,
    },
    /// It waits or is worked on, and cannot be moved now.
    #[error("plan {plan} is {state}")]
    Busy {
        /// The plan.
        plan: PlanId,
        /// Its state.
        state: PlanState,
    },
    /// It is asked to stop, and its owner has not answered in time. It begins again when it has.
    #[error("plan {plan} was asked to stop and has not stopped yet")]
    NotStopped {
        /// The plan.
        plan: PlanId,
    },
    /// It has begun again as often as may be.
    #[error("plan {plan} has started over as often as it may")]
    ReversionsSpent {
        /// The plan.
        plan: PlanId,
    },
    /// The plan cannot be read or moved.
    #[error(transparent)]
    Plan(#[from] PlanStoreError),
    /// It was not recorded.
    #[error(transparent)]
    Decision(#[from] DecisionStoreError),
}

impl From<StoreError> for GuidanceError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl From<ExecuteError> for GuidanceError {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Plan(error) => Self::Plan(error),
            ExecuteError::NotReady { plan, state } => Self::Busy { plan, state },
            ExecuteError::Final { plan, state } => Self::Final { plan, state },
            ExecuteError::Busy { plan, .. }
            | ExecuteError::Complete { plan }
            | ExecuteError::Unstored { plan, .. } => {
                Self::Busy { plan, state: PlanState::Execute(WorkState::Processing) }
            }
            ExecuteError::NoWorker(why) => Self::Plan(StoreError::Broken { why }.into()),
        }
    }
}

impl Engine {
    /// Says something to a plan.
    ///
    /// # Errors
    /// As [`GuidanceError`] says; then nothing was written.
    pub async fn guide(
        &self,
        id: PlanId,
        text: &str,
        taken: GuidanceMode,
    ) -> Result<GuidanceOutcome, GuidanceError> {
        if text.trim().is_empty() || text.len() > GUIDANCE_BYTES_MAX {
            return Err(GuidanceError::Length { bytes: text.trim().len().max(text.len()) });
        }
        let plan = self.inner.store.plan(id).await?;
        let said = built_in_decisions::guidance(&self.inner.redactor.redact_text(text.trim()));
        match (taken, phase_after_guidance(&plan)?) {
            (GuidanceMode::Replan, _) if plan.state.is_processing() => {
                may_replan(&plan)?;
                // Stored first: if this process dies now, the plan still follows the guidance.
                self.inner.store.add_guidance(id, said).await?;
                self.stop_to_replan(id, REPLAN_WAIT).await
            }
            (GuidanceMode::Replan, _) => {
                may_replan(&plan)?;
                let holds = built_in_decisions::invariants(&plan.spec, plan.attempt);
                let decisions = std::iter::once(built_in_decisions::reversion_by_person())
                    .chain(holds)
                    .chain([said])
                    .collect();
                self.apply_guidance(&plan, PlanEvent::Revert, Phase::Strategize, decisions).await?;
                Ok(GuidanceOutcome::Replanned)
            }
            (GuidanceMode::Besides, Some(phase)) => {
                self.apply_guidance(&plan, PlanEvent::Retry, phase, vec![said]).await?;
                Ok(GuidanceOutcome::Retried)
            }
            (GuidanceMode::Besides, None) => {
                self.inner.store.add_guidance(id, said).await?;
                Ok(GuidanceOutcome::Kept)
            }
        }
    }

    /// Returns what this message would affect, without sending it.
    ///
    /// # Errors
    /// As [`GuidanceError`] says.
    pub async fn would_affect(&self, id: PlanId, taken: GuidanceMode) -> Result<Affected, GuidanceError> {
        let plan = self.inner.store.plan(id).await?;
        phase_after_guidance(&plan)?;
        if taken == GuidanceMode::Besides {
            return Ok(Affected::default());
        }
        may_replan(&plan)?;
        let all = self.inner.store.decisions(id).await?;
        let below_root = all.iter().filter(|decision| decision.seq > 1 && decision.is_live());
        let decisions: BTreeSet<u32> = below_root.map(|decision| decision.seq).collect();
        let mut since: BTreeSet<u32> = decisions.clone();
        since.insert(1);
        let files = self.files_since(&plan, &all, &since).await?;
        Ok(Affected { decisions, files })
    }

    /// Continues a plan that guidance has queued, as far as its gates allow.
    ///
    /// # Errors
    /// Returns an error if another process has it, or this process cannot work.
    pub async fn resume_guided(&self, id: PlanId) -> Result<PlanDetails, ExecuteError> {
        self.go_on(id, ExecuteOptions { again: false, stop_before_apply: true }).await
    }

    /// Leaves such a plan to the workers.
    ///
    /// # Errors
    /// Returns an error if a process works on it.
    pub async fn detach_guided(&self, id: PlanId) -> Result<(), ExecuteError> {
        self.release_to_workers(id).await
    }

    async fn apply_guidance(
        &self,
        plan: &Plan,
        event: PlanEvent,
        phase: Phase,
        decisions: Vec<NewDecision>,
    ) -> Result<(), GuidanceError> {
        let job = self.new_job(plan.id, phase, HELD);
        let again = plan_move(plan, event, Initiator::User, Some(job));
        match self.move_plan(PlanMove { decisions, ..again }).await {
            Err(ExecuteError::Plan(PlanStoreError::Refused(PlanTransitionRejection::ReversionsSpent))) => {
                Err(GuidanceError::ReversionsSpent { plan: plan.id })
            }
            Err(ExecuteError::Busy { .. }) => {
                let now = self.inner.store.plan(plan.id).await?;
                Err(GuidanceError::Busy { plan: plan.id, state: now.state })
            }
            moved => {
                moved?;
                Ok(())
            }
        }
    }
}

/// The phase that is done once more after a word; none when the plan stays where it is.
fn phase_after_guidance(plan: &Plan) -> Result<Option<Phase>, GuidanceError> {
    match plan.state {
        state if state.is_final() => Err(GuidanceError::Final { plan: plan.id, state }),
        PlanState::Strategize(WorkState::Errored) => Ok(Some(Phase::Strategize)),
        PlanState::Execute(WorkState::Errored) => Ok(Some(Phase::Execute)),
        // An apply that failed is not helped by words.
        PlanState::Strategize(_) | PlanState::Execute(_) | PlanState::Apply(_) => Ok(None),
    }
}

/// Returns an error if the plan cannot begin again. One that is worked on can, once it is stopped.
fn may_replan(plan: &Plan) -> Result<(), GuidanceError> {
    if plan.state.is_processing() {
        let is_spent = plan.reversions >= REVERSIONS_MAX;
        return if is_spent { Err(GuidanceError::ReversionsSpent { plan: plan.id }) } else { Ok(()) };
    }
    match plan.moved(PlanEvent::Revert, Vec::new(), plan.updated) {
        Ok(_) => Ok(()),
        Err(PlanTransitionRejection::ReversionsSpent) => {
            Err(GuidanceError::ReversionsSpent { plan: plan.id })
        }
        Err(PlanTransitionRejection::BadTransition(_) | PlanTransitionRejection::Decision(_)) => {
            Err(GuidanceError::Busy { plan: plan.id, state: plan.state })
        }
    }
}
