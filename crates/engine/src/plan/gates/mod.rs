//! The gates of a plan decide if it continues without approval. Commands and workers alike ask here.
//!
//! # Invariants
//! 1. A plan that is between two phases, or failed so that it needs another strategy, moves by itself only if
//!    [`domain::verdict`] says so. Otherwise the user moves it.
//! 2. Every caller moves the plan with [`Engine::pass_gate`]: the move, what is decided with it and the next
//!    job are one step.
//!
//! # Not here
//! Repairing what checks found: that is no move, and is asked for by the phase itself
//! ([`PlanSpec::gate_of_fix`]).
//!
//! [`PlanSpec::gate_of_fix`]: domain::PlanSpec::gate_of_fix

#[cfg(test)]
mod tests;

use domain::{
    ApplyState, AskReason, Decision, DecisionKind, ErrorRecord, GateDecision, GateFacts, GatePoint,
    GateVerdict, Initiator, JobState, NewDecision, NewJob, Phase, Plan, PlanEvent, PlanState, REVERSIONS_MAX,
    RecoveryAction, ValidationSummary, WorkState,
};
use store::{PlanMove, StoreError};

use super::built_in_decisions;
use super::transition::plan_move;
use crate::engine::{Engine, EngineInner};
use crate::plan::execute::ExecuteError;
use crate::query::details::store_error;

/// A gate that a plan has reached, and its verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateStatus {
    /// The point of the gate.
    pub point: GatePoint,
    /// The verdict of the gate.
    pub verdict: GateVerdict,
}

impl GateStatus {
    /// Returns the reason why a person is asked; `None` if no person is asked.
    pub fn asks(&self) -> Option<AskReason> {
        match self.verdict {
            GateVerdict::Go => None,
            GateVerdict::Ask(why) => Some(why),
        }
    }

    /// Returns true if the plan continues by itself.
    pub fn goes(&self) -> bool {
        self.verdict == GateVerdict::Go
    }
}

/// The next action of a plan that is to be executed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NextAction {
    /// Its job waits or runs.
    Run,
    /// It goes through this gate by itself.
    Pass(GatePoint),
    /// Nothing: it has ended, failed, or waits for a person.
    Stop,
}

impl Engine {
    /// Returns the next action of the plan without a person.
    pub(crate) async fn next_action(&self, plan: &Plan) -> Result<NextAction, StoreError> {
        if plan.state.has_live_job() {
            return Ok(NextAction::Run);
        }
        let gated = self.inner.gate(plan).await?;
        Ok(gated.filter(GateStatus::goes).map_or(NextAction::Stop, |gated| NextAction::Pass(gated.point)))
    }

    /// Takes a plan through a gate that let it, as `by` whom it was let. `job` is the one that does what
    /// comes next.
    pub(crate) async fn pass_gate(
        &self,
        plan: &Plan,
        point: GatePoint,
        job: NewJob,
        by: Initiator,
    ) -> Result<Plan, ExecuteError> {
        let decisions = match point {
            GatePoint::Execute | GatePoint::Apply | GatePoint::Fix => Vec::new(),
            GatePoint::Replan => self.inner.going_back(plan).await?,
        };
        self.move_plan(PlanMove { decisions, ..plan_move(plan, event_of(point), by, Some(job)) }).await
    }
}

impl EngineInner {
    /// Returns the gate that the plan has reached; `None` if it is at no gate.
    pub(crate) async fn gate(&self, plan: &Plan) -> Result<Option<GateStatus>, StoreError> {
        Ok(match plan.state {
            // Without a strategist there is no strategy to look at: the user who starts the plan starts its
            // work.
            PlanState::Strategize(WorkState::Complete) if plan.spec.strategist.is_none() => {
                Some(GateStatus { point: GatePoint::Execute, verdict: GateVerdict::Go })
            }
            PlanState::Strategize(WorkState::Complete) => {
                let decisions = self.store.decisions(plan.id).await?;
                let facts = GateFacts { confidence: least_sure(&decisions), ..unknown(plan) };
                Some(gated(GatePoint::Execute, plan, &facts))
            }
            PlanState::Execute(WorkState::Complete) => {
                let net = self.net_changes(plan).await?;
                let checks = self.checks(plan, &net).await?;
                Some(at_apply(plan, !net.is_empty(), &checks))
            }
            PlanState::Strategize(WorkState::Errored) | PlanState::Execute(WorkState::Errored) => {
                if self.is_stopped_to_replan(plan).await? {
                    return Ok(Some(GateStatus { point: GatePoint::Replan, verdict: GateVerdict::Go }));
                }
                if self.is_interrupted(plan).await? {
                    return Ok(None);
                }
                match self.wants_another_strategy(plan).await? {
                    None => None,
                    Some(_) => {
                        let decisions = self.store.decisions(plan.id).await?;
                        let reversions_by_itself = built_in_decisions::reversions_by_itself(&decisions);
                        let facts = GateFacts { reversions_by_itself, ..unknown(plan) };
                        Some(gated(GatePoint::Replan, plan, &facts))
                    }
                }
            }
            PlanState::Apply(ApplyState::Errored) if self.is_stopped_to_replan(plan).await? => {
                Some(GateStatus { point: GatePoint::Replan, verdict: GateVerdict::Go })
            }
            PlanState::Strategize(WorkState::Queued | WorkState::Processing | WorkState::Cancelled)
            | PlanState::Execute(WorkState::Queued | WorkState::Processing | WorkState::Cancelled)
            | PlanState::Apply(_) => None,
        })
    }

    /// Returns true if a person had the plan stopped so that it begins again: that is their yes, whichever
    /// process carries it out.
    pub(crate) async fn is_stopped_to_replan(&self, plan: &Plan) -> Result<bool, StoreError> {
        let jobs = self.store.jobs(Some(plan.id)).await.map_err(store_error)?;
        Ok(jobs.last().is_some_and(|job| job.state == JobState::Cancelled && job.is_stopped_to_replan()))
    }

    /// Returns true if a signal ended the last work on the plan, and not an error.
    pub(crate) async fn is_interrupted(&self, plan: &Plan) -> Result<bool, StoreError> {
        let is_errored = matches!(
            plan.state,
            PlanState::Strategize(WorkState::Errored) | PlanState::Execute(WorkState::Errored)
        );
        if !is_errored {
            return Ok(false);
        }
        let jobs = self.store.jobs(Some(plan.id)).await.map_err(store_error)?;
        Ok(jobs.last().is_some_and(|job| job.state == JobState::Cancelled && job.interruption().is_some()))
    }

    /// Returns the error after which the recovery wants the plan to begin again, if that is the reason for
    /// its present state.
    async fn wants_another_strategy(&self, plan: &Plan) -> Result<Option<ErrorRecord>, StoreError> {
        let history = self.store.history(plan.id).await?;
        let last = history.last_failure();
        let wants = last
            .filter(|record| record.recovery.action == RecoveryAction::Revert && is_of(record, plan.attempt));
        Ok(wants.cloned())
    }

    /// Returns the decisions of a plan that goes back by itself, or because a person had it stopped for that.
    async fn going_back(&self, plan: &Plan) -> Result<Vec<NewDecision>, StoreError> {
        if self.is_stopped_to_replan(plan).await? {
            return self.going_back_by(plan, built_in_decisions::reversion_by_person()).await;
        }
        let why = self.wants_another_strategy(plan).await?;
        let why = why.as_ref().map_or("", |record| record.error.message());
        self.going_back_by(plan, built_in_decisions::reversion_by_itself(why)).await
    }

    /// The same with this reason; then again what holds whatever the strategy is, and what a person said.
    pub(crate) async fn going_back_by(
        &self,
        plan: &Plan,
        reversion: NewDecision,
    ) -> Result<Vec<NewDecision>, StoreError> {
        let decisions = self.store.decisions(plan.id).await?;
        let said = decisions
            .iter()
            .filter(|decision| decision.is_live() && decision.new.kind == DecisionKind::Guidance);
        let said = said.map(|decision| built_in_decisions::guidance(&decision.new.chosen));
        let holds = built_in_decisions::invariants(&plan.spec, plan.attempt);
        Ok(std::iter::once(reversion).chain(holds).chain(said).collect())
    }
}

fn is_of(record: &ErrorRecord, attempt: u32) -> bool {
    record.error.step().attempt == attempt
}

/// Returns the verdict of the gate before the user's files for a plan whose work is done.
pub(crate) fn at_apply(plan: &Plan, has_changes: bool, checks: &ValidationSummary) -> GateStatus {
    let facts = GateFacts {
        has_changes,
        required_checks: checks.required,
        checks_passed: checks.lets_through(),
        ..unknown(plan)
    };
    gated(GatePoint::Apply, plan, &facts)
}

fn gated(point: GatePoint, plan: &Plan, facts: &GateFacts) -> GateStatus {
    GateStatus { point, verdict: domain::verdict(point, &plan.spec.automation, facts) }
}

/// Returns the facts that the plan itself has, with defaults for the others.
fn unknown(plan: &Plan) -> GateFacts {
    GateFacts {
        confidence: 1.0,
        is_told_to_apply: plan.spec.apply == GateDecision::Auto,
        is_read_only: plan.spec.read_only,
        has_changes: false,
        required_checks: 0,
        checks_passed: false,
        fixes_left: plan.spec.fix_attempts,
        has_strategist: plan.spec.strategist.is_some(),
        reversions_by_itself: 0,
        reversions_left: REVERSIONS_MAX.saturating_sub(plan.reversions),
    }
}

/// Returns the lowest confidence of the live strategies and choices; 1 if none has a confidence.
fn least_sure(decisions: &[Decision]) -> f32 {
    let counts = |decision: &&Decision| {
        decision.is_live() && matches!(decision.new.kind, DecisionKind::Strategy | DecisionKind::Choice)
    };
    decisions.iter().filter(counts).filter_map(|decision| decision.new.confidence).fold(1.0, f32::min)
}

/// Returns the phase behind a gate.
pub(crate) const fn gated_phase(point: GatePoint) -> Phase {
    match point {
        GatePoint::Execute | GatePoint::Fix => Phase::Execute,
        GatePoint::Apply => Phase::Apply,
        GatePoint::Replan => Phase::Strategize,
    }
}

const fn event_of(point: GatePoint) -> PlanEvent {
    match point {
        GatePoint::Execute | GatePoint::Apply => PlanEvent::Advance,
        GatePoint::Fix => PlanEvent::Retry,
        GatePoint::Replan => PlanEvent::Revert,
    }
}

/// Returns what takes a plan through a gate without the user, for the record.
pub(crate) const fn gate_initiator(point: GatePoint) -> Initiator {
    match point {
        GatePoint::Execute | GatePoint::Apply | GatePoint::Fix => Initiator::Gate,
        GatePoint::Replan => Initiator::Recovery,
    }
}
