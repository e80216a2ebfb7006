//! The footprints of plans: for each plan one record with all that a forecast of conflicts needs.
//!
//! # Invariants
//! 1. A footprint of another attempt, or of fewer entries, is returned as none.
//! 2. Plans that changed nothing, or came to their end, are not looked at: the triggers of `schema` maintain
//!    the list.

use std::collections::BTreeMap;

use domain::{PlanId, PlanState};
use rusqlite::Row;
use serde_json::json;

use crate::sqlite::columns::{SqlText, count, from_json, number, parsed, signed};
use crate::sqlite::transaction::Tx;
use crate::{ChangedPlan, StoreError};

macro_rules! select_changed {
    ($rest:literal) => {
        concat!(
            "SELECT f.plan, p.projects, p.attempt, h.entries,
                    CASE WHEN f.attempt = p.attempt AND f.entries = h.entries THEN f.bytes END
             FROM footprints f
             CROSS JOIN plans p ON p.head = f.head
             CROSS JOIN plan_heads h ON h.no = f.head ",
            $rest
        )
    };
}

fn changed_plan(row: &Row<'_>) -> rusqlite::Result<ChangedPlan> {
    Ok(ChangedPlan {
        plan: parsed(row, 0)?,
        projects: from_json(row, 1)?,
        attempt: row.get(2)?,
        entries: number(row, 3)?,
        footprint: row.get(4)?,
    })
}

pub(super) fn list_changed_plans(
    tx: &Tx<'_>,
    states: &[PlanState],
    plans_max: usize,
) -> Result<(Vec<ChangedPlan>, usize), StoreError> {
    let words: Vec<String> =
        states.iter().map(|state| format!("{}/{}", state.phase().as_str(), state.word())).collect();
    let limit = i64::try_from(plans_max).unwrap_or(i64::MAX);
    let found = tx.all(
        select_changed!(
            "WHERE f.is_open = 1 AND p.phase || '/' || p.state IN (SELECT value FROM json_each(?1))
             ORDER BY f.plan DESC LIMIT ?2"
        ),
        (json!(words).to_string(), limit),
        changed_plan,
    )?;
    let more = if found.len() < plans_max {
        0
    } else {
        tx.the("SELECT count(*) FROM footprints WHERE is_open = 1", [], |row| count(row, 0))?
    };
    let more = more.saturating_sub(found.len());
    Ok((found, more))
}

pub(super) fn of_plan(tx: &Tx<'_>, plan: PlanId) -> Result<Option<ChangedPlan>, StoreError> {
    tx.one(
        select_changed!("WHERE f.head = (SELECT no FROM plan_heads WHERE plan = ?1)"),
        [SqlText(plan)],
        changed_plan,
    )
}

pub(super) fn keep(
    tx: &Tx<'_>,
    plan: PlanId,
    (attempt, entries): (u32, u64),
    files: usize,
    bytes: &[u8],
) -> Result<(), StoreError> {
    tx.run(
        "UPDATE footprints SET attempt = ?2, entries = ?3, files = ?4, bytes = ?5
         WHERE is_open = 1 AND head = (SELECT no FROM plan_heads WHERE plan = ?1)",
        (SqlText(plan), attempt, signed(entries), i64::try_from(files).unwrap_or(i64::MAX), bytes),
    )?;
    Ok(())
}

pub(super) fn files(tx: &Tx<'_>, plans: &[PlanId]) -> Result<BTreeMap<PlanId, usize>, StoreError> {
    let mut known = BTreeMap::new();
    for plan in plans {
        let files = tx.one(
            "SELECT f.files FROM plan_heads h
             CROSS JOIN footprints f ON f.head = h.no AND f.entries = h.entries
             CROSS JOIN plans p ON p.head = h.no AND p.attempt = f.attempt
             WHERE h.plan = ?1 AND f.files IS NOT NULL",
            [SqlText(*plan)],
            |row| count(row, 0),
        )?;
        known.extend(files.map(|files| (*plan, files)));
    }
    Ok(known)
}
