//! Workers: a job runs once, a cancel and a success have one winner, a takeover leaves one owner, a stop gives back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::{ChangesetState, Job, JobState};
use engine::{AsyncWorker, JobRun, JobRunner, Ports, RunFailure, Stop, WorkerConfig};
use proof::{Case, Twin};
use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::thread;
use store::{ChangesetStore, JobStore, MemoryStore};
use sync::primitives::atomic::{AtomicUsize, Ordering};
use sync::{CancellationToken, ManualClock};
use tokio::sync::Notify;

use crate::explore;
use crate::support::{BOOT, CountingIds, LEASE, PLAN, ShuttleRuntime, change, enqueue};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            seed: "7166",
            name: "2 workers, 1 job: one run",
            explore: || explore(a_job_is_run_once::<Ours>),
            twins: &[Twin {
                name: "poll the queue, then mark it running",
                symptom: "dispatched twice",
                explore: || explore(a_job_is_run_once::<naive::PollThenMark>),
            }],
        },
        Case {
            seed: "7166",
            name: "cancel beside the end of a run: one of them wins, and nothing is recorded afterwards",
            explore: || explore(a_cancel_and_a_success_have_one_winner),
            twins: &[],
        },
        Case {
            seed: "worker",
            name: "the clock jumps past a lease beside 2 workers: the job ends once, by its last owner",
            explore: || explore(a_takeover_leaves_one_owner),
            twins: &[],
        },
        Case {
            seed: "worker",
            name: "stop beside claim and run: done or queued again, and nothing runs afterwards",
            explore: || explore(a_stop_gives_back_or_finishes),
            twins: &[],
        },
    ]
}

const DRAIN: Stop = Stop::Drain { deadline: Duration::from_secs(3600) };

/// Records one change in a changeset of its own.
struct Recorder {
    begun: AtomicUsize,
    ended: Notify,
}

impl Recorder {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: AtomicUsize::new(0), ended: Notify::new() })
    }
}

#[async_trait]
impl JobRunner for Recorder {
    async fn run(&self, run: &JobRun) -> Result<(), RunFailure> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let refused = |error: engine::PlanError| RunFailure { why: error.to_string() };
        let handle = run.context().start_changeset().await.map_err(refused)?;
        handle.record(change(run.claim().fence.0)).await.map_err(refused)?;
        handle.close().await.map_err(refused)?;
        Ok(())
    }

    async fn wind_down(&self, _: &JobRun, _: &sync::Finisher, _: Option<sync::CancelReason>) {
        self.ended.notify_one();
    }
}

struct Bench {
    clock: ManualClock,
    store: Arc<MemoryStore>,
    runner: Arc<Recorder>,
    ids: Arc<CountingIds>,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        Self { clock, store, runner: Recorder::new(), ids: Arc::new(CountingIds::new()) }
    }

    fn worker(&self) -> AsyncWorker {
        let ports = Ports {
            store: Arc::clone(&self.store) as _,
            runner: Arc::clone(&self.runner) as _,
            runtime: Arc::new(ShuttleRuntime(self.clock.clone())),
            clock: Arc::new(self.clock.clone()),
            ids: Arc::clone(&self.ids) as _,
            token: CancellationToken::new(),
        };
        AsyncWorker::new(WorkerConfig { lease: LEASE, ..WorkerConfig::new(BOOT) }, ports).unwrap()
    }

    fn job(&self) -> Job {
        block_on(self.store.jobs(Some(PLAN))).unwrap().remove(0)
    }
}

/// Two pollers meet one queued job; how often it ran.
trait Dispatch {
    fn runs_of_one_job() -> usize;
}

fn a_job_is_run_once<D: Dispatch>() {
    let runs = D::runs_of_one_job();
    assert!(runs < 2, "dispatched twice: {runs} runs of one job");
    assert_eq!(runs, 1);
}

struct Ours;

impl Dispatch for Ours {
    fn runs_of_one_job() -> usize {
        let bench = Bench::new();
        enqueue(&bench.store);
        let (first, second) = (bench.worker(), bench.worker());
        first.start().unwrap();
        second.start().unwrap();
        block_on(async {
            bench.runner.ended.notified().await;
            first.stop(DRAIN).await;
            second.stop(DRAIN).await;
        });
        assert_eq!(bench.job().state, JobState::Succeeded);
        bench.runner.begun.load(Ordering::SeqCst)
    }
}

fn a_cancel_and_a_success_have_one_winner() {
    let bench = Bench::new();
    let id = enqueue(&bench.store);
    let worker = bench.worker();
    worker.start().unwrap();
    let canceller = {
        let (store, worker) = (Arc::clone(&bench.store), worker.clone());
        thread::spawn(move || {
            let answer = block_on(store.cancel(id, "stop it"));
            worker.hint();
            answer.map(|job| job.state)
        })
    };
    let answer = canceller.join().unwrap();
    let at_answer = block_on(bench.store.changesets(PLAN)).unwrap();
    block_on(worker.stop(DRAIN));
    let job = bench.job();
    let sets = block_on(bench.store.changesets(PLAN)).unwrap();
    match answer {
        // Acknowledged at once: the job was queued still.
        Ok(JobState::Cancelled) => {
            assert_eq!(job.state, JobState::Cancelled);
            assert_eq!(sets, at_answer, "nothing is recorded after the acknowledgement");
            assert_eq!(bench.runner.begun.load(Ordering::SeqCst), 0);
        }
        Ok(_) => assert_eq!(job.state, JobState::Cancelled, "a requested cancel wins over a later success"),
        Err(_) => assert_eq!(job.state, JobState::Succeeded, "refused, since it had ended"),
    }
    assert!(sets.iter().all(|set| set.state != ChangesetState::Open));
}

fn a_takeover_leaves_one_owner() {
    let bench = Bench::new();
    enqueue(&bench.store);
    let (first, second) = (bench.worker(), bench.worker());
    first.start().unwrap();
    second.start().unwrap();
    let jumper = {
        let clock = bench.clock.clone();
        thread::spawn(move || clock.advance(2 * LEASE))
    };
    jumper.join().unwrap();
    second.hint();
    block_on(async {
        first.stop(DRAIN).await;
        second.stop(DRAIN).await;
    });
    let job = bench.job();
    let reports = [first.report(), second.report()];
    let succeeded: u64 = reports.iter().map(|report| report.succeeded).sum();
    match job.state {
        JobState::Succeeded => assert_eq!(succeeded, 1, "one owner ended it"),
        JobState::Queued | JobState::Running => assert_eq!(succeeded, 0),
        other => panic!("{other:?}"),
    }
    let sets = block_on(bench.store.changesets(PLAN)).unwrap();
    assert!(sets.iter().all(|set| set.state != ChangesetState::Open || job.state == JobState::Running));
    // An entry's id is the fence it was recorded under: a later owner's never comes before an earlier one's.
    let fences: Vec<_> = sets.iter().flat_map(|set| &set.entries).map(|entry| entry.id).collect();
    assert!(fences.is_sorted());
}

fn a_stop_gives_back_or_finishes() {
    let bench = Bench::new();
    enqueue(&bench.store);
    let worker = bench.worker();
    worker.start().unwrap();
    let stopper = {
        let worker = worker.clone();
        thread::spawn(move || block_on(worker.stop(Stop::Release)))
    };
    let report = block_on(worker.stop(DRAIN));
    assert_eq!(stopper.join().unwrap(), report, "both are told the same");
    let job = bench.job();
    assert!(matches!(job.state, JobState::Queued | JobState::Succeeded), "{job:?}");
    assert_eq!(worker.report().running, []);
    let sets = block_on(bench.store.changesets(PLAN)).unwrap();
    assert!(sets.iter().all(|set| set.state != ChangesetState::Open));
}

/// A worker that looks at the queue, and marks what it found in a second step.
mod naive {
    use super::{Arc, AtomicUsize, Dispatch, Mutex, Ordering, thread};

    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Queued,
        Running,
        Succeeded,
    }

    pub(super) struct PollThenMark;

    fn poll(job: &Mutex<State>, runs: &AtomicUsize) {
        let is_queued = *job.lock().unwrap() == State::Queued;
        if is_queued {
            *job.lock().unwrap() = State::Running;
            runs.fetch_add(1, Ordering::SeqCst);
            *job.lock().unwrap() = State::Succeeded;
        }
    }

    impl Dispatch for PollThenMark {
        fn runs_of_one_job() -> usize {
            let (job, runs) = (Arc::new(Mutex::new(State::Queued)), Arc::new(AtomicUsize::new(0)));
            let other = {
                let (job, runs) = (Arc::clone(&job), Arc::clone(&runs));
                thread::spawn(move || poll(&job, &runs))
            };
            poll(&job, &runs);
            other.join().unwrap();
            runs.load(Ordering::SeqCst)
        }
    }
}
