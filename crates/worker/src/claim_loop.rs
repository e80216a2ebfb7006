//! Claims jobs while there is a free slot, a few at a time, until the worker or its process stops.
//!
//! # Invariants
//! 1. A slot is taken before a job is claimed, so that no more than `max_workers` run here.
//! 2. A job whose claim returns after the stop began is released, not run.
//! 3. A store that fails or panics costs a wait, not the loop. One that hangs is waited for until the stop,
//!    and then for a lease. A claim that returns later is left to run out.
//! 4. No more jobs are claimed than the listeners can be notified of, so no notification about a job is lost.
//! 5. A run is removed from the list of runs, in whatever way its task ends.

use std::sync::Arc;
use std::time::Duration;

use domain::{ClaimRequest, Job};
use store::JobStoreError;
use sync::{CancelReason, Panicked};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::job_run::{self, ClaimedRun, JobSettlement};
use crate::runtime::TaskKind;
use crate::runtime::contained;
use crate::worker::{RunningJob, Shared, WorkerNews};

/// So many jobs are claimed with one write, if as many hands are free.
const CLAIMED_AT_ONCE_MAX: usize = 16;

/// The pause before the next look whether a slow listener has caught up.
const LISTENER_WAIT: Duration = Duration::from_millis(10);

/// Claims until the worker stops. Dropping `begun` at the end signals the heartbeats that no more will come.
pub(crate) async fn claim_jobs(shared: Arc<Shared>, begun: mpsc::Sender<Arc<ClaimedRun>>) {
    let slots = Arc::new(Semaphore::new(shared.config.max_workers));
    while let Some(free) = free_slots(&shared, &slots).await {
        if !shared.has_room_for_news() {
            drop(free);
            wait_for_listener(&shared).await;
            continue;
        }
        let asked_at = shared.ports.clock.now();
        match claim(&shared, free.len()).await {
            None => return,
            Some(Ok(Ok(jobs))) if !jobs.is_empty() => {
                for (job, slot) in jobs.into_iter().zip(free) {
                    begin(&shared, job, asked_at, slot, &begun).await;
                }
            }
            Some(Ok(Ok(_))) => {
                drop(free);
                wait_for_work(&shared).await;
            }
            Some(failed @ (Ok(Err(_)) | Err(_))) => {
                drop(free);
                shared.note_store_error(failure_text(failed));
                wait_for_work(&shared).await;
            }
        }
    }
}

/// Returns the error text of a store that gave no answer.
fn failure_text(failed: Result<Result<Vec<Job>, JobStoreError>, Panicked>) -> String {
    match failed {
        Ok(Ok(_)) => String::new(),
        Ok(Err(error)) => error.to_string(),
        Err(panicked) => panicked.to_string(),
    }
}

/// Asks the store for jobs; `None` when the worker stops and the store has no answer within a lease.
async fn claim(shared: &Shared, most: usize) -> Option<Result<Result<Vec<Job>, JobStoreError>, Panicked>> {
    let request = ClaimRequest {
        worker: shared.id,
        boot: shared.config.boot,
        lease: shared.config.lease,
        concurrency_max: shared.config.plan_concurrency.saturating_sub(shared.left_free()),
        only: shared.config.only,
        variables: Arc::clone(&shared.config.variables),
    };
    let mut claim = std::pin::pin!(contained(shared.ports.store.claim_some(&request, most)));
    tokio::select! {
        biased;
        claimed = &mut claim => return Some(claimed),
        () = stopping(shared) => {}
    }
    tokio::select! {
        biased;
        claimed = &mut claim => Some(claimed),
        () = shared.ports.runtime.sleep(shared.config.lease) => None,
    }
}

/// Completes when no more jobs are to be claimed: the worker or its process stops.
async fn stopping(shared: &Shared) {
    tokio::select! {
        biased;
        _ = shared.stopping.cancelled() => {}
        _ = shared.process.cancelled() => {}
    }
}

/// The first slot that is free, and as many more as are free then.
async fn free_slots(shared: &Shared, slots: &Arc<Semaphore>) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = tokio::select! {
        biased;
        () = stopping(shared) => return None,
        slot = Arc::clone(slots).acquire_owned() => slot.ok()?,
    };
    let more = std::iter::from_fn(|| Arc::clone(slots).try_acquire_owned().ok());
    Some(std::iter::once(first).chain(more).take(CLAIMED_AT_ONCE_MAX).collect())
}

/// Waits until the listener of the job news catches up.
async fn wait_for_listener(shared: &Shared) {
    tokio::select! {
        biased;
        () = stopping(shared) => {}
        () = shared.ports.runtime.sleep(LISTENER_WAIT) => {}
    }
}

async fn wait_for_work(shared: &Shared) {
    tokio::select! {
        biased;
        () = stopping(shared) => {}
        () = shared.hint.notified() => {}
        () = shared.ports.runtime.sleep(shared.config.idle_poll) => {}
    }
}

async fn begin(
    shared: &Arc<Shared>,
    job: Job,
    claimed_at: Duration,
    slot: OwnedSemaphorePermit,
    begun: &mpsc::Sender<Arc<ClaimedRun>>,
) {
    let run = Arc::new(ClaimedRun::new(job, claimed_at, &shared.ports));
    let is_admitted = shared.admit(&run);
    let mut listed =
        RunGuard { shared: Arc::clone(shared), run: Arc::clone(&run), settled: JobSettlement::Unsettled };
    // Beats from the start: also giving a job back may take longer than a lease.
    let is_beating = begun.send(Arc::clone(&run)).await.is_ok();
    if !is_admitted || !is_beating {
        return give_back(shared, listed).await;
    }
    shared.publish(WorkerNews::Claimed(RunningJob::new(run.public.job())));
    let task = Box::pin(async move {
        let shared = Arc::clone(&listed.shared);
        listed.settled = job_run::drive(&run, &shared.ports, &shared.config).await;
        drop((listed, slot));
    });
    if shared.ports.runtime.spawn(TaskKind::Run, task).is_err() {
        // The system has no room for it: the job is left to its lease, and perhaps to a worker that has.
        wait_for_work(shared).await;
    }
}

/// Gives a job back that was claimed and not begun, and waits, so as not to claim it again at once.
async fn give_back(shared: &Arc<Shared>, mut listed: RunGuard) {
    listed.settled = job_run::give_back(&listed.run, &shared.ports, &shared.config).await;
    drop(listed);
    wait_for_work(shared).await;
}

/// A run on the worker's list: dropping it ends the run's beats and takes it off, whatever became of its
/// task.
struct RunGuard {
    shared: Arc<Shared>,
    run: Arc<ClaimedRun>,
    settled: JobSettlement,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        // An unsettled run has no task any more that could write: what it left behind is stopped here.
        if self.settled == JobSettlement::Unsettled {
            self.run.interrupt(CancelReason::Superseded);
        }
        self.run.over.cancel(CancelReason::Superseded);
        self.shared.note_settled(self.run.public.job(), self.settled);
    }
}
