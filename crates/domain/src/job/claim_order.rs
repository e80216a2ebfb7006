//! The claim rule: picks the job that a worker runs next.
//!
//! # Invariants
//! 1. A job is given only while fewer than `concurrency_max` jobs have a live owner. There are two
//!    exceptions. A job whose owner died with a cancel pending is only ended, not run again, and a cancel
//!    waits for no slot. For an apply of the plan that a process serves alone, a person waits, and it takes
//!    no time.
//! 2. A held job is given only to a process that serves its plan alone. A job that wants keys is given to no
//!    worker that lacks them. Both are given to any worker to be cancelled, as above.
//! 3. Work that lost its owner goes before work that never began; among equals the lowest id goes first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Job, JobEvent, JobState};
use crate::id::{BootId, JobId, PlanId, WorkerId};
use crate::plan::phase::Phase;
use crate::time::Ms;

/// A worker with a free hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The worker that asks.
    pub worker: WorkerId,
    /// The boot that it runs in.
    pub boot: BootId,
    /// The time for which it wants to own the job without a heartbeat.
    pub lease: Duration,
    /// The limit of jobs of the store that run at once.
    pub concurrency_max: u32,
    /// Serve this plan only.
    pub only: Option<PlanId>,
    /// The variables that it was started with. A process that serves one plan only has the keys that the plan
    /// needs, or reports the missing ones.
    pub variables: Arc<BTreeSet<String>>,
}

/// Returns the job that the worker is to take, and the event that takes it; `None` if nothing is due or no
/// slot is free.
///
/// `jobs` are all jobs of the store, in any order: those of other plans hold slots too. Taking over a job
/// whose fourth owner died ends it. So the caller looks at the state it gets, and asks again if that is
/// final.
pub fn pick<'a>(
    jobs: impl IntoIterator<Item = &'a Job>,
    request: &ClaimRequest,
    now: Ms,
) -> Option<(JobId, JobEvent)> {
    let &ClaimRequest { worker, boot, lease, concurrency_max, only, .. } = request;
    let mut live: u32 = 0;
    let mut dead: Option<JobId> = None;
    let mut to_be_cancelled: Option<JobId> = None;
    let mut due: Option<JobId> = None;
    let mut apply: Option<(JobId, bool)> = None;
    for job in jobs {
        let wanted = only.is_none_or(|plan| plan == job.plan);
        let may_run = wanted && (only.is_some() || job.is_for_workers_with(&request.variables));
        let is_due = job.not_before <= now || job.is_held();
        let is_dead = job.state == JobState::Running && job.lease_is_dead(now, boot);
        if only == Some(job.plan)
            && job.phase == Phase::Apply
            && (is_dead || (job.state == JobState::Queued && is_due))
        {
            apply = Some((job.id, is_dead));
        }
        match job.state {
            JobState::Running if !job.lease_is_dead(now, boot) => live = live.saturating_add(1),
            JobState::Running if wanted && job.cancel_pends() => {
                dead = first(dead, job.id);
                to_be_cancelled = first(to_be_cancelled, job.id);
            }
            JobState::Running if may_run => dead = first(dead, job.id),
            JobState::Queued if may_run && is_due => due = first(due, job.id),
            JobState::Running
            | JobState::Queued
            | JobState::Succeeded
            | JobState::Failed
            | JobState::Cancelled => {}
        }
    }
    let take_over = |job| (job, JobEvent::TakeOver { worker, boot, lease });
    let claim = |job| (job, JobEvent::Claim { worker, boot, lease });
    if live >= concurrency_max {
        let apply = || apply.map(|(job, is_dead)| if is_dead { take_over(job) } else { claim(job) });
        return to_be_cancelled.map(take_over).or_else(apply);
    }
    dead.map(take_over).or_else(|| due.map(claim))
}

fn first(known: Option<JobId>, other: JobId) -> Option<JobId> {
    Some(known.map_or(other, |known| known.min(other)))
}
