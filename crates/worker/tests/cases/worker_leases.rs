//! Leases: kept while the store answers, given up before they run out, never written under once lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use domain::{ChangesetState, ClaimRequest, JobState, PlanId, WorkerId};
use store::{ChangesetStore, JobStore};
use sync::{CancelReason, CancellationToken, SystemClock};
use tokio::sync::Notify;
use worker::{
    AsyncWorker, JobRun, JobRunner, PlanError, Ports, RandomIds, RunFailure, TokioRuntime, WorkerConfig,
};

use crate::support::{
    BOOT, Call, Fault, LEASE, Machine, Note, change, gated, rival, script, succeed, until, until_cancelled,
};

#[tokio::test]
async fn a_long_job_keeps_its_lease_by_heartbeats() {
    let machine = Machine::new();
    let go = Arc::new(Notify::new());
    let (worker, runner) = machine.worker(gated(Arc::clone(&go)));
    let (_rival, rival_runner) = machine.worker(succeed());
    let id = machine.enqueue(1).await;
    worker.hint();
    until("it runs", || runner.began() == 1).await;
    machine.pass(10 * LEASE).await;
    assert_eq!(machine.state(id).await, JobState::Running);
    go.notify_one();
    let job = machine.wait_for(id, JobState::Succeeded).await;
    assert_eq!((job.fence.0, rival_runner.began()), (1, 0));
}

#[tokio::test]
async fn without_an_answered_heartbeat_the_job_is_given_up_at_two_thirds_of_the_lease() {
    for fault in [Fault::Busy, Fault::Hang, Fault::Panic] {
        let machine = Machine::new();
        let (worker, runner) = machine.worker(until_cancelled());
        let id = machine.enqueue(1).await;
        worker.hint();
        until("it runs", || runner.began() == 1).await;
        machine.store.fail_always(Some((Call::Heartbeat, fault)));
        machine.pass(LEASE * 2 / 3 - Duration::from_millis(200)).await;
        assert_eq!(runner.notes(id), [Note::Began], "not before");
        machine.pass(Duration::from_millis(400)).await;
        until("it gave up", || worker.report().leases_lost == 1).await;
        let lost = [Note::Began, Note::Returned, Note::WoundDown(Some(CancelReason::LeaseLost))];
        assert_eq!(runner.notes(id), lost);
        let job = machine.job(id).await;
        assert_eq!((job.state, job.fence.0), (JobState::Running, 1), "nothing was written");
    }
}

#[tokio::test]
async fn an_expired_lease_is_taken_over_and_the_old_owner_can_write_nothing() {
    let machine = Machine::new();
    let body = script(|run: &JobRun| {
        Box::pin(async move {
            let handle = run.context().start_changeset().await.unwrap();
            handle.record(change(run.claim().fence.0.into())).await.unwrap();
            if run.claim().fence.0 == 1 {
                // The worker dies here as far as the store can see: no heartbeat is heard any more.
                run.scope().cancelled().await;
                let refused = run.context().record_change(change(50)).await.unwrap_err();
                assert_eq!(refused, PlanError::Cancelled { reason: CancelReason::LeaseLost });
                return Err(RunFailure::failed("never stored"));
            }
            handle.close().await.unwrap();
            Ok(())
        })
    });
    let (old, _old_runner, id) = machine.begun(Arc::clone(&body)).await;
    machine.store.fail_always(Some((Call::Heartbeat, Fault::Busy)));
    machine.pass(LEASE).await;
    machine.store.fail_always(None);
    until("the old one gave up", || old.report().leases_lost == 1).await;
    let (_new, _) = machine.worker(body);
    machine.pass(Duration::from_secs(2)).await;
    let job = machine.wait_for(id, JobState::Succeeded).await;
    assert_eq!((job.fence.0, job.lost_leases), (2, 1));
    let sets = machine.store.changesets(PlanId::from_u128(1)).await.unwrap();
    let states: Vec<_> = sets.iter().map(|set| (set.state, set.entries.len())).collect();
    assert_eq!(states, [(ChangesetState::Interrupted, 1), (ChangesetState::Closed, 1)]);
}

#[tokio::test]
async fn a_worker_that_was_paused_through_a_takeover_finds_its_lease_lost() {
    let machine = Machine::new();
    let go = Arc::new(Notify::new());
    let body = {
        let go = Arc::clone(&go);
        script(move |run: &JobRun| {
            let go = Arc::clone(&go);
            Box::pin(async move {
                go.notified().await;
                let error = run.context().start_changeset().await.unwrap_err();
                assert!(matches!(error, PlanError::LeaseLost(_)), "{error}");
                Err(RunFailure::failed(error.to_string()))
            })
        })
    };
    let (paused, _runner, id) = machine.begun(body).await;
    // Time passes while none of the worker's tasks gets to run, as under SIGSTOP.
    machine.clock.advance(2 * LEASE);
    let rival = rival(77);
    let taken = machine.store.claim(&rival).await.unwrap().unwrap();
    assert_eq!((taken.id, taken.fence.0), (id, 2));
    go.notify_one();
    until("it lost", || paused.report().leases_lost == 1).await;
    assert_eq!(machine.job(id).await, taken, "nothing of the old owner arrived");
}

#[tokio::test]
async fn a_lease_lost_while_the_end_is_being_stored_ends_the_asking() {
    let machine = Machine::new();
    let (worker, runner) = machine.worker(succeed());
    machine.store.fail_always(Some((Call::End, Fault::Busy)));
    let id = machine.enqueue(1).await;
    worker.hint();
    until("it returned", || runner.notes(id).contains(&Note::Returned)).await;
    machine.pass(Duration::from_secs(2)).await;
    assert_eq!(worker.report().running.len(), 1, "it keeps asking, and beats meanwhile");
    assert!(machine.store.heartbeats.load(Ordering::Relaxed) == 0);
    machine.pass(2 * LEASE).await;
    assert_eq!(worker.report().running.len(), 1);
    assert!(machine.store.heartbeats.load(Ordering::Relaxed) > 10);
    machine.store.free_leases(worker.report().worker).await.unwrap();
    let rival = ClaimRequest {
        worker: WorkerId::from_u128(77),
        boot: BOOT,
        lease: 10 * LEASE,
        concurrency_max: 4,
        only: None,
        variables: Default::default(),
    };
    machine.store.claim(&rival).await.unwrap().unwrap();
    machine.pass(LEASE).await;
    until("it gave up", || worker.report().leases_lost == 1).await;
    assert_eq!(machine.job(id).await.worker, Some(rival.worker));
}

/// Blocks the executor's only thread until a heartbeat was heard.
struct Blocking {
    beaten: std::sync::Mutex<mpsc::Receiver<()>>,
}

#[async_trait::async_trait]
impl JobRunner for Blocking {
    async fn run(&self, _: &JobRun) -> Result<(), RunFailure> {
        let beaten = self.beaten.lock().unwrap();
        beaten.recv_timeout(Duration::from_secs(60)).map_err(|_| RunFailure::failed("no heartbeat"))
    }
}

#[tokio::test]
async fn a_blocked_executor_still_beats_since_heartbeats_have_a_thread_of_their_own() {
    let machine = Machine::new();
    let (heard, beaten) = mpsc::channel();
    let store = Arc::clone(&machine.store);
    let ports = Ports {
        store: Arc::clone(&machine.store) as _,
        runner: Arc::new(Blocking { beaten: std::sync::Mutex::new(beaten) }),
        runtime: Arc::new(TokioRuntime::new(tokio::runtime::Handle::current())),
        clock: Arc::new(SystemClock::new()),
        ids: Arc::new(RandomIds::new()),
        token: CancellationToken::new(),
    };
    // The watcher is a thread too: this test's executor is the one that blocks.
    let watcher = std::thread::spawn(move || {
        while store.heartbeats.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        heard.send(()).unwrap();
    });
    let config = WorkerConfig::new(BOOT, Duration::from_secs(5));
    let worker = AsyncWorker::new(config, ports).unwrap();
    let id = machine.enqueue(1).await;
    worker.start().unwrap();
    let report = async {
        while worker.report().succeeded + worker.report().failed == 0 {
            tokio::task::yield_now().await;
        }
        worker.report()
    };
    let report = report.await;
    watcher.join().unwrap();
    assert_eq!((report.succeeded, report.failed), (1, 0));
    assert_eq!(machine.state(id).await, JobState::Succeeded);
    worker.stop(worker::StopMode::Release).await;
}
