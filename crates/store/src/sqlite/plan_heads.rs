//! The row of each plan from which its numbers come, and the plan's events.
//!
//! # Invariants
//! 1. A number is given by the same write that uses it, so there are no gaps.
//! 2. Events are recorded only of a plan that was made: jobs may also run for one that is stored elsewhere.

use domain::record::event_draft::EventDraft;
use domain::{EventKind, EventRecord, PlanId, WallMs};

use rusqlite::Row;

use super::columns::{SqlJson, SqlText, from_json, number, signed, wall, wall_at, word};
use super::transaction::Tx;
use crate::StoreError;

/// A plan's row, by its number within the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanHead(pub(super) i64);

/// Returns the row of a plan of which something is stored; `None` if there is none.
pub(super) fn find(tx: &Tx<'_>, plan: PlanId) -> Result<Option<PlanHead>, StoreError> {
    tx.one("SELECT no FROM plan_heads WHERE plan = ?1", [SqlText(plan)], |row| row.get(0).map(PlanHead))
}

/// The row of a plan, made if it is not there.
pub(super) fn find_or_make(tx: &Tx<'_>, plan: PlanId) -> Result<PlanHead, StoreError> {
    if let Some(known) = find(tx, plan)? {
        return Ok(known);
    }
    tx.the("INSERT INTO plan_heads (plan) VALUES (?1) RETURNING no", [SqlText(plan)], |row| {
        row.get(0).map(PlanHead)
    })
}

/// Records an event of a plan, if the plan was made.
pub(super) fn tell(
    tx: &Tx<'_>,
    head: PlanHead,
    told: impl IntoIterator<Item = EventDraft>,
    at: WallMs,
) -> Result<(), StoreError> {
    let told: Vec<EventDraft> = told.into_iter().collect();
    let Ok(count @ 1..) = i64::try_from(told.len()) else { return Ok(()) };
    let next = "UPDATE plan_heads SET events = events + ?2
                WHERE no = ?1 AND EXISTS (SELECT 1 FROM plans WHERE head = ?1) RETURNING events";
    let Some(last) = tx.one(next, (head.0, count), |row| row.get::<_, i64>(0))? else { return Ok(()) };
    for (n, (kind, data)) in (last + 1 - count..).zip(told) {
        tx.run(
            "INSERT INTO events (head, n, at, kind, data) VALUES (?1, ?2, ?3, ?4, ?5)",
            (head.0, n, wall(at), kind.as_str(), SqlJson(data)),
        )?;
    }
    Ok(())
}

/// Returns the events after number `after`.
pub(super) fn list_events(
    tx: &Tx<'_>,
    plan: PlanId,
    after: u64,
    limit: usize,
) -> Result<Vec<EventRecord>, StoreError> {
    let Some(head) = find(tx, plan)? else { return Ok(Vec::new()) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    tx.all(
        "SELECT n, at, kind, data FROM events WHERE head = ?1 AND n > ?2 ORDER BY n LIMIT ?3",
        (head.0, signed(after), limit),
        event,
    )
}

/// Returns the events of this kind.
pub(super) fn list_events_of_kind(
    tx: &Tx<'_>,
    plan: PlanId,
    kind: EventKind,
) -> Result<Vec<EventRecord>, StoreError> {
    let Some(head) = find(tx, plan)? else { return Ok(Vec::new()) };
    let sql = "SELECT n, at, kind, data FROM events WHERE head = ?1 AND kind = ?2 ORDER BY n";
    tx.all(sql, (head.0, kind.as_str()), event)
}

/// Returns the number of the last event; 0 if there is none.
pub(super) fn last_event(tx: &Tx<'_>, plan: PlanId) -> Result<u64, StoreError> {
    let Some(head) = find(tx, plan)? else { return Ok(0) };
    let last =
        tx.one("SELECT coalesce(max(n), 0) FROM events WHERE head = ?1", [head.0], |row| number(row, 0));
    Ok(last?.unwrap_or(0))
}

fn event(row: &Row<'_>) -> rusqlite::Result<EventRecord> {
    Ok(EventRecord {
        n: number(row, 0)?,
        at: wall_at(row, 1)?,
        kind: word(row, 2, EventKind::parse)?,
        data: from_json(row, 3)?,
    })
}
