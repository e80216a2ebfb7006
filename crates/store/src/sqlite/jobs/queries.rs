//! The rows of jobs.

use std::collections::BTreeSet;

use domain::{BootId, CancelRequest, HELD, Job, JobId, JobState, Ms, PlanId, WorkerId};
use rusqlite::{Row, params};

use crate::StoreError;
use crate::sqlite::columns::{
    SqlJson, SqlText, fence, from_json_or_default, ms, ms_at, ms_or_none, parsed, parsed_or_none, phase,
    signed, word,
};
use crate::sqlite::plan_heads::PlanHead;
use crate::sqlite::transaction::Tx;

/// The present job, and the row of its plan.
pub(in crate::sqlite) struct JobRow {
    pub(in crate::sqlite) head: PlanHead,
    pub(in crate::sqlite) job: Job,
}

/// A question for whole jobs: these columns, then `$rest`.
macro_rules! select_jobs {
    ($rest:literal) => {
        concat!(
            "SELECT j.head, j.id, h.plan, j.phase, j.state, j.fence, j.worker, j.boot, j.lease_until, j.lost_leases,
                    j.not_before, j.cancel_at, j.cancel_reason, j.sealed_at, j.why, j.created_at, j.started_at,
                    j.finished_at, j.keys
             FROM jobs j JOIN plan_heads h ON h.no = j.head ",
            $rest
        )
    };
}

fn read_job_row(row: &Row<'_>) -> rusqlite::Result<JobRow> {
    let cancel = match (ms_or_none(row, 11)?, row.get(12)?) {
        (Some(at), Some(reason)) => Some(CancelRequest { at, reason }),
        (Some(_) | None, _) => None,
    };
    let job = Job {
        id: parsed(row, 1)?,
        plan: parsed(row, 2)?,
        phase: phase(row, 3)?,
        state: word(row, 4, |text| JobState::ALL.into_iter().find(|state| state.as_str() == text))?,
        fence: fence(row, 5)?,
        worker: parsed_or_none(row, 6)?,
        boot: parsed_or_none(row, 7)?,
        lease_until: ms_at(row, 8)?,
        lost_leases: row.get(9)?,
        not_before: ms_at(row, 10)?,
        keys: from_json_or_default(row, 18)?,
        cancel,
        sealed_at: ms_or_none(row, 13)?,
        why: row.get(14)?,
        created_at: ms_at(row, 15)?,
        started_at: ms_or_none(row, 16)?,
        finished_at: ms_or_none(row, 17)?,
    };
    Ok(JobRow { head: PlanHead(row.get(0)?), job })
}

/// One job.
pub(in crate::sqlite) fn find(tx: &Tx<'_>, id: JobId) -> Result<Option<JobRow>, StoreError> {
    tx.one(select_jobs!("WHERE j.id = ?1"), [SqlText(id)], read_job_row)
}

/// The plan's job that waits or runs.
pub(in crate::sqlite) fn live_of(tx: &Tx<'_>, head: PlanHead) -> Result<Option<Job>, StoreError> {
    let live = select_jobs!("WHERE j.head = ?1 AND j.state IN ('queued', 'running')");
    tx.one(live, [head.0], |row| read_job_row(row).map(|kept| kept.job))
}

/// The plan's job of this name.
pub(in crate::sqlite) fn known_of(tx: &Tx<'_>, head: PlanHead, id: JobId) -> Result<Option<Job>, StoreError> {
    Ok(find(tx, id)?.filter(|kept| kept.head == head).map(|kept| kept.job))
}

pub(super) fn all(tx: &Tx<'_>) -> Result<Vec<Job>, StoreError> {
    tx.all(select_jobs!("ORDER BY j.id"), [], |row| read_job_row(row).map(|kept| kept.job))
}

pub(super) fn live(tx: &Tx<'_>) -> Result<Vec<Job>, StoreError> {
    let live = select_jobs!("WHERE j.state IN ('queued', 'running') ORDER BY j.id");
    tx.all(live, [], |row| read_job_row(row).map(|kept| kept.job))
}

pub(super) fn all_of(tx: &Tx<'_>, plan: PlanId) -> Result<Vec<Job>, StoreError> {
    let of_plan = select_jobs!("WHERE h.plan = ?1 ORDER BY j.id");
    tx.all(of_plan, [SqlText(plan)], |row| read_job_row(row).map(|kept| kept.job))
}

/// The running jobs of a worker.
pub(super) fn owned_by(tx: &Tx<'_>, worker: WorkerId) -> Result<Vec<JobRow>, StoreError> {
    let owned = select_jobs!("WHERE j.state = 'running' AND j.worker = ?1 ORDER BY j.id");
    tx.all(owned, [SqlText(worker)], read_job_row)
}

/// The id to come after; every id comes after the empty one.
fn text_of(after: Option<JobId>) -> String {
    after.map(|id| id.to_string()).unwrap_or_default()
}

/// The condition that a worker that was started with the variables `?5` has all that a job wants.
macro_rules! has_its_keys {
    () => {
        "(keys IS NULL
          OR NOT EXISTS (SELECT 1 FROM json_each(keys) WHERE value NOT IN (SELECT value FROM json_each(?5))))"
    };
}

/// The first job whose owner is dead, and which is for workers that have these variables, or is only to be
/// cancelled.
pub(super) fn first_dead(
    tx: &Tx<'_>,
    boot: BootId,
    now: Ms,
    variables: &BTreeSet<String>,
    after: Option<JobId>,
) -> Result<Option<JobId>, StoreError> {
    let dead = concat!(
        "SELECT id FROM jobs INDEXED BY jobs_running
         WHERE state = 'running' AND (lease_until <= ?1 OR boot IS NOT ?2)
         AND ((not_before <> ?3 AND ",
        has_its_keys!(),
        ") OR (cancel_at IS NOT NULL AND sealed_at IS NULL))
         AND id > ?4 ORDER BY id LIMIT 1"
    );
    tx.one(dead, (ms(now), SqlText(boot), ms(HELD), text_of(after), SqlJson(variables)), |row| parsed(row, 0))
}

/// The first job whose owner died with a cancel pending.
pub(super) fn first_dead_to_be_cancelled(
    tx: &Tx<'_>,
    boot: BootId,
    now: Ms,
    after: Option<JobId>,
) -> Result<Option<JobId>, StoreError> {
    let dead = "SELECT id FROM jobs INDEXED BY jobs_running
                WHERE state = 'running' AND (lease_until <= ?1 OR boot IS NOT ?2)
                AND cancel_at IS NOT NULL AND sealed_at IS NULL AND id > ?3 ORDER BY id LIMIT 1";
    tx.one(dead, (ms(now), SqlText(boot), text_of(after)), |row| parsed(row, 0))
}

/// The job of one plan whose owner died with a cancel pending.
pub(super) fn dead_to_be_cancelled_of(
    tx: &Tx<'_>,
    head: PlanHead,
    boot: BootId,
    now: Ms,
) -> Result<Option<JobId>, StoreError> {
    let dead =
        "SELECT id FROM jobs WHERE head = ?1 AND state = 'running' AND (lease_until <= ?2 OR boot IS NOT ?3)
         AND cancel_at IS NOT NULL AND sealed_at IS NULL";
    tx.one(dead, (head.0, ms(now), SqlText(boot)), |row| parsed(row, 0))
}

/// Returns the first queued job that is due and for workers that have these variables. One that is held is
/// due for no worker but the one that serves its plan.
pub(super) fn first_due(
    tx: &Tx<'_>,
    now: Ms,
    variables: &BTreeSet<String>,
    after: Option<JobId>,
) -> Result<Option<JobId>, StoreError> {
    let due = concat!(
        "SELECT id FROM jobs INDEXED BY jobs_queue WHERE state = 'queued' AND not_before <= ?1 AND id > ?4 AND ",
        has_its_keys!(),
        " ORDER BY id LIMIT 1"
    );
    tx.one(due, (ms(now), None::<i64>, None::<i64>, text_of(after), SqlJson(variables)), |row| parsed(row, 0))
}

/// The job of one plan whose owner is dead.
pub(super) fn dead_of(
    tx: &Tx<'_>,
    head: PlanHead,
    boot: BootId,
    now: Ms,
) -> Result<Option<JobId>, StoreError> {
    let dead =
        "SELECT id FROM jobs WHERE head = ?1 AND state = 'running' AND (lease_until <= ?2 OR boot IS NOT ?3)";
    tx.one(dead, (head.0, ms(now), SqlText(boot)), |row| parsed(row, 0))
}

/// The queued job of one plan, if it is due, or held for who asks.
pub(super) fn due_of(tx: &Tx<'_>, head: PlanHead, now: Ms) -> Result<Option<JobId>, StoreError> {
    let due =
        "SELECT id FROM jobs WHERE head = ?1 AND state = 'queued' AND (not_before <= ?2 OR not_before = ?3)";
    tx.one(due, (head.0, ms(now), ms(HELD)), |row| parsed(row, 0))
}

pub(super) fn insert(tx: &Tx<'_>, head: PlanHead, job: &Job) -> Result<(), StoreError> {
    let insert = "INSERT INTO jobs (id, head, phase, state, not_before, created_at, keys) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let (phase, state) = (job.phase.as_str(), job.state.as_str());
    let keys = if job.keys.is_empty() { None } else { Some(SqlJson(&job.keys)) };
    tx.run(insert, (SqlText(job.id), head.0, phase, state, ms(job.not_before), ms(job.created_at), keys))?;
    Ok(())
}

/// Writes all that can change of a job.
pub(super) fn save(tx: &Tx<'_>, job: &Job) -> Result<(), StoreError> {
    tx.run(
        "UPDATE jobs SET state = ?2, fence = ?3, worker = ?4, boot = ?5, lease_until = ?6, lost_leases = ?7,
                cancel_at = ?8, cancel_reason = ?9, sealed_at = ?10, why = ?11, started_at = ?12, finished_at = ?13,
                not_before = ?14
         WHERE id = ?1",
        params![
            SqlText(job.id),
            job.state.as_str(),
            signed(job.fence.0),
            job.worker.map(SqlText),
            job.boot.map(SqlText),
            ms(job.lease_until),
            job.lost_leases,
            job.cancel.as_ref().map(|cancel| ms(cancel.at)),
            job.cancel.as_ref().map(|cancel| &cancel.reason),
            job.sealed_at.map(ms),
            job.why,
            job.started_at.map(ms),
            job.finished_at.map(ms),
            ms(job.not_before),
        ],
    )?;
    Ok(())
}
