//! Jobs in SQLite: their queue, their owners, and the check of the fence.
//!
//! # Invariants
//! 1. Every move is [`Job::next`] between a read and a write of one transaction. It has the effects that it
//!    has in [`PlanRecord`](domain::PlanRecord). Changesets and calls that lost their owner end, the plan
//!    follows, and the events of both are recorded.
//! 2. A claim looks at queued and running jobs only, by their indexes: jobs that have ended cost nothing.

mod port;
mod queries;

use domain::record::event_draft;
use domain::{
    ChangesetEnding, Claim, ClaimRequest, ConstraintReason, Initiator, Job, JobEvent, JobId, JobState,
    JobTransitionRejection, LeaseLost, Ms, NewJob, Phase, RecoveryPolicy, WallMs, WorkerId, follow,
    why_constrained,
};

use super::columns::{SqlText, count, ms, signed};
use super::plan_heads;
use super::plan_heads::{PlanHead, tell};
use super::transaction::Tx;
use super::{calls, changesets, errors, ledger, plans};
use crate::job_store::was_released;
use crate::{JobEnd, JobStoreError, QUEUED_JOBS_MAX, StoreError};
pub(super) use queries::{JobRow, find, known_of, live_of};
use queries::{insert, save};

/// The time at which a write was requested, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteTime {
    pub(super) now: Ms,
    pub(super) wall: WallMs,
}

/// Lets the owner pass: first in every write of it. The answer is the plan's row.
pub(super) fn guard(tx: &Tx<'_>, claim: &Claim) -> Result<PlanHead, StoreError> {
    let running = "SELECT j.head FROM jobs j JOIN plan_heads h ON h.no = j.head
                   WHERE j.id = ?1 AND j.fence = ?2 AND j.state = 'running' AND h.plan = ?3";
    let params = (SqlText(claim.job), signed(claim.fence.0), SqlText(claim.plan));
    tx.one(running, params, |row| row.get(0).map(PlanHead))?.ok_or_else(|| lost(claim).into())
}

fn lost(claim: &Claim) -> LeaseLost {
    LeaseLost { job: claim.job, fence: claim.fence }
}

/// Returns the job that the claim names, owned or not. An unknown plan or job has no owner.
pub(super) fn of_claim(tx: &Tx<'_>, claim: &Claim) -> Result<JobRow, StoreError> {
    find(tx, claim.job)?.filter(|kept| kept.job.plan == claim.plan).ok_or_else(|| lost(claim).into())
}

/// Moves a job and the plan with it, and ends the calls and the changesets that lost their owner by it. With
/// `constrained_by`, a job that fails leaves its plan constrained by these.
pub(super) fn move_job(
    tx: &Tx<'_>,
    kept: &JobRow,
    event: &JobEvent,
    constrained_by: Option<Vec<ConstraintReason>>,
    at: WriteTime,
) -> Result<Job, JobStoreError> {
    let JobRow { head, job: before } = kept;
    let after = before.next(event, at.now)?;
    let followed = match follow(before, &after, constrained_by.is_some()) {
        None => None,
        Some(event) => plans::of_head(tx, *head)?.map(|plan| (plan, event)),
    };
    let moved = match followed {
        None => None,
        Some((plan, event)) => {
            let not_ready = JobTransitionRejection::PlanNotReady { state: plan.state };
            let reasons = constrained_by.unwrap_or_default();
            let moved = plan.moved(event, reasons, at.wall).map_err(|_| not_ready)?;
            Some((plan, moved, event))
        }
    };
    save(tx, &after)?;
    if !after.is_owned_by(&before.claim()) {
        calls::end_all(tx, *head, after.plan, at)?;
        let succeeded = after.state == JobState::Succeeded;
        changesets::end_all(
            tx,
            *head,
            if succeeded { ChangesetEnding::Closed } else { ChangesetEnding::Interrupted },
            at,
        )?;
        ledger::assume_all(tx, *head, after.plan)?;
    }
    if after.state == JobState::Failed {
        let attempt = moved.as_ref().map_or(1, |(plan, ..)| plan.attempt);
        if let Some(error) = after.given_up_error(attempt) {
            errors::keep(tx, *head, after.plan, &RecoveryPolicy::default(), error, 0, at)?;
        }
    }
    tell(tx, *head, event_draft::job_moved(before, &after), at.wall)?;
    if let Some((before, moved, event)) = moved {
        plans::keep_moved(tx, *head, &before, &moved, event, Initiator::Job, at)?;
    }
    Ok(after)
}

/// Queues a job that may be queued, and records the event.
pub(super) fn keep_queued(tx: &Tx<'_>, head: PlanHead, job: &Job, at: WriteTime) -> Result<(), StoreError> {
    insert(tx, head, job)?;
    tell(tx, head, [event_draft::job_queued(job)], at.wall)
}

/// Returns an error if the id of a job is taken in the store, or the queue is full. A known job of the plan
/// is queued already.
pub(super) fn may_be_queued(tx: &Tx<'_>, new: &NewJob) -> Result<Option<JobRow>, JobStoreError> {
    if let Some(known) = find(tx, new.id)? {
        let is_of_plan = known.job.plan == new.plan;
        let taken = JobTransitionRejection::IdTaken { job: new.id };
        return if is_of_plan { Ok(Some(known)) } else { Err(JobStoreError::Refused(taken)) };
    }
    let queued = tx.the("SELECT count(*) FROM jobs WHERE state = 'queued'", [], |row| count(row, 0))?;
    let is_full = queued >= QUEUED_JOBS_MAX && new.is_left_to_workers();
    if is_full { Err(JobStoreError::QueueFull { queued }) } else { Ok(None) }
}

fn enqueue(tx: &Tx<'_>, new: NewJob, at: WriteTime) -> Result<Job, JobStoreError> {
    if let Some(known) = may_be_queued(tx, &new)? {
        let mut job = known.job;
        if job.phase != new.phase {
            return Err(JobTransitionRejection::IdTaken { job: new.id }.into());
        }
        if job.be_due(new.not_before) {
            save(tx, &job)?;
        }
        return Ok(job);
    }
    let head = plan_heads::find_or_make(tx, new.plan)?;
    if let Some(live) = live_of(tx, head)? {
        return Err(JobTransitionRejection::PlanBusy { job: live.id }.into());
    }
    let job = match plans::of_head(tx, head)? {
        None => Job::new(new, at.now),
        Some(plan) => {
            plan.waits_for(&new)?;
            plan.queued(new, at.now)
        }
    };
    keep_queued(tx, head, &job, at)?;
    Ok(job)
}

/// Claims until it gets a job that runs: taking over one whose fourth owner died ends that one instead. A job
/// whose plan cannot be read here is passed over, for a newer program: no other plan waits for it. A worker
/// that serves that plan alone gets the error.
fn claim(tx: &Tx<'_>, request: &ClaimRequest, at: WriteTime) -> Result<Option<Job>, JobStoreError> {
    let mut passed = SkippedJobs::default();
    while let Some((id, event)) = pick(tx, request, &passed, at.now)? {
        let kept = find(tx, id)?.ok_or(JobTransitionRejection::NotFound { job: id })?;
        match move_job(tx, &kept, &event, None, at) {
            Ok(job) if job.state == JobState::Running => return Ok(Some(job)),
            Ok(_) => {}
            // Found out before anything was written.
            Err(JobStoreError::Store(StoreError::Unreadable { .. })) if request.only.is_none() => {
                let is_dead = matches!(event, JobEvent::TakeOver { .. });
                *(if is_dead { &mut passed.dead } else { &mut passed.due }) = Some(id);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The last ones that were passed over, of each kind.
#[derive(Default)]
struct SkippedJobs {
    dead: Option<JobId>,
    due: Option<JobId>,
}

/// The rule of [`domain::pick`], as questions to the indexes.
fn pick(
    tx: &Tx<'_>,
    request: &ClaimRequest,
    passed: &SkippedJobs,
    now: Ms,
) -> Result<Option<(JobId, JobEvent)>, StoreError> {
    let &ClaimRequest { worker, boot, lease, concurrency_max, only, .. } = request;
    let live = tx.the(
        "SELECT count(*) FROM jobs INDEXED BY jobs_running WHERE state = 'running' AND lease_until > ?1 AND boot = ?2",
        (ms(now), SqlText(boot)),
        |row| row.get::<_, i64>(0),
    )?;
    let head = match only {
        None => None,
        Some(plan) => match plan_heads::find(tx, plan)? {
            None => return Ok(None),
            Some(head) => Some(head),
        },
    };
    let take_over = |job| (job, JobEvent::TakeOver { worker, boot, lease });
    let claim = |job| (job, JobEvent::Claim { worker, boot, lease });
    if live >= i64::from(concurrency_max) {
        let to_be_cancelled = match head {
            None => queries::first_dead_to_be_cancelled(tx, boot, now, passed.dead)?,
            Some(head) => queries::dead_to_be_cancelled_of(tx, head, boot, now)?,
        };
        if let Some(job) = to_be_cancelled {
            return Ok(Some(take_over(job)));
        }
        // An apply that a process serves alone waits for no slot.
        let Some(head) = head else { return Ok(None) };
        let apply = |job: Option<JobId>| -> Result<Option<JobId>, StoreError> {
            let Some(job) = job else { return Ok(None) };
            let found = find(tx, job).map_err(|error| StoreError::Broken { why: error.to_string() })?;
            Ok(found.filter(|kept| kept.job.phase == Phase::Apply).map(|kept| kept.job.id))
        };
        if let Some(job) = apply(queries::dead_of(tx, head, boot, now)?)? {
            return Ok(Some(take_over(job)));
        }
        return Ok(apply(queries::due_of(tx, head, now)?)?.map(claim));
    }
    let (dead, due) = match head {
        None => {
            let variables = &request.variables;
            let dead = queries::first_dead(tx, boot, now, variables, passed.dead)?;
            (dead, queries::first_due(tx, now, variables, passed.due)?)
        }
        Some(head) => (queries::dead_of(tx, head, boot, now)?, queries::due_of(tx, head, now)?),
    };
    Ok(dead.map(take_over).or_else(|| due.map(claim)))
}

/// One event of the job that the claim names.
fn owner_event(tx: &Tx<'_>, claim: &Claim, event: &JobEvent, at: WriteTime) -> Result<Job, JobStoreError> {
    move_job(tx, &of_claim(tx, claim)?, event, None, at)
}

fn cancel_own(tx: &Tx<'_>, claim: &Claim, reason: String, at: WriteTime) -> Result<Job, JobStoreError> {
    guard(tx, claim)?;
    owner_event(tx, claim, &JobEvent::Cancel { reason }, at)
}

/// Asks for a cancel; returns true if no caller asked before.
fn cancel_first(
    tx: &Tx<'_>,
    job: JobId,
    reason: String,
    at: WriteTime,
) -> Result<(Job, bool), JobStoreError> {
    let kept = find(tx, job)?.ok_or(JobTransitionRejection::NotFound { job })?;
    let is_first = kept.job.cancel.is_none();
    Ok((move_job(tx, &kept, &JobEvent::Cancel { reason }, None, at)?, is_first))
}

fn end(tx: &Tx<'_>, claim: &Claim, end: JobEnd, at: WriteTime) -> Result<Job, JobStoreError> {
    let kept = of_claim(tx, claim)?;
    if end.was_said_before(&kept.job, claim) {
        return Ok(kept.job);
    }
    let fence = claim.fence;
    let (event, constrained_by) = match end {
        JobEnd::Succeeded => (JobEvent::Succeed { fence }, None),
        JobEnd::Failed { why } => (JobEvent::Fail { fence, why }, None),
        JobEnd::Constrained { reasons } => {
            (JobEvent::Fail { fence, why: why_constrained(&reasons) }, Some(reasons))
        }
        JobEnd::Cancelled => (JobEvent::Cancelled { fence }, None),
    };
    move_job(tx, &kept, &event, constrained_by, at)
}

fn release(tx: &Tx<'_>, claim: &Claim, at: WriteTime) -> Result<Job, JobStoreError> {
    let kept = of_claim(tx, claim)?;
    if was_released(&kept.job, claim) {
        return Ok(kept.job);
    }
    move_job(tx, &kept, &JobEvent::Release { fence: claim.fence }, None, at)
}

fn free_leases(tx: &Tx<'_>, worker: WorkerId, at: WriteTime) -> Result<usize, JobStoreError> {
    let owned = queries::owned_by(tx, worker)?;
    for kept in &owned {
        move_job(tx, kept, &JobEvent::FreeLease { worker }, None, at)?;
    }
    Ok(owned.len())
}
