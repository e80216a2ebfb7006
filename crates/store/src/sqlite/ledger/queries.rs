//! The rows of accounts and spends.

use std::collections::BTreeMap;

use domain::{Account, Day, PlanId, Spend, SpendId, SpendKind};
use rusqlite::types::Type;
use rusqlite::{Row, params};

use crate::StoreError;
use crate::sqlite::columns::{SqlText, bytes_id, fence, number, parsed, signed, word};
use crate::sqlite::plan_heads::PlanHead;
use crate::sqlite::transaction::Tx;

macro_rules! select_spends {
    ($rest:literal) => {
        concat!(
            "SELECT id, job, fence, kind, model, day, reserved, actual, assumed FROM spends WHERE head = ?1 ",
            $rest
        )
    };
}

fn spend(row: &Row<'_>, plan: PlanId) -> rusqlite::Result<Spend> {
    let day = match row.get_ref(5)?.data_type() {
        Type::Null => None,
        Type::Text | Type::Integer | Type::Real | Type::Blob => Some(parsed(row, 5)?),
    };
    Ok(Spend {
        id: SpendId::from_u128(bytes_id(row, 0)?),
        plan,
        job: parsed(row, 1)?,
        fence: fence(row, 2)?,
        kind: word(row, 3, SpendKind::parse)?,
        model: row.get(4)?,
        day,
        reserved: number(row, 6)?,
        actual: optional(row, 7)?,
        assumed: row.get(8)?,
    })
}

fn optional(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    match row.get::<_, Option<i64>>(column)? {
        None => Ok(None),
        Some(_) => number(row, column).map(Some),
    }
}

/// An account, in the columns from `first` on.
fn account(row: &Row<'_>, first: usize) -> rusqlite::Result<Account> {
    Ok(Account {
        max: optional(row, first)?,
        used: number(row, first + 1)?,
        reserved: number(row, first + 2)?,
    })
}

pub(super) fn find(
    tx: &Tx<'_>,
    head: PlanHead,
    plan: PlanId,
    id: SpendId,
) -> Result<Option<Spend>, StoreError> {
    let params = (head.0, id.as_u128().to_be_bytes());
    tx.one(select_spends!("AND id = ?2"), params, |row| spend(row, plan))
}

/// Those that are not settled.
pub(super) fn open(tx: &Tx<'_>, head: PlanHead, plan: PlanId) -> Result<Vec<Spend>, StoreError> {
    tx.all(select_spends!("AND actual IS NULL"), [head.0], |row| spend(row, plan))
}

pub(super) fn all(tx: &Tx<'_>, head: PlanHead, plan: PlanId) -> Result<Vec<Spend>, StoreError> {
    tx.all(select_spends!("ORDER BY id"), [head.0], |row| spend(row, plan))
}

pub(super) fn insert(tx: &Tx<'_>, head: PlanHead, spend: &Spend) -> Result<(), StoreError> {
    tx.run(
        "INSERT INTO spends (head, id, job, fence, kind, model, day, reserved) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            head.0,
            spend.id.as_u128().to_be_bytes(),
            SqlText(spend.job),
            signed(spend.fence.0),
            spend.kind.as_str(),
            spend.model,
            spend.day.map(SqlText),
            signed(spend.reserved),
        ],
    )?;
    Ok(())
}

/// Stores the settlement of a spend.
pub(super) fn save(tx: &Tx<'_>, head: PlanHead, spend: &Spend) -> Result<(), StoreError> {
    tx.run(
        "UPDATE spends SET actual = ?3, assumed = ?4 WHERE head = ?1 AND id = ?2",
        params![head.0, spend.id.as_u128().to_be_bytes(), spend.actual.map(signed), spend.assumed],
    )?;
    Ok(())
}

pub(super) fn of_plan(tx: &Tx<'_>, head: PlanHead, kind: SpendKind) -> Result<Option<Account>, StoreError> {
    let own = "SELECT max, used, reserved FROM plan_accounts WHERE head = ?1 AND kind = ?2";
    tx.one(own, (head.0, kind.as_str()), |row| account(row, 0))
}

/// Counts one as used in an account that is there and has room; false when it is not, or has none.
pub(super) fn count(tx: &Tx<'_>, head: PlanHead, kind: SpendKind) -> Result<bool, StoreError> {
    let one_more = "UPDATE plan_accounts SET used = used + 1
                    WHERE head = ?1 AND kind = ?2 AND used + reserved < coalesce(max, 9223372036854775807)";
    Ok(tx.run(one_more, (head.0, kind.as_str()))? > 0)
}

pub(super) fn all_of_plan(tx: &Tx<'_>, head: PlanHead) -> Result<BTreeMap<SpendKind, Account>, StoreError> {
    let own = "SELECT kind, max, used, reserved FROM plan_accounts WHERE head = ?1";
    let rows = tx.all(own, [head.0], |row| Ok((word(row, 0, SpendKind::parse)?, account(row, 1)?)))?;
    Ok(rows.into_iter().collect())
}

pub(super) fn save_plan(
    tx: &Tx<'_>,
    head: PlanHead,
    kind: SpendKind,
    account: Account,
) -> Result<(), StoreError> {
    tx.run(
        "INSERT INTO plan_accounts (head, kind, max, used, reserved) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (head, kind) DO UPDATE SET max = ?3, used = ?4, reserved = ?5",
        (head.0, kind.as_str(), account.max.map(signed), signed(account.used), signed(account.reserved)),
    )?;
    Ok(())
}

pub(super) fn of_day(tx: &Tx<'_>, day: Day, kind: SpendKind) -> Result<Option<Account>, StoreError> {
    let of_day = "SELECT max, used, reserved FROM day_accounts WHERE day = ?1 AND kind = ?2";
    tx.one(of_day, (SqlText(day), kind.as_str()), |row| account(row, 0))
}

pub(super) fn all_of_day(tx: &Tx<'_>, day: Day) -> Result<BTreeMap<SpendKind, Account>, StoreError> {
    let of_day = "SELECT kind, max, used, reserved FROM day_accounts WHERE day = ?1";
    let rows =
        tx.all(of_day, [SqlText(day)], |row| Ok((word(row, 0, SpendKind::parse)?, account(row, 1)?)))?;
    Ok(rows.into_iter().collect())
}

pub(super) fn save_day(tx: &Tx<'_>, day: Day, kind: SpendKind, account: Account) -> Result<(), StoreError> {
    tx.run(
        "INSERT INTO day_accounts (day, kind, max, used, reserved) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (day, kind) DO UPDATE SET max = ?3, used = ?4, reserved = ?5",
        (
            SqlText(day),
            kind.as_str(),
            account.max.map(signed),
            signed(account.used),
            signed(account.reserved),
        ),
    )?;
    Ok(())
}

/// Returns what was assumed, by kind.
pub(super) fn sum_assumed(tx: &Tx<'_>, head: PlanHead) -> Result<BTreeMap<SpendKind, u64>, StoreError> {
    let sums = "SELECT kind, sum(actual) FROM spends WHERE head = ?1 AND assumed GROUP BY kind";
    let rows = tx.all(sums, [head.0], |row| Ok((word(row, 0, SpendKind::parse)?, number(row, 1)?)))?;
    Ok(rows.into_iter().collect())
}
