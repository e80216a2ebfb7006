//! Spends of plans: reserved before, settled once, never above a limit.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::{
    Account, CallCategory, CallEnd, Day, DayLimit, EventKind, EventRecord, Fence, LeaseLost, Ledger,
    LedgerScope, LimitReached, LimitTooLow, Limits, NewSpend, Phase, Spend, SpendId, SpendKind, WallMs,
};
use store::{JobEnd, LedgerStoreError};

use super::bench::{Bench, Owner, failed};
use super::sample::{BOB, LEASE, STRANGER, call_end, new_call, new_job, plan_id, request, spend};
use super::walk::{create, processing};

const KIND: SpendKind = SpendKind::ToolCalls;

fn id(n: u64) -> SpendId {
    SpendId::from_u128(n.into())
}

/// A day and what all plans may spend on it.
fn day(max: Option<u64>) -> DayLimit {
    DayLimit { day: Day::from_wall(WallMs(1_794_787_200_000)), max }
}

async fn account(bench: &Bench, n: u64) -> Account {
    bench.store.ledger(plan_id(n)).await.unwrap().account(KIND)
}

async fn limited(bench: &Bench, n: u64, max: u64) {
    bench.store.set_limits(plan_id(n), vec![(KIND, Some(max))]).await.unwrap();
}

fn reached(n: u64, [max, used, reserved, asked]: [u64; 4]) -> LedgerStoreError {
    LimitReached { scope: LedgerScope::Plan(plan_id(n)), kind: KIND, max, used, reserved, asked }.into()
}

async fn only_spend(bench: &Bench, n: u64) -> Spend {
    let spends = bench.store.spends(plan_id(n)).await.unwrap();
    assert_eq!(spends.len(), 1);
    spends.into_iter().next().unwrap()
}

pub(crate) async fn a_spend_is_reserved_and_then_settled_with_what_it_came_to(bench: Bench) {
    let owner = bench.owner(1).await;
    let new = NewSpend { model: Some("é".to_owned()), day: Some(day(Some(90))), ..spend(7, 5) };
    let reserved = owner.reserve(new.clone()).await.unwrap();
    assert_eq!(reserved, Spend::new(&owner.claim, new));
    assert_eq!(only_spend(&bench, 1).await, reserved);
    assert_eq!(account(&bench, 1).await, Account { max: None, used: 0, reserved: 5 });
    let settled = owner.settle(id(7), 3).await.unwrap();
    assert_eq!(settled, Spend { actual: Some(3), ..reserved });
    assert_eq!(only_spend(&bench, 1).await, settled);
    assert_eq!(account(&bench, 1).await, Account { max: None, used: 3, reserved: 0 });
    let of_day = bench.store.day_ledger(day(None).day).await.unwrap();
    assert_eq!(of_day, BTreeMap::from([(KIND, Account { max: Some(90), used: 3, reserved: 0 })]));
    assert_eq!(
        bench.store.day_ledger(Day::from_wall(WallMs(0))).await,
        Ok(BTreeMap::new()),
        "of that day alone"
    );
}

pub(crate) async fn a_call_is_admitted_and_counted_in_one_step_or_not_at_all(bench: Bench) {
    let owner = bench.owner(1).await;
    limited(&bench, 1, 3).await;
    bench.store.set_limits(plan_id(1), vec![(SpendKind::Steps, Some(1))]).await.unwrap();
    let steps = async || bench.store.ledger(plan_id(1)).await.unwrap().account(SpendKind::Steps).used;
    let call = owner.begin_counted(new_call(1, "a"), CallCategory::Step).await.unwrap();
    assert_eq!((call.no.0, account(&bench, 1).await), (1, Account { max: Some(3), used: 1, reserved: 0 }));
    owner.begin_counted(new_call(1, "a"), CallCategory::Step).await.unwrap();
    assert_eq!(steps().await, 1, "the same step is counted once");
    let before = bench.snapshot().await;
    let refused = owner.begin_counted(new_call(1, "b"), CallCategory::Step).await;
    let full = LimitReached {
        scope: LedgerScope::Plan(plan_id(1)),
        kind: SpendKind::Steps,
        max: 1,
        used: 1,
        reserved: 0,
        asked: 1,
    };
    assert_eq!(refused, Err(full.into()));
    assert_eq!(bench.snapshot().await, before, "what is refused half-way leaves nothing");
    owner.begin_counted(new_call(1, "b"), CallCategory::Call).await.unwrap();
    assert_eq!(steps().await, 1, "what is no step is not counted as one");
    assert_eq!(
        owner.begin_counted(new_call(1, "a"), CallCategory::Step).await,
        Err(reached(1, [3, 3, 0, 1]))
    );
    owner.begin_counted(new_call(1, "a"), CallCategory::Turn).await.unwrap();
    assert_eq!(account(&bench, 1).await.used, 3, "a question to a model is no call of a tool");
    assert_eq!(
        owner.begin_counted(new_call(1, "c"), CallCategory::Turn).await,
        Err(full.into()),
        "and begins a step"
    );
    assert_eq!(bench.store.calls(plan_id(1)).await.unwrap().len(), 4);
    assert_eq!(bench.store.spends(plan_id(1)).await, Ok(Vec::new()), "what is counted is no spend");
}

pub(crate) async fn a_call_that_changed_nothing_is_kept_with_its_end_and_counted(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    limited(&bench, 1, 2).await;
    bench.pass(Duration::from_secs(5));
    let end = CallEnd { duration_ms: 2_000, ..call_end() };
    let kept = owner.keep_call(new_call(1, "a"), CallCategory::Step, end.clone()).await.unwrap();
    assert_eq!((kept.no.0, kept.end.as_ref()), (1, Some(&end)));
    assert_eq!(bench.store.calls(plan_id(1)).await.unwrap(), std::slice::from_ref(&kept));
    let begun = owner.begin_counted(new_call(1, "b"), CallCategory::Step).await.unwrap();
    let before = begun.started.0.saturating_sub(2_000);
    assert_eq!((begun.no.0, kept.started.0), (2, before), "it began before it was kept");
    let before = bench.snapshot().await;
    let refused = owner.keep_call(new_call(1, "c"), CallCategory::Step, end.clone()).await;
    assert_eq!(refused, Err(reached(1, [2, 2, 0, 1])));
    assert_eq!(bench.snapshot().await, before, "what is refused leaves nothing");
    let told = bench.store.events(plan_id(1), 0, 100).await.unwrap();
    let of_tools = |event: &&EventRecord| event.kind == EventKind::ToolFinished;
    assert_eq!(told.iter().filter(of_tools).count(), 1);
    bench.pass(LEASE);
    bench.claim(request(BOB)).await.unwrap();
    let lost = LeaseLost { job: owner.claim.job, fence: owner.claim.fence };
    let late = owner.keep_call(new_call(1, "a"), CallCategory::Step, end).await;
    assert_eq!(late, Err(LedgerStoreError::Store(lost.into())));
}

pub(crate) async fn what_was_spent_already_is_added_up_to_the_limit(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    bench.store.set_limits(plan_id(1), vec![(SpendKind::Time, Some(100))]).await.unwrap();
    let time = async || bench.store.ledger(plan_id(1)).await.unwrap().account(SpendKind::Time);
    owner.add_spent(SpendKind::Time, 60).await.unwrap();
    owner.add_spent(SpendKind::Time, 30).await.unwrap();
    assert_eq!(time().await, Account { max: Some(100), used: 90, reserved: 0 });
    owner.add_spent(SpendKind::Time, u64::MAX).await.unwrap();
    assert_eq!(time().await.used, 100);
    owner.add_spent(SpendKind::Tokens, 7).await.unwrap();
    let tokens = bench.store.ledger(plan_id(1)).await.unwrap().account(SpendKind::Tokens);
    assert_eq!((tokens.used, tokens.reserved), (7, 0));
    bench.pass(LEASE);
    bench.claim(request(BOB)).await.unwrap();
    let lost = LeaseLost { job: owner.claim.job, fence: owner.claim.fence };
    assert_eq!(owner.add_spent(SpendKind::Time, 1).await, Err(LedgerStoreError::Store(lost.into())));
}

pub(crate) async fn what_was_reserved_is_the_most_that_is_settled(bench: Bench) {
    let owner = bench.owner(1).await;
    limited(&bench, 1, 5).await;
    owner.reserve(spend(1, 5)).await.unwrap();
    assert_eq!(owner.settle(id(1), 50).await.unwrap().actual, Some(5));
    assert_eq!(account(&bench, 1).await, Account { max: Some(5), used: 5, reserved: 0 });
}

pub(crate) async fn a_spend_reserved_again_is_reserved_once(bench: Bench) {
    let owner = bench.owner(1).await;
    let first = owner.reserve(spend(1, 2)).await.unwrap();
    assert_eq!(owner.reserve(spend(1, 2)).await, Ok(first));
    assert_eq!(account(&bench, 1).await.reserved, 2);
    let settled = owner.settle(id(1), 1).await.unwrap();
    assert_eq!(owner.reserve(spend(1, 2)).await, Ok(settled), "also when it is settled");
    assert_eq!(account(&bench, 1).await, Account { max: None, used: 1, reserved: 0 });
    for other in [spend(1, 3), NewSpend { kind: SpendKind::Steps, ..spend(1, 2) }] {
        assert_eq!(owner.reserve(other).await, Err(LedgerStoreError::IdTaken { spend: id(1) }));
    }
    assert_eq!(account(&bench, 1).await, Account { max: None, used: 1, reserved: 0 });
}

pub(crate) async fn a_step_counts_once_in_its_attempt_whoever_runs_it(bench: Bench) {
    processing(&bench, 1, Phase::Execute).await;
    bench.pass(LEASE);
    for fence in [2, 3] {
        let owner = bench.as_owner(bench.claim(request(BOB)).await.unwrap().claim());
        assert_eq!(owner.claim.fence, Fence(fence));
        owner.begin_counted(new_call(1, "code"), CallCategory::Step).await.unwrap();
        bench.pass(LEASE);
    }
    let owner = bench.as_owner(bench.claim(request(BOB)).await.unwrap().claim());
    for other in [new_call(1, "code/1"), new_call(2, "code")] {
        owner.begin_counted(other, CallCategory::Step).await.unwrap();
    }
    let steps = bench.store.ledger(plan_id(1)).await.unwrap().account(SpendKind::Steps);
    assert_eq!(steps, Account { max: Some(Limits::STEPS), used: 3, reserved: 0 });
}

pub(crate) async fn settling_twice_is_once(bench: Bench) {
    let owner = bench.owner(1).await;
    owner.reserve(spend(1, 5)).await.unwrap();
    let first = owner.settle(id(1), 2).await;
    for again in [2, 5, 0] {
        assert_eq!(owner.settle(id(1), again).await, first);
    }
    assert_eq!(account(&bench, 1).await, Account { max: None, used: 2, reserved: 0 });
    let unknown = owner.settle(id(9), 1).await;
    assert_eq!(unknown, Err(LedgerStoreError::NotReserved { spend: id(9) }));
}

pub(crate) async fn a_limit_holds_before_anything_is_spent(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    limited(&bench, 1, 3).await;
    owner.reserve(spend(1, 1)).await.unwrap();
    owner.settle(id(1), 1).await.unwrap();
    owner.reserve(spend(2, 1)).await.unwrap();
    let before = bench.snapshot().await;
    assert_eq!(owner.reserve(spend(3, 2)).await, Err(reached(1, [3, 1, 1, 2])));
    assert_eq!(owner.reserve(spend(3, u64::MAX)).await, Err(reached(1, [3, 1, 1, u64::MAX])));
    assert_eq!(bench.snapshot().await, before, "refused is not begun");
    owner.reserve(spend(3, 1)).await.unwrap();
    // A spend that did not take place makes room again.
    owner.settle(id(3), 0).await.unwrap();
    owner.reserve(spend(4, 1)).await.unwrap();
}

pub(crate) async fn the_limit_of_a_day_holds_for_all_plans_and_for_forgotten_ones(bench: Bench) {
    let with_day = |n, max| NewSpend { day: Some(day(Some(max))), ..spend(n, 2) };
    let first = processing(&bench, 1, Phase::Execute).await;
    first.reserve(with_day(1, 5)).await.unwrap();
    let second = processing(&bench, 2, Phase::Execute).await;
    second.reserve(with_day(2, 5)).await.unwrap();
    let before = bench.snapshot().await;
    let full = |used, reserved| LimitReached {
        scope: LedgerScope::Day(day(None).day),
        kind: KIND,
        max: 5,
        used,
        reserved,
        asked: 2,
    };
    assert_eq!(second.reserve(with_day(3, 5)).await, Err(full(0, 4).into()));
    assert_eq!(bench.snapshot().await, before, "nothing is taken from the plan either");
    bench.store.cancel(first.claim.job, "enough").await.unwrap();
    first.end(JobEnd::Cancelled).await.unwrap();
    assert_eq!(bench.store.forget(vec![plan_id(1)]).await, Ok(vec![plan_id(1)]));
    assert_eq!(second.reserve(with_day(3, 5)).await, Err(full(2, 2).into()));
    second.reserve(with_day(3, 6)).await.unwrap();
    let of_day = bench.store.day_ledger(day(None).day).await.unwrap();
    assert_eq!(of_day[&KIND], Account { max: Some(6), used: 2, reserved: 4 });
}

pub(crate) async fn an_account_begins_with_what_its_plan_was_made_with(bench: Bench) {
    create(&bench, 1).await;
    let max = |kind| match kind {
        SpendKind::Time => 7_200_000,
        SpendKind::Steps => Limits::STEPS,
        SpendKind::ToolCalls => Limits::TOOL_CALLS,
        SpendKind::Tokens => Limits::TOKENS,
        SpendKind::Cost => Limits::COST,
    };
    let accounts = SpendKind::ALL.map(|kind| (kind, Account::with_limit(Some(max(kind)))));
    let expected = Ledger { accounts: BTreeMap::from(accounts), assumed: BTreeMap::new() };
    assert_eq!(bench.store.ledger(plan_id(1)).await, Ok(expected));
    assert_eq!(bench.store.ledger(STRANGER).await, Ok(Ledger::default()));
    assert_eq!(bench.store.spends(STRANGER).await, Ok(Vec::new()));
    bench.enqueue(new_job(2)).await;
    assert_eq!(bench.store.ledger(plan_id(2)).await, Ok(Ledger::default()), "a plan that is kept elsewhere");
}

pub(crate) async fn limits_are_set_together_and_never_below_what_is_taken(bench: Bench) {
    let owner = processing(&bench, 1, Phase::Execute).await;
    owner.reserve(spend(1, 2)).await.unwrap();
    owner.settle(id(1), 2).await.unwrap();
    owner.reserve(spend(2, 1)).await.unwrap();
    let before = bench.store.ledger(plan_id(1)).await;
    let set = |limits| bench.store.set_limits(plan_id(1), limits);
    let too_low = set(vec![(SpendKind::Steps, Some(1)), (KIND, Some(2))]).await;
    assert_eq!(too_low, Err(LimitTooLow { kind: KIND, max: 2, taken: 3 }.into()));
    assert_eq!(bench.store.ledger(plan_id(1)).await, before, "none of them is set");
    let ledger = set(vec![(SpendKind::Steps, None), (KIND, Some(3))]).await.unwrap();
    assert_eq!(ledger.account(KIND), Account { max: Some(3), used: 2, reserved: 1 });
    assert_eq!(ledger.account(SpendKind::Steps), Account::with_limit(None));
    assert_eq!(bench.store.ledger(plan_id(1)).await, Ok(ledger));
    assert_eq!(owner.reserve(spend(3, 1)).await, Err(reached(1, [3, 2, 1, 1])));
    set(vec![(KIND, None)]).await.unwrap();
    owner.reserve(spend(3, u64::from(u32::MAX))).await.unwrap();
    let nobodys = bench.store.set_limits(STRANGER, vec![(KIND, Some(9))]).await;
    assert_eq!(nobodys, Err(LedgerStoreError::NotFound { plan: STRANGER }));
}

pub(crate) async fn a_takeover_settles_what_the_dead_owner_left_as_assumed(bench: Bench) {
    let dead = processing(&bench, 1, Phase::Execute).await;
    let left = dead.reserve(NewSpend { day: Some(day(None)), ..spend(1, 4) }).await.unwrap();
    dead.reserve(spend(2, 3)).await.unwrap();
    dead.settle(id(2), 1).await.unwrap();
    bench.pass(LEASE);
    let heir = bench.as_owner(bench.claim(request(BOB)).await.unwrap().claim());
    let spends = bench.store.spends(plan_id(1)).await.unwrap();
    assert_eq!(spends[0], Spend { actual: Some(4), assumed: true, ..left });
    assert_eq!((spends[1].actual, spends[1].assumed), (Some(1), false), "what was told stays");
    let ledger = bench.store.ledger(plan_id(1)).await.unwrap();
    assert_eq!(ledger.account(KIND), Account { max: Some(Limits::TOOL_CALLS), used: 5, reserved: 0 });
    assert_eq!(ledger.assumed, BTreeMap::from([(KIND, 4)]));
    let of_day = bench.store.day_ledger(day(None).day).await.unwrap();
    assert_eq!(of_day[&KIND], Account { max: None, used: 4, reserved: 0 });
    // It comes too late for both.
    let lost = LeaseLost { job: dead.claim.job, fence: Fence(1) };
    assert_eq!(dead.settle(id(1), 0).await, Err(LedgerStoreError::Store(lost.into())));
    assert_eq!(heir.settle(id(1), 0).await.map(|spend| spend.actual), Ok(Some(4)));
}

pub(crate) async fn no_reserve_outlives_its_owner(bench: Bench) {
    async fn cancelled(owner: &Owner, bench: &Bench) {
        bench.store.cancel(owner.claim.job, "enough").await.unwrap();
        owner.end(JobEnd::Cancelled).await.unwrap();
    }
    for end in 0..3 {
        let bench = bench.another();
        let owner = bench.owner(1).await;
        owner.reserve(spend(1, 4)).await.unwrap();
        match end {
            0 => drop(owner.release().await.unwrap()),
            1 => drop(owner.end(failed()).await.unwrap()),
            _ => cancelled(&owner, &bench).await,
        }
        let left = only_spend(&bench, 1).await;
        assert_eq!((left.actual, left.assumed), (Some(4), true), "{end}");
        assert_eq!(account(&bench, 1).await, Account { max: None, used: 4, reserved: 0 });
    }
    // A heartbeat and a request to cancel leave the owner its own.
    let owner = bench.owner(2).await;
    owner.reserve(spend(1, 4)).await.unwrap();
    owner.heartbeat().await.unwrap();
    bench.store.cancel(owner.claim.job, "enough").await.unwrap();
    assert_eq!(account(&bench, 2).await.reserved, 4);
    assert_eq!(
        owner.settle_late(id(1), 1).await.map(|spend| spend.actual),
        Ok(Some(1)),
        "by its finisher too"
    );
}

pub(crate) async fn of_twenty_who_reserve_at_once_none_goes_above_the_limit(bench: Bench) {
    const THREADS: usize = 20;
    for round in 1..=10 {
        let owner = bench.owner(round).await;
        limited(&bench, round, 7).await;
        let granted = bench.on_threads(THREADS, |thread| {
            let owner = owner.clone();
            async move {
                let mut granted = 0;
                for n in 0..5 {
                    let name = thread as u64 * 100 + n;
                    match owner.reserve(spend(name, 2)).await {
                        Ok(_) => {
                            granted += 1;
                            // Every third did not take place, so others get room while this goes on.
                            owner.settle(id(name), if name.is_multiple_of(3) { 0 } else { 2 }).await.unwrap();
                        }
                        Err(LedgerStoreError::Limit(full)) => {
                            assert!(full.used + full.reserved <= 7 && full.used + full.reserved + 2 > 7);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                granted
            }
        });
        let spends = bench.store.spends(plan_id(round)).await.unwrap();
        assert_eq!(spends.len(), granted.iter().sum::<usize>());
        let used = spends.iter().filter_map(|spend| spend.actual).sum();
        let end = account(&bench, round).await;
        assert_eq!(end, Account { max: Some(7), used, reserved: 0 });
        assert!(used <= 7);
    }
}

pub(crate) async fn one_spend_reserved_and_settled_by_eight_counts_once(bench: Bench) {
    for round in 1..=20 {
        let owner = bench.owner(round).await;
        bench.on_threads(8, |thread| {
            let owner = owner.clone();
            async move {
                owner.reserve(spend(1, 3)).await.unwrap();
                owner.settle(id(1), thread as u64 % 3 + 1).await.unwrap()
            }
        });
        let settled = only_spend(&bench, round).await.actual.unwrap();
        assert_eq!(account(&bench, round).await, Account { max: None, used: settled, reserved: 0 });
    }
}
