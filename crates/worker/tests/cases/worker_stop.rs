//! Stopping: drained or released, twice, at once, before the start, in the middle of a claim.

use std::sync::Arc;
use std::time::Duration;

use domain::JobState;
use store::JobStore;
use sync::CancelReason;
use tokio::sync::Notify;
use worker::{StopMode, StopReport, WorkerStartError};

use crate::support::{
    Call, Fault, Machine, Note, Pause, gated, run_ready_tasks, stubborn, succeed, until, until_cancelled,
};

const DRAIN: StopMode = StopMode::Drain { deadline: Duration::from_secs(30) };

#[tokio::test]
async fn a_drain_lets_the_running_job_finish_and_claims_no_other() {
    let machine = Machine::new();
    let go = Arc::new(Notify::new());
    let (worker, runner) = machine.worker(gated(Arc::clone(&go)));
    let running = machine.enqueue(1).await;
    worker.hint();
    until("it runs", || runner.began() == 1).await;
    let stop = tokio::spawn({
        let worker = worker.clone();
        async move { worker.stop(DRAIN).await }
    });
    run_ready_tasks().await;
    let queued = machine.enqueue(2).await;
    worker.hint();
    run_ready_tasks().await;
    assert!(!stop.is_finished(), "it returns when stopped, not before");
    go.notify_one();
    assert_eq!(stop.await.unwrap(), StopReport { finished: 1, released: 0 });
    assert_eq!(machine.state(running).await, JobState::Succeeded);
    assert_eq!(machine.state(queued).await, JobState::Queued);
}

#[tokio::test]
async fn what_is_not_done_by_the_drains_deadline_is_released() {
    let machine = Machine::new();
    let (worker, runner, id) = machine.begun(until_cancelled()).await;
    let stop = tokio::spawn({
        let worker = worker.clone();
        async move { worker.stop(DRAIN).await }
    });
    machine.pass(Duration::from_secs(29)).await;
    assert!(!stop.is_finished());
    machine.pass(Duration::from_secs(2)).await;
    assert_eq!(stop.await.unwrap(), StopReport { finished: 0, released: 1 });
    let job = machine.job(id).await;
    assert_eq!((job.state, job.worker, job.lost_leases), (JobState::Queued, None, 0));
    assert_eq!(runner.notes(id).last(), Some(&Note::WoundDown(Some(CancelReason::Shutdown))));
}

#[tokio::test]
async fn a_second_stop_hurries_the_first_and_both_return_the_same() {
    let machine = Machine::new();
    let (worker, runner) = machine.worker(until_cancelled());
    machine.enqueue(1).await;
    worker.hint();
    until("it runs", || runner.began() == 1).await;
    let first = tokio::spawn({
        let worker = worker.clone();
        async move { worker.stop(DRAIN).await }
    });
    run_ready_tasks().await;
    assert!(!first.is_finished());
    let second = worker.stop(StopMode::Release).await;
    assert_eq!(second, StopReport { finished: 0, released: 1 });
    assert_eq!(first.await.unwrap(), second);
    assert_eq!(worker.stop(DRAIN).await, second, "and again");
}

#[tokio::test]
async fn a_stop_before_the_start_returns_and_keeps_it_from_starting() {
    let machine = Machine::new();
    let (worker, _runner) = machine.worker(succeed());
    assert!(matches!(worker.start(), Err(WorkerStartError::AlreadyStarted)));
    worker.stop(DRAIN).await;
    assert!(matches!(worker.start(), Err(WorkerStartError::Stopped)));
    assert_eq!(WorkerStartError::Stopped.to_string(), "the worker has stopped and cannot be started again");
    let unstarted = crate::worker_faults::unstarted(&machine);
    assert_eq!(unstarted.stop(DRAIN).await, StopReport::default());
    assert!(matches!(unstarted.start(), Err(WorkerStartError::Stopped)));
}

#[tokio::test]
async fn a_claim_that_comes_back_after_the_stop_began_is_given_back_unrun() {
    let machine = Machine::new();
    let pause = Arc::new(Pause::default());
    machine.store.fail_next(Call::Claim, Fault::Pause(Arc::clone(&pause)));
    let id = machine.enqueue(1).await;
    let (worker, runner) = machine.worker(succeed());
    pause.reached.notified().await;
    let stop = tokio::spawn({
        let worker = worker.clone();
        async move { worker.stop(DRAIN).await }
    });
    run_ready_tasks().await;
    assert!(!stop.is_finished(), "a claim is on its way");
    pause.go.notify_one();
    assert_eq!(stop.await.unwrap(), StopReport { finished: 0, released: 1 });
    let job = machine.job(id).await;
    assert_eq!((job.state, job.fence.0, runner.began()), (JobState::Queued, 1, 0));
}

#[tokio::test]
async fn a_release_meets_a_requested_cancel_by_acknowledging_it() {
    let machine = Machine::new();
    let (worker, _runner, id) = machine.begun(until_cancelled()).await;
    machine.store.cancel(id, "").await.unwrap();
    assert_eq!(worker.stop(StopMode::Release).await, StopReport { finished: 1, released: 0 });
    assert_eq!(machine.state(id).await, JobState::Cancelled);
}

#[tokio::test]
async fn a_stubborn_runner_delays_the_stop_by_no_more_than_its_wait() {
    let machine = Machine::new();
    let (worker, _runner, id) = machine.begun(stubborn()).await;
    let stop = tokio::spawn({
        let worker = worker.clone();
        async move { worker.stop(StopMode::Release).await }
    });
    run_ready_tasks().await;
    machine.pass(Duration::from_secs(5)).await;
    assert_eq!(stop.await.unwrap(), StopReport { finished: 0, released: 1 });
    assert_eq!(machine.state(id).await, JobState::Queued);
}

#[tokio::test]
async fn the_processs_shutdown_gives_the_jobs_back() {
    let machine = Machine::new();
    let (worker, _runner, id) = machine.begun(until_cancelled()).await;
    machine.token.cancel(CancelReason::Shutdown);
    machine.wait_for(id, JobState::Queued).await;
    assert_eq!(worker.stop(StopMode::Release).await.finished, 0);
}
