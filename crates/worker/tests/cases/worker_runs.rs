//! Jobs that run to their own end: once each, in order, within the limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::{
    ApplyState, ConstraintReason, DecisionKind, Initiator, JobId, JobState, Ms, NewDecision, NewJob, NewPlan,
    Phase, PlanEvent, PlanId, PlanState,
};
use serde_json::{Value, json};
use store::{PlanMove, PlanStore};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::TryRecvError;
use worker::{
    AsyncWorker, Ports, RunFailure, StopMode, TokioRuntime, WorkerConfig, WorkerConfigError, WorkerNews,
};

use crate::support::{BOOT, LEASE, Machine, Note, gated, run_ready_tasks, script, succeed, until};

#[tokio::test]
async fn a_queued_job_is_run_once_and_succeeds() {
    let machine = Machine::new();
    let (worker, runner) = machine.worker(succeed());
    let id = machine.enqueue(1).await;
    worker.hint();
    let job = machine.wait_for(id, JobState::Succeeded).await;
    assert_eq!(job.fence.0, 1);
    assert_eq!(runner.notes(id), [Note::Began, Note::Returned, Note::WoundDown(None)]);
    until("the run is off the list", || worker.report().running.is_empty()).await;
    let report = worker.report();
    assert_eq!((report.succeeded, report.failed, report.leases_lost, report.store_errors), (1, 0, 0, 0));
}

#[tokio::test]
async fn a_hint_wakes_an_idle_worker_without_time_passing_and_a_poll_finds_what_no_hint_told() {
    let machine = Machine::new();
    let (worker, _runner) = machine.worker(succeed());
    run_ready_tasks().await;
    let hinted = machine.enqueue(1).await;
    run_ready_tasks().await;
    assert_eq!(machine.state(hinted).await, JobState::Queued, "an idle worker sleeps");
    worker.hint();
    machine.wait_for(hinted, JobState::Succeeded).await;
    let untold = machine.enqueue(2).await;
    run_ready_tasks().await;
    machine.pass(Duration::from_secs(1)).await;
    machine.wait_for(untold, JobState::Succeeded).await;
}

#[tokio::test]
async fn a_failing_runner_fails_the_job_with_its_words_and_a_panicking_one_with_the_panics() {
    let machine = Machine::new();
    let (worker, _runner) = machine.worker(script(|run| {
        let is_first = run.job().plan == PlanId::from_u128(1);
        Box::pin(async move {
            assert!(is_first, "no idea what to do");
            Err(RunFailure::failed("the model refused"))
        })
    }));
    let (first, second) = (machine.enqueue(1).await, machine.enqueue(2).await);
    worker.hint();
    let job = machine.wait_for(first, JobState::Failed).await;
    assert_eq!(job.why.as_deref(), Some("the model refused"));
    let job = machine.wait_for(second, JobState::Failed).await;
    assert_eq!(job.why.as_deref(), Some("the runner panicked: no idea what to do"));
    assert_eq!(worker.report().failed, 2);
}

#[tokio::test]
async fn a_slow_listener_hears_of_every_job_that_ended() {
    const JOBS: u128 = 1_000;
    let machine = Machine::new();
    let (worker, _runner) = machine.worker(succeed());
    let mut news = worker.news();
    for n in 1..=JOBS {
        machine.enqueue(n).await;
    }
    worker.hint();
    let mut ended = 0;
    while ended < JOBS {
        match news.try_recv() {
            Ok(WorkerNews::Settled(..)) => ended += 1,
            Ok(WorkerNews::Claimed(_)) => {}
            // It reads again only when the worker has had time to do all that it can.
            Err(TryRecvError::Empty) => machine.pass(Duration::from_millis(500)).await,
            Err(lost @ (TryRecvError::Lagged(_) | TryRecvError::Closed)) => panic!("{lost}: {ended} ended"),
        }
    }
}

/// What plan 1 is asked to do, and the first decision of it.
fn asked() -> (NewPlan, NewDecision) {
    let spec = json!({
        "task": {"run": "make"}, "max_file_bytes": 10, "sandbox": "auto", "isolation_required": false,
        "time_limit_s": 60,
    });
    let plan = NewPlan {
        id: PlanId::from_u128(1),
        title: "make".to_owned(),
        spec: serde_json::from_value(spec).unwrap(),
        projects: Vec::new(),
    };
    let prompt = NewDecision {
        parent: None,
        attempt: 1,
        phase: Phase::Strategize,
        kind: DecisionKind::Prompt,
        question: "what?".to_owned(),
        chosen: "make".to_owned(),
        rationale: String::new(),
        confidence: None,
        alternatives: Vec::new(),
        depends_on: Vec::new(),
        node: None,
        at_entry: 0,
        supersedes: Vec::new(),
    };
    (plan, prompt)
}

#[tokio::test]
async fn a_runner_that_is_constrained_fails_its_job_and_constrains_its_plan() {
    let machine = Machine::new();
    let reasons = || {
        let (kind, subject) = ("conflict".to_owned(), "src/lib.rs".to_owned());
        vec![ConstraintReason { kind, subject, message: "both sides changed it".to_owned() }]
    };
    let (worker, _runner) = machine.worker(script(move |run| {
        let is_apply = run.job().phase == Phase::Apply;
        Box::pin(async move { if is_apply { Err(RunFailure::constrained(reasons())) } else { Ok(()) } })
    }));
    let (new, prompt) = asked();
    let job =
        |n, phase| NewJob { id: JobId::from_u128(n), plan: PlanId::from_u128(1), phase, not_before: Ms(0) };
    let mut plan = machine.store.create(new, vec![prompt], job(1, Phase::Strategize)).await.unwrap();
    for (n, next) in [(1, Phase::Execute), (2, Phase::Apply)] {
        worker.hint();
        machine.wait_for(JobId::from_u128(n), JobState::Succeeded).await;
        let version = machine.store.plan(plan.id).await.unwrap().version;
        let (event, by, request) = (PlanEvent::Advance, Initiator::Gate, Value::Null);
        let advance = PlanMove {
            plan: plan.id,
            version,
            event,
            by,
            job: Some(job(n + 1, next)),
            request,
            decisions: Vec::new(),
            record: None,
            contents: Vec::new(),
            spec: None,
        };
        plan = machine.store.move_plan(advance).await.unwrap();
    }
    worker.hint();
    let failed = machine.wait_for(JobId::from_u128(3), JobState::Failed).await;
    let why = "constrained: conflict src/lib.rs: both sides changed it";
    assert_eq!(failed.why.as_deref(), Some(why));
    let plan = machine.store.plan(plan.id).await.unwrap();
    assert_eq!(plan.state, PlanState::Apply(ApplyState::Constrained));
    assert_eq!(plan.constrained_by, reasons());
}

#[tokio::test]
async fn no_more_than_max_workers_run_at_once_and_all_get_their_turn() {
    let machine = Machine::new();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let go = Arc::new(Notify::new());
    let body = {
        let (inside, most, go) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&go));
        script(move |_| {
            let (inside, most, go) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&go));
            Box::pin(async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                go.notified().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            })
        })
    };
    let config = WorkerConfig { max_workers: 2, plan_concurrency: 64, ..WorkerConfig::new(BOOT, LEASE) };
    let (worker, runner) = machine.worker_with(config, body, None);
    for n in 1..=5 {
        machine.enqueue(n).await;
    }
    worker.hint();
    for done in 1..=5 {
        until("the next ones run", || runner.began() >= (done + 1).min(5)).await;
        assert!(inside.load(Ordering::SeqCst) <= 2);
        go.notify_one();
        until("one ended", || worker.report().succeeded == done as u64).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn plan_concurrency_holds_over_several_workers() {
    let machine = Machine::new();
    let go = Arc::new(Notify::new());
    let config = WorkerConfig { plan_concurrency: 1, ..WorkerConfig::new(BOOT, LEASE) };
    let workers = [
        machine.worker_with(config.clone(), gated(Arc::clone(&go)), None),
        machine.worker_with(config.clone(), gated(Arc::clone(&go)), None),
        machine.worker_with(config, gated(Arc::clone(&go)), None),
    ];
    for n in 1..=10 {
        machine.enqueue(n).await;
    }
    for done in 0..10_usize {
        machine.pass(Duration::from_secs(1)).await;
        let running: usize = workers.iter().map(|(worker, _)| worker.report().running.len()).sum();
        assert_eq!(running, 1, "one at a time");
        go.notify_one();
        let ended = || workers.iter().map(|(worker, _)| worker.report().succeeded).sum::<u64>();
        until("it ended", || ended() == done as u64 + 1).await;
    }
    assert_eq!(workers.iter().map(|(_, runner)| runner.began()).sum::<usize>(), 10, "each once, all finish");
}

#[tokio::test]
async fn jobs_of_two_workers_are_each_run_once_in_order_of_id() {
    let machine = Machine::new();
    let (first, first_runner) = machine.worker(succeed());
    let (second, second_runner) = machine.worker(succeed());
    for n in 1..=100 {
        machine.enqueue(n).await;
    }
    first.hint();
    second.hint();
    until("all done", || first.report().succeeded + second.report().succeeded == 100).await;
    assert_eq!(first_runner.began() + second_runner.began(), 100);
    for runner in [first_runner, second_runner] {
        let order: Vec<_> = runner
            .events
            .lock()
            .unwrap()
            .iter()
            .filter(|(_, note)| *note == Note::Began)
            .map(|(id, _)| *id)
            .collect();
        assert!(order.is_sorted());
    }
}

#[tokio::test]
async fn a_worker_for_one_plan_leaves_the_others_alone() {
    let machine = Machine::new();
    let (other, mine) = (machine.enqueue(1).await, machine.enqueue(2).await);
    let config = WorkerConfig { only: Some(PlanId::from_u128(2)), ..WorkerConfig::new(BOOT, LEASE) };
    let (_worker, _runner) = machine.worker_with(config, succeed(), None);
    machine.wait_for(mine, JobState::Succeeded).await;
    run_ready_tasks().await;
    assert_eq!(machine.state(other).await, JobState::Queued);
}

#[tokio::test]
async fn a_configuration_out_of_bounds_is_refused_with_what_is_allowed() {
    let machine = Machine::new();
    let good = WorkerConfig::new(BOOT, LEASE);
    let second = Duration::from_secs(1);
    let ports = |machine: &Machine| Ports {
        store: Arc::clone(&machine.store) as _,
        runner: machine.worker(succeed()).1,
        runtime: Arc::new(TokioRuntime::new(tokio::runtime::Handle::current())),
        clock: Arc::new(machine.clock.clone()),
        ids: Arc::clone(&machine.ids) as _,
        token: machine.token.clone(),
    };
    let refused = [
        (WorkerConfig { max_workers: 0, ..good.clone() }, "max_workers", "0", "1..=1024"),
        (WorkerConfig { max_workers: 1025, ..good.clone() }, "max_workers", "1025", "1..=1024"),
        (WorkerConfig { plan_concurrency: 0, ..good.clone() }, "plan_concurrency", "0", "1..=1024"),
        (WorkerConfig { plan_concurrency: 1025, ..good.clone() }, "plan_concurrency", "1025", "1..=1024"),
        (WorkerConfig { idle_poll: Duration::ZERO, ..good.clone() }, "idle_poll", "0ns", "10ms..=1min"),
        (WorkerConfig { idle_poll: 61 * second, ..good.clone() }, "idle_poll", "61s", "10ms..=1min"),
        (WorkerConfig { cancel_wait: 61 * second, ..good.clone() }, "cancel_wait", "61s", "0..=1min"),
    ];
    for (config, key, value, allowed) in refused {
        let error = AsyncWorker::new(config, ports(&machine)).unwrap_err();
        assert_eq!(error, WorkerConfigError { key, value: value.to_owned(), allowed });
        assert_eq!(error.to_string(), format!("worker {key} is {value}, allowed is {allowed}"));
    }
    assert!(AsyncWorker::new(good, ports(&machine)).is_ok());
}

#[tokio::test]
async fn every_worker_has_an_id_of_its_own_and_shows_what_it_runs() {
    let machine = Machine::new();
    let go = Arc::new(Notify::new());
    let (worker, runner) = machine.worker(gated(Arc::clone(&go)));
    let (other, _runner) = machine.worker(gated(Arc::clone(&go)));
    assert_ne!(worker.report().worker, other.report().worker);
    other.stop(StopMode::Release).await;
    let id = machine.enqueue(7).await;
    worker.hint();
    until("it runs", || runner.began() == 1).await;
    let running = worker.report().running;
    assert_eq!(running.len(), 1);
    assert_eq!((running[0].job, running[0].plan), (id, PlanId::from_u128(7)));
    assert_eq!(machine.job(id).await.worker, Some(worker.report().worker));
    assert!(format!("{worker:?}").contains("AsyncWorker"));
}
