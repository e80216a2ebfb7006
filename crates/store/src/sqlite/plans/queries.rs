//! The rows of plans and their decisions.

use std::collections::BTreeSet;

use domain::{ApplyId, Decision, Plan, PlanId, PlanState, WallMs};
use rusqlite::types::Type;
use rusqlite::{Row, params};

use super::spec_cache::spec_of;
use crate::plan_store::may_be_forgotten;
use crate::sqlite::columns::{
    SqlJson, SqlText, count, from_json, number, parsed, signed, unreadable, wall, wall_at, wall_or_none, word,
};
use crate::sqlite::plan_heads::PlanHead;
use crate::sqlite::transaction::Tx;
use crate::{FinishedPlans, PlanFilter, StoreError};

/// The number of letters that the index of the ends of ids has.
const INDEXED_END_CHARS: usize = 4;

/// The plans of a batch that pass a filter, by the index of batches: its expression has to be this one. The `+`
/// keeps SQLite from the index of roots, by which it would look at all plans of a project for each plan.
macro_rules! of_batch {
    ($rest:literal) => {
        concat!(
            "WHERE (CASE WHEN json_valid(spec) THEN spec ->> '$.batch' END) = ?1
               AND (?2 IS NULL OR EXISTS (
                   SELECT 1 FROM plan_projects AS p WHERE p.head = plans.head AND +p.root = ?2))
               AND (?3 IS NULL OR phase = ?3) AND (?4 IS NULL OR state = ?4) ",
            $rest
        )
    };
}

macro_rules! select_plans {
    ($rest:expr) => {
        concat!(
            "SELECT id, title, spec, projects, phase, state, attempt, reversions, version, constrained_by, request,
                    undone_at, created, updated
             FROM plans ",
            $rest
        )
    };
}

/// Returns the plan of a row. The error of one that cannot be read names it.
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
pub(in crate::sqlite) fn of_head(tx: &Tx<'_>, head: PlanHead) -> Result<Option<Plan>, StoreError> {
    tx.one(select_plans!("WHERE head = ?1"), [head.0], plan)
}

/// The plan's attempt; 1 where it counts none.
pub(in crate::sqlite) fn attempt_of(tx: &Tx<'_>, head: PlanHead) -> Result<u32, StoreError> {
    let attempt = tx.one("SELECT attempt FROM plans WHERE head = ?1", [head.0], |row| row.get(0))?;
    Ok(attempt.unwrap_or(1))
}

/// Returns the state of the plan; `None` if only jobs were queued for it.
pub(super) fn state_of(tx: &Tx<'_>, head: PlanHead) -> Result<Option<PlanState>, StoreError> {
    tx.one("SELECT phase, state FROM plans WHERE head = ?1", [head.0], |row| {
        let phase: String = row.get(0)?;
        word(row, 1, |state| PlanState::parse(&phase, state))
    })
}

pub(super) fn of_id(tx: &Tx<'_>, id: PlanId) -> Result<Option<Plan>, StoreError> {
    tx.one(select_plans!("WHERE id = ?1"), [SqlText(id)], plan)
}

pub(super) fn insert(tx: &Tx<'_>, head: PlanHead, plan: &Plan) -> Result<(), StoreError> {
    tx.run(
        "INSERT INTO plans VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![
            head.0,
            SqlText(plan.id),
            plan.title,
            SqlJson(&*plan.spec),
            SqlJson(&plan.projects),
            plan.state.phase().as_str(),
            plan.state.word(),
            plan.attempt,
            plan.reversions,
            signed(plan.version),
            SqlJson(&plan.constrained_by),
            SqlJson(&plan.request),
            plan.undone_at.map(wall),
            wall(plan.created),
            wall(plan.updated),
        ],
    )?;
    for (no, project) in (0_i64..).zip(&plan.projects) {
        let insert = "INSERT INTO plan_projects (head, no, root, plan) VALUES (?1, ?2, ?3, ?4)";
        tx.run(insert, (head.0, no, project.root.as_bytes(), SqlText(plan.id)))?;
    }
    Ok(())
}

/// Writes the spec of a plan, which only a revision changes.
pub(super) fn save_spec(tx: &Tx<'_>, head: PlanHead, plan: &Plan) -> Result<(), StoreError> {
    tx.run("UPDATE plans SET spec = ?2 WHERE head = ?1", (head.0, SqlJson(&*plan.spec)))?;
    Ok(())
}

/// Writes all that can change of a plan with any move.
pub(super) fn save(tx: &Tx<'_>, head: PlanHead, plan: &Plan) -> Result<(), StoreError> {
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
            SqlJson(&plan.constrained_by),
            SqlJson(&plan.request),
            plan.undone_at.map(wall),
            wall(plan.updated),
        ],
    )?;
    Ok(())
}

/// Returns the plans that pass the filter, newest first. A plan that a newer program made is left out: one
/// plan that cannot be read does not hide the others.
pub(super) fn newest_plans(tx: &Tx<'_>, filter: &PlanFilter) -> Result<Vec<Plan>, StoreError> {
    let PlanFilter { phase, state, root, batch, limit } = filter;
    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
    let readable = |row: &Row<'_>| {
        let read = plan(row);
        let is_unreadable = matches!(read, Err(rusqlite::Error::FromSqlConversionFailure(..)));
        if is_unreadable { Ok(None) } else { read.map(Some) }
    };
    let found = match root {
        _ if batch.is_some() => tx.all(
            select_plans!(of_batch!("ORDER BY id DESC LIMIT ?5")),
            (batch, root, phase, state, limit),
            readable,
        )?,
        // The project's own plans in their order, not all plans with a look at the project of each.
        Some(root) => tx.all(
            select_plans!(
                "JOIN plan_projects AS p ON p.head = plans.head AND p.root = ?3
                 WHERE (?1 IS NULL OR phase = ?1) AND (?2 IS NULL OR state = ?2)
                 ORDER BY p.plan DESC LIMIT ?4"
            ),
            (phase, state, root, limit),
            readable,
        )?,
        None => tx.all(
            select_plans!(
                "WHERE (?1 IS NULL OR phase = ?1) AND (?2 IS NULL OR state = ?2) ORDER BY id DESC LIMIT ?3"
            ),
            (phase, state, limit),
            readable,
        )?,
    };
    Ok(found.into_iter().flatten().collect())
}

/// Returns how many plans pass the filter, whether or not they can be read.
pub(super) fn count_plans(tx: &Tx<'_>, filter: &PlanFilter) -> Result<usize, StoreError> {
    let PlanFilter { phase, state, root, batch, limit: _ } = filter;
    if batch.is_some() {
        let of_batch = concat!("SELECT count(*) FROM plans ", of_batch!(""));
        return tx.the(of_batch, (batch, root, phase, state), |row| count(row, 0));
    }
    match (phase, state, root) {
        // An index alone has the answer.
        (None, None, None) => tx.the("SELECT count(*) FROM plans", [], |row| count(row, 0)),
        (None, None, Some(root)) => {
            tx.the("SELECT count(*) FROM plan_projects WHERE root = ?1", [root], |row| count(row, 0))
        }
        (_, _, Some(root)) => tx.the(
            "SELECT count(*) FROM plan_projects AS p JOIN plans ON plans.head = p.head
             WHERE p.root = ?3 AND (?1 IS NULL OR phase = ?1) AND (?2 IS NULL OR state = ?2)",
            (phase, state, root),
            |row| count(row, 0),
        ),
        (_, _, None) => tx.the(
            "SELECT count(*) FROM plans WHERE (?1 IS NULL OR phase = ?1) AND (?2 IS NULL OR state = ?2)",
            (phase, state),
            |row| count(row, 0),
        ),
    }
}

/// The plan with the last id, of those with a project at `root` if one is given.
pub(super) fn newest(tx: &Tx<'_>, root: Option<&[u8]>) -> Result<Option<PlanId>, StoreError> {
    match root {
        Some(root) => tx.one(
            "SELECT plan FROM plan_projects WHERE root = ?1 ORDER BY plan DESC LIMIT 1",
            [root],
            |row| parsed(row, 0),
        ),
        None => tx.one("SELECT id FROM plans ORDER BY id DESC LIMIT 1", [], |row| parsed(row, 0)),
    }
}

/// The plans whose id ends so. An end has at least as many letters as the index of ends has: of a shorter one
/// all plans are looked at.
pub(super) fn ending(tx: &Tx<'_>, ends: &BTreeSet<String>) -> Result<Vec<PlanId>, StoreError> {
    let by_index =
        "SELECT id FROM plans WHERE substr(id, -4) IN (SELECT substr(value, -4) FROM json_each(?1))";
    let by_walk = "SELECT id FROM plans";
    let is_indexed = ends.iter().all(|end| end.len() >= INDEXED_END_CHARS);
    let found = match is_indexed {
        true => tx.all(by_index, [SqlJson(ends)], |row| parsed::<PlanId>(row, 0))?,
        false => tx.all(by_walk, [], |row| parsed::<PlanId>(row, 0))?,
    };
    let ends_so = |plan: &PlanId| {
        let id = plan.to_string();
        ends.iter().any(|end| id.ends_with(end.as_str()))
    };
    Ok(found.into_iter().filter(ends_so).collect::<BTreeSet<PlanId>>().into_iter().collect())
}

/// The plans that ended before, and whose applies have, too.
pub(super) fn ended_before(tx: &Tx<'_>, before: WallMs) -> Result<FinishedPlans, StoreError> {
    let mut ended = FinishedPlans::default();
    for state in PlanState::ALL.into_iter().filter(|state| may_be_forgotten(*state)) {
        let of_state = (state.phase().as_str(), state.word(), wall(before));
        let plans = "SELECT id FROM plans
             WHERE state = ?2 AND phase = ?1 AND updated < ?3
               AND NOT EXISTS (SELECT 1 FROM applies WHERE applies.head = plans.head AND stage = 'sealed')";
        ended.plans.extend(tx.all(plans, of_state, |row| parsed::<PlanId>(row, 0))?);
        let applies = "SELECT applies.id FROM plans CROSS JOIN applies ON applies.head = plans.head
             WHERE state = ?2 AND phase = ?1 AND updated < ?3
               AND NOT EXISTS (SELECT 1 FROM applies AS open WHERE open.head = plans.head AND open.stage = 'sealed')";
        ended.applies.extend(tx.all(applies, of_state, |row| parsed::<ApplyId>(row, 0))?);
    }
    Ok(ended)
}

/// The plans whose id begins so. `~` comes after every character of an id.
pub(super) fn like(tx: &Tx<'_>, prefix: &str, limit: usize) -> Result<Vec<PlanId>, StoreError> {
    tx.all(
        "SELECT id FROM plans WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id LIMIT ?2",
        (prefix, i64::try_from(limit).unwrap_or(i64::MAX)),
        |row| parsed(row, 0),
    )
}

pub(super) fn decisions(tx: &Tx<'_>, head: PlanHead, plan: PlanId) -> Result<Vec<Decision>, StoreError> {
    let all = "SELECT seq, decision, superseded_by, created FROM decisions WHERE head = ?1 ORDER BY seq";
    tx.all(all, [head.0], |row| {
        Ok(Decision::from_stored(plan, row.get(0)?, from_json(row, 1)?, row.get(2)?, wall_at(row, 3)?))
    })
}

pub(super) fn insert_decision(tx: &Tx<'_>, head: PlanHead, decision: &Decision) -> Result<(), StoreError> {
    let insert = "INSERT INTO decisions (head, seq, decision, created) VALUES (?1, ?2, ?3, ?4)";
    tx.run(insert, (head.0, decision.seq, SqlJson(&decision.new), wall(decision.created)))?;
    Ok(())
}

/// Returns whether the plan has this decision, and nothing has taken its place.
pub(super) fn stands(tx: &Tx<'_>, head: PlanHead, seq: u32) -> Result<bool, StoreError> {
    let live = "SELECT 1 FROM decisions WHERE head = ?1 AND seq = ?2 AND superseded_by IS NULL";
    Ok(tx.one(live, (head.0, seq), |_| Ok(()))?.is_some())
}

/// Lets decisions give way to number `by`, which is not stored yet: those in `some`, or all; never the prompt.
/// Returns those that did, in order.
pub(super) fn supersede(
    tx: &Tx<'_>,
    head: PlanHead,
    by: u32,
    some: Option<&BTreeSet<u32>>,
) -> Result<Vec<u32>, StoreError> {
    let live = "SELECT seq FROM decisions WHERE head = ?1 AND seq > 1 AND superseded_by IS NULL ORDER BY seq";
    let mut gave_way: Vec<u32> = tx.all(live, [head.0], |row| row.get(0))?;
    gave_way.retain(|seq| some.is_none_or(|some| some.contains(seq)));
    for seq in &gave_way {
        tx.run("UPDATE decisions SET superseded_by = ?2 WHERE head = ?1 AND seq = ?3", (head.0, by, seq))?;
    }
    Ok(gave_way)
}

/// Returns how many decisions the plan has.
pub(super) fn count_decisions(tx: &Tx<'_>, head: PlanHead) -> Result<u32, StoreError> {
    tx.the("SELECT decisions FROM plan_heads WHERE no = ?1", [head.0], |row| row.get(0))
}
