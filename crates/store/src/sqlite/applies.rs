//! Applies in SQLite: sealed with the job, ended with all its effects on job and plan.

use async_trait::async_trait;
use domain::record::event_draft;
use domain::{
    ApplyEnd, ApplyId, ApplyKind, ApplyRecord, ApplyStage, Claim, Initiator, JobEvent,
    JobTransitionRejection, LeaseLost, NewApply, PlanEvent, PlanId,
};
use rusqlite::{Row, params};
use sync::Effect;

use super::columns::{SqlJson, SqlText, from_json, hash, parsed, wall, wall_at, wall_or_none, word};
use super::jobs::{JobRow, WriteTime, live_of, move_job, of_claim};
use super::plan_heads;
use super::plan_heads::{PlanHead, tell};
use super::transaction::Tx;
use super::{FOR_POWER, SqliteStore, plans};
use crate::{ApplyStore, JobStoreError, StoreError};

macro_rules! select_applies {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, h.plan, a.kind, a.stage, a.net_hash, a.selection, a.summary, a.started, a.ended, a.head
             FROM applies a JOIN plan_heads h ON h.no = a.head ",
            $rest
        )
    };
}

fn apply(row: &Row<'_>) -> rusqlite::Result<ApplyRecord> {
    Ok(ApplyRecord {
        id: parsed(row, 0)?,
        plan: parsed(row, 1)?,
        kind: word(row, 2, ApplyKind::parse)?,
        stage: word(row, 3, ApplyStage::parse)?,
        net_hash: hash(row, 4)?,
        selection: from_json(row, 5)?,
        summary: from_json(row, 6)?,
        started: wall_at(row, 7)?,
        ended: wall_or_none(row, 8)?,
    })
}

fn find(tx: &Tx<'_>, id: ApplyId) -> Result<Option<(PlanHead, ApplyRecord)>, StoreError> {
    tx.one(select_applies!("WHERE a.id = ?1"), [SqlText(id)], |row| Ok((PlanHead(row.get(9)?), apply(row)?)))
}

fn of_plan(tx: &Tx<'_>, plan: PlanId) -> Result<Vec<ApplyRecord>, StoreError> {
    tx.all(select_applies!("WHERE h.plan = ?1 ORDER BY a.id"), [SqlText(plan)], apply)
}

fn open(tx: &Tx<'_>) -> Result<Vec<ApplyRecord>, StoreError> {
    tx.all(select_applies!("WHERE a.stage = 'sealed' ORDER BY a.id"), [], apply)
}

/// Stores an apply as sealed; a known id stays unchanged.
fn insert(tx: &Tx<'_>, head: PlanHead, new: NewApply, at: WriteTime) -> Result<(), StoreError> {
    let apply = ApplyRecord::sealed(new, at.wall);
    tx.run(
        "INSERT INTO applies VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL) ON CONFLICT (id) DO NOTHING",
        params![
            SqlText(apply.id),
            head.0,
            apply.kind.as_str(),
            apply.stage.as_str(),
            apply.net_hash.as_bytes(),
            SqlJson(&apply.selection),
            SqlJson(&apply.summary),
            wall(apply.started),
        ],
    )?;
    Ok(())
}

fn seal(tx: &Tx<'_>, claim: &Claim, new: NewApply, at: WriteTime) -> Result<(), JobStoreError> {
    let kept = of_claim(tx, claim)?;
    if new.plan != claim.plan {
        return Err(JobTransitionRejection::from(LeaseLost { job: claim.job, fence: claim.fence }).into());
    }
    let seal = JobEvent::Seal { fence: claim.fence };
    // The first check is that the owner may seal at all.
    kept.job.next(&seal, at.now)?;
    if find(tx, new.id)?.is_some_and(|(_, known)| !known.is_sealed_as(&new)) {
        return Err(JobTransitionRejection::ApplyTaken { apply: new.id }.into());
    }
    move_job(tx, &kept, &seal, None, at)?;
    Ok(insert(tx, kept.head, new, at)?)
}

fn begin(tx: &Tx<'_>, new: NewApply, at: WriteTime) -> Result<(), StoreError> {
    let head = plan_heads::find_or_make(tx, new.plan)?;
    insert(tx, head, new, at)
}

fn end(tx: &Tx<'_>, id: ApplyId, end: ApplyEnd, at: WriteTime) -> Result<bool, StoreError> {
    let Some((head, known)) = find(tx, id)? else { return Ok(false) };
    let Some(ended) = known.ended(&end, at.wall) else { return Ok(false) };
    let state = plans::of_head(tx, head)?.map(|plan| plan.state);
    let live = live_of(tx, head)?;
    let moves = ended.moves(&end, state, live.as_ref(), has_other_sealed(tx, head, id)?);
    let reasons = match end {
        ApplyEnd::RolledBack(reasons) => Some(reasons),
        ApplyEnd::Applied | ApplyEnd::NeverBegan => None,
    };
    if let (Some(job), Some(event)) = (live, &moves.job) {
        // Its fence is the job's own and a seal admits no cancel, so the rules cannot refuse it.
        move_job(tx, &JobRow { head, job }, event, reasons, at).map_err(refused)?;
    }
    for event in moves.plan {
        move_without_job(tx, head, *event, at)?;
    }
    if let Some(undone) = moves.undone {
        keep_undone(tx, head, undone, &ended, at)?;
    }
    let update = "UPDATE applies SET stage = ?2, ended = ?3 WHERE id = ?1";
    tx.run(update, (SqlText(id), ended.stage.as_str(), ended.ended.map(wall)))?;
    Ok(true)
}

fn refused(error: JobStoreError) -> StoreError {
    match error {
        JobStoreError::Store(error) => error,
        JobStoreError::Refused(_) | JobStoreError::QueueFull { .. } => {
            StoreError::Broken { why: format!("the job of an apply did not end: {error}") }
        }
    }
}

fn has_other_sealed(tx: &Tx<'_>, head: PlanHead, id: ApplyId) -> Result<bool, StoreError> {
    let other = "SELECT 1 FROM applies WHERE head = ?1 AND id <> ?2 AND stage = 'sealed' LIMIT 1";
    Ok(tx.one(other, (head.0, SqlText(id)), |_| Ok(()))?.is_some())
}

fn move_without_job(tx: &Tx<'_>, head: PlanHead, event: PlanEvent, at: WriteTime) -> Result<(), StoreError> {
    let Some(plan) = plans::of_head(tx, head)? else { return Ok(()) };
    match plan.moved(event, Vec::new(), at.wall) {
        Ok(moved) => plans::keep_moved(tx, head, &plan, &moved, event, Initiator::Journal, at),
        Err(_) => Ok(()),
    }
}

fn keep_undone(
    tx: &Tx<'_>,
    head: PlanHead,
    undone: bool,
    apply: &ApplyRecord,
    at: WriteTime,
) -> Result<(), StoreError> {
    let plan = plans::of_head(tx, head)?.filter(|plan| plan.undone_at.is_some() != undone);
    let Some(plan) = plan else { return Ok(()) };
    plans::keep_undone(tx, head, &plan.undone(undone.then_some(at.wall), at.wall))?;
    tell(tx, head, [event_draft::plan_undone(apply.kind, apply.id)], at.wall)
}

#[async_trait]
impl ApplyStore for SqliteStore {
    async fn seal_apply(&self, _: &Effect, claim: &Claim, new: NewApply) -> Result<(), JobStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_POWER, move |tx| seal(tx, &claim, new, at)).await
    }

    async fn begin_apply(&self, new: NewApply) -> Result<(), StoreError> {
        let at = self.moment();
        self.write(FOR_POWER, move |tx| begin(tx, new, at)).await
    }

    async fn end_apply(&self, id: ApplyId, how: ApplyEnd) -> Result<bool, StoreError> {
        let at = self.moment();
        self.write(FOR_POWER, move |tx| end(tx, id, how, at)).await
    }

    async fn applies(&self, plan: PlanId) -> Result<Vec<ApplyRecord>, StoreError> {
        self.read(|tx| of_plan(tx, plan))
    }

    async fn open_applies(&self) -> Result<Vec<ApplyRecord>, StoreError> {
        self.read(open)
    }

    async fn apply(&self, id: ApplyId) -> Result<Option<ApplyRecord>, StoreError> {
        Ok(self.read(|tx| find(tx, id))?.map(|(_, apply)| apply))
    }
}
