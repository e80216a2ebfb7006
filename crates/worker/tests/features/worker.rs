//! Steps of #7166: workers that run jobs, and users who cancel them.
//!
//! The clock stands still unless a scenario moves it: workers live on hints alone, and what happens is what a
//! step did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::worker::{AsyncWorker, PlanError, StopMode};
use cucumber::{given, then, when};
use domain::{ChangesetState, Job, JobId, RecordedChange};
use store::{JobStore, JobStoreError};
use sync::CancelReason;

use crate::cancellation::Listener;
use crate::changesets::change;
use crate::naive;
use crate::pausing_store::{Op, Point};
use crate::threads::{Held, all_at_once, apart, block_on, receive};
use crate::worker_harness::{CANCEL_WAIT, JOB, OTHER_JOB, RunnerEvent, Script, WaitPause, WorkerHarness};
use crate::world::Features;

/// What #7166's scenarios of the worker have.
#[derive(Default)]
pub(crate) struct Scene {
    harness: Option<WorkerHarness>,
    naive: Option<Arc<naive::JobQueue>>,
    workers: BTreeMap<String, AsyncWorker>,
    /// Where a worker stands that asks for a job.
    asking: BTreeMap<String, Held>,
    /// Where the worker of the job stands that stores its end.
    ending: Option<Held>,
    /// Where the second job stands.
    second: Option<Held>,
    cancelled: Option<Result<Job, JobStoreError>>,
    late: Option<Result<RecordedChange, PlanError>>,
}

impl Scene {
    fn harness(&self) -> &WorkerHarness {
        self.harness.as_ref().expect("the scenario has workers")
    }

    /// A worker that runs the one job.
    fn start_worker(&mut self) {
        let worker = self.harness().worker();
        worker.start().expect("it starts");
        self.workers.insert("its worker".to_owned(), worker);
    }

    /// Lets all workers end what they do, and waits until nothing of them runs.
    fn drain(&mut self) {
        for worker in std::mem::take(&mut self.workers).into_values() {
            let deadline = Duration::from_secs(600);
            apart("the end of a worker", move || block_on(worker.stop(StopMode::Drain { deadline })));
        }
    }

    /// How often each job was begun.
    fn runs(&self) -> BTreeMap<JobId, usize> {
        let mut runs = BTreeMap::new();
        for told in self.harness().told.try_iter() {
            if let RunnerEvent::Begun { job, .. } = told {
                *runs.entry(job).or_default() += 1;
            }
        }
        runs
    }
}

#[given("a queued job")]
fn queued_job(world: &mut Features) {
    queued_jobs(world, 1);
}

#[given(expr = "{int} queued jobs")]
fn queued_jobs(world: &mut Features, jobs: u128) {
    let harness = WorkerHarness::new(Script::End);
    (1..=jobs).for_each(|number| harness.queue(number));
    world.worker.harness = Some(harness);
}

#[given("a queued job in a naive queue")]
fn naive_queued_job(world: &mut Features) {
    let queue = naive::JobQueue::default();
    queue.enqueue();
    world.worker.naive = Some(Arc::new(queue));
}

#[when(expr = "worker {word} requests a job, and has not received it yet")]
fn asks(world: &mut Features, name: String) {
    if let Some(queue) = world.worker.naive.clone() {
        let held = queue.pauses.hold(naive::QueuePoint::Found);
        world.threads.start_until(&name, held, move || queue.poll());
        return;
    }
    let harness = world.worker.harness();
    let worker = harness.worker();
    let held = harness.store.hold(Point::Before(Op::Claim(worker.report().worker)));
    worker.start().expect("it starts");
    held.wait_until_reached();
    world.worker.workers.insert(name.clone(), worker);
    world.worker.asking.insert(name, held);
}

#[when(expr = "worker {word} continues")]
fn goes_on(world: &mut Features, name: String) {
    if world.worker.naive.is_some() {
        world.threads.finish(&name);
        return;
    }
    let scene = &mut world.worker;
    let id = scene.workers[&name].report().worker;
    let answered = scene.harness().store.hold(Point::After(Op::Claim(id)));
    scene.asking.remove(&name).expect("it asks").go();
    answered.pass();
}

#[then(expr = "the job was run {int} time(s)")]
fn was_run(world: &mut Features, times: usize) {
    if let Some(queue) = &world.worker.naive {
        assert_eq!(queue.runs(), vec![0; times]);
        return;
    }
    expect_begun(&world.worker, JOB);
    world.worker.drain();
    assert_eq!(world.worker.runs().values().sum::<usize>() + 1, times);
    // A worker that stops gives back unrun what it got; the fence tells of that too.
    assert_eq!(world.worker.harness().job(JOB).fence.0, times as u64, "as often claimed");
}

#[when(expr = "{int} workers start at once and run until all jobs have ended")]
fn many_workers(world: &mut Features, count: usize) {
    let harness = world.worker.harness();
    let workers: Vec<AsyncWorker> = (0..count).map(|_| harness.worker()).collect();
    let started = workers.clone();
    all_at_once(count, move |index| started[index].start().expect("it starts"));
    let named = workers.into_iter().enumerate();
    world.worker.workers = named.map(|(index, worker)| (index.to_string(), worker)).collect();
}

#[then(expr = "each of the {int} jobs was run once and is {string}")]
fn each_was_run_once(world: &mut Features, jobs: usize, state: String) {
    let harness = world.worker.harness();
    let mut runs: BTreeMap<JobId, usize> = BTreeMap::new();
    for _ in 0..jobs {
        match receive(&harness.told, "the run of every job") {
            RunnerEvent::Begun { job, .. } => *runs.entry(job).or_default() += 1,
            other => panic!("the run of a job was expected: {other:?}"),
        }
    }
    world.worker.drain();
    assert_eq!(world.worker.runs(), BTreeMap::new(), "no run more");
    let all = (1..=jobs as u128).map(|number| (JobId::from_u128(number), 1));
    assert_eq!(runs, all.collect());
    for number in 1..=jobs as u128 {
        let job = world.worker.harness().job(number);
        assert_eq!((job.state.as_str(), job.fence.0), (state.as_str(), 1));
    }
}

fn running_job(world: &mut Features, script: Script, stops_at: Option<Point>) {
    let harness = WorkerHarness::new(script);
    harness.queue(JOB);
    let waits = harness.runner.pauses.hold(WaitPause);
    let ending = stops_at.map(|point| harness.store.hold(point));
    world.worker.harness = Some(harness);
    world.worker.start_worker();
    match ending {
        None => waits.pass(),
        Some(ending) => {
            ending.wait_until_reached();
            world.worker.ending = Some(ending);
        }
    }
    expect_begun(&world.worker, JOB);
}

/// The next word of the jobs is that this one begins, with a live scope.
fn expect_begun(scene: &Scene, number: u128) {
    let begun = receive(&scene.harness().told, "the beginning of a job");
    let expected = RunnerEvent::Begun { job: JobId::from_u128(number), is_cancelled: false };
    assert_eq!(begun, expected);
}

#[given(expr = "a running job that has recorded the change {string} and waits for its scope")]
fn listening_job(world: &mut Features, file: String) {
    running_job(world, Script::RecordAndListen(file), None);
}

#[given(expr = "a running job that has recorded the change {string} and does not listen to its scope")]
fn hanging_job(world: &mut Features, file: String) {
    running_job(world, Script::RecordAndHang(file), None);
}

#[given(
    expr = "a running job that has recorded the change {string} and is done: its success is on the way to the store"
)]
fn ending_job(world: &mut Features, file: String) {
    running_job(world, Script::RecordAndEnd(file), Some(Point::Before(Op::End)));
}

#[given(
    expr = "a running job that has recorded the change {string} and is done: the store has its success, and its worker does not know"
)]
fn ended_job(world: &mut Features, file: String) {
    running_job(world, Script::RecordAndEnd(file), Some(Point::After(Op::End)));
}

#[given("a second job that runs beside it in the same worker")]
fn second_job(world: &mut Features) {
    let harness = world.worker.harness();
    *harness.runner.script.lock().unwrap() = Script::WaitAndEnd;
    let waits = harness.runner.pauses.hold(WaitPause);
    harness.queue(OTHER_JOB);
    world.worker.workers.values().for_each(AsyncWorker::hint);
    waits.wait_until_reached();
    expect_begun(&world.worker, OTHER_JOB);
    world.worker.second = Some(waits);
}

#[when("the second job continues")]
fn second_job_goes_on(world: &mut Features) {
    world.worker.second.take().expect("the second job runs").go();
}

#[then(expr = "the second job was not asked to stop, and is {string}")]
fn second_job_ends(world: &mut Features, state: String) {
    let ending = receive(&world.worker.harness().told, "the end of the second job");
    let expected = RunnerEvent::Ending { job: JobId::from_u128(OTHER_JOB), is_cancelled: false };
    assert_eq!(ending, expected);
    world.worker.drain();
    assert_eq!(world.worker.harness().job(OTHER_JOB).state.as_str(), state);
}

#[when("the user cancels the job")]
fn user_cancels(world: &mut Features) {
    let store = Arc::clone(&world.worker.harness().store);
    let cancel = move || block_on(store.cancel(JobId::from_u128(JOB), "no longer wanted"));
    world.worker.cancelled = Some(apart("the cancel of a job", cancel));
    world.worker.workers.values().for_each(AsyncWorker::hint);
}

#[then(expr = "the user is answered {string}")]
fn user_is_answered(world: &mut Features, message: String) {
    let answer = world.worker.cancelled.as_ref().expect("the user cancelled");
    let refused = answer.as_ref().map_err(ToString::to_string);
    assert_eq!(refused.err(), Some(message));
}

#[when("the time passes that a cancelled job is given to end")]
fn cancel_wait_passes(world: &mut Features) {
    let harness = world.worker.harness();
    while receive(&harness.sleeps, "the wait for the end of the job") != CANCEL_WAIT {}
    harness.clock.advance(CANCEL_WAIT);
}

#[when("the success of the job reaches the store")]
#[when("the worker hears of the success")]
fn ending_goes_on(world: &mut Features) {
    world.worker.ending.take().expect("the worker stands there").go();
}

#[then(expr = "the job is asked to stop: {string}")]
fn told_to_stop_because(world: &mut Features, reason: String) {
    match receive(&world.worker.harness().told, "a word to stop") {
        RunnerEvent::Stopped(told) => assert_eq!(told.to_string(), reason),
        other => panic!("a word to stop was expected: {other:?}"),
    }
}

#[then("the job is asked to stop")]
fn told_to_stop(world: &mut Features) {
    let told = receive(&world.worker.harness().told, "a word to stop");
    assert!(matches!(told, RunnerEvent::Stopped(_)), "{told:?}");
}

#[then(expr = "the job is {string}")]
fn job_is(world: &mut Features, state: String) {
    world.worker.drain();
    assert_eq!(world.worker.harness().job(JOB).state.as_str(), state);
}

#[then(expr = "the changeset of the job is {string} and holds {string}")]
fn changeset_is(world: &mut Features, state: String, file: String) {
    let expected_state = match state.as_str() {
        "interrupted" => ChangesetState::Interrupted,
        "closed" => ChangesetState::Closed,
        other => panic!("a changeset is not {other}"),
    };
    let shown: Vec<(ChangesetState, Vec<Vec<u8>>)> = world
        .worker
        .harness()
        .changesets(JOB)
        .iter()
        .map(|changeset| {
            let paths = changeset.entries.iter().map(|entry| entry.path.as_bytes().to_vec());
            (changeset.state, paths.collect())
        })
        .collect();
    assert_eq!(shown, [(expected_state, vec![file.into_bytes()])]);
}

#[when(expr = "a part of the job that was left behind records the change {string}")]
fn left_behind_records(world: &mut Features, file: String) {
    let context = world.worker.harness().runner.left_behind.lock().unwrap().clone();
    let context = context.expect("the job had a context");
    let record = move || block_on(context.record_change(change(&file)));
    world.worker.late = Some(apart("a late record", record));
}

#[then(expr = "it is answered {string}")]
fn late_is_answered(world: &mut Features, message: String) {
    let late = world.worker.late.clone().expect("something was recorded late");
    assert_eq!(late.map_err(|error| error.to_string()), Err(message));
}

#[when(
    expr = "thread {word} cancels the token of the worker's process, and thread {word} resets it before the job checks"
)]
fn process_token_is_reset(world: &mut Features, canceller: String, resetter: String) {
    let token = world.worker.harness().token.clone();
    let listener = Listener::first_of(&token);
    let held = listener.hold_next_canceller();
    let cancelled = token.clone();
    world.threads.start_until(&canceller, held, move || cancelled.cancel(CancelReason::User));
    world.threads.run(&resetter, move || token.reset());
    world.threads.finish(&canceller);
}

#[when("another worker of the process starts")]
fn another_worker(world: &mut Features) {
    *world.worker.harness().runner.script.lock().unwrap() = Script::End;
    world.worker.start_worker();
}

#[then(expr = "the job runs again with a scope that is not cancelled, and is {string}")]
fn runs_again(world: &mut Features, state: String) {
    expect_begun(&world.worker, JOB);
    job_is(world, state);
}
