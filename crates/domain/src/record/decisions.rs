//! Decisions of a plan: by its owner, by the user meanwhile, and with manual transitions.
//!
//! # Invariants
//! 1. Of several that are recorded in one step all are, or none: each is tried before the first is stored.

use super::event_draft;
use super::{PlanRecord, wall};
use crate::decision::{Decision, DecisionInvalid, NewDecision, StepDecision};
use crate::failure::ErrorClass;
use crate::id::{Claim, PlanId};
use crate::job::LeaseLost;
use crate::plan::{PlanState, TransitionDecisions};
use crate::time::Ms;

/// The reason why nothing was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The claim is not, or no longer, the owner's.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// The decision may not be recorded.
    #[error(transparent)]
    Invalid(#[from] DecisionInvalid),
    /// There is no such plan.
    #[error("there is no such plan")]
    NotFound,
    /// The plan has come to its end.
    #[error("the plan is {state}")]
    Final {
        /// The state of the plan.
        state: PlanState,
    },
}

impl DecideError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            DecideError::LeaseLost(lost) => lost.class(),
            DecideError::Invalid(_) | DecideError::NotFound | DecideError::Final { .. } => {
                ErrorClass::Permanent
            }
        }
    }
}

impl PlanRecord {
    /// Records a decision of the owner.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or the decision may not be recorded.
    pub fn decide(&mut self, claim: &Claim, new: NewDecision, now: Ms) -> Result<Decision, DecideError> {
        self.guard(claim)?;
        Ok(self.decide_one(claim.plan, new, now)?)
    }

    /// Records decisions of the owner, all or none.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or one of them may not be recorded.
    pub fn decide_all(
        &mut self,
        claim: &Claim,
        new: Vec<StepDecision>,
        now: Ms,
    ) -> Result<Vec<Decision>, DecideError> {
        self.guard(claim)?;
        let first = self.next_decision();
        let numbered = |(place, new): (usize, StepDecision)| new.assign_numbers(place, first);
        let new = new.into_iter().enumerate().map(numbered).collect::<Result<Vec<_>, _>>()?;
        let made = self.prepare_decisions(claim.plan, new, PriorDecisions::AsTheyStand, now)?;
        self.keep_decisions(&made, now);
        Ok(made)
    }

    /// Records a message of a person to the plan, in its present attempt and phase.
    ///
    /// # Errors
    /// Returns an error if there is no plan, it has come to its end, or the decision may not be recorded.
    pub fn add_guidance(&mut self, new: NewDecision, now: Ms) -> Result<Decision, DecideError> {
        let plan = self.plan.as_ref().ok_or(DecideError::NotFound)?;
        if plan.state.is_final() {
            return Err(DecideError::Final { state: plan.state });
        }
        let (id, attempt, phase) = (plan.id, plan.attempt, plan.state.phase());
        Ok(self.decide_one(id, NewDecision { attempt, phase, ..new }, now)?)
    }

    fn decide_one(&mut self, plan: PlanId, new: NewDecision, now: Ms) -> Result<Decision, DecisionInvalid> {
        let seq = self.next_decision();
        new.check(seq, |other| Ok::<_, DecisionInvalid>(self.stands(other)))?;
        let decision = Decision::new(plan, seq, new, wall(now));
        self.keep_decisions(std::slice::from_ref(&decision), now);
        Ok(decision)
    }

    /// Returns these as they would be stored after all others.
    ///
    /// # Errors
    /// Returns an error if one of them may not be recorded.
    pub(super) fn prepare_decisions(
        &self,
        plan: PlanId,
        new: Vec<NewDecision>,
        before: PriorDecisions,
        now: Ms,
    ) -> Result<Vec<Decision>, DecisionInvalid> {
        let first = self.next_decision();
        let stands = |other: u32| match before {
            PriorDecisions::AsTheyStand => other >= first || self.stands(other),
            PriorDecisions::GiveWay => other >= first,
        };
        let try_one = |(seq, new): (u32, NewDecision)| {
            new.check(seq, |other| Ok::<_, DecisionInvalid>(stands(other)))?;
            Ok(Decision::new(plan, seq, new, wall(now)))
        };
        (first..).zip(new).map(try_one).collect()
    }

    /// Stores decisions that were tried.
    pub(super) fn keep_decisions(&mut self, made: &[Decision], now: Ms) {
        self.tell(made.iter().map(event_draft::decision_recorded), now);
        self.decisions.extend_from_slice(made);
    }

    /// Tries what is decided with a move by hand.
    ///
    /// # Errors
    /// Returns an error if one of them may not be recorded.
    pub(super) fn prepare_manual_decisions(
        &self,
        plan: PlanId,
        decided: &TransitionDecisions,
        now: Ms,
    ) -> Result<Vec<Decision>, DecisionInvalid> {
        let before = match (decided.superseding, &decided.giving_way) {
            (Some(_), None) => PriorDecisions::GiveWay,
            (Some(_), Some(_)) | (None, _) => PriorDecisions::AsTheyStand,
        };
        self.prepare_decisions(plan, decided.new.clone(), before, now)
    }

    /// Stores the decisions of a move by hand, and supersedes those that give way to them.
    pub(super) fn keep_by_hand(&mut self, decided: &TransitionDecisions, made: &[Decision], now: Ms) {
        let superseding = decided.superseding.and_then(|place| made.get(place)).map(|decision| decision.seq);
        let gives_way = |seq: u32| decided.giving_way.as_ref().is_none_or(|some| some.contains(&seq));
        let live = self.decisions.iter_mut();
        let live = live.filter(|one| one.seq > 1 && one.is_live() && gives_way(one.seq));
        let gave_way: Vec<u32> = superseding.map_or(Vec::new(), |by| {
            live.map(|decision| {
                decision.superseded_by = Some(by);
                decision.seq
            })
            .collect()
        });
        self.keep_decisions(made, now);
        if let Some(by) = superseding.filter(|_| !gave_way.is_empty()) {
            self.tell([event_draft::decision_superseded(&gave_way, by)], now);
        }
    }

    fn stands(&self, seq: u32) -> bool {
        self.decisions.iter().any(|decision| decision.seq == seq && decision.is_live())
    }

    fn next_decision(&self) -> u32 {
        // More decisions than fit into the number do not fit into memory either.
        u32::try_from(self.decisions.len()).unwrap_or(u32::MAX).saturating_add(1)
    }
}

/// The fate of the earlier decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PriorDecisions {
    /// Nothing.
    AsTheyStand,
    /// All but the prompt give way in the same step.
    GiveWay,
}
