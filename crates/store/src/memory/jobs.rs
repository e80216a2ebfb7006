//! Jobs in memory. Every call looks at all of them, which is slow, and simple enough to be surely right.

use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Claim, ClaimRequest, Job, JobEvent, JobId, JobState, JobTransitionRejection, Ms, NewJob, PlanId,
    WorkerId, pick,
};
use sync::{Effect, Finisher};

use super::{MemoryStore, Plans, all_jobs, plan_of};
use crate::job_store::was_released;
use crate::{JobEnd, JobStore, JobStoreError, QUEUED_JOBS_MAX};

impl MemoryStore {
    /// One event of the job that the claim names.
    fn owner_event(&self, claim: &Claim, event: &JobEvent) -> Result<Job, JobStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.apply_job_event(claim.job, event, now).cloned())?)
    }
}

/// Claims until it gets a job that runs: taking over one whose fourth owner died ends that one instead.
fn claim(plans: &mut Plans, request: &ClaimRequest, now: Ms) -> Result<Option<Job>, JobTransitionRejection> {
    while let Some((id, event)) = pick(all_jobs(plans), request, now) {
        let job = plan_of(plans, id)?.apply_job_event(id, &event, now)?;
        if job.state == JobState::Running {
            return Ok(Some(job.clone()));
        }
    }
    Ok(None)
}

fn enqueue(plans: &mut Plans, new: NewJob, now: Ms) -> Result<Job, JobStoreError> {
    may_be_queued(plans, &new)?;
    Ok(plans.entry(new.plan).or_default().enqueue(new, now)?)
}

/// Checks whether the id of a job is free in the whole store, and the queue has room. A known job is queued
/// already.
pub(super) fn may_be_queued(plans: &mut Plans, new: &NewJob) -> Result<(), JobStoreError> {
    if plans.get(&new.plan).is_some_and(|plan| plan.job(new.id).is_some()) {
        return Ok(());
    }
    if plan_of(plans, new.id).is_ok() {
        return Err(JobStoreError::Refused(JobTransitionRejection::IdTaken { job: new.id }));
    }
    let queued = all_jobs(plans).filter(|job| job.state == JobState::Queued).count();
    if queued >= QUEUED_JOBS_MAX && new.is_left_to_workers() {
        return Err(JobStoreError::QueueFull { queued });
    }
    Ok(())
}

#[async_trait]
impl JobStore for MemoryStore {
    async fn enqueue(&self, new: NewJob) -> Result<Job, JobStoreError> {
        let now = self.now();
        self.plans.update_all(|plans| enqueue(plans, new, now))
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Job>, JobStoreError> {
        let now = self.now();
        Ok(self.plans.update_all(|plans| claim(plans, request, now))?)
    }

    async fn heartbeat(&self, claim: &Claim, lease: Duration) -> Result<Job, JobStoreError> {
        self.owner_event(claim, &JobEvent::Heartbeat { fence: claim.fence, lease })
    }

    async fn settled_node(&self, _: &Effect, claim: &Claim) -> Result<(), JobStoreError> {
        self.owner_event(claim, &JobEvent::SettledNode { fence: claim.fence }).map(drop)
    }

    async fn cancel(&self, job: JobId, reason: &str) -> Result<Job, JobStoreError> {
        let now = self.now();
        let event = JobEvent::Cancel { reason: reason.to_owned() };
        self.plans.update_all(|plans| Ok(plan_of(plans, job)?.apply_job_event(job, &event, now)?.clone()))
    }

    async fn cancel_first(&self, job: JobId, reason: &str) -> Result<(Job, bool), JobStoreError> {
        let now = self.now();
        let event = JobEvent::Cancel { reason: reason.to_owned() };
        self.plans.update_all(|plans| {
            let plan = plan_of(plans, job)?;
            let is_first = plan.job(job).is_some_and(|job| job.cancel.is_none());
            Ok((plan.apply_job_event(job, &event, now)?.clone(), is_first))
        })
    }

    async fn cancel_own(&self, claim: &Claim, reason: &str) -> Result<Job, JobStoreError> {
        let now = self.now();
        let event = JobEvent::Cancel { reason: reason.to_owned() };
        Ok(self.write(claim, |plan| {
            plan.guard(claim)?;
            plan.apply_job_event(claim.job, &event, now).cloned()
        })?)
    }

    async fn seal(&self, _: &Effect, claim: &Claim) -> Result<(), JobStoreError> {
        self.owner_event(claim, &JobEvent::Seal { fence: claim.fence }).map(drop)
    }

    async fn end(&self, _: &Finisher, claim: &Claim, end: JobEnd) -> Result<Job, JobStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| match plan.job(claim.job) {
            Some(job) if end.was_said_before(job, claim) => Ok(job.clone()),
            Some(_) | None => {
                let fence = claim.fence;
                let event = match end {
                    JobEnd::Succeeded => JobEvent::Succeed { fence },
                    JobEnd::Failed { why } => JobEvent::Fail { fence, why },
                    JobEnd::Constrained { reasons } => return plan.constrain(claim, reasons, now).cloned(),
                    JobEnd::Cancelled => JobEvent::Cancelled { fence },
                };
                plan.apply_job_event(claim.job, &event, now).cloned()
            }
        })?)
    }

    async fn release(&self, _: &Finisher, claim: &Claim) -> Result<Job, JobStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| match plan.job(claim.job) {
            Some(job) if was_released(job, claim) => Ok(job.clone()),
            Some(_) | None => {
                let event = JobEvent::Release { fence: claim.fence };
                plan.apply_job_event(claim.job, &event, now).cloned()
            }
        })?)
    }

    async fn free_leases(&self, worker: WorkerId) -> Result<usize, JobStoreError> {
        let now = self.now();
        self.plans.update_all(|plans| {
            let owned: Vec<JobId> = all_jobs(plans)
                .filter(|job| job.state == JobState::Running && job.worker == Some(worker))
                .map(|job| job.id)
                .collect();
            for id in &owned {
                plan_of(plans, *id)?.apply_job_event(*id, &JobEvent::FreeLease { worker }, now)?;
            }
            Ok(owned.len())
        })
    }

    async fn job(&self, id: JobId) -> Result<Job, JobStoreError> {
        let found = self.plans.update_all(|plans| all_jobs(plans).find(|job| job.id == id).cloned());
        found.ok_or(JobStoreError::Refused(JobTransitionRejection::NotFound { job: id }))
    }

    async fn jobs(&self, plan: Option<PlanId>) -> Result<Vec<Job>, JobStoreError> {
        let mut jobs: Vec<Job> = self.plans.update_all(|plans| {
            all_jobs(plans).filter(|job| plan.is_none_or(|plan| plan == job.plan)).cloned().collect()
        });
        jobs.sort_by_key(|job| job.id);
        Ok(jobs)
    }
}
