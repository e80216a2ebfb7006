//! Jobs: queued, claimed, renewed, ended.

use std::time::Duration;

use async_trait::async_trait;
use domain::{Claim, ClaimRequest, Job, JobId, JobState, NewJob, PlanId, WorkerId};
use store::{JobEnd, JobStore, JobStoreError, StoreError};
use sync::{Effect, Finisher};

use super::{FaultyStore, Kind, is_lost};
use crate::broken_programs::BrokenProgram;
use crate::fault::Fault;

fn job_is_lost<T>(answer: &Result<T, JobStoreError>) -> bool {
    matches!(answer, Err(JobStoreError::Store(error)) if is_lost(error))
}

impl FaultyStore {
    /// A job that runs under another worker, given away once more.
    async fn given_twice(&self) -> Option<Job> {
        if !self.world.is_broken(BrokenProgram::DoubleClaim) || !self.world.random().chance(2_000) {
            return None;
        }
        let jobs = self.inner().jobs(None).await.unwrap_or_default();
        jobs.into_iter().find(|job| job.state == JobState::Running)
    }

    /// Returns true if the broken worker ignores dead leases and a job has one: it claims nothing.
    async fn claims_nothing_dead(&self, request: &ClaimRequest) -> bool {
        if !self.world.is_broken(BrokenProgram::StuckLease) {
            return false;
        }
        let now = domain::Ms::from(sync::Clock::now(&self.world.clock));
        let jobs = self.inner().jobs(None).await.unwrap_or_default();
        jobs.iter().any(|job| job.state == JobState::Running && job.lease_is_dead(now, request.boot))
    }
}

#[async_trait]
impl JobStore for FaultyStore {
    async fn enqueue(&self, new: NewJob) -> Result<Job, JobStoreError> {
        self.before("enqueue", Kind::Write).await?;
        let answer = self.inner().enqueue(new).await?;
        self.after("enqueue", Kind::Write, Some(new.plan)).await?;
        Ok(answer)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Job>, JobStoreError> {
        self.before("claim", Kind::Write).await?;
        if let Some(job) = self.given_twice().await {
            self.world.watch.observe_claim(&job);
            return Ok(Some(job));
        }
        if self.claims_nothing_dead(request).await {
            return Ok(None);
        }
        let answer = self.inner().claim(request).await?;
        if let Some(job) = &answer {
            self.world.watch.observe_claim(job);
        }
        self.after("claim", Kind::Write, None).await?;
        Ok(answer)
    }

    async fn heartbeat(&self, claim: &Claim, lease: Duration) -> Result<Job, JobStoreError> {
        if self.world.strikes(Fault::HeartbeatLost, self.world.scenario.fault_rate * 4) {
            self.world.clock.sleep(lease * 2).await;
            return Err(StoreError::Busy.into());
        }
        self.before("heartbeat", Kind::Beat).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().heartbeat(&shown, lease).await;
        self.owner_wrote(claim, "a heartbeat", &answer, job_is_lost(&answer));
        let job = answer?;
        self.after("heartbeat", Kind::Beat, Some(claim.plan)).await?;
        Ok(job)
    }

    async fn settled_node(&self, effect: &Effect, claim: &Claim) -> Result<(), JobStoreError> {
        self.before("settled_node", Kind::Write).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().settled_node(effect, &shown).await;
        self.owner_wrote(claim, "a settled node", &answer, job_is_lost(&answer));
        answer?;
        self.after("settled_node", Kind::Write, Some(claim.plan)).await?;
        Ok(())
    }

    async fn cancel(&self, job: JobId, reason: &str) -> Result<Job, JobStoreError> {
        self.before("cancel", Kind::Synced).await?;
        let answer = self.inner().cancel(job, reason).await?;
        self.after("cancel", Kind::Synced, Some(answer.plan)).await?;
        Ok(answer)
    }

    async fn cancel_own(&self, claim: &Claim, reason: &str) -> Result<Job, JobStoreError> {
        self.before("cancel_own", Kind::Synced).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().cancel_own(&shown, reason).await;
        self.owner_wrote(claim, "a cancel", &answer, job_is_lost(&answer));
        let job = answer?;
        self.after("cancel_own", Kind::Synced, Some(claim.plan)).await?;
        Ok(job)
    }

    async fn seal(&self, effect: &Effect, claim: &Claim) -> Result<(), JobStoreError> {
        self.before("seal", Kind::Synced).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().seal(effect, &shown).await;
        self.owner_wrote(claim, "a seal", &answer, job_is_lost(&answer));
        answer?;
        self.after("seal", Kind::Synced, Some(claim.plan)).await?;
        Ok(())
    }

    async fn end(&self, finisher: &Finisher, claim: &Claim, end: JobEnd) -> Result<Job, JobStoreError> {
        self.before("end", Kind::Synced).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().end(finisher, &shown, end).await;
        self.owner_wrote(claim, "an end", &answer, job_is_lost(&answer));
        let job = answer?;
        self.world.watch.observe_run_end(claim, self.world.machine().lives_of_run(claim));
        self.after("end", Kind::Synced, Some(claim.plan)).await?;
        Ok(job)
    }

    async fn release(&self, finisher: &Finisher, claim: &Claim) -> Result<Job, JobStoreError> {
        self.before("release", Kind::Synced).await?;
        let shown = self.presented_claim(claim);
        let answer = self.inner().release(finisher, &shown).await;
        self.owner_wrote(claim, "a release", &answer, job_is_lost(&answer));
        let job = answer?;
        self.world.watch.observe_run_end(claim, self.world.machine().lives_of_run(claim));
        self.after("release", Kind::Synced, Some(claim.plan)).await?;
        Ok(job)
    }

    async fn free_leases(&self, worker: WorkerId) -> Result<usize, JobStoreError> {
        self.before("free_leases", Kind::Write).await?;
        let answer = self.inner().free_leases(worker).await?;
        self.after("free_leases", Kind::Write, None).await?;
        Ok(answer)
    }

    async fn job(&self, id: JobId) -> Result<Job, JobStoreError> {
        self.before("job", Kind::Read).await?;
        let answer = self.inner().job(id).await?;
        self.after("job", Kind::Read, None).await?;
        Ok(answer)
    }

    async fn jobs(&self, plan: Option<PlanId>) -> Result<Vec<Job>, JobStoreError> {
        self.before("jobs", Kind::Read).await?;
        let answer = self.inner().jobs(plan).await?;
        self.after("jobs", Kind::Read, None).await?;
        Ok(answer)
    }
}
