//! Ends that go wrong: foreign code that hangs, panics or blocks, and owners that were replaced without
//! noticing.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use domain::{JobId, JobState, Ms, NewJob, Phase, PlanId};
use store::{ChangesetStore, JobStore, MemoryStore};
use sync::{CancelReason, CancellationToken, Finisher, SystemClock};
use worker::{
    AsyncWorker, JobRun, JobRunner, Ports, RandomIds, RunFailure, StopMode, StopReport, TokioRuntime,
    WorkerConfig,
};

use crate::support::{
    BOOT, Call, Fault, LEASE, Machine, Note, Pause, VirtualRuntime, change, rival, run_ready_tasks, script,
    succeed, until, until_cancelled,
};

fn stopping(worker: &AsyncWorker) -> tokio::task::JoinHandle<StopReport> {
    let worker = worker.clone();
    tokio::spawn(async move { worker.stop(StopMode::Release).await })
}

#[tokio::test]
async fn a_cancel_of_the_process_gives_its_jobs_back_and_leaves_the_queue_alone() {
    for reason in [CancelReason::User, CancelReason::Timeout, CancelReason::Shutdown] {
        let machine = Machine::new();
        let (worker, runner) = machine.worker(until_cancelled());
        let running = machine.enqueue(1).await;
        worker.hint();
        until("it runs", || runner.began() == 1).await;
        machine.token.cancel(reason);
        machine.wait_for(running, JobState::Queued).await;
        let queued = machine.enqueue(2).await;
        worker.hint();
        machine.pass(Duration::from_secs(5)).await;
        assert_eq!(machine.state(queued).await, JobState::Queued);
        assert_eq!(machine.job(running).await.fence.0, 1, "it was not claimed again");
        worker.stop(StopMode::Release).await;
    }
}

#[tokio::test]
async fn a_runner_is_not_begun_under_a_cancelled_scope() {
    let machine = Machine::new();
    machine.token.cancel(CancelReason::User);
    let (worker, runner) = machine.worker(until_cancelled());
    machine.enqueue(1).await;
    worker.hint();
    machine.pass(Duration::from_secs(2)).await;
    assert_eq!(runner.began(), 0);
}

#[tokio::test]
async fn a_token_that_can_have_no_children_is_refused() {
    let mut machine = Machine::new();
    for _ in 0..8 {
        machine.token = machine.token.child();
    }
    let ports = Ports {
        store: Arc::clone(&machine.store) as _,
        runner: Arc::new(HangsWindingDown),
        runtime: Arc::new(VirtualRuntime { clock: machine.clock.clone() }),
        clock: Arc::new(machine.clock.clone()),
        ids: Arc::clone(&machine.ids) as _,
        token: machine.token.clone(),
    };
    let error = AsyncWorker::new(WorkerConfig::new(BOOT, LEASE), ports).unwrap_err();
    assert_eq!(error.to_string(), "worker token is too deep, allowed is one that can have children");
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("the runner's own state");
    }
}

#[tokio::test]
async fn a_runner_that_panics_when_it_is_dropped_is_cancelled_like_any_other() {
    let machine = Machine::new();
    let (worker, runner) = machine.worker(script(|_| {
        Box::pin(async {
            let _state = PanicsWhenDropped;
            std::future::pending().await
        })
    }));
    let id = machine.enqueue(1).await;
    worker.hint();
    until("it runs", || runner.began() == 1).await;
    machine.store.cancel(id, "").await.unwrap();
    worker.hint();
    run_ready_tasks().await;
    machine.pass(Duration::from_secs(5)).await;
    machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!(worker.stop(StopMode::Release).await, StopReport::default());
}

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        panic!("a waker of somebody else");
    }
}

#[tokio::test]
async fn a_waker_that_panics_ends_no_heartbeat() {
    let machine = Machine::new();
    let (worker, runner) = machine.worker(script(|run| {
        Box::pin(async move {
            let waker = Waker::from(Arc::new(PanicsWhenWoken));
            let mut heard = Box::pin(run.scope().cancelled());
            if run.job().id == JobId::from_u128(1) {
                let _ = heard.as_mut().poll(&mut Context::from_waker(&waker));
            }
            run.scope().cancelled().await;
            Err(RunFailure::failed("interrupted"))
        })
    }));
    let (first, second) = (machine.enqueue(1).await, machine.enqueue(2).await);
    worker.hint();
    until("both run", || runner.began() == 2).await;
    machine.store.cancel(first, "").await.unwrap();
    worker.hint();
    machine.wait_for(first, JobState::Cancelled).await;
    machine.pass(3 * LEASE).await;
    let job = machine.job(second).await;
    assert_eq!((job.state, job.fence.0), (JobState::Running, 1), "its lease was kept");
}

/// Enters the gate again and again, counting.
fn busy_script(machine: &Machine, effects: &Arc<AtomicU64>) -> crate::support::Script {
    let (clock, effects) = (machine.clock.clone(), Arc::clone(effects));
    script(move |run| {
        let (clock, effects) = (clock.clone(), Arc::clone(&effects));
        Box::pin(async move {
            loop {
                clock.sleep(Duration::from_secs(1)).await;
                let _effect = run.enter().map_err(|error| RunFailure::failed(error.to_string()))?;
                effects.fetch_add(1, Ordering::Relaxed);
            }
        })
    })
}

#[tokio::test]
async fn a_paused_owner_whose_job_was_given_up_has_no_further_effect() {
    let machine = Machine::new();
    let id = machine.enqueue(1).await;
    for n in 70..73 {
        machine.store.claim(&rival(n)).await.unwrap().unwrap();
        machine.clock.advance(LEASE);
    }
    let effects = Arc::new(AtomicU64::new(0));
    let (worker, runner) = machine.worker(busy_script(&machine, &effects));
    until("it runs", || runner.began() == 1).await;
    // Time passes while none of the worker's tasks gets to run, as under SIGSTOP.
    machine.clock.advance(2 * LEASE);
    assert_eq!(machine.store.claim(&rival(99)).await.unwrap(), None);
    assert_eq!(machine.state(id).await, JobState::Failed);
    run_ready_tasks().await;
    let before = effects.load(Ordering::Relaxed);
    machine.pass(2 * LEASE).await;
    assert_eq!(effects.load(Ordering::Relaxed), before);
    assert_eq!(worker.report().leases_lost, 1);
}

#[tokio::test]
async fn a_pending_cancel_of_a_job_that_killed_its_workers_is_finished_by_the_next_one() {
    let machine = Machine::new();
    let id = machine.enqueue(1).await;
    for n in 70..74 {
        machine.store.claim(&rival(n)).await.unwrap().unwrap();
        if n == 73 {
            machine.store.cancel(id, "enough").await.unwrap();
        }
        machine.clock.advance(LEASE);
    }
    let (_worker, runner) = machine.worker(succeed());
    machine.wait_for(id, JobState::Cancelled).await;
    assert_eq!(runner.notes(id), [Note::WoundDown(Some(CancelReason::User))]);
}

#[tokio::test]
async fn an_end_that_hangs_is_asked_for_again() {
    let machine = Machine::new();
    machine.store.fail_next(Call::End, Fault::Hang);
    let id = machine.enqueue(1).await;
    let (worker, _runner) = machine.worker(succeed());
    machine.pass(Duration::from_secs(11)).await;
    machine.wait_for(id, JobState::Succeeded).await;
    assert_eq!(worker.stop(StopMode::Release).await, StopReport::default());
}

#[tokio::test]
async fn a_store_that_hangs_for_ever_does_not_hang_the_stop() {
    let machine = Machine::new();
    machine.store.fail_always(Some((Call::End, Fault::Hang)));
    let id = machine.enqueue(1).await;
    let (worker, runner) = machine.worker(succeed());
    until("it returned", || runner.notes(id).contains(&Note::Returned)).await;
    machine.store.fail_always(Some((Call::Heartbeat, Fault::Hang)));
    machine.store.fail_next(Call::End, Fault::Hang);
    let stop = stopping(&worker);
    machine.pass(LEASE).await;
    assert!(stop.is_finished());
    assert_eq!(machine.store.heartbeats.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_claim_that_hangs_is_left_to_its_lease_by_the_stop() {
    let machine = Machine::new();
    machine.store.fail_next(Call::Claim, Fault::Hang);
    let (worker, _runner) = machine.worker(succeed());
    run_ready_tasks().await;
    let stop = stopping(&worker);
    run_ready_tasks().await;
    assert!(!stop.is_finished(), "it may still come back");
    machine.pass(LEASE).await;
    assert_eq!(stop.await.unwrap(), StopReport::default());
}

struct HangsWindingDown;

#[async_trait::async_trait]
impl JobRunner for HangsWindingDown {
    async fn run(&self, _: &JobRun) -> Result<(), RunFailure> {
        Ok(())
    }

    async fn wind_down(&self, _: &JobRun, _: &Finisher, _: Option<CancelReason>) {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_runner_that_never_winds_down_delays_the_end_and_does_not_prevent_it() {
    let machine = Machine::new();
    let id = machine.enqueue(1).await;
    let ports = Ports {
        store: Arc::clone(&machine.store) as _,
        runner: Arc::new(HangsWindingDown),
        runtime: Arc::new(VirtualRuntime { clock: machine.clock.clone() }),
        clock: Arc::new(machine.clock.clone()),
        ids: Arc::clone(&machine.ids) as _,
        token: CancellationToken::new(),
    };
    let worker = AsyncWorker::new(WorkerConfig::new(BOOT, LEASE), ports).unwrap();
    worker.start().unwrap();
    run_ready_tasks().await;
    machine.pass(Duration::from_secs(30)).await;
    machine.wait_for(id, JobState::Succeeded).await;
}

/// Counts how often it was told that a run is over.
#[derive(Default)]
struct HearsOfTheEnd {
    over: std::sync::atomic::AtomicUsize,
}

#[async_trait::async_trait]
impl JobRunner for HearsOfTheEnd {
    async fn run(&self, _: &JobRun) -> Result<(), RunFailure> {
        Ok(())
    }

    fn over(&self, _: &JobRun) {
        self.over.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_runner_clears_away_only_when_the_end_is_stored() {
    let machine = Machine::new();
    let id = machine.enqueue(1).await;
    let pause = Arc::new(Pause::default());
    machine.store.fail_next(Call::End, Fault::Pause(Arc::clone(&pause)));
    let runner = Arc::new(HearsOfTheEnd::default());
    let told = || runner.over.load(std::sync::atomic::Ordering::SeqCst);
    let ports = Ports {
        store: Arc::clone(&machine.store) as _,
        runner: Arc::clone(&runner) as _,
        runtime: Arc::new(VirtualRuntime { clock: machine.clock.clone() }),
        clock: Arc::new(machine.clock.clone()),
        ids: Arc::clone(&machine.ids) as _,
        token: CancellationToken::new(),
    };
    let worker = AsyncWorker::new(WorkerConfig::new(BOOT, LEASE), ports).unwrap();
    worker.start().unwrap();
    pause.reached.notified().await;
    assert_eq!(told(), 0, "the end is not stored yet");
    pause.go.notify_one();
    machine.wait_for(id, JobState::Succeeded).await;
    worker.settled(0).await;
    assert_eq!(told(), 1);
}

#[tokio::test]
async fn what_a_finished_run_left_behind_hears_of_its_end() {
    let machine = Machine::new();
    let heard = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&heard);
    let (worker, _runner) = machine.worker(script(move |run| {
        let (scope, flag) = (run.scope().clone(), Arc::clone(&flag));
        Box::pin(async move {
            tokio::spawn(async move {
                scope.cancelled().await;
                flag.store(true, Ordering::Relaxed);
            });
            Ok(())
        })
    }));
    let id = machine.enqueue(1).await;
    worker.hint();
    machine.wait_for(id, JobState::Succeeded).await;
    until("it heard", || heard.load(Ordering::Relaxed)).await;
}

#[tokio::test]
async fn a_run_whose_effects_outlast_it_has_not_succeeded() {
    let machine = Machine::new();
    let (clock, store) = (machine.clock.clone(), Arc::clone(&machine.store));
    let (worker, _runner) = machine.worker(script(move |run| {
        let (clock, store) = (clock.clone(), Arc::clone(&store));
        Box::pin(async move {
            run.context().start_changeset().await.unwrap();
            let (effect, claim) = (run.enter().unwrap(), run.claim());
            tokio::spawn(async move {
                clock.sleep(Duration::from_secs(8)).await;
                let refused = store.record_latest(&effect, &claim, change(1)).await;
                assert!(refused.is_err(), "too late");
            });
            Ok(())
        })
    }));
    let id = machine.enqueue(1).await;
    worker.hint();
    run_ready_tasks().await;
    machine.pass(Duration::from_secs(6)).await;
    let job = machine.wait_for(id, JobState::Failed).await;
    assert_eq!(job.why.as_deref(), Some("the job returned, but 1 of its effects had not ended"));
}

#[tokio::test]
async fn a_cancel_kills_first_and_waits_once_for_work_and_effects_together() {
    let machine = Machine::new();
    let (worker, runner) = machine.worker(script(|run| {
        Box::pin(async move {
            let effect = run.enter().unwrap();
            tokio::spawn(async move {
                let _inside = effect;
                std::future::pending::<()>().await;
            });
            std::future::pending().await
        })
    }));
    let id = machine.enqueue(1).await;
    worker.hint();
    until("it runs", || runner.began() == 1).await;
    machine.store.cancel(id, "").await.unwrap();
    worker.hint();
    run_ready_tasks().await;
    assert_eq!(runner.all_notes(id), [Note::Began, Note::Killed(CancelReason::User)], "at once");
    machine.pass(Duration::from_secs(5)).await;
    machine.wait_for(id, JobState::Cancelled).await;
}

#[tokio::test]
async fn a_release_whose_answer_was_lost_is_counted_as_one() {
    let machine = Machine::new();
    machine.store.fail_next(Call::Release, Fault::BusyAfterwards);
    let id = machine.enqueue(1).await;
    let (worker, runner) = machine.worker(until_cancelled());
    until("it runs", || runner.began() == 1).await;
    let stop = stopping(&worker);
    run_ready_tasks().await;
    machine.pass(Duration::from_secs(1)).await;
    assert_eq!(stop.await.unwrap(), StopReport { finished: 0, released: 1 });
    assert_eq!(machine.state(id).await, JobState::Queued);
}

#[tokio::test]
async fn a_sealed_apply_that_is_stopped_is_left_to_the_next_owner() {
    let machine = Machine::new();
    let store = Arc::clone(&machine.store);
    let (worker, runner) = machine.worker(script(move |run| {
        let store = Arc::clone(&store);
        Box::pin(async move {
            let effect = run.enter().unwrap();
            store.seal(&effect, &run.claim()).await.unwrap();
            drop(effect);
            let reason = run.scope().cancelled().await;
            Err(RunFailure::failed(reason.to_string()))
        })
    }));
    let id = machine.enqueue_phase(1, Phase::Apply).await;
    worker.hint();
    until("it runs", || runner.began() == 1).await;
    run_ready_tasks().await;
    assert_eq!(worker.stop(StopMode::Release).await, StopReport::default());
    let job = machine.job(id).await;
    assert_eq!((job.state, worker.report().unsettled), (JobState::Running, 1));
    machine.clock.advance(LEASE);
    let next = machine.store.claim(&rival(5)).await.unwrap().unwrap();
    assert!(next.sealed_at.is_some(), "and its journal is finished by that one");
}

#[tokio::test]
async fn a_slot_that_becomes_free_is_filled_without_a_poll() {
    let machine = Machine::new();
    for n in 1..=3 {
        machine.enqueue(n).await;
    }
    let config = WorkerConfig { plan_concurrency: 1, ..WorkerConfig::new(BOOT, LEASE) };
    let (worker, runner) = machine.worker_with(config, succeed(), None);
    until("all done", || worker.report().succeeded == 3).await;
    assert_eq!(runner.began(), 3);
}

/// Blocks its thread until told to go on.
struct BlocksItsThread {
    begun: AtomicBool,
    go: std::sync::Mutex<mpsc::Receiver<()>>,
}

#[async_trait::async_trait]
impl JobRunner for BlocksItsThread {
    async fn run(&self, _: &JobRun) -> Result<(), RunFailure> {
        self.begun.store(true, Ordering::SeqCst);
        let _ = self.go.lock().unwrap().recv_timeout(Duration::from_secs(60));
        Ok(())
    }
}

fn real_worker(
    runner: Arc<dyn JobRunner>,
    handle: tokio::runtime::Handle,
) -> (AsyncWorker, Arc<MemoryStore>) {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let ports = Ports {
        store: Arc::clone(&store) as _,
        runner,
        runtime: Arc::new(TokioRuntime::new(handle)),
        clock,
        ids: Arc::new(RandomIds::new()),
        token: CancellationToken::new(),
    };
    let config = WorkerConfig {
        cancel_wait: Duration::from_millis(20),
        ..WorkerConfig::new(BOOT, Duration::from_secs(5))
    };
    (AsyncWorker::new(config, ports).unwrap(), store)
}

const NEW: NewJob =
    NewJob { id: JobId::from_u128(1), plan: PlanId::from_u128(1), phase: Phase::Execute, not_before: Ms(0) };

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_runner_that_blocks_its_thread_does_not_keep_a_cancel_from_being_acknowledged() {
    let (go, blocked) = mpsc::channel();
    let runner =
        Arc::new(BlocksItsThread { begun: AtomicBool::new(false), go: std::sync::Mutex::new(blocked) });
    let (worker, store) = real_worker(Arc::clone(&runner) as _, tokio::runtime::Handle::current());
    store.enqueue(NEW).await.unwrap();
    worker.start().unwrap();
    while !runner.begun.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    store.cancel(NEW.id, "").await.unwrap();
    worker.hint();
    while store.job(NEW.id).await.unwrap().state != JobState::Cancelled {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    worker.stop(StopMode::Release).await;
}

struct Forever;

#[async_trait::async_trait]
impl JobRunner for Forever {
    async fn run(&self, _: &JobRun) -> Result<(), RunFailure> {
        std::future::pending().await
    }
}

#[test]
fn a_runtime_that_goes_away_takes_its_leases_with_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (worker, store) = real_worker(Arc::new(Forever), runtime.handle().clone());
    runtime.block_on(store.enqueue(NEW)).unwrap();
    worker.start().unwrap();
    while worker.report().running.is_empty() {
        std::thread::yield_now();
    }
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(worker.stop(StopMode::Release));
    assert_eq!(worker.report().running, []);
}
