//! Renews the leases of all running jobs, and observes their cancels.
//!
//! A lease is renewed [`HEARTBEATS_PER_LEASE`] times within its duration.
//!
//! # Invariants
//! 1. Each job beats by itself: a store that hangs on one beat delays no other.
//! 2. A renewal counts from the moment it was *sent*. The store stamps it later, so two thirds of a lease on
//!    our clock end before the lease does on the store's.
//! 3. A job without an acknowledged renewal for two thirds of a lease is given up, before anyone may take it
//!    over.

use std::sync::Arc;
use std::time::Duration;

use domain::{Job, JobTransitionRejection};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use store::{JobStoreError, StoreError};
use sync::CancelReason;
use tokio::sync::mpsc;

use crate::config::WorkerConfig;
use crate::job_run::ClaimedRun;
use crate::runtime::contained;
use crate::worker::Ports;

/// The number of times that a lease is renewed within its duration.
const HEARTBEATS_PER_LEASE: u32 = 6;
/// The share of a lease after which a worker that heard nothing gives its job up: before anyone may take it
/// over.
const FENCE_NUMERATOR: u32 = 2;
const FENCE_DENOMINATOR: u32 = 3;

/// Returns the time between two renewals of a lease.
fn heartbeat_interval(lease: Duration) -> Duration {
    lease / HEARTBEATS_PER_LEASE
}

/// Returns the time without an acknowledged renewal after which a job is given up.
fn fence_after(lease: Duration) -> Duration {
    lease * FENCE_NUMERATOR / FENCE_DENOMINATOR
}

/// Beats for every run that comes in, until no more can come and the last one is over.
pub(crate) async fn renew_leases(
    ports: &Ports,
    config: &WorkerConfig,
    mut begun: mpsc::Receiver<Arc<ClaimedRun>>,
) {
    let mut leases = FuturesUnordered::new();
    let mut more_may_come = true;
    while more_may_come || !leases.is_empty() {
        tokio::select! {
            biased;
            run = begun.recv(), if more_may_come => match run {
                Some(run) => leases.push(renew_lease(run, ports, config)),
                None => more_may_come = false,
            },
            Some(()) = leases.next() => {}
        }
    }
}

async fn renew_lease(run: Arc<ClaimedRun>, ports: &Ports, config: &WorkerConfig) {
    loop {
        tokio::select! {
            biased;
            _ = run.over.cancelled() => return,
            () = run.nudged.notified() => {}
            () = ports.runtime.sleep(heartbeat_interval(config.lease)) => {}
        }
        if let HeartbeatResult::Last = beat(&run, ports, config).await {
            return;
        }
    }
}

enum HeartbeatResult {
    GoOn,
    Last,
}

async fn beat(run: &ClaimedRun, ports: &Ports, config: &WorkerConfig) -> HeartbeatResult {
    let sent_at = ports.clock.now();
    let fence_at = run.renewed_at().saturating_add(fence_after(config.lease));
    let claim = run.public.claim();
    let answer = tokio::select! {
        biased;
        _ = run.over.cancelled() => return HeartbeatResult::Last,
        answer = contained(ports.store.heartbeat(&claim, config.lease)) => answer,
        () = ports.runtime.sleep(fence_at.saturating_sub(sent_at)) => {
            run.mark_lost();
            return HeartbeatResult::Last;
        }
    };
    match answer {
        Ok(Ok(job)) => {
            run.renew(sent_at);
            if is_cancel_due(&job) {
                run.interrupt(CancelReason::User);
            }
            HeartbeatResult::GoOn
        }
        Ok(Err(JobStoreError::Store(StoreError::LeaseLost(_)))) => {
            run.mark_lost();
            HeartbeatResult::Last
        }
        // Ended by this run while the beat was on its way: then the gate is closed. Else by others: then it is lost.
        Ok(Err(JobStoreError::Refused(JobTransitionRejection::Final { .. }))) => {
            if !run.is_ending() {
                run.mark_lost();
            }
            HeartbeatResult::Last
        }
        // Unheard: the next beat may be heard, and if none is, the fence falls.
        Ok(Err(JobStoreError::Refused(_) | JobStoreError::QueueFull { .. } | JobStoreError::Store(_)))
        | Err(_) => give_up_if_due(run, ports, config),
    }
}

fn give_up_if_due(run: &ClaimedRun, ports: &Ports, config: &WorkerConfig) -> HeartbeatResult {
    if ports.clock.now() >= run.renewed_at().saturating_add(fence_after(config.lease)) {
        run.mark_lost();
        return HeartbeatResult::Last;
    }
    HeartbeatResult::GoOn
}

fn is_cancel_due(job: &Job) -> bool {
    job.cancel.is_some() && job.sealed_at.is_none()
}
