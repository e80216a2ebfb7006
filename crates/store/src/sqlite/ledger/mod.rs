//! The ledger of plans in SQLite.
//!
//! # Invariants
//! 1. The accounts of a spend change in the transaction that reserves or settles it; it is read first and its
//!    rules are those of [`domain::ledger`].
//! 2. The account of a plan is removed with the plan; that of a day stays.

mod queries;

use std::collections::BTreeMap;

use async_trait::async_trait;
use domain::{
    Account, CallCategory, Claim, Day, DayLimit, Ledger, LedgerScope, NewCall, NewSpend, Plan, PlanId,
    SettledCall, Spend, SpendId, SpendKind, SpendSettlement, ToolCall, count_in, reserve_in,
};
use sync::Effect;

use super::calls::CallStart;
use super::jobs::guard;
use super::plan_heads;
use super::plan_heads::{PlanHead, tell};
use super::transaction::Tx;
use super::writer::WriteTerms;
use super::{FOR_POWER, FOR_PROCESS, SqliteStore, calls, nodes, plans};
use crate::{CallAuthority, LedgerStore, LedgerStoreError, StoreError};

fn reserve(tx: &Tx<'_>, claim: &Claim, new: NewSpend) -> Result<Spend, LedgerStoreError> {
    let head = guard(tx, claim)?;
    if let Some(known) = queries::find(tx, head, claim.plan, new.id)? {
        let taken = LedgerStoreError::IdTaken { spend: new.id };
        return if known.was_made_by(&new) { Ok(known) } else { Err(taken) };
    }
    let mut accounts = vec![(LedgerScope::Plan(claim.plan), account(tx, head, new.kind)?)];
    if let Some(DayLimit { day, max }) = new.day {
        let known = queries::of_day(tx, day, new.kind)?.unwrap_or_default();
        accounts.push((LedgerScope::Day(day), Account { max, ..known }));
    }
    for (scope, account) in reserve_in(&accounts, new.kind, new.amount)? {
        save(tx, head, scope, new.kind, account)?;
    }
    let spend = Spend::new(claim, new);
    queries::insert(tx, head, &spend)?;
    Ok(spend)
}

/// Counts a call, and the step that begins with it, before it is admitted.
fn count_call(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    new: &NewCall,
    count_as: CallCategory,
) -> Result<CallStart, LedgerStoreError> {
    let begins = match count_as {
        CallCategory::Step | CallCategory::Turn if !calls::is_known(tx, head, new.attempt, &new.node)? => {
            CallStart::Node
        }
        CallCategory::Step | CallCategory::Turn | CallCategory::Call => CallStart::Call,
    };
    for kind in count_as.accounts(begins == CallStart::Node) {
        count(tx, head, plan, *kind)?;
    }
    Ok(begins)
}

/// Counts one as used.
fn count(tx: &Tx<'_>, head: PlanHead, plan: PlanId, kind: SpendKind) -> Result<(), LedgerStoreError> {
    if queries::count(tx, head, kind)? {
        return Ok(());
    }
    let account = count_in(LedgerScope::Plan(plan), account(tx, head, kind)?, kind)?;
    Ok(queries::save_plan(tx, head, kind, account)?)
}

fn add_spent(tx: &Tx<'_>, claim: &Claim, kind: SpendKind, amount: u64) -> Result<(), StoreError> {
    let head = guard(tx, claim)?;
    let account = account(tx, head, kind)?.with_used(amount);
    queries::save_plan(tx, head, kind, account)
}

/// The accounts that every plan uses, as they begin; others are opened when they are needed.
pub(super) fn open_accounts(tx: &Tx<'_>, head: PlanHead, plan: &Plan) -> Result<(), StoreError> {
    [SpendKind::Time, SpendKind::Steps, SpendKind::ToolCalls]
        .into_iter()
        .try_for_each(|kind| queries::save_plan(tx, head, kind, Account::with_limit(plan.spec.limit(kind))))
}

/// Returns the plan's account, the present one or a new one.
fn account(tx: &Tx<'_>, head: PlanHead, kind: SpendKind) -> Result<Account, StoreError> {
    if let Some(known) = queries::of_plan(tx, head, kind)? {
        return Ok(known);
    }
    let plan = plans::of_head(tx, head)?;
    Ok(Account::with_limit(plan.and_then(|plan| plan.spec.limit(kind))))
}

fn save(
    tx: &Tx<'_>,
    head: PlanHead,
    scope: LedgerScope,
    kind: SpendKind,
    account: Account,
) -> Result<(), StoreError> {
    match scope {
        LedgerScope::Plan(_) => queries::save_plan(tx, head, kind, account),
        LedgerScope::Day(day) => queries::save_day(tx, day, kind, account),
    }
}

fn settle(tx: &Tx<'_>, claim: &Claim, id: SpendId, actual: u64) -> Result<Spend, LedgerStoreError> {
    let head = guard(tx, claim)?;
    let known =
        queries::find(tx, head, claim.plan, id)?.ok_or(LedgerStoreError::NotReserved { spend: id })?;
    Ok(keep_settled(tx, head, known, SpendSettlement::Actual(actual))?)
}

/// Settles a spend in all its accounts, if it is not settled.
fn keep_settled(
    tx: &Tx<'_>,
    head: PlanHead,
    known: Spend,
    how: SpendSettlement,
) -> Result<Spend, StoreError> {
    let Some(settled) = known.settle(how) else { return Ok(known) };
    let own = account(tx, head, settled.kind)?;
    queries::save_plan(tx, head, settled.kind, settled.settles(own))?;
    if let Some(day) = settled.day {
        let of_day = queries::of_day(tx, day, settled.kind)?.unwrap_or_default();
        queries::save_day(tx, day, settled.kind, settled.settles(of_day))?;
    }
    queries::save(tx, head, &settled)?;
    Ok(settled)
}

/// Settles all of a plan that is still under way, because the owner that reserved it lost the job.
pub(super) fn assume_all(tx: &Tx<'_>, head: PlanHead, plan: PlanId) -> Result<(), StoreError> {
    for spend in queries::open(tx, head, plan)? {
        keep_settled(tx, head, spend, SpendSettlement::Assumed)?;
    }
    Ok(())
}

fn set_limits(
    tx: &Tx<'_>,
    plan: PlanId,
    limits: &[(SpendKind, Option<u64>)],
) -> Result<Ledger, LedgerStoreError> {
    let head = plan_heads::find(tx, plan)?.ok_or(LedgerStoreError::NotFound { plan })?;
    for (kind, max) in limits {
        let account = account(tx, head, *kind)?.with_max(*kind, *max)?;
        queries::save_plan(tx, head, *kind, account)?;
    }
    Ok(ledger(tx, plan)?)
}

fn ledger(tx: &Tx<'_>, plan: PlanId) -> Result<Ledger, StoreError> {
    let Some(head) = plan_heads::find(tx, plan)? else { return Ok(Ledger::default()) };
    let known = queries::all_of_plan(tx, head)?;
    let made = plans::of_head(tx, head)?;
    let when_made = |kind| Account::with_limit(made.as_ref().and_then(|plan| plan.spec.limit(kind)));
    let ledger = Ledger::from_accounts(|kind| known.get(&kind).copied().unwrap_or_else(|| when_made(kind)));
    Ok(Ledger { assumed: queries::sum_assumed(tx, head)?, ..ledger })
}

#[async_trait]
impl LedgerStore for SqliteStore {
    async fn reserve(&self, _: &Effect, claim: &Claim, new: NewSpend) -> Result<Spend, LedgerStoreError> {
        let claim = *claim;
        self.write(FOR_PROCESS, move |tx| reserve(tx, &claim, new)).await
    }

    async fn settle(
        &self,
        _: CallAuthority<'_>,
        claim: &Claim,
        id: SpendId,
        actual: u64,
    ) -> Result<Spend, LedgerStoreError> {
        let claim = *claim;
        self.write(FOR_PROCESS, move |tx| settle(tx, &claim, id, actual)).await
    }

    async fn begin_counted(
        &self,
        _: &Effect,
        claim: &Claim,
        call: NewCall,
        count_as: CallCategory,
    ) -> Result<ToolCall, LedgerStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_PROCESS, move |tx| {
            let head = guard(tx, &claim)?;
            let begins = count_call(tx, head, claim.plan, &call, count_as)?;
            Ok(calls::keep_begun(tx, head, claim.plan, call, begins, at)?)
        })
        .await
    }

    async fn keep_calls(
        &self,
        _: &Effect,
        claim: &Claim,
        kept: Vec<SettledCall>,
    ) -> Result<Vec<ToolCall>, LedgerStoreError> {
        let (at, claim) = (self.moment(), *claim);
        let bytes_of = |kept: &SettledCall| FOR_PROCESS.bytes.saturating_add(nodes::bytes_of(&kept.settles));
        let bytes = kept.iter().map(bytes_of).sum();
        self.write(WriteTerms { bytes, ..FOR_PROCESS }, move |tx| {
            let head = guard(tx, &claim)?;
            let (mut calls, mut told) = (Vec::with_capacity(kept.len()), Vec::new());
            for kept in kept {
                count_call(tx, head, claim.plan, &kept.call, kept.count_as)?;
                calls.push(calls::keep_ended(tx, head, claim.plan, kept, at, &mut told)?);
            }
            tell(tx, head, told, at.wall)?;
            Ok(calls)
        })
        .await
    }

    async fn add_spent(
        &self,
        _: CallAuthority<'_>,
        claim: &Claim,
        kind: SpendKind,
        amount: u64,
    ) -> Result<(), LedgerStoreError> {
        let claim = *claim;
        Ok(self.write(FOR_PROCESS, move |tx| add_spent(tx, &claim, kind, amount)).await?)
    }

    async fn set_limits(
        &self,
        plan: PlanId,
        limits: Vec<(SpendKind, Option<u64>)>,
    ) -> Result<Ledger, LedgerStoreError> {
        self.write(FOR_POWER, move |tx| set_limits(tx, plan, &limits)).await
    }

    async fn ledger(&self, plan: PlanId) -> Result<Ledger, StoreError> {
        self.read(|tx| ledger(tx, plan))
    }

    async fn spends(&self, plan: PlanId) -> Result<Vec<Spend>, StoreError> {
        self.read(|tx| match plan_heads::find(tx, plan)? {
            Some(head) => queries::all(tx, head, plan),
            None => Ok(Vec::new()),
        })
    }

    async fn day_ledger(&self, day: Day) -> Result<BTreeMap<SpendKind, Account>, StoreError> {
        self.read(|tx| queries::all_of_day(tx, day))
    }
}
