//! The in-memory store: the pure rules of `domain` in one critical section per call.
//!
//! It keeps nothing beyond the process. It is what the tests, the model checker and the simulation run on, and the
//! measure for the other stores: all pass one conformance suite.
//!
//! # Invariants
//! 1. One lock, that of [`KeyedHistories`]; no call takes it twice, none awaits inside.
//! 2. The clock is read before the lock is taken, so instants may be a little out of order; no rule relies on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Changeset, ChangesetId, Claim, ClaimRequest, Closed, Ending, ErrorHistory, Fence, Job, JobEvent, JobId,
    JobRefused, JobState, LeaseLost, Ms, NewChange, NewError, NewJob, PlanId, PlanRecord, Policy, Recorded,
    Recovery, Started, WorkerId, pick,
};
use sync::{Clock, Effect, Finisher, KeyedHistories};

use crate::{
    ChangesetStore, ChangesetStoreError, ErrorStore, JobEnd, JobStore, JobStoreError, QUEUED_JOBS_MAX,
    StoreError,
};

/// Keeps everything in memory.
///
/// ```
/// use std::sync::Arc;
/// use store::{JobStore, MemoryStore};
///
/// let store = MemoryStore::new(Arc::new(sync::SystemClock::new()));
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # runtime.block_on(async {
/// assert_eq!(store.jobs(None).await?, []);
/// # Ok::<(), store::JobStoreError>(())
/// # }).expect("an empty store");
/// ```
pub struct MemoryStore {
    plans: KeyedHistories<PlanId, PlanRecord>,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty store that reads its time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { plans: KeyedHistories::new(), clock }
    }

    fn now(&self) -> Ms {
        Ms::from(self.clock.now())
    }

    /// One write to the plan that the claim names. A plan or a job that nobody knows has no owner.
    fn write<T, E: From<LeaseLost>>(
        &self,
        claim: &Claim,
        write: impl FnOnce(&mut PlanRecord) -> Result<T, E>,
    ) -> Result<T, E> {
        let lost = LeaseLost { job: claim.job, fence: claim.fence };
        let known =
            self.plans.update_known(&claim.plan, |plan| plan.job(claim.job).is_some().then(|| write(plan)));
        known.flatten().unwrap_or_else(|| Err(lost.into()))
    }

    /// One event of the job that the claim names.
    fn owner_event(&self, claim: &Claim, event: &JobEvent) -> Result<Job, JobStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.apply_job_event(claim.job, event, now).cloned())?)
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("plans", &self.plans.len()).finish_non_exhaustive()
    }
}

#[async_trait]
impl ChangesetStore for MemoryStore {
    async fn start(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
    ) -> Result<Started, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.start_changeset(claim, id))?)
    }

    async fn record(
        &self,
        _: &Effect,
        claim: &Claim,
        id: ChangesetId,
        change: NewChange,
    ) -> Result<Recorded, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.record(claim, id, change))?)
    }

    async fn record_latest(
        &self,
        _: &Effect,
        claim: &Claim,
        change: NewChange,
    ) -> Result<Recorded, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.record_latest(claim, change))?)
    }

    async fn close(&self, _: &Effect, claim: &Claim, id: ChangesetId) -> Result<Closed, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.close(claim, id))?)
    }

    async fn finish(
        &self,
        _: &Finisher,
        claim: &Claim,
        how: Ending,
    ) -> Result<Vec<Closed>, ChangesetStoreError> {
        Ok(self.write(claim, |plan| plan.finish(claim, how)).map_err(StoreError::from)?)
    }

    async fn changesets(&self, plan: PlanId) -> Result<Vec<Changeset>, StoreError> {
        let all = |record: &PlanRecord| record.changesets().iter().cloned().collect();
        Ok(self.plans.read(&plan, |record| record.map(all).unwrap_or_default()))
    }
}

#[async_trait]
impl ErrorStore for MemoryStore {
    async fn record_error(
        &self,
        claim: &Claim,
        policy: &Policy,
        error: NewError,
        jitter: u16,
    ) -> Result<Recovery, StoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| plan.record_error(claim, policy, error, now, jitter))?)
    }

    async fn history(&self, plan: PlanId) -> Result<ErrorHistory, StoreError> {
        Ok(self.plans.read(&plan, |record| match record {
            Some(record) => record.errors().clone(),
            None => ErrorHistory::of(plan),
        }))
    }
}

type Plans = HashMap<PlanId, PlanRecord>;

fn all_jobs(plans: &Plans) -> impl Iterator<Item = &Job> {
    plans.values().flat_map(PlanRecord::jobs)
}

fn plan_of(plans: &mut Plans, job: JobId) -> Result<&mut PlanRecord, JobRefused> {
    plans.values_mut().find(|plan| plan.job(job).is_some()).ok_or(JobRefused::NotFound { job })
}

/// Claims until it gets a job that runs: taking over one whose fourth owner died ends that one instead.
fn claim(plans: &mut Plans, request: &ClaimRequest, now: Ms) -> Result<Option<Job>, JobRefused> {
    while let Some((id, event)) = pick(all_jobs(plans), request, now) {
        let job = plan_of(plans, id)?.apply_job_event(id, &event, now)?;
        if job.state == JobState::Running {
            return Ok(Some(job.clone()));
        }
    }
    Ok(None)
}

fn enqueue(plans: &mut Plans, new: NewJob, now: Ms) -> Result<Job, JobStoreError> {
    let is_known = plans.get(&new.plan).is_some_and(|plan| plan.job(new.id).is_some());
    if !is_known {
        if plan_of(plans, new.id).is_ok() {
            return Err(JobStoreError::Refused(JobRefused::IdTaken { job: new.id }));
        }
        let queued = all_jobs(plans).filter(|job| job.state == JobState::Queued).count();
        if queued >= QUEUED_JOBS_MAX {
            return Err(JobStoreError::QueueFull { queued });
        }
    }
    Ok(plans.entry(new.plan).or_default().enqueue(new, now)?)
}

/// Whether the owner of this claim ended the job so before: then it asks again, because the outcome was unknown.
fn was_ended_so(job: &Job, claim: &Claim, end: &JobEnd) -> bool {
    let (state, why) = match end {
        JobEnd::Succeeded => (JobState::Succeeded, None),
        JobEnd::Failed { why } => (JobState::Failed, Some(why)),
        JobEnd::Cancelled => (JobState::Cancelled, None),
    };
    let by_an_owner = job.worker.is_some();
    job.fence == claim.fence && by_an_owner && job.state == state && job.why.as_ref() == why
}

fn was_released(job: &Job, claim: &Claim) -> bool {
    job.state == JobState::Queued && job.fence == claim.fence && claim.fence != Fence::NONE
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
            Some(job) if was_ended_so(job, claim, &end) => Ok(job.clone()),
            Some(_) | None => {
                let fence = claim.fence;
                let event = match end {
                    JobEnd::Succeeded => JobEvent::Succeed { fence },
                    JobEnd::Failed { why } => JobEvent::Fail { fence, why },
                    JobEnd::Cancelled => JobEvent::Cancelled { fence },
                };
                plan.apply_job_event(claim.job, &event, now).cloned()
            }
        })?)
    }

    async fn release(&self, _: &Finisher, claim: &Claim) -> Result<Job, JobStoreError> {
        let now = self.now();
        Ok(self.write(claim, |plan| match plan.job(claim.job) {
            // Nobody else can have released it: the fence of a queued job is that of its last owner, if it had one.
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
        found.ok_or(JobStoreError::Refused(JobRefused::NotFound { job: id }))
    }

    async fn jobs(&self, plan: Option<PlanId>) -> Result<Vec<Job>, JobStoreError> {
        let mut jobs: Vec<Job> = self.plans.update_all(|plans| {
            all_jobs(plans).filter(|job| plan.is_none_or(|plan| plan == job.plan)).cloned().collect()
        });
        jobs.sort_by_key(|job| job.id);
        Ok(jobs)
    }
}
