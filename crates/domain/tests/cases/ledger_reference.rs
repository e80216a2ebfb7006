//! The accounts of a plan against a model that keeps a list and adds it up each time, over random histories.

use domain::*;
use proptest::prelude::*;
use proptest::strategy::Strategy;

use crate::sample::{ANN, BOB, BOOT, LEASE, new_job};

const KIND: SpendKind = SpendKind::ToolCalls;

#[derive(Clone, Debug)]
enum Act {
    Reserve {
        id: u8,
        amount: u64,
    },
    Settle {
        id: u8,
        actual: u64,
    },
    /// By the owner before the last one.
    LateSettle {
        id: u8,
        actual: u64,
    },
    TakeOver,
    SetLimit(Option<u64>),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6_u8, 0..5_u64).prop_map(|(id, amount)| Act::Reserve { id, amount }),
        4 => (0..6_u8, 0..7_u64).prop_map(|(id, actual)| Act::Settle { id, actual }),
        1 => (0..6_u8, 0..7_u64).prop_map(|(id, actual)| Act::LateSettle { id, actual }),
        1 => Just(Act::TakeOver),
        1 => proptest::option::of(0..12_u64).prop_map(Act::SetLimit),
    ]
}

/// The reserved amounts, and what they came to; nothing is stored that could be added up.
#[derive(Default)]
struct Model {
    spends: Vec<(u8, u64, Option<u64>)>,
    max: Option<u64>,
}

impl Model {
    fn used(&self) -> u64 {
        self.spends.iter().filter_map(|(_, _, actual)| *actual).sum()
    }

    fn reserved(&self) -> u64 {
        self.spends.iter().filter(|(_, _, actual)| actual.is_none()).map(|(_, amount, _)| amount).sum()
    }

    fn reserve(&mut self, id: u8, amount: u64) -> &'static str {
        if let Some((_, known, _)) = self.spends.iter().find(|(known, ..)| *known == id) {
            return if *known == amount { "known" } else { "taken" };
        }
        if self.max.is_some_and(|max| self.used() + self.reserved() + amount > max) {
            return "limit";
        }
        self.spends.push((id, amount, None));
        "new"
    }

    fn settle(&mut self, id: u8, actual: u64) {
        if let Some((_, amount, open @ None)) = self.spends.iter_mut().find(|(known, ..)| *known == id) {
            *open = Some(actual.min(*amount));
        }
    }
}

fn spend(id: u8) -> SpendId {
    SpendId::from_u128(id.into())
}

fn new_spend(id: u8, amount: u64) -> NewSpend {
    NewSpend::new(spend(id), KIND, amount)
}

proptest! {
    #[test]
    fn the_accounts_are_what_the_spends_add_up_to_and_never_above_the_limit(
        acts in proptest::collection::vec(act(), 0..60),
    ) {
        let mut record = PlanRecord::default();
        let new = new_job(Phase::Execute);
        record.enqueue(new, Ms(0)).unwrap();
        let first = JobEvent::Claim { worker: ANN, boot: BOOT, lease: LEASE };
        let mut claim = record.apply_job_event(new.id, &first, Ms(0)).unwrap().claim();
        let mut late = Claim { fence: Fence::NONE, ..claim };
        let mut model = Model::default();
        let mut now = Ms(0);
        for act in acts {
            match act {
                Act::Reserve { id, amount } => {
                    let answer = match record.reserve(&claim, new_spend(id, amount), None) {
                        Ok(_) => "reserved",
                        Err(ReserveError::Limit(_)) => "limit",
                        Err(ReserveError::IdTaken { .. }) => "taken",
                        Err(ReserveError::LeaseLost(_)) => "lost",
                    };
                    let expected = model.reserve(id, amount);
                    let is_there = matches!(expected, "new" | "known");
                    prop_assert_eq!(answer, if is_there { "reserved" } else { expected });
                }
                Act::Settle { id, actual } => {
                    record.settle(&claim, spend(id), actual).unwrap();
                    model.settle(id, actual);
                }
                Act::LateSettle { id, actual } => {
                    prop_assert!(record.settle(&late, spend(id), actual).is_err());
                }
                Act::TakeOver => {
                    now = now.saturating_add(LEASE);
                    let event = JobEvent::TakeOver { worker: BOB, boot: BOOT, lease: LEASE };
                    late = claim;
                    claim = record.apply_job_event(new.id, &event, now).unwrap().claim();
                    // It got a node done, so it is not given up however often it loses its owner.
                    let settled = JobEvent::SettledNode { fence: claim.fence };
                    record.apply_job_event(new.id, &settled, now).unwrap();
                    model.spends.iter_mut().for_each(|(_, amount, actual)| *actual = actual.or(Some(*amount)));
                }
                Act::SetLimit(max) => {
                    let is_low = max.is_some_and(|max| max < model.used() + model.reserved());
                    prop_assert_eq!(record.set_limits(&[(KIND, max)]).is_err(), is_low);
                    model.max = if is_low { model.max } else { max };
                }
            }
            let account = record.ledger().account(KIND);
            let expected = Account { max: model.max, used: model.used(), reserved: model.reserved() };
            prop_assert_eq!(account, expected);
            prop_assert!(model.max.is_none_or(|max| account.taken() <= max));
        }
    }
}

#[test]
fn a_reserve_that_one_account_refuses_is_taken_from_none() {
    let plan = LedgerScope::Plan(PlanId::from_u128(1));
    let day = LedgerScope::Day(Day::from_wall(WallMs(0)));
    let accounts = |left: u64| {
        [(plan, Account::with_limit(Some(9))), (day, Account { max: Some(9), used: 9 - left, reserved: 0 })]
    };
    let both = reserve_in(&accounts(2), KIND, 2).unwrap();
    assert_eq!(both.iter().map(|(_, account)| account.reserved).collect::<Vec<_>>(), [2, 2]);
    let refused = reserve_in(&accounts(1), KIND, 2).unwrap_err();
    assert_eq!((refused.scope, refused.max, refused.used, refused.asked), (day, 9, 8, 2));
    // A number that does not fit is refused, also where there is no limit.
    let full =
        reserve_in(&[(plan, Account { max: None, used: 2, reserved: 0 })], KIND, u64::MAX).unwrap_err();
    assert_eq!((full.scope, full.used), (plan, 2));
}

#[test]
fn the_details_of_a_limit_name_it_and_so_does_the_command() {
    let plan = PlanId::from_u128(1);
    let reached = LimitReached {
        scope: LedgerScope::Plan(plan),
        kind: SpendKind::Steps,
        max: 2,
        used: 2,
        reserved: 0,
        asked: 1,
    };
    assert_eq!(LimitReached::kind_in(&reached.detail()), Some(SpendKind::Steps));
    assert_eq!(LimitReached::kind_in(&Detail::new()), None);
    let step = StepId { attempt: 1, node: "code".to_owned(), visit: 1 };
    let error = NewError::new(
        ErrorId::from_u128(1),
        Phase::Execute,
        step,
        ErrorCategory::Budget,
        reached.to_string(),
    )
    .with_detail(reached.detail());
    let recovery = ErrorHistory::new(plan).record(&RecoveryPolicy::default(), error, Ms(0), 0);
    assert_eq!(recovery.action, RecoveryAction::Ask);
    assert_eq!(recovery.command, format!("agents plan resume {plan} --limit steps=…"));
}
