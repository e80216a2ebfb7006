//! Spends of plans.

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    Account, CallCategory, Claim, Day, Ledger, NewCall, NewSpend, PlanId, SettledCall, Spend, SpendId,
    SpendKind, ToolCall,
};
use store::{CallAuthority, LedgerStore, LedgerStoreError, StoreError};
use sync::Effect;

use super::{FaultyStore, Kind, is_lost};
use crate::broken_programs::BrokenProgram;

fn spend_is_lost<T>(answer: &Result<T, LedgerStoreError>) -> bool {
    matches!(answer, Err(LedgerStoreError::Store(error)) if is_lost(error))
}

#[async_trait]
impl LedgerStore for FaultyStore {
    async fn reserve(
        &self,
        effect: &Effect,
        claim: &Claim,
        new: NewSpend,
    ) -> Result<Spend, LedgerStoreError> {
        self.before("reserve", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let mut answer = self.inner().reserve(effect, &shown, new.clone()).await;
        if matches!(answer, Err(LedgerStoreError::Limit(_)))
            && self.world.is_broken(BrokenProgram::OverReserve)
        {
            answer = Ok(Spend::new(claim, new));
        }
        self.owner_wrote(claim, "a reserve", &answer, spend_is_lost(&answer));
        let spend = answer?;
        self.world.observe_spend(&spend);
        self.after("reserve", Kind::Write, Some(claim.plan)).await?;
        Ok(spend)
    }

    async fn settle(
        &self,
        by: CallAuthority<'_>,
        claim: &Claim,
        id: SpendId,
        actual: u64,
    ) -> Result<Spend, LedgerStoreError> {
        self.before("settle", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().settle(by, &shown, id, actual).await;
        self.owner_wrote(claim, "a settled spend", &answer, spend_is_lost(&answer));
        let spend = answer?;
        self.after("settle", Kind::Write, Some(claim.plan)).await?;
        Ok(spend)
    }

    async fn begin_counted(
        &self,
        effect: &Effect,
        claim: &Claim,
        call: NewCall,
        count_as: CallCategory,
    ) -> Result<ToolCall, LedgerStoreError> {
        self.before("begin_counted", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().begin_counted(effect, &shown, call, count_as).await;
        self.owner_wrote(claim, "a call", &answer, spend_is_lost(&answer));
        let call = answer?;
        self.world.watch.observe_effect(claim.plan, "a tool call");
        self.after("begin_counted", Kind::Write, Some(claim.plan)).await?;
        Ok(call)
    }

    async fn keep_calls(
        &self,
        effect: &Effect,
        claim: &Claim,
        kept: Vec<SettledCall>,
    ) -> Result<Vec<ToolCall>, LedgerStoreError> {
        self.before("keep_calls", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().keep_calls(effect, &shown, kept).await;
        self.owner_wrote(claim, "calls", &answer, spend_is_lost(&answer));
        let calls = answer?;
        self.world.watch.observe_effect(claim.plan, "a tool call");
        self.after("keep_calls", Kind::Write, Some(claim.plan)).await?;
        Ok(calls)
    }

    async fn add_spent(
        &self,
        by: CallAuthority<'_>,
        claim: &Claim,
        kind: SpendKind,
        amount: u64,
    ) -> Result<(), LedgerStoreError> {
        self.before("add_spent", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().add_spent(by, &shown, kind, amount).await;
        self.owner_wrote(claim, "what was spent", &answer, spend_is_lost(&answer));
        answer?;
        self.after("add_spent", Kind::Write, Some(claim.plan)).await?;
        Ok(())
    }

    async fn set_limits(
        &self,
        plan: PlanId,
        limits: Vec<(SpendKind, Option<u64>)>,
    ) -> Result<Ledger, LedgerStoreError> {
        self.before("set_limits", Kind::Synced).await?;
        let answer = self.inner().set_limits(plan, limits).await?;
        self.after("set_limits", Kind::Synced, Some(plan)).await?;
        Ok(answer)
    }

    async fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError> {
        self.before("ledger", Kind::Read).await?;
        self.inner().ledger(plan).await
    }

    async fn spends(&self, plan: PlanId) -> Result<Vec<Spend>, StoreError> {
        self.before("spends", Kind::Read).await?;
        let mut spends = self.inner().spends(plan).await?;
        if self.world.is_broken(BrokenProgram::UnsettledSpend) {
            let assumed = spends.iter_mut().filter(|spend| spend.assumed);
            assumed.for_each(|spend| spend.actual = None);
        }
        Ok(spends)
    }

    async fn day_ledger(&self, day: Day) -> Result<BTreeMap<SpendKind, Account>, StoreError> {
        self.before("day_ledger", Kind::Read).await?;
        self.inner().day_ledger(day).await
    }
}
