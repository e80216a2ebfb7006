//! The accounts and spends of one plan, in memory.

use std::collections::BTreeMap;

use super::{
    Account, DayLimit, Ledger, LedgerScope, LimitReached, LimitTooLow, NewSpend, Spend, SpendKind,
    SpendSettlement, count_in, reserve_in,
};
use crate::id::{Claim, PlanId, SpendId};
use crate::ledger::Day;

/// The accounts and spends of one plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanLedger {
    accounts: BTreeMap<SpendKind, Account>,
    spends: BTreeMap<SpendId, Spend>,
}

impl PlanLedger {
    /// The spend of this name.
    pub fn spend(&self, id: SpendId) -> Option<&Spend> {
        self.spends.get(&id)
    }

    /// All spends, in order of id.
    pub fn spends(&self) -> impl ExactSizeIterator<Item = &Spend> {
        self.spends.values()
    }

    /// Reserves in the plan's account and in the day's, or in neither. `limit` is what the plan was allowed
    /// when it was made; `day` is the present state of the day's account.
    pub(crate) fn reserve(
        &mut self,
        claim: &Claim,
        new: NewSpend,
        limit: Option<u64>,
        day: Option<Account>,
    ) -> Result<Spend, LimitReached> {
        let own = self.accounts.get(&new.kind).copied().unwrap_or(Account::with_limit(limit));
        let mut accounts = vec![(LedgerScope::Plan(claim.plan), own)];
        if let (Some(DayLimit { day, max }), Some(account)) = (new.day, day) {
            accounts.push((LedgerScope::Day(day), Account { max, ..account }));
        }
        let reserved = reserve_in(&accounts, new.kind, new.amount)?;
        if let Some((_, own)) = reserved.first() {
            self.accounts.insert(new.kind, *own);
        }
        let spend = Spend::new(claim, new);
        self.spends.insert(spend.id, spend.clone());
        Ok(spend)
    }

    /// Counts one as used in each of the accounts, or in none. `limit` is what the plan was allowed when it
    /// was made.
    pub(crate) fn count(
        &mut self,
        plan: PlanId,
        kinds: &[SpendKind],
        limit: impl Fn(SpendKind) -> Option<u64>,
    ) -> Result<(), LimitReached> {
        let mut counted = self.accounts.clone();
        for kind in kinds {
            let own = counted.get(kind).copied().unwrap_or(Account::with_limit(limit(*kind)));
            counted.insert(*kind, count_in(LedgerScope::Plan(plan), own, *kind)?);
        }
        self.accounts = counted;
        Ok(())
    }

    /// Adds what was spent already. `limit` is what the plan was allowed when it was made.
    pub(crate) fn add(&mut self, kind: SpendKind, amount: u64, limit: Option<u64>) {
        let own = self.accounts.entry(kind).or_insert(Account::with_limit(limit));
        *own = own.with_used(amount);
    }

    /// Settles a spend, once.
    pub(crate) fn settle(&mut self, id: SpendId, how: SpendSettlement) -> Option<Spend> {
        let known = self.spends.get_mut(&id)?;
        if let Some(settled) = known.settle(how) {
            let account = self.accounts.entry(settled.kind).or_default();
            *account = settled.settles(*account);
            *known = settled;
        }
        Some(known.clone())
    }

    /// Settles all that is still under way, because its owner is gone.
    pub(crate) fn assume_all(&mut self) {
        let open: Vec<SpendId> =
            self.spends.values().filter(|spend| spend.actual.is_none()).map(|spend| spend.id).collect();
        for id in open {
            self.settle(id, SpendSettlement::Assumed);
        }
    }

    /// Sets limits: all of them, or none when one is below what is taken. `limit` is what the plan was
    /// allowed when it was made.
    pub(crate) fn set_limits(
        &mut self,
        wanted: &[(SpendKind, Option<u64>)],
        limit: impl Fn(SpendKind) -> Option<u64>,
    ) -> Result<(), LimitTooLow> {
        let mut accounts = self.accounts.clone();
        for (kind, max) in wanted {
            let known = accounts.get(kind).copied().unwrap_or(Account::with_limit(limit(*kind)));
            accounts.insert(*kind, known.with_max(*kind, *max)?);
        }
        self.accounts = accounts;
        Ok(())
    }

    /// Returns the present ledger. `limit` is what the plan was allowed when it was made.
    pub(crate) fn ledger(&self, limit: impl Fn(SpendKind) -> Option<u64>) -> Ledger {
        let account = |kind| self.accounts.get(&kind).copied().unwrap_or(Account::with_limit(limit(kind)));
        let mut ledger = Ledger::from_accounts(account);
        for spend in self.spends.values().filter(|spend| spend.assumed) {
            *ledger.assumed.entry(spend.kind).or_default() += spend.actual.unwrap_or(0);
        }
        ledger
    }

    /// Returns what the plan took from the account of a day.
    pub fn taken_of(&self, day: Day, kind: SpendKind) -> Account {
        let of_day = self.spends.values().filter(|spend| spend.day == Some(day) && spend.kind == kind);
        of_day.fold(Account::default(), |sum, spend| match spend.actual {
            Some(actual) => Account { used: sum.used.saturating_add(actual), ..sum },
            None => Account { reserved: sum.reserved.saturating_add(spend.reserved), ..sum },
        })
    }
}
