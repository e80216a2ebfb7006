//! The threads of an executor, and the queue before them.
//!
//! A thread is *live* until it ends or its run is *abandoned*: no caller waits for that run any more. The
//! thread then belongs to the run alone and ends when it returns, and another thread takes its seat. A live
//! thread that has no run is about to look for one.
//!
//! # Invariants
//! 1. `running ≤ live ≤ max_workers`. Threads beyond that are abandoned ones.
//! 2. First in, first out; the jobs of one call are next to each other.
//! 3. A run is in `running` or in `abandoned` from the moment its job leaves the queue until its thread comes
//!    back, never in both. So abandoning a run that has returned does nothing, and cannot hit the thread's
//!    next one.
//! 4. A name with [`HUNG_AFTER`] abandoned runs is not begun: its job is refused. Each name leaks at most
//!    `HUNG_AFTER - 1 + max_workers` threads.
//! 5. While a job is queued, a thread is live; if none can be started, the queue is emptied.
//! 6. Jobs run, threads start and jobs are dropped outside the lock. No other lock is taken under it.
//!
//! # Not here
//! The work of a job. A job's panic ends nothing but the job.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, PoisonError};

use sync::contained;
use sync::primitives::{Condvar, Mutex, lock, thread};

use crate::Name;

/// Abandoned runs of one name, still alive, that keep it from being begun again.
const HUNG_AFTER: usize = 4;

/// Something to do on a thread of the pool.
pub(super) trait PoolJob: Send + 'static {
    /// The name whose abandoned runs count against it.
    fn name(&self) -> &Name;
    /// Does it.
    fn run(self, run: RunId);
    /// Hears that it will not be done.
    fn refuse(self, why: JobRejection);
}

/// The reason why a job is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobRejection {
    /// Too many abandoned runs of its name are alive.
    Hung,
    /// The system gives no thread.
    NoThread,
}

/// One run of one job, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunId(u64);

/// The threads of an executor at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Threads that take work, at most `max_workers`.
    pub live: usize,
    /// Live threads that run a strategy.
    pub running: usize,
    /// Threads whose strategy was given up and has not returned yet.
    pub abandoned: usize,
    /// Strategies that wait for a thread.
    pub queued: usize,
}

/// Starts a thread.
type Spawn = fn(Box<dyn FnOnce() + Send>) -> io::Result<()>;

pub(super) struct WorkerThreads<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    max_workers: usize,
    spawn: Spawn,
}

struct State<J> {
    queue: VecDeque<J>,
    live: usize,
    running: BTreeMap<RunId, Name>,
    abandoned: BTreeMap<RunId, Name>,
    next_run: u64,
    is_closed: bool,
}

/// The next step of a thread.
enum ThreadStep<J> {
    Run(RunId, J),
    Refuse(J),
}

impl<J: PoolJob> WorkerThreads<J> {
    pub(super) fn new(max_workers: usize) -> Arc<Self> {
        Self::with(max_workers, |body| {
            thread::Builder::new().name("strategy".to_owned()).spawn(body).map(drop)
        })
    }

    fn with(max_workers: usize, spawn: Spawn) -> Arc<Self> {
        let state = State {
            queue: VecDeque::new(),
            live: 0,
            running: BTreeMap::new(),
            abandoned: BTreeMap::new(),
            next_run: 0,
            is_closed: false,
        };
        Arc::new(Self { state: Mutex::new(state), work: Condvar::new(), max_workers, spawn })
    }

    /// Queues the jobs of one call behind all others.
    pub(super) fn submit(self: &Arc<Self>, jobs: Vec<J>) {
        if jobs.is_empty() {
            return;
        }
        let missing = {
            let mut state = lock(&self.state);
            state.queue.extend(jobs);
            state.seat(self.max_workers)
        };
        self.work.notify_all();
        self.start(missing);
    }

    /// Removes those jobs that no thread has begun.
    pub(super) fn withdraw(&self, is_meant: impl Fn(&J) -> bool) {
        let withdrawn: Vec<J> = {
            let mut state = lock(&self.state);
            let queue = std::mem::take(&mut state.queue);
            let (meant, kept): (VecDeque<J>, VecDeque<J>) = queue.into_iter().partition(is_meant);
            state.queue = kept;
            meant.into()
        };
        drop(withdrawn);
    }

    /// Gives up waiting for a run: if it has not returned, its thread is replaced.
    pub(super) fn abandon(self: &Arc<Self>, run: RunId) {
        let missing = {
            let mut state = lock(&self.state);
            let Some(name) = state.running.remove(&run) else {
                return;
            };
            state.abandoned.insert(run, name);
            state.live -= 1;
            state.seat(self.max_workers)
        };
        self.start(missing);
    }

    /// Lets every thread end that has nothing to do.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.work.notify_all();
    }

    pub(super) fn view(&self) -> PoolView {
        let state = lock(&self.state);
        PoolView {
            live: state.live,
            running: state.running.len(),
            abandoned: state.abandoned.len(),
            queued: state.queue.len(),
        }
    }

    /// Starts threads that were already counted.
    fn start(self: &Arc<Self>, missing: usize) {
        for _ in 0..missing {
            let pool = Arc::clone(self);
            if (self.spawn)(Box::new(move || pool.work())).is_err() {
                self.unseat();
            }
        }
    }

    /// A counted thread did not start.
    fn unseat(&self) {
        let stranded = {
            let mut state = lock(&self.state);
            state.live -= 1;
            if state.live == 0 { std::mem::take(&mut state.queue) } else { VecDeque::new() }
        };
        for job in stranded {
            // If a job panics on this refusal, no caller is left to report to.
            let _ = contained(|| job.refuse(JobRejection::NoThread));
        }
    }

    /// The life of a thread.
    fn work(&self) {
        let mut returned = None;
        while let Some(next) = self.next(returned.take()) {
            // A job reports its own end; a panic in its last drops is of no use to any caller.
            let _ = match next {
                ThreadStep::Run(run, job) => {
                    returned = Some(run);
                    contained(|| job.run(run))
                }
                ThreadStep::Refuse(job) => contained(|| job.refuse(JobRejection::Hung)),
            };
        }
    }

    /// Waits for something to do; `None` if the thread must end.
    fn next(&self, returned: Option<RunId>) -> Option<ThreadStep<J>> {
        let mut state = lock(&self.state);
        if let Some(run) = returned
            && state.running.remove(&run).is_none()
        {
            state.abandoned.remove(&run);
            return None;
        }
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(state.begin(job));
            }
            if state.is_closed {
                state.live -= 1;
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<J: PoolJob> State<J> {
    /// Counts the threads that the queue still wants, and answers how many to start.
    fn seat(&mut self, max_workers: usize) -> usize {
        let looking = self.live - self.running.len();
        let missing = self.queue.len().saturating_sub(looking).min(max_workers - self.live);
        self.live += missing;
        missing
    }

    fn begin(&mut self, job: J) -> ThreadStep<J> {
        if self.abandoned.values().filter(|name| *name == job.name()).count() >= HUNG_AFTER {
            return ThreadStep::Refuse(job);
        }
        self.next_run += 1;
        let run = RunId(self.next_run);
        self.running.insert(run, job.name().clone());
        ThreadStep::Run(run, job)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    enum ProbeOutcome {
        Ran,
        Was(JobRejection),
    }

    /// Reports the outcome of its run, and panics afterwards if asked to.
    struct Probe {
        name: Name,
        did: Sender<ProbeOutcome>,
        panics: bool,
    }

    impl Probe {
        fn new(did: &Sender<ProbeOutcome>) -> Self {
            Self { name: Name::unnamed(), did: did.clone(), panics: false }
        }

        fn say(self, did: ProbeOutcome) {
            self.did.send(did).expect("the test listens");
            assert!(!self.panics, "told so");
        }
    }

    impl PoolJob for Probe {
        fn name(&self) -> &Name {
            &self.name
        }

        fn run(self, _: RunId) {
            self.say(ProbeOutcome::Ran);
        }

        fn refuse(self, why: JobRejection) {
            self.say(ProbeOutcome::Was(why));
        }
    }

    fn heard(receiver: &Receiver<ProbeOutcome>) -> ProbeOutcome {
        receiver.recv_timeout(Duration::from_secs(60)).expect("every job hears something")
    }

    #[test]
    fn a_system_without_threads_refuses_every_job_and_counts_none() {
        let pool = WorkerThreads::with(4, |_| Err(io::Error::other("no more threads")));
        let (sender, receiver) = channel();
        pool.submit((0..3).map(|_| Probe::new(&sender)).collect());
        for _ in 0..3 {
            assert_eq!(heard(&receiver), ProbeOutcome::Was(JobRejection::NoThread));
        }
        assert_eq!(pool.view(), PoolView { live: 0, running: 0, abandoned: 0, queued: 0 });
    }

    #[test]
    fn a_job_that_panics_when_refused_keeps_no_other_from_hearing() {
        let pool = WorkerThreads::with(4, |_| Err(io::Error::other("no more threads")));
        let (sender, receiver) = channel();
        pool.submit(vec![Probe { panics: true, ..Probe::new(&sender) }, Probe::new(&sender)]);
        for _ in 0..2 {
            assert_eq!(heard(&receiver), ProbeOutcome::Was(JobRejection::NoThread));
        }
    }

    #[test]
    fn one_thread_where_four_were_asked_for_does_all_the_work() {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let pool = WorkerThreads::with(4, |body| match STARTED.fetch_add(1, Ordering::Relaxed) {
            0 => thread::Builder::new().spawn(body).map(drop),
            _ => Err(io::Error::other("no more threads")),
        });
        let (sender, receiver) = channel();
        pool.submit((0..8).map(|_| Probe::new(&sender)).collect());
        for _ in 0..8 {
            assert_eq!(heard(&receiver), ProbeOutcome::Ran);
        }
        assert_eq!(pool.view().live, 1);
    }

    #[test]
    fn threads_outlive_panicking_jobs_and_end_when_the_pool_is_closed() {
        let pool = WorkerThreads::new(2);
        let (sender, receiver) = channel();
        for _ in 0..10 {
            pool.submit(vec![Probe { panics: true, ..Probe::new(&sender) }]);
            assert_eq!(heard(&receiver), ProbeOutcome::Ran);
        }
        pool.close();
        while pool.view().live > 0 || Arc::strong_count(&pool) > 1 {
            thread::yield_now();
        }
    }

    #[test]
    fn a_run_that_has_returned_cannot_be_abandoned() {
        let pool = WorkerThreads::new(1);
        let (sender, receiver) = channel();
        pool.submit(vec![Probe::new(&sender)]);
        assert_eq!(heard(&receiver), ProbeOutcome::Ran);
        while pool.view().running > 0 {
            thread::yield_now();
        }
        pool.abandon(RunId(1));
        assert_eq!(pool.view(), PoolView { live: 1, running: 0, abandoned: 0, queued: 0 });
    }
}
