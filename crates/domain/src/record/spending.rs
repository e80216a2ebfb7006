//! Spends of the owner of a plan's job.

use std::collections::BTreeSet;

use super::event_draft;
use super::tool_call::{NewCall, SettledCall, ToolCall};
use super::{PlanRecord, wall};
use crate::id::{Claim, SpendId};
use crate::job::LeaseLost;
use crate::ledger::{
    Account, CallCategory, Ledger, LimitReached, LimitTooLow, NewSpend, PlanLedger, Spend, SpendKind,
    SpendSettlement,
};
use crate::time::Ms;

/// The reason why nothing was reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The claim is not, or no longer, the owner's.
    #[error(transparent)]
    LeaseLost(#[from] LeaseLost),
    /// A limit says no.
    #[error(transparent)]
    Limit(#[from] LimitReached),
    /// The id names another spend already.
    #[error("the spend {spend} already exists with other values")]
    IdTaken {
        /// The id.
        spend: SpendId,
    },
}

impl PlanRecord {
    /// Reserves what the owner is about to spend; the same again, by whichever owner, returns the present
    /// spend. `day` is the present state of the day's account, if there is one.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, a limit refuses it, or the id names another spend.
    pub fn reserve(
        &mut self,
        claim: &Claim,
        new: NewSpend,
        day: Option<Account>,
    ) -> Result<Spend, ReserveError> {
        self.guard(claim)?;
        if let Some(known) = self.ledger.spend(new.id) {
            let is_the_same = known.was_made_by(&new);
            return if is_the_same {
                Ok(known.clone())
            } else {
                Err(ReserveError::IdTaken { spend: new.id })
            };
        }
        let limit = self.limit_when_made(new.kind);
        Ok(self.ledger.reserve(claim, new, limit, day)?)
    }

    /// Settles what the owner spent, once; `None` if it was not reserved.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's.
    pub fn settle(&mut self, claim: &Claim, id: SpendId, actual: u64) -> Result<Option<Spend>, LeaseLost> {
        self.guard(claim)?;
        Ok(self.ledger.settle(id, SpendSettlement::Actual(actual)))
    }

    /// Admits a call of the owner and counts it, both or neither. The first call of a step begins its node.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or a limit refuses it.
    pub fn begin_counted(
        &mut self,
        claim: &Claim,
        new: NewCall,
        count_as: CallCategory,
        now: Ms,
    ) -> Result<ToolCall, ReserveError> {
        self.guard(claim)?;
        let is_first = self.is_first(&new, count_as);
        self.count(claim, count_as.accounts(is_first))?;
        let no = self.next_call(new.attempt);
        let call = ToolCall { plan: claim.plan, no, started: wall(now), new, end: None };
        let told = is_first.then(|| event_draft::node_started(&call));
        self.tell(told.into_iter().chain([event_draft::tool_started(&call)]), now);
        self.calls.insert((call.new.attempt, no), call.clone());
        Ok(call)
    }

    /// Stores calls of the owner that took place and changed nothing, with the nodes that they settle, and
    /// counts them: all or nothing.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or a limit refuses it.
    pub fn keep_calls(
        &mut self,
        claim: &Claim,
        kept: Vec<SettledCall>,
        now: Ms,
    ) -> Result<Vec<ToolCall>, ReserveError> {
        self.guard(claim)?;
        let before = self.ledger.clone();
        let mut nodes = BTreeSet::new();
        for SettledCall { call, count_as, .. } in &kept {
            let is_first = self.is_first(call, *count_as) && nodes.insert((call.attempt, call.node.clone()));
            if let Err(reached) = self.count(claim, count_as.accounts(is_first)) {
                self.ledger = before;
                return Err(reached.into());
            }
        }
        Ok(kept.into_iter().map(|kept| self.keep_ended(claim, kept, now)).collect())
    }

    fn keep_ended(&mut self, claim: &Claim, kept: SettledCall, now: Ms) -> ToolCall {
        let SettledCall { call: new, count_as: _, end, settles } = kept;
        let no = self.next_call(new.attempt);
        let call = ToolCall::ended(claim.plan, no, new, end, wall(now));
        let settled = self.keep_nodes(settles);
        self.tell(event_draft::tool_finished(&call, 0).into_iter().chain(settled), now);
        self.calls.insert((call.new.attempt, no), call.clone());
        call
    }

    /// Returns whether the call is the first of a step in its attempt.
    fn is_first(&self, new: &NewCall, count_as: CallCategory) -> bool {
        match count_as {
            CallCategory::Step | CallCategory::Turn => {
                !self.calls.values().any(|call| call.new.is_of(new.attempt, &new.node))
            }
            CallCategory::Call => false,
        }
    }

    fn count(&mut self, claim: &Claim, kinds: &[SpendKind]) -> Result<(), LimitReached> {
        let plan = self.plan.as_ref();
        self.ledger.count(claim.plan, kinds, |kind| plan.and_then(|plan| plan.spec.limit(kind)))
    }

    /// Adds what the owner spent already and what cannot be refused.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's.
    pub fn add_spent(&mut self, claim: &Claim, kind: SpendKind, amount: u64) -> Result<(), LeaseLost> {
        self.guard(claim)?;
        let limit = self.limit_when_made(kind);
        self.ledger.add(kind, amount, limit);
        Ok(())
    }

    /// Sets limits of the plan: all of these, or none.
    ///
    /// # Errors
    /// Returns an error if one is below the amount that is taken already.
    pub fn set_limits(&mut self, limits: &[(SpendKind, Option<u64>)]) -> Result<(), LimitTooLow> {
        let plan = self.plan.as_ref();
        self.ledger.set_limits(limits, |kind| plan.and_then(|plan| plan.spec.limit(kind)))
    }

    /// Returns what the plan may use, and what it used.
    pub fn ledger(&self) -> Ledger {
        self.ledger.ledger(|kind| self.limit_when_made(kind))
    }

    /// Every spend.
    pub fn spending(&self) -> &PlanLedger {
        &self.ledger
    }

    fn limit_when_made(&self, kind: SpendKind) -> Option<u64> {
        self.plan.as_ref().and_then(|plan| plan.spec.limit(kind))
    }
}
