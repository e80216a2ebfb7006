//! The ledger of a plan: its limits, the amounts that it used, and the amounts that it reserved.
//!
//! A caller that is about to spend something reserves the most that it can come to, in every account that it
//! counts against. It settles the spend afterwards with the actual amount. So a limit holds before anything
//! is spent, however many spend at once. Calls and steps cost one each for certain: they are counted as used
//! in the step that admits them, without a spend. Time is only added up: one run at a time works on a plan,
//! and it stops when the rest has passed.
//!
//! # Invariants
//! 1. A reserve never takes `used + reserved` of an account above its `max`; one that is refused changes no
//!    account.
//! 2. A spend is settled once. A repeated or late settlement changes nothing.
//! 3. A spend is settled with at most the amount that was reserved, so settling never takes an account above
//!    its `max` either.
//! 4. `reserved` of an account is the sum of its spends that are not settled. `used` is the sum of the
//!    settled ones and of all that was counted.
//! 5. A spend whose owner is gone is settled by [`SpendSettlement::Assumed`] and marked so, because the
//!    actual amount is unknown.
//!
//! # Not here
//! Locks and rows: the caller makes reading, these functions and writing one atomic step. Prices: the crate
//! `actors`.

mod day;
mod limits;
mod plan_ledger;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use day::Day;
pub use limits::Limits;
pub use plan_ledger::PlanLedger;

use crate::failure::ErrorClass;
use crate::failure::detail::Detail;
use crate::id::{Claim, Fence, JobId, PlanId, SpendId};
use crate::money;

/// Under this key the details of an error name the limit that was reached.
pub const LIMIT_KEY: &str = "limit";

/// The kind of a spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpendKind {
    /// Milliseconds in which the plan is worked on. The time of a run whose process died is unknown and
    /// counts for nothing.
    Time,
    /// Node paths of an attempt; to try one again is none.
    Steps,
    /// Calls of tools, also those that try again.
    ToolCalls,
    /// Tokens that models read and wrote.
    Tokens,
    /// Millionths of a dollar.
    Cost,
}

impl SpendKind {
    /// All of them.
    pub const ALL: [SpendKind; 5] =
        [SpendKind::Time, SpendKind::Steps, SpendKind::ToolCalls, SpendKind::Tokens, SpendKind::Cost];

    /// Its name, as typed, stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            SpendKind::Time => "time",
            SpendKind::Steps => "steps",
            SpendKind::ToolCalls => "tool_calls",
            SpendKind::Tokens => "tokens",
            SpendKind::Cost => "cost",
        }
    }

    /// The kind with this name.
    pub fn parse(word: &str) -> Option<SpendKind> {
        SpendKind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// A count of it, as people read it.
    fn count(self, count: u64) -> String {
        match self {
            SpendKind::Cost => money::format_dollars(count),
            SpendKind::Time | SpendKind::Steps | SpendKind::ToolCalls | SpendKind::Tokens => {
                count.to_string()
            }
        }
    }

    /// The noun for the counted thing, for a sentence: the count comes before it.
    const fn noun(self) -> &'static str {
        match self {
            SpendKind::Time => "milliseconds of work",
            SpendKind::Steps => "steps",
            SpendKind::ToolCalls => "tool calls",
            SpendKind::Tokens => "tokens",
            SpendKind::Cost => "dollars",
        }
    }
}

impl fmt::Display for SpendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The owner of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LedgerScope {
    /// All that one plan spends.
    Plan(PlanId),
    /// All that every plan spends on one day.
    Day(Day),
}

impl fmt::Display for LedgerScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LedgerScope::Plan(plan) => write!(f, "plan:{plan}"),
            LedgerScope::Day(day) => write!(f, "day:{day}"),
        }
    }
}

/// One account: a limit, and how much of it is taken.
///
/// ```
/// use domain::Account;
///
/// let account = Account { max: Some(3), used: 1, reserved: 1 };
/// assert_eq!(account.with_reserved(1), Some(Account { max: Some(3), used: 1, reserved: 2 }));
/// assert_eq!(account.with_reserved(2), None);
/// assert_eq!(account.with_settled(1, 0), Account { max: Some(3), used: 1, reserved: 0 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The limit; 0 forbids, none lifts it.
    pub max: Option<u64>,
    /// The amount that was spent.
    pub used: u64,
    /// The amount that is reserved by spends that are under way.
    pub reserved: u64,
}

impl Account {
    /// An account that nothing was taken from.
    pub const fn with_limit(max: Option<u64>) -> Account {
        Account { max, used: 0, reserved: 0 }
    }

    /// All that is taken from it.
    pub const fn taken(self) -> u64 {
        self.used.saturating_add(self.reserved)
    }

    /// With so much more reserved; `None` if that does not fit.
    #[must_use]
    pub fn with_reserved(self, asked: u64) -> Option<Account> {
        let taken = self.used.checked_add(self.reserved)?.checked_add(asked)?;
        let fits = self.max.is_none_or(|max| taken <= max);
        fits.then_some(Account { reserved: self.reserved.saturating_add(asked), ..self })
    }

    /// With a reserve replaced by what it came to.
    #[must_use]
    pub fn with_settled(self, reserved: u64, actual: u64) -> Account {
        Account {
            max: self.max,
            used: self.used.saturating_add(actual.min(reserved)),
            reserved: self.reserved.saturating_sub(reserved),
        }
    }

    /// With so much more used, at most up to the limit: for what has taken place and cannot be refused.
    #[must_use]
    pub fn with_used(self, amount: u64) -> Account {
        let used = self.used.saturating_add(amount);
        Account { used: self.max.map_or(used, |max| used.min(max.max(self.used))), ..self }
    }

    /// With another limit.
    ///
    /// # Errors
    /// Returns an error if more is taken already.
    pub fn with_max(self, kind: SpendKind, max: Option<u64>) -> Result<Account, LimitTooLow> {
        match max {
            Some(max) if max < self.taken() => Err(LimitTooLow { kind, max, taken: self.taken() }),
            Some(_) | None => Ok(Account { max, ..self }),
        }
    }
}

/// A limit that says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentence(self))]
pub struct LimitReached {
    /// The scope of the limit.
    pub scope: LedgerScope,
    /// Of what.
    pub kind: SpendKind,
    /// The limit.
    pub max: u64,
    /// The amount that was spent.
    pub used: u64,
    /// The amount that other spends have reserved.
    pub reserved: u64,
    /// The amount that was asked for.
    pub asked: u64,
}

fn sentence(reached: &LimitReached) -> String {
    let LimitReached { scope, kind, max, used, reserved, asked } = *reached;
    if kind == SpendKind::Time {
        return format!(
            "the plan has worked as long as it may: {} s of {} s (time)",
            used / 1_000,
            max / 1_000
        );
    }
    let whose = match scope {
        LedgerScope::Plan(_) => "the plan".to_owned(),
        LedgerScope::Day(day) => format!("the day {day}"),
    };
    let [max, used, under_way, asked] = [max, used, reserved, asked].map(|count| kind.count(count));
    let under_way = if reserved == 0 { String::new() } else { format!(" and {under_way} under way") };
    format!(
        "{whose} has a limit of {max} {} ({kind}): {used} used{under_way}, {asked} more asked for",
        kind.noun()
    )
}

impl LimitReached {
    /// The same as the details of an error.
    pub fn detail(&self) -> Detail {
        let LimitReached { scope, kind, max, used, reserved, asked } = *self;
        Detail::from([
            (LIMIT_KEY.to_owned(), kind.as_str().into()),
            ("scope".to_owned(), scope.to_string().into()),
            ("max".to_owned(), max.into()),
            ("used".to_owned(), used.into()),
            ("reserved".to_owned(), reserved.into()),
            ("asked".to_owned(), asked.into()),
        ])
    }

    /// The kind that the details of an error name; `None` if it is about no limit.
    pub fn kind_in(detail: &Detail) -> Option<SpendKind> {
        detail.get(LIMIT_KEY).and_then(|name| name.as_str()).and_then(SpendKind::parse)
    }

    /// Returns the class of the error: nothing changes by trying again.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Permanent
    }
}

/// A limit below what is taken already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a limit of {} {} is below the {} that are used already", kind.count(*max), kind.noun(), kind.count(*taken))]
pub struct LimitTooLow {
    /// Of what.
    pub kind: SpendKind,
    /// The limit that was asked for.
    pub max: u64,
    /// The amount that is used or reserved.
    pub taken: u64,
}

/// The account of a day that a spend counts against too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayLimit {
    /// The day.
    pub day: Day,
    /// The limit of all plans together on that day, as it is set now.
    pub max: Option<u64>,
}

/// Something that is about to be spent, named by its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSpend {
    /// Reserving the same id again reserves it once.
    pub id: SpendId,
    /// The kind of the spend.
    pub kind: SpendKind,
    /// The most that it can come to.
    pub amount: u64,
    /// The model, where there is one.
    pub model: Option<String>,
    /// The day, where that is limited.
    pub day: Option<DayLimit>,
}

impl NewSpend {
    /// So much of a kind, against the plan's account alone.
    pub fn new(id: SpendId, kind: SpendKind, amount: u64) -> NewSpend {
        NewSpend { id, kind, amount, model: None, day: None }
    }
}

/// The accounts in which an admitted call counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallCategory {
    /// A call, and with the first call of its node in the attempt also a step.
    Step,
    /// A call that is no step of the plan, as a check is.
    Call,
    /// No call of a tool: a question to a model. With the first of its node in the attempt a step begins.
    Turn,
}

impl CallCategory {
    /// The accounts that it counts in; `is_first` when a step begins with it.
    pub const fn accounts(self, is_first: bool) -> &'static [SpendKind] {
        match (self, is_first) {
            (CallCategory::Step, true) => &[SpendKind::ToolCalls, SpendKind::Steps],
            (CallCategory::Step, false) | (CallCategory::Call, _) => &[SpendKind::ToolCalls],
            (CallCategory::Turn, true) => &[SpendKind::Steps],
            (CallCategory::Turn, false) => &[],
        }
    }
}

/// A stored spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    /// Its name.
    pub id: SpendId,
    /// The plan that spends.
    pub plan: PlanId,
    /// The job that it was reserved under.
    pub job: JobId,
    /// The owner that reserved it.
    pub fence: Fence,
    /// The kind of the spend.
    pub kind: SpendKind,
    /// The model, where there is one.
    pub model: Option<String>,
    /// The day that it counts against too.
    pub day: Option<Day>,
    /// The most that it can come to.
    pub reserved: u64,
    /// The actual amount; `None` while the spend is under way.
    pub actual: Option<u64>,
    /// True if the actual amount is only the reserved one, because it was never reported.
    pub assumed: bool,
}

impl Spend {
    /// Returns what `claim` is about to spend.
    pub fn new(claim: &Claim, new: NewSpend) -> Spend {
        let NewSpend { id, kind, amount, model, day } = new;
        let Claim { plan, job, fence } = *claim;
        let day = day.map(|limit| limit.day);
        Spend { id, plan, job, fence, kind, model, day, reserved: amount, actual: None, assumed: false }
    }

    /// Returns whether `new` asked for this spend, under any owner.
    pub fn was_made_by(&self, new: &NewSpend) -> bool {
        self.id == new.id && self.kind == new.kind && self.reserved == new.amount && self.model == new.model
    }

    /// Settled with what it came to; `None` if it is settled already.
    #[must_use]
    pub fn settle(&self, how: SpendSettlement) -> Option<Spend> {
        let (actual, assumed) = match how {
            SpendSettlement::Actual(actual) => (actual.min(self.reserved), false),
            SpendSettlement::Assumed => (self.reserved, true),
        };
        let is_open = self.actual.is_none();
        is_open.then(|| Spend { actual: Some(actual), assumed, ..self.clone() })
    }

    /// Returns what it takes from an account from its reserve to its settled end.
    pub fn settles(&self, account: Account) -> Account {
        account.with_settled(self.reserved, self.actual.unwrap_or(self.reserved))
    }
}

/// The settlement of a spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendSettlement {
    /// It is known; 0 for what did not take place.
    Actual(u64),
    /// The actual amount is unknown: the reserved one is assumed.
    Assumed,
}

/// Reserves in all accounts, or in none.
///
/// # Errors
/// Returns the first account, in the order given, into which `asked` does not fit.
pub fn reserve_in(
    accounts: &[(LedgerScope, Account)],
    kind: SpendKind,
    asked: u64,
) -> Result<Vec<(LedgerScope, Account)>, LimitReached> {
    let reserved = |(scope, account): &(LedgerScope, Account)| {
        let Account { max, used, reserved } = *account;
        // An account without a limit is full when the number is; such a one has the largest for its limit.
        let max = max.unwrap_or(u64::MAX);
        let full = LimitReached { scope: *scope, kind, max, used, reserved, asked };
        Ok((*scope, account.with_reserved(asked).ok_or(full)?))
    };
    accounts.iter().map(reserved).collect()
}

/// The account with one more used.
///
/// # Errors
/// Returns an error if one more does not fit.
pub fn count_in(scope: LedgerScope, account: Account, kind: SpendKind) -> Result<Account, LimitReached> {
    let reserved = reserve_in(&[(scope, account)], kind, 1)?;
    Ok(reserved.first().map_or(account, |(_, reserved)| reserved.with_settled(1, 1)))
}

/// The present accounts of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// One for each kind that is limited or was spent.
    pub accounts: BTreeMap<SpendKind, Account>,
    /// The part of the used amounts that was assumed because it was never reported.
    pub assumed: BTreeMap<SpendKind, u64>,
}

impl Ledger {
    /// The accounts that are limited or were used.
    pub fn from_accounts(account: impl Fn(SpendKind) -> Account) -> Ledger {
        let accounts = SpendKind::ALL.into_iter().map(|kind| (kind, account(kind)));
        let accounts = accounts.filter(|(_, account)| account.max.is_some() || account.taken() > 0);
        Ledger { accounts: accounts.collect(), assumed: BTreeMap::new() }
    }

    /// The account of this kind.
    pub fn account(&self, kind: SpendKind) -> Account {
        self.accounts.get(&kind).copied().unwrap_or_default()
    }
}
