//! A store, a runner or a system that misbehaves: the worker goes on, and says so.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use domain::JobState;
use futures_util::future::BoxFuture;
use sync::{CancelReason, Finisher};
use worker::{
    AsyncWorker, JobRun, JobRunner, Ports, RunFailure, Runtime, StopMode, TaskKind, WorkerConfig,
    WorkerStartError,
};

use crate::support::{BOOT, Call, Fault, LEASE, Machine, VirtualRuntime, run_ready_tasks, succeed, until};

/// A worker that was made and not started.
pub(crate) fn unstarted(machine: &Machine) -> AsyncWorker {
    AsyncWorker::new(WorkerConfig::new(BOOT, LEASE), ports(machine, TaskKind::Run)).unwrap()
}

/// A runtime that has no thread for one kind of task.
struct NoThreadFor {
    kind: TaskKind,
    inner: VirtualRuntime,
}

impl Runtime for NoThreadFor {
    fn spawn(&self, kind: TaskKind, task: BoxFuture<'static, ()>) -> io::Result<()> {
        match kind == self.kind {
            true => Err(io::Error::other("no thread left")),
            false => self.inner.spawn(kind, task),
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.inner.sleep(duration)
    }
}

struct PanicsWindingDown;

#[async_trait::async_trait]
impl JobRunner for PanicsWindingDown {
    async fn run(&self, _: &JobRun) -> Result<(), RunFailure> {
        Ok(())
    }

    async fn wind_down(&self, _: &JobRun, _: &Finisher, _: Option<CancelReason>) {
        panic!("while winding down");
    }
}

fn ports(machine: &Machine, no_thread_for: TaskKind) -> Ports {
    let inner = VirtualRuntime { clock: machine.clock.clone() };
    Ports {
        store: Arc::clone(&machine.store) as _,
        runner: Arc::new(PanicsWindingDown),
        runtime: Arc::new(NoThreadFor { kind: no_thread_for, inner }),
        clock: Arc::new(machine.clock.clone()),
        ids: Arc::clone(&machine.ids) as _,
        token: machine.token.clone(),
    }
}

#[tokio::test]
async fn a_store_that_fails_or_panics_in_a_claim_is_asked_again() {
    for fault in [Fault::Busy, Fault::Broken, Fault::Panic] {
        let machine = Machine::new();
        machine.store.fail_next(Call::Claim, fault);
        let id = machine.enqueue(1).await;
        let (worker, _runner) = machine.worker(succeed());
        run_ready_tasks().await;
        assert_eq!((machine.state(id).await, worker.report().store_errors), (JobState::Queued, 1));
        machine.pass(Duration::from_secs(1)).await;
        machine.wait_for(id, JobState::Succeeded).await;
    }
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_taken_over_when_its_lease_is_over() {
    let machine = Machine::new();
    machine.store.fail_next(Call::Claim, Fault::BusyAfterwards);
    let id = machine.enqueue(1).await;
    let (_worker, runner) = machine.worker(succeed());
    run_ready_tasks().await;
    assert_eq!((machine.state(id).await, runner.began()), (JobState::Running, 0));
    machine.pass(Duration::from_secs(32)).await;
    let job = machine.wait_for(id, JobState::Succeeded).await;
    assert_eq!((job.fence.0, runner.began()), (2, 1));
}

#[tokio::test]
async fn an_end_that_the_store_did_not_take_is_asked_for_again_until_it_does() {
    for fault in [Fault::Busy, Fault::BusyAfterwards, Fault::Panic] {
        let machine = Machine::new();
        machine.store.fail_next(Call::End, fault.clone());
        let id = machine.enqueue(1).await;
        let (worker, runner) = machine.worker(succeed());
        machine.pass(Duration::from_secs(1)).await;
        machine.wait_for(id, JobState::Succeeded).await;
        until("it was counted", || worker.report().succeeded == 1).await;
        assert_eq!(runner.began(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_broken_store_leaves_the_job_to_the_next_owner() {
    let machine = Machine::new();
    machine.store.fail_next(Call::End, Fault::Broken);
    let id = machine.enqueue(1).await;
    let (worker, _runner) = machine.worker(succeed());
    until("it gave up", || worker.report().unsettled == 1).await;
    assert_eq!(machine.state(id).await, JobState::Running, "until its lease is over");
    machine.pass(Duration::from_secs(31)).await;
    machine.wait_for(id, JobState::Succeeded).await;
}

#[tokio::test]
async fn a_runner_that_panics_while_winding_down_changes_nothing_about_the_end() {
    let machine = Machine::new();
    let id = machine.enqueue(1).await;
    let worker = AsyncWorker::new(
        WorkerConfig::new(BOOT, LEASE),
        Ports {
            runtime: Arc::new(VirtualRuntime { clock: machine.clock.clone() }),
            ..ports(&machine, TaskKind::Run)
        },
    );
    worker.unwrap().start().unwrap();
    machine.wait_for(id, JobState::Succeeded).await;
}

#[tokio::test]
async fn a_system_without_a_thread_for_it_fails_the_start_and_leaves_nothing_running() {
    for kind in [TaskKind::Heartbeat, TaskKind::Claims] {
        let machine = Machine::new();
        let worker = AsyncWorker::new(WorkerConfig::new(BOOT, LEASE), ports(&machine, kind)).unwrap();
        let error = worker.start().unwrap_err();
        assert!(matches!(error, WorkerStartError::NoThread(_)));
        assert_eq!(error.to_string(), "no thread could be started for the worker: no thread left");
        worker.stop(StopMode::Release).await;
    }
}

#[tokio::test]
async fn a_job_that_finds_no_thread_is_left_to_its_lease_and_its_work_fails_without_one() {
    let machine = Machine::new();
    let id = machine.enqueue(1).await;
    let worker = AsyncWorker::new(WorkerConfig::new(BOOT, LEASE), ports(&machine, TaskKind::Run)).unwrap();
    worker.start().unwrap();
    until("it was left", || worker.report().unsettled == 1).await;
    worker.stop(StopMode::Release).await;
    assert_eq!(machine.state(id).await, JobState::Running, "until its lease is over");

    let machine = Machine::new();
    let id = machine.enqueue(1).await;
    let worker = AsyncWorker::new(WorkerConfig::new(BOOT, LEASE), ports(&machine, TaskKind::Work)).unwrap();
    worker.start().unwrap();
    let job = machine.wait_for(id, JobState::Failed).await;
    assert_eq!(job.why.as_deref(), Some("no thread could be started for the job: no thread left"));
}
