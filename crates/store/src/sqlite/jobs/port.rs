//! The port for jobs.

use std::time::Duration;

use async_trait::async_trait;
use domain::{Claim, ClaimRequest, Job, JobEvent, JobId, JobTransitionRejection, NewJob, PlanId, WorkerId};
use sync::{Effect, Finisher};

use super::{cancel_first, cancel_own, claim, end, enqueue, free_leases, owner_event, queries, release};
use crate::sqlite::{FIRST_FOR_POWER, FIRST_FOR_PROCESS, FOR_POWER, FOR_PROCESS, SqliteStore};
use crate::{JobEnd, JobStore, JobStoreError};

#[async_trait]
impl JobStore for SqliteStore {
    async fn enqueue(&self, new: NewJob) -> Result<Job, JobStoreError> {
        let at = self.moment();
        self.write(FOR_PROCESS, move |tx| enqueue(tx, new, at)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Option<Job>, JobStoreError> {
        let (at, request) = (self.moment(), request.clone());
        self.write(FOR_PROCESS, move |tx| claim(tx, &request, at)).await
    }

    async fn claim_some(&self, request: &ClaimRequest, most: usize) -> Result<Vec<Job>, JobStoreError> {
        let (at, request) = (self.moment(), request.clone());
        self.write(FOR_PROCESS, move |tx| {
            let mut claimed = Vec::new();
            while claimed.len() < most {
                let Some(job) = claim(tx, &request, at)? else { break };
                claimed.push(job);
            }
            Ok(claimed)
        })
        .await
    }

    async fn heartbeat(&self, claim: &Claim, lease: Duration) -> Result<Job, JobStoreError> {
        let (at, claim) = (self.moment(), *claim);
        let event = JobEvent::Heartbeat { fence: claim.fence, lease };
        self.write(FIRST_FOR_PROCESS, move |tx| owner_event(tx, &claim, &event, at)).await
    }

    async fn settled_node(&self, _: &Effect, claim: &Claim) -> Result<(), JobStoreError> {
        let (at, claim) = (self.moment(), *claim);
        let event = JobEvent::SettledNode { fence: claim.fence };
        self.write(FOR_PROCESS, move |tx| owner_event(tx, &claim, &event, at).map(drop)).await
    }

    async fn cancel(&self, job: JobId, reason: &str) -> Result<Job, JobStoreError> {
        let (at, reason) = (self.moment(), reason.to_owned());
        self.write(FIRST_FOR_POWER, move |tx| cancel_first(tx, job, reason, at).map(|(job, _)| job)).await
    }

    async fn cancel_first(&self, job: JobId, reason: &str) -> Result<(Job, bool), JobStoreError> {
        let (at, reason) = (self.moment(), reason.to_owned());
        self.write(FIRST_FOR_POWER, move |tx| cancel_first(tx, job, reason, at)).await
    }

    async fn cancel_own(&self, claim: &Claim, reason: &str) -> Result<Job, JobStoreError> {
        let (at, claim, reason) = (self.moment(), *claim, reason.to_owned());
        self.write(FIRST_FOR_PROCESS, move |tx| cancel_own(tx, &claim, reason, at)).await
    }

    async fn seal(&self, _: &Effect, claim: &Claim) -> Result<(), JobStoreError> {
        let (at, claim) = (self.moment(), *claim);
        let event = JobEvent::Seal { fence: claim.fence };
        self.write(FOR_POWER, move |tx| owner_event(tx, &claim, &event, at).map(drop)).await
    }

    async fn end(&self, _: &Finisher, claim: &Claim, how: JobEnd) -> Result<Job, JobStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_POWER, move |tx| end(tx, &claim, how, at)).await
    }

    async fn release(&self, _: &Finisher, claim: &Claim) -> Result<Job, JobStoreError> {
        let (at, claim) = (self.moment(), *claim);
        self.write(FOR_POWER, move |tx| release(tx, &claim, at)).await
    }

    async fn free_leases(&self, worker: WorkerId) -> Result<usize, JobStoreError> {
        let at = self.moment();
        self.write(FIRST_FOR_PROCESS, move |tx| free_leases(tx, worker, at)).await
    }

    async fn job(&self, id: JobId) -> Result<Job, JobStoreError> {
        let found = self.read(|tx| queries::find(tx, id))?;
        found.map(|kept| kept.job).ok_or(JobStoreError::Refused(JobTransitionRejection::NotFound { job: id }))
    }

    async fn jobs(&self, plan: Option<PlanId>) -> Result<Vec<Job>, JobStoreError> {
        Ok(self.read(|tx| match plan {
            None => queries::all(tx),
            Some(plan) => queries::all_of(tx, plan),
        })?)
    }

    async fn live_jobs(&self) -> Result<Vec<Job>, JobStoreError> {
        Ok(self.read(queries::live)?)
    }
}
