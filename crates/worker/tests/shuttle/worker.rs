//! Workers: a job runs once, a cancel and a success have one winner, a takeover leaves one owner, a stop
//! gives back.

use std::sync::Arc;
use std::time::Duration;

use ::worker::{AsyncWorker, JobRun, JobRunner, Ports, RunFailure, StopMode, WorkerConfig};
use async_trait::async_trait;
use domain::{ChangesetState, Job, JobState};
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
            name: "cancel beside a run with a tool: no effect is inside once it is acknowledged",
            explore: || explore(no_effect_is_inside_once_acknowledged::<Worker<Gated>>),
            twins: &[
                Twin {
                    name: "a tool that looks at its scope, and then acts",
                    symptom: "effect after the acknowledgement",
                    explore: || explore(no_effect_is_inside_once_acknowledged::<Worker<Ungated>>),
                },
                Twin {
                    name: "acknowledged when the gate is closed, and not when it is drained",
                    symptom: "effect after the acknowledgement",
                    explore: || explore(no_effect_is_inside_once_acknowledged::<naive::Undrained>),
                },
            ],
        },
        Case {
            seed: "7166",
            name: "cancel beside the end of a run: one of them wins, and the answer says which",
            explore: || {
                explore(a_cancel_and_a_success_have_one_winner);
                reached("cancelled while queued", &CANCELLED_QUEUED);
                reached("cancelled while running", &CANCELLED_RUNNING);
                reached("succeeded first", &SUCCEEDED_FIRST);
            },
            twins: &[],
        },
        Case {
            seed: "worker",
            name: "the clock jumps past a lease beside 2 workers: the job ends once, by its last owner",
            explore: || {
                explore(a_takeover_leaves_one_owner);
                reached("taken over", &TAKEN_OVER);
                reached("lost by its owner", &LOST);
            },
            twins: &[],
        },
        Case {
            seed: "worker",
            name: "stop beside claim and run: done or queued again, and nothing runs afterwards",
            explore: || {
                explore(a_stop_gives_back_or_finishes);
                reached("finished", &FINISHED);
                reached("given back", &GIVEN_BACK);
            },
            twins: &[],
        },
    ]
}

/// Situations that an exploration must have met, or it has shown nothing about them.
static CANCELLED_QUEUED: Situation = Situation::new(0);
static CANCELLED_RUNNING: Situation = Situation::new(0);
static SUCCEEDED_FIRST: Situation = Situation::new(0);
static TAKEN_OVER: Situation = Situation::new(0);
static LOST: Situation = Situation::new(0);
static FINISHED: Situation = Situation::new(0);
static GIVEN_BACK: Situation = Situation::new(0);

/// Counted outside of the explored world.
type Situation = std::sync::atomic::AtomicUsize;

fn meet(situation: &Situation) {
    situation.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

fn reached(what: &str, situation: &Situation) {
    let times = situation.load(std::sync::atomic::Ordering::Relaxed);
    assert!(times > 0, "no schedule met the situation: {what}");
}

const DRAIN: StopMode = StopMode::Drain { deadline: Duration::from_secs(3600) };

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
        let refused = |error: ::worker::PlanError| RunFailure::failed(error.to_string());
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
        self.worker_of(Arc::clone(&self.runner) as _)
    }

    fn worker_of(&self, runner: Arc<dyn JobRunner>) -> AsyncWorker {
        let ports = Ports {
            store: Arc::clone(&self.store) as _,
            runner,
            runtime: Arc::new(ShuttleRuntime(self.clock.clone())),
            clock: Arc::new(self.clock.clone()),
            ids: Arc::clone(&self.ids) as _,
            token: CancellationToken::new(),
        };
        AsyncWorker::new(WorkerConfig::new(BOOT, LEASE), ports).unwrap()
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

/// A job with a tool that has effects outside of the store, and a cancel.
trait Cancelled {
    /// Runs, cancels and ends it all; how many effects met a job that had ended.
    fn effects_too_late() -> usize;
}

fn no_effect_is_inside_once_acknowledged<C: Cancelled>() {
    let late = C::effects_too_late();
    assert_eq!(late, 0, "effect after the acknowledgement: {late} of them");
}

/// What a tool does outside of the store: it must never meet a job that has ended.
async fn effect(store: &MemoryStore, too_late: &AtomicUsize) {
    let job = store.jobs(Some(PLAN)).await.unwrap().remove(0);
    if job.state.is_final() {
        too_late.fetch_add(1, Ordering::SeqCst);
    }
}

/// How a tool is let in.
trait Tool: Send + Sync + 'static {
    /// What the tool holds while it acts.
    type Pass: Send + 'static;
    fn enter(run: &JobRun) -> Option<Self::Pass>;
}

struct Gated;

impl Tool for Gated {
    type Pass = sync::Effect;

    fn enter(run: &JobRun) -> Option<sync::Effect> {
        run.enter().ok()
    }
}

struct Ungated;

impl Tool for Ungated {
    type Pass = ();

    fn enter(run: &JobRun) -> Option<()> {
        (!run.scope().is_cancelled()).then_some(())
    }
}

/// Our worker, with a runner that starts the tool three times and does not wait for it.
struct Worker<T>(std::marker::PhantomData<T>);

struct ToolUser<T> {
    store: Arc<MemoryStore>,
    too_late: Arc<AtomicUsize>,
    tool: std::marker::PhantomData<fn() -> T>,
}

#[async_trait]
impl<T: Tool> JobRunner for ToolUser<T> {
    async fn run(&self, run: &JobRun) -> Result<(), RunFailure> {
        for _ in 0..3 {
            if let Some(pass) = T::enter(run) {
                let (store, too_late) = (Arc::clone(&self.store), Arc::clone(&self.too_late));
                drop(shuttle::future::spawn(async move {
                    effect(&store, &too_late).await;
                    drop(pass);
                }));
            }
        }
        Ok(())
    }
}

impl<T: Tool> Cancelled for Worker<T> {
    fn effects_too_late() -> usize {
        let bench = Bench::new();
        let id = enqueue(&bench.store);
        let user = Arc::new(ToolUser::<T> {
            store: Arc::clone(&bench.store),
            too_late: Arc::new(AtomicUsize::new(0)),
            tool: std::marker::PhantomData,
        });
        let worker = bench.worker_of(Arc::clone(&user) as _);
        worker.start().unwrap();
        let canceller = {
            let (store, worker) = (Arc::clone(&bench.store), worker.clone());
            thread::spawn(move || {
                let _ = block_on(store.cancel(id, "stop it"));
                worker.hint();
            })
        };
        canceller.join().unwrap();
        block_on(worker.stop(DRAIN));
        user.too_late.load(Ordering::SeqCst)
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
            meet(&CANCELLED_QUEUED);
        }
        Ok(_) => {
            assert_eq!(job.state, JobState::Cancelled, "a requested cancel wins over a later success");
            meet(&CANCELLED_RUNNING);
        }
        Err(_) => {
            assert_eq!(job.state, JobState::Succeeded, "refused, since it had ended");
            meet(&SUCCEEDED_FIRST);
        }
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
    if job.fence.0 > 1 {
        meet(&TAKEN_OVER);
    }
    if reports.iter().any(|report| report.leases_lost > 0) {
        meet(&LOST);
    }
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
        thread::spawn(move || block_on(worker.stop(StopMode::Release)))
    };
    let report = block_on(worker.stop(DRAIN));
    assert_eq!(stopper.join().unwrap(), report, "both are told the same");
    let job = bench.job();
    match job.state {
        JobState::Queued => meet(&GIVEN_BACK),
        JobState::Succeeded => meet(&FINISHED),
        other => panic!("{other:?}"),
    }
    assert_eq!(worker.report().running, []);
    let sets = block_on(bench.store.changesets(PLAN)).unwrap();
    assert!(sets.iter().all(|set| set.state != ChangesetState::Open));
}

/// Tempting mistakes: to look at the queue and mark what was found in a second step; to acknowledge too
/// early.
mod naive {
    use store::{JobEnd, JobStore};
    use sync::{CancelReason, EffectGate};

    use super::{Arc, AtomicUsize, Cancelled, Dispatch, Mutex, Ordering, block_on, effect, thread};
    use crate::support::claimed;

    /// Closes the gate and acknowledges, while an effect may still be inside.
    pub(super) struct Undrained;

    impl Cancelled for Undrained {
        fn effects_too_late() -> usize {
            let (store, claim) = claimed();
            let (gate, too_late) = (EffectGate::new(), Arc::new(AtomicUsize::new(0)));
            let tool = {
                let (store, gate, too_late) = (Arc::clone(&store), gate.clone(), Arc::clone(&too_late));
                thread::spawn(move || {
                    for _ in 0..3 {
                        if let Ok(_inside) = gate.enter() {
                            block_on(effect(&store, &too_late));
                        }
                    }
                })
            };
            let finisher = gate.close(CancelReason::User).unwrap();
            block_on(store.cancel(claim.job, "stop it")).unwrap();
            block_on(store.end(&finisher, &claim, JobEnd::Cancelled)).unwrap();
            tool.join().unwrap();
            too_late.load(Ordering::SeqCst)
        }
    }

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
