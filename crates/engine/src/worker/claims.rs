//! Claims jobs while there is a free hand, one after the other, until the worker stops.
//!
//! # Invariants
//! 1. A slot is taken before a job is claimed, so that no more than `max_workers` run here.
//! 2. A job whose claim comes back after the stop began is given back, not run.
//! 3. A store that fails or panics costs a wait, not the loop.

use std::sync::Arc;
use std::time::Duration;

use domain::{ClaimRequest, Job};
use sync::CancelReason;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::run::{self, Run};
use super::{Shared, TaskKind};
use crate::contain::contained;

/// Claims until the worker stops. Dropping `begun` at the end tells the heartbeats that no more will come.
pub(super) async fn claim_jobs(shared: Arc<Shared>, begun: mpsc::Sender<Arc<Run>>) {
    let slots = Arc::new(Semaphore::new(shared.config.max_workers));
    while let Some(slot) = free_slot(&shared, &slots).await {
        let asked_at = shared.ports.clock.now();
        let claimed = contained(shared.ports.store.claim(&request(&shared))).await;
        match claimed {
            Ok(Ok(Some(job))) => begin(&shared, job, asked_at, slot, &begun).await,
            Ok(Ok(None)) => {
                drop(slot);
                wait_for_work(&shared).await;
            }
            Ok(Err(_)) | Err(_) => {
                drop(slot);
                shared.note_store_error();
                wait_for_work(&shared).await;
            }
        }
    }
}

fn request(shared: &Shared) -> ClaimRequest {
    ClaimRequest {
        worker: shared.id,
        boot: shared.config.boot,
        lease: shared.config.lease,
        concurrency_max: shared.config.plan_concurrency,
        only: shared.config.only,
    }
}

async fn free_slot(shared: &Shared, slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        _ = shared.stopping.cancelled() => None,
        slot = Arc::clone(slots).acquire_owned() => slot.ok(),
    }
}

async fn wait_for_work(shared: &Shared) {
    tokio::select! {
        biased;
        _ = shared.stopping.cancelled() => {}
        () = shared.hint.notified() => {}
        () = shared.ports.runtime.sleep(shared.config.idle_poll) => {}
    }
}

async fn begin(
    shared: &Arc<Shared>,
    job: Job,
    claimed_at: Duration,
    slot: OwnedSemaphorePermit,
    begun: &mpsc::Sender<Arc<Run>>,
) {
    let run = Arc::new(Run::new(job, claimed_at, &shared.ports));
    let is_admitted = shared.admit(&run);
    // Beats from the start: also giving a job back may take longer than a lease.
    let is_beating = begun.send(Arc::clone(&run)).await.is_ok();
    let task = {
        let (shared, run) = (Arc::clone(shared), Arc::clone(&run));
        Box::pin(async move {
            let settled = run::drive(&run, &shared.ports, &shared.config).await;
            shared.finished(&run, settled);
            drop(slot);
        })
    };
    let is_running = is_admitted && is_beating && shared.ports.runtime.spawn(TaskKind::Run, task).is_ok();
    if !is_running {
        let settled = run::give_back(&run, &shared.ports, &shared.config).await;
        shared.finished(&run, settled);
    }
}

impl Shared {
    /// Ends the beats of a run and takes it off the list.
    fn finished(&self, run: &Run, settled: run::Settled) {
        run.over.cancel(CancelReason::Superseded);
        self.note_settled(run.public.claim(), settled);
    }
}
