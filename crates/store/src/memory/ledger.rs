//! The ledger of plans in memory. The account of a day is summed up over the plans whenever it is needed.

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    Account, CallCategory, Claim, Day, LeaseLost, Ledger, NewCall, NewSpend, PlanId, PlanRecord,
    ReserveError, SettledCall, Spend, SpendId, SpendKind, ToolCall,
};
use sync::Effect;
use sync::primitives::lock;

use super::{MemoryStore, Plans};
use crate::{CallAuthority, LedgerStore, LedgerStoreError, StoreError};

/// The facts of days that the plans do not hold: limits, and the spends of forgotten plans.
pub(super) type Days = BTreeMap<(Day, SpendKind), Account>;

fn of_day(plans: &Plans, days: &Days, day: Day, kind: SpendKind) -> Account {
    let known = days.get(&(day, kind)).copied().unwrap_or_default();
    plans.values().map(|plan| plan.spending().taken_of(day, kind)).fold(known, |sum, taken| Account {
        max: sum.max,
        used: sum.used.saturating_add(taken.used),
        reserved: sum.reserved.saturating_add(taken.reserved),
    })
}

fn reserve(plans: &mut Plans, days: &mut Days, claim: &Claim, new: NewSpend) -> Result<Spend, ReserveError> {
    let day = new.day.map(|limit| of_day(plans, days, limit.day, new.kind));
    let lost = LeaseLost { job: claim.job, fence: claim.fence };
    let record = plans.get_mut(&claim.plan).ok_or(lost)?;
    let (kind, limit) = (new.kind, new.day);
    let is_new = record.spending().spend(new.id).is_none();
    let spend = record.reserve(claim, new, day)?;
    if let Some(limit) = limit.filter(|_| is_new) {
        days.entry((limit.day, kind)).or_default().max = limit.max;
    }
    Ok(spend)
}

/// Adds the amounts that a forgotten plan spent to the accounts of their days.
pub(super) fn keep_days(days: &mut Days, record: &PlanRecord) {
    for spend in record.spending().spends() {
        if let Some(day) = spend.day {
            let account = days.entry((day, spend.kind)).or_default();
            account.used = account.used.saturating_add(spend.actual.unwrap_or(spend.reserved));
        }
    }
}

#[async_trait]
impl LedgerStore for MemoryStore {
    async fn reserve(&self, _: &Effect, claim: &Claim, new: NewSpend) -> Result<Spend, LedgerStoreError> {
        Ok(self.plans.update_all(|plans| reserve(plans, &mut lock(&self.days), claim, new))?)
    }

    async fn settle(
        &self,
        _: CallAuthority<'_>,
        claim: &Claim,
        id: SpendId,
        actual: u64,
    ) -> Result<Spend, LedgerStoreError> {
        let settled = self.write(claim, |plan| plan.settle(claim, id, actual)).map_err(StoreError::from)?;
        settled.ok_or(LedgerStoreError::NotReserved { spend: id })
    }

    async fn begin_counted(
        &self,
        _: &Effect,
        claim: &Claim,
        call: NewCall,
        count_as: CallCategory,
    ) -> Result<ToolCall, LedgerStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.begin_counted(claim, call, count_as, now))?)
    }

    async fn keep_calls(
        &self,
        _: &Effect,
        claim: &Claim,
        kept: Vec<SettledCall>,
    ) -> Result<Vec<ToolCall>, LedgerStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.keep_calls(claim, kept, now))?)
    }

    async fn add_spent(
        &self,
        _: CallAuthority<'_>,
        claim: &Claim,
        kind: SpendKind,
        amount: u64,
    ) -> Result<(), LedgerStoreError> {
        Ok(self.write(claim, |plan| plan.add_spent(claim, kind, amount)).map_err(StoreError::from)?)
    }

    async fn set_limits(
        &self,
        plan: PlanId,
        limits: Vec<(SpendKind, Option<u64>)>,
    ) -> Result<Ledger, LedgerStoreError> {
        let set = self.plans.update_known(&plan, |record| {
            record.set_limits(&limits)?;
            Ok(record.ledger())
        });
        set.unwrap_or(Err(LedgerStoreError::NotFound { plan }))
    }

    async fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError> {
        Ok(self.plans.read(&plan, |record| record.map(PlanRecord::ledger).unwrap_or_default()))
    }

    async fn spends(&self, plan: PlanId) -> Result<Vec<Spend>, StoreError> {
        let all = |record: &PlanRecord| record.spending().spends().cloned().collect();
        Ok(self.plans.read(&plan, |record| record.map(all).unwrap_or_default()))
    }

    async fn day_ledger(&self, day: Day) -> Result<BTreeMap<SpendKind, Account>, StoreError> {
        Ok(self.plans.update_all(|plans| {
            let days = lock(&self.days);
            let accounts = SpendKind::ALL.into_iter().map(|kind| (kind, of_day(plans, &days, day, kind)));
            accounts.filter(|(_, account)| *account != Account::default()).collect()
        }))
    }
}
