//! The rows of plans and their decisions.

use domain::{Decision, Plan, PlanId, PlanState};
use rusqlite::types::Type;
use rusqlite::{Row, params};

use super::specs::spec_of;
use crate::sqlite::heads::Head;
use crate::sqlite::row::{
    Json, Text, count, from_json, number, parsed, signed, unreadable, wall, wall_at, wall_or_none, word,
};
use crate::sqlite::tx::Tx;
use crate::{PlanFilter, StoreError};

macro_rules! select_plans {
    ($rest:literal) => {
        concat!(
            "SELECT id, title, spec, projects, phase, state, attempt, reversions, version, constrained_by, request,
                    undone_at, created, updated
             FROM plans ",
            $rest
        )
    };
}

/// The plan of a row. Why one cannot be read is told with its name.
fn plan(row: &Row<'_>) -> rusqlite::Result<Plan> {
    let named = |error| {
        let rusqlite::Error::FromSqlConversionFailure(column, kind, why) = error else { return error };
        let id: String = row.get(0).unwrap_or_default();
        unreadable(column, kind, format!("plan {id}: {why}"))
    };
    read(row).map_err(named)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Plan> {
    let phase: String = row.get(4)?;
    Ok(Plan {
        id: parsed(row, 0)?,
        title: row.get(1)?,
        spec: spec_of(row.get_ref(2)?.as_str()?).map_err(|error| unreadable(2, Type::Text, error))?,
        projects: from_json(row, 3)?,
        state: word(row, 5, |state| PlanState::parse(&phase, state))?,
        attempt: row.get(6)?,
        reversions: row.get(7)?,
        version: number(row, 8)?,
        constrained_by: from_json(row, 9)?,
        request: from_json(row, 10)?,
        undone_at: wall_or_none(row, 11)?,
        created: wall_at(row, 12)?,
        updated: wall_at(row, 13)?,
    })
}

/// The plan of this row; none when only jobs were queued for it.
pub(in crate::sqlite) fn of_head(tx: &Tx<'_>, head: Head) -> Result<Option<Plan>, StoreError> {
    tx.one(select_plans!("WHERE head = ?1"), [head.0], plan)
}

/// The plan's attempt; 1 where it counts none.
pub(in crate::sqlite) fn attempt_of(tx: &Tx<'_>, head: Head) -> Result<u32, StoreError> {
    let attempt = tx.one("SELECT attempt FROM plans WHERE head = ?1", [head.0], |row| row.get(0))?;
    Ok(attempt.unwrap_or(1))
}

pub(super) fn of_id(tx: &Tx<'_>, id: PlanId) -> Result<Option<Plan>, StoreError> {
    tx.one(select_plans!("WHERE id = ?1"), [Text(id)], plan)
}

pub(super) fn insert(tx: &Tx<'_>, head: Head, plan: &Plan) -> Result<(), StoreError> {
    tx.run(
        "INSERT INTO plans VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![
            head.0,
            Text(plan.id),
            plan.title,
            Json(&*plan.spec),
            Json(&plan.projects),
            plan.state.phase().as_str(),
            plan.state.word(),
            plan.attempt,
            plan.reversions,
            signed(plan.version),
            Json(&plan.constrained_by),
            Json(&plan.request),
            plan.undone_at.map(wall),
            wall(plan.created),
            wall(plan.updated),
        ],
    )?;
    for (no, project) in (0_i64..).zip(&plan.projects) {
        tx.run("INSERT INTO plan_projects VALUES (?1, ?2, ?3)", (head.0, no, project.root.as_bytes()))?;
    }
    Ok(())
}

/// Writes all that can change of a plan.
pub(super) fn save(tx: &Tx<'_>, head: Head, plan: &Plan) -> Result<(), StoreError> {
    tx.run(
        "UPDATE plans SET phase = ?2, state = ?3, attempt = ?4, reversions = ?5, version = ?6, constrained_by = ?7,
                request = ?8, undone_at = ?9, updated = ?10
         WHERE head = ?1",
        params![
            head.0,
            plan.state.phase().as_str(),
            plan.state.word(),
            plan.attempt,
            plan.reversions,
            signed(plan.version),
            Json(&plan.constrained_by),
            Json(&plan.request),
            plan.undone_at.map(wall),
            wall(plan.updated),
        ],
    )?;
    Ok(())
}

/// Plans that pass the filter, newest first, and how many pass in all. What a newer program made is counted and left out:
/// one plan that cannot be read keeps nobody from the others.
pub(super) fn list(tx: &Tx<'_>, filter: &PlanFilter) -> Result<(Vec<Plan>, usize), StoreError> {
    let PlanFilter { phase, state, root, limit } = filter;
    let found = tx.all(
        select_plans!(
            "WHERE (?1 IS NULL OR phase = ?1) AND (?2 IS NULL OR state = ?2)
               AND (?3 IS NULL OR head IN (SELECT head FROM plan_projects WHERE root = ?3))
             ORDER BY id DESC LIMIT ?4"
        ),
        (phase, state, root, i64::try_from(*limit).unwrap_or(i64::MAX)),
        |row| {
            let read = plan(row);
            let is_unreadable = matches!(read, Err(rusqlite::Error::FromSqlConversionFailure(..)));
            if is_unreadable { Ok(None) } else { read.map(Some) }
        },
    )?;
    let found = found.into_iter().flatten().collect();
    if phase.is_none() && state.is_none() && root.is_none() {
        // An index alone tells.
        return Ok((found, tx.the("SELECT count(*) FROM plans", [], |row| count(row, 0))?));
    }
    let in_all = tx.the(
        "SELECT count(*) FROM plans
         WHERE (?1 IS NULL OR phase = ?1) AND (?2 IS NULL OR state = ?2)
           AND (?3 IS NULL OR head IN (SELECT head FROM plan_projects WHERE root = ?3))",
        (phase, state, root),
        |row| count(row, 0),
    )?;
    Ok((found, in_all))
}

/// The plan with the last id.
pub(super) fn newest(tx: &Tx<'_>) -> Result<Option<PlanId>, StoreError> {
    tx.one("SELECT id FROM plans ORDER BY id DESC LIMIT 1", [], |row| parsed(row, 0))
}

/// The plans whose id begins so. `~` comes after every character of an id.
pub(super) fn like(tx: &Tx<'_>, prefix: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
    tx.all(
        "SELECT id FROM plans WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id LIMIT ?2",
        (prefix, i64::try_from(limit).unwrap_or(i64::MAX)),
        |row| parsed(row, 0),
    )
}

pub(super) fn decisions(tx: &Tx<'_>, head: Head, plan: PlanId) -> Result<Vec<Decision>, StoreError> {
    let all = "SELECT seq, decision, superseded_by, created FROM decisions WHERE head = ?1 ORDER BY seq";
    tx.all(all, [head.0], |row| {
        Ok(Decision::kept(plan, row.get(0)?, from_json(row, 1)?, row.get(2)?, wall_at(row, 3)?))
    })
}

pub(super) fn insert_decision(tx: &Tx<'_>, head: Head, decision: &Decision) -> Result<(), StoreError> {
    let insert = "INSERT INTO decisions (head, seq, decision, created) VALUES (?1, ?2, ?3, ?4)";
    tx.run(insert, (head.0, decision.seq, Json(&decision.new), wall(decision.created)))?;
    Ok(())
}

/// Whether the plan has this decision, and nothing has taken its place.
pub(super) fn stands(tx: &Tx<'_>, head: Head, seq: u32) -> Result<bool, StoreError> {
    let live = "SELECT 1 FROM decisions WHERE head = ?1 AND seq = ?2 AND superseded_by IS NULL";
    Ok(tx.one(live, (head.0, seq), |_| Ok(()))?.is_some())
}

/// Lets all decisions but the prompt give way to number `by`, which is not kept yet; says which did, in order.
pub(super) fn supersede(tx: &Tx<'_>, head: Head, by: u32) -> Result<Vec<u32>, StoreError> {
    let give_way =
        "UPDATE decisions SET superseded_by = ?2 WHERE head = ?1 AND seq > 1 AND superseded_by IS NULL
                    RETURNING seq";
    let mut gave_way = tx.all(give_way, (head.0, by), |row| row.get(0))?;
    gave_way.sort_unstable();
    Ok(gave_way)
}

/// How many decisions the plan has.
pub(super) fn decided(tx: &Tx<'_>, head: Head) -> Result<u32, StoreError> {
    tx.the("SELECT decisions FROM plan_heads WHERE no = ?1", [head.0], |row| row.get(0))
}
