//! Steps of #7166: the cancellation token between those who cancel, reset, wait and look.
//!
//! Our token is stopped in two ways. A waiter is a future driven by hand, so a scenario stands between its being woken
//! and its looking. A canceller wakes the waiters itself, one after the other; the first of them is a listener that
//! stops it, so a scenario stands between the cancel and the wake-ups.

use std::collections::{BTreeMap, HashSet};
use std::pin::{Pin, pin};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};

use cucumber::{given, then, when};
use sync::{Cancel, CancelReason, CancellationToken, CancelledFuture, Generation, Observed, Reset};

use crate::naive::{self, WaitPoint};
use crate::threads::{Held, Pauses, all_at_once};
use crate::world::Features;

/// What #7166's scenarios of the token have.
#[derive(Default)]
pub(crate) struct Scene {
    token: Option<Token>,
    listener: Option<Listener>,
    /// Where a waiter will stand that is asleep now.
    wakes: Option<Held>,
    waiters: Vec<String>,
    jobs: BTreeMap<String, Observer>,
    pauses: Arc<Pauses<JobPoint>>,
    waits: Arc<Pauses<WaitPoint>>,
    /// What many threads that cancelled were told, each with its reason.
    cancels: Vec<(CancelReason, Cancel)>,
    meetings: Vec<Meeting>,
    crowd: Vec<Crowd>,
}

#[derive(Clone)]
enum Token {
    Ours(CancellationToken),
    Naive(Arc<naive::CancellationToken>),
}

/// What a job asks whether it is cancelled: of our token the generation it observed, of the naive one the token.
#[derive(Clone)]
enum Observer {
    Ours(Observed),
    Naive(Arc<naive::CancellationToken>),
}

/// Where a job can be stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum JobPoint {
    Observed,
    InTeardown,
    BetweenLooks,
    AboutToReset,
    TimerIsSet,
}

impl Token {
    fn cancel(&self) {
        match self {
            Self::Ours(token) => drop(token.cancel(CancelReason::User)),
            Self::Naive(token) => token.cancel(),
        }
    }

    fn reset(&self) {
        match self {
            Self::Ours(token) => drop(token.reset()),
            Self::Naive(token) => token.reset(),
        }
    }

    fn is_cancelled(&self) -> bool {
        match self {
            Self::Ours(token) => token.is_cancelled(),
            Self::Naive(token) => token.is_cancelled(),
        }
    }

    fn observe(&self) -> Observer {
        match self {
            Self::Ours(token) => Observer::Ours(token.observe()),
            Self::Naive(token) => Observer::Naive(Arc::clone(token)),
        }
    }

    /// Waits for a cancel, stopping where `pauses` says; whether it was told of one.
    fn wait(&self, pauses: &Pauses<WaitPoint>) -> bool {
        match self {
            Self::Ours(token) => wait_by_hand(token.cancelled(), pauses),
            Self::Naive(token) => token.wait(pauses),
        }
    }
}

impl Observer {
    fn is_cancelled(&self) -> bool {
        match self {
            Self::Ours(observed) => observed.is_cancelled(),
            Self::Naive(token) => token.is_cancelled(),
        }
    }
}

fn wait_by_hand(cancelled: CancelledFuture, pauses: &Pauses<WaitPoint>) -> bool {
    let mut cancelled = pin!(cancelled);
    let (rings, rung) = mpsc::channel();
    let waker = Waker::from(Arc::new(Bell(rings)));
    let context = &mut Context::from_waker(&waker);
    if cancelled.as_mut().poll(context).is_pending() {
        pauses.at(WaitPoint::Blocked);
        rung.recv().expect("the waker lives as long as this call");
        pauses.at(WaitPoint::Woken);
    }
    cancelled.as_mut().poll(context).is_ready()
}

struct Bell(Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // A waiter that has gone needs no waking.
        let _ = self.0.send(());
    }
}

/// Hears of a cancel before the others do, and stops the canceller there when a scenario says so.
pub(crate) struct Listener {
    pauses: Arc<Pauses<BeforeOthers>>,
    _registered: Pin<Box<CancelledFuture>>,
}

#[derive(Debug, PartialEq)]
struct BeforeOthers;

struct StopsTheCanceller(Arc<Pauses<BeforeOthers>>);

impl Wake for StopsTheCanceller {
    fn wake(self: Arc<Self>) {
        self.0.at(BeforeOthers);
    }
}

impl Listener {
    pub(crate) fn first_of(token: &CancellationToken) -> Self {
        let pauses = Arc::new(Pauses::default());
        let waker = Waker::from(Arc::new(StopsTheCanceller(Arc::clone(&pauses))));
        let mut registered = Box::pin(token.cancelled());
        let polled = registered.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Pending, "the token is live");
        Self { pauses, _registered: registered }
    }

    /// Stops the next canceller after the cancel, before it wakes anybody else.
    pub(crate) fn hold_next_canceller(&self) -> Held {
        self.pauses.hold(BeforeOthers)
    }
}

impl Scene {
    fn token(&self) -> Token {
        self.token.clone().expect("the scenario has a token")
    }

    fn ours(&self) -> CancellationToken {
        match self.token() {
            Token::Ours(token) => token,
            Token::Naive(_) => panic!("the step is for our token"),
        }
    }
}

#[given("a cancellation token")]
fn our_token(world: &mut Features) {
    world.cancellation.token = Some(Token::Ours(CancellationToken::new()));
}

#[given("a naive cancellation token")]
fn naive_token(world: &mut Features) {
    world.cancellation.token = Some(Token::Naive(Arc::default()));
}

#[given("a cancellation token that is cancelled")]
fn our_cancelled_token(world: &mut Features) {
    our_token(world);
    cancels(world, "setup".to_owned());
}

#[given("a naive cancellation token that is cancelled")]
fn naive_cancelled_token(world: &mut Features) {
    naive_token(world);
    cancels(world, "setup".to_owned());
}

#[when(expr = "thread {word} cancels the token")]
fn cancels(world: &mut Features, thread: String) {
    let token = world.cancellation.token();
    world.threads.run(&thread, move || token.cancel());
}

#[when(expr = "thread {word} resets the token")]
fn resets(world: &mut Features, thread: String) {
    let token = world.cancellation.token();
    world.threads.run(&thread, move || token.reset());
}

#[then("the token is cancelled")]
fn is_cancelled(world: &mut Features) {
    assert!(world.cancellation.token().is_cancelled());
}

#[then("the token is not cancelled any more")]
fn is_not_cancelled(world: &mut Features) {
    assert!(!world.cancellation.token().is_cancelled());
}

#[given(expr = "thread {word} is blocked, waiting for a cancel")]
fn is_blocked(world: &mut Features, thread: String) {
    let (token, waits) = (world.cancellation.token(), Arc::clone(&world.cancellation.waits));
    let blocked = waits.hold(WaitPoint::Blocked);
    world.cancellation.wakes = Some(waits.hold(WaitPoint::Woken));
    world.threads.start_until(&thread, blocked, move || token.wait(&waits));
    world.threads.go(&thread);
}

#[when(expr = "thread {word} cancels the token, and thread {word} is woken but has not looked yet")]
fn cancels_and_wakes(world: &mut Features, canceller: String, waiter: String) {
    cancels(world, canceller);
    let woken = world.cancellation.wakes.take().expect("somebody waits");
    woken.wait_until_reached();
    world.threads.hold(&waiter, woken);
}

#[then(expr = "thread {word} is told that it was cancelled")]
fn told_cancelled(world: &mut Features, thread: String) {
    assert!(world.threads.answer::<bool>(&thread));
}

#[then(expr = "thread {word} is told that it was not cancelled")]
fn told_not_cancelled(world: &mut Features, thread: String) {
    assert!(!world.threads.answer::<bool>(&thread));
}

/// What a thread in `wait` is told, and the reason that it reads then.
type Waited = (bool, Option<CancelReason>);

#[given(expr = "{int} thread(s) that wait for the cancel of what they observe now")]
fn many_wait(world: &mut Features, count: usize) {
    let scene = &mut world.cancellation;
    scene.listener = Some(Listener::first_of(&scene.ours()));
    scene.waiters = (1..=count).map(|number| format!("waiter {number}")).collect();
    for waiter in scene.waiters.clone() {
        let (token, pauses) = (scene.ours(), Arc::clone(&scene.pauses));
        let observed = pauses.hold(JobPoint::Observed);
        let wait = move || -> Waited {
            let generation = token.observe();
            pauses.at(JobPoint::Observed);
            (generation.wait(None), generation.reason())
        };
        world.threads.start_until(&waiter, observed, wait);
        world.threads.go(&waiter);
    }
}

#[when(expr = "thread {word} cancels the token, and has not woken anybody yet")]
fn cancels_without_waking(world: &mut Features, thread: String) {
    let listener = world.cancellation.listener.as_ref().expect("somebody waits");
    let held = listener.hold_next_canceller();
    let token = world.cancellation.token();
    world.threads.start_until(&thread, held, move || token.cancel());
}

#[then(expr = "all {int} threads are told that they were cancelled")]
fn all_are_told(world: &mut Features, count: usize) {
    let waiters = world.cancellation.waiters.clone();
    let told: Vec<bool> = waiters
        .iter()
        .map(|waiter| {
            world.threads.finish(waiter);
            world.threads.answer::<Waited>(waiter).0
        })
        .collect();
    assert_eq!(told, vec![true; count]);
}

#[given(expr = "job {word} observes the token")]
#[when(expr = "job {word} observes the token")]
fn observes(world: &mut Features, job: String) {
    let observer = world.cancellation.token().observe();
    world.cancellation.jobs.insert(job, observer);
}

#[given(expr = "thread {word} cancels the token that job {word} observes")]
fn cancels_observed(world: &mut Features, thread: String, job: String) {
    observes(world, job);
    cancels(world, thread);
}

#[then(expr = "job {word} is cancelled")]
fn job_is_cancelled(world: &mut Features, job: String) {
    assert!(world.cancellation.jobs[&job].is_cancelled());
}

#[then(expr = "job {word} is not cancelled")]
fn job_is_not_cancelled(world: &mut Features, job: String) {
    assert!(!world.cancellation.jobs[&job].is_cancelled());
}

#[when(expr = "job {word} has seen that it is cancelled and is in the middle of its teardown")]
fn is_in_teardown(world: &mut Features, job: String) {
    let pauses = Arc::clone(&world.cancellation.pauses);
    let held = pauses.hold(JobPoint::InTeardown);
    let observer = world.cancellation.jobs[&job].clone();
    world.threads.start_until(&job, held, move || -> [bool; 2] {
        let at_first = observer.is_cancelled();
        pauses.at(JobPoint::InTeardown);
        [at_first, observer.is_cancelled()]
    });
}

#[then(expr = "job {word} was told {string} at first and {string} in its teardown")]
fn told_in_teardown(world: &mut Features, job: String, at_first: String, in_teardown: String) {
    let shown = |is_cancelled| {
        if is_cancelled { "cancelled" } else { "not cancelled" }
    };
    let told: [bool; 2] = world.threads.answer(&job);
    assert_eq!(told.map(shown), [at_first.as_str(), in_teardown.as_str()]);
}

#[when(expr = "job {word} of {int} steps has done {int} of them and is between two looks")]
fn is_between_looks(world: &mut Features, job: String, steps: u32, stops_after: u32) {
    let pauses = Arc::clone(&world.cancellation.pauses);
    let held = pauses.hold(JobPoint::BetweenLooks);
    let observer = world.cancellation.token().observe();
    world.threads.start_until(&job, held, move || -> u32 {
        let mut done = 0;
        while done < steps && !observer.is_cancelled() {
            done += 1;
            if done == stops_after {
                pauses.at(JobPoint::BetweenLooks);
            }
        }
        done
    });
}

#[then(expr = "job {word} stopped after {int} step(s)")]
fn stopped_after(world: &mut Features, job: String, steps: u32) {
    assert_eq!(world.threads.answer::<u32>(&job), steps);
}

#[when(expr = "thread {word} has seen the cancel and is about to reset it")]
fn is_about_to_reset(world: &mut Features, thread: String) {
    let pauses = Arc::clone(&world.cancellation.pauses);
    let held = pauses.hold(JobPoint::AboutToReset);
    let token = world.cancellation.token();
    world.threads.start_until(&thread, held, move || match token {
        Token::Ours(token) => {
            let seen = token.observe();
            assert!(seen.is_cancelled());
            pauses.at(JobPoint::AboutToReset);
            token.reset_if(seen.generation());
        }
        Token::Naive(token) => {
            assert!(token.is_cancelled());
            pauses.at(JobPoint::AboutToReset);
            token.reset();
        }
    });
}

/// A cancel and a reset of one token at the same time.
struct Meeting {
    token: CancellationToken,
    job: Observed,
    cancel: Cancel,
    reset: Reset,
}

#[when(expr = "in {int} rounds a cancel and a reset of a fresh token meet, with a job that observes it")]
fn cancel_meets_reset(world: &mut Features, rounds: usize) {
    let tokens: Vec<CancellationToken> = (0..rounds).map(|_| CancellationToken::new()).collect();
    let jobs: Vec<Observed> = tokens.iter().map(CancellationToken::observe).collect();
    let barrier = Arc::new(Barrier::new(2));
    let shared = tokens.clone();
    let told = all_at_once(2, move |thread| -> Vec<Result<Cancel, Reset>> {
        let round = |token: &CancellationToken| {
            barrier.wait();
            match thread {
                0 => Ok(token.cancel(CancelReason::User)),
                _ => Err(token.reset()),
            }
        };
        shared.iter().map(round).collect()
    });
    let cancels = told.iter().flatten().filter_map(|answer| answer.ok());
    let resets = told.iter().flatten().filter_map(|answer| answer.err());
    let met = tokens.into_iter().zip(jobs).zip(cancels.zip(resets));
    world.cancellation.meetings =
        met.map(|((token, job), (cancel, reset))| Meeting { token, job, cancel, reset }).collect();
}

#[then("in each round the job is cancelled, and the token is cancelled exactly if the reset came first")]
fn meetings_are_ordered(world: &mut Features) {
    assert!(!world.cancellation.meetings.is_empty());
    for meeting in &world.cancellation.meetings {
        let first = meeting.job.generation();
        assert_eq!(meeting.cancel, Cancel::Now(first));
        assert!(meeting.job.is_cancelled());
        match meeting.reset {
            Reset::Live(generation) => {
                assert_eq!((generation, meeting.token.is_cancelled()), (first, true));
            }
            Reset::Opened(generation) => {
                assert!(generation > first);
                assert!(!meeting.token.is_cancelled());
            }
            Reset::Stale { .. } => panic!("a plain reset means the generation that it finds"),
        }
    }
}

const REASONS: [CancelReason; 6] = [
    CancelReason::User,
    CancelReason::Timeout,
    CancelReason::Shutdown,
    CancelReason::LeaseLost,
    CancelReason::Sibling,
    CancelReason::Limit,
];

#[when(expr = "{int} threads cancel the token at once, each with a reason of its own")]
fn many_cancel(world: &mut Features, threads: usize) {
    let token = world.cancellation.ours();
    world.cancellation.cancels =
        all_at_once(threads, move |thread| (REASONS[thread], token.cancel(REASONS[thread])));
}

#[then("one of them is told that it cancelled, and the others that it was cancelled already")]
fn one_cancelled(world: &mut Features) {
    let generation = world.cancellation.ours().observe().generation();
    let cancels = &world.cancellation.cancels;
    let how_many = |what| cancels.iter().filter(|(_, told)| *told == what).count();
    assert_eq!(
        (how_many(Cancel::Now(generation)), how_many(Cancel::Already(generation))),
        (1, cancels.len() - 1),
    );
}

#[then("the reason is that of the one who cancelled")]
fn reason_of_the_first(world: &mut Features) {
    let first = world
        .cancellation
        .cancels
        .iter()
        .find(|(_, told)| matches!(told, Cancel::Now(_)))
        .map(|(reason, _)| *reason);
    assert!(!world.cancellation.waiters.is_empty());
    for waiter in &world.cancellation.waiters {
        assert_eq!(world.threads.answer::<Waited>(waiter), (true, first));
    }
    assert_eq!(world.cancellation.ours().observe().reason(), first);
}

#[when(expr = "thread {word} has set a timer for the present generation")]
fn sets_a_timer(world: &mut Features, thread: String) {
    let (token, pauses) = (world.cancellation.ours(), Arc::clone(&world.cancellation.pauses));
    let held = pauses.hold(JobPoint::TimerIsSet);
    world.threads.start_until(&thread, held, move || -> Cancel {
        let meant = token.observe().generation();
        pauses.at(JobPoint::TimerIsSet);
        token.cancel_if(meant, CancelReason::Timeout)
    });
}

#[when(expr = "the timer of thread {word} fires")]
fn timer_fires(world: &mut Features, thread: String) {
    world.threads.finish(&thread);
    let current = world.cancellation.ours().observe().generation();
    assert_eq!(world.threads.answer::<Cancel>(&thread), Cancel::Stale { current });
}

/// What one of many threads saw.
#[derive(Default)]
struct Crowd {
    told_cancelled: Vec<Observed>,
    cancelled: Vec<Generation>,
    opened: Vec<Generation>,
}

#[when(expr = "{int} threads cancel, reset and look {int} times each, all starting at once")]
fn crowd(world: &mut Features, threads: usize, each: usize) {
    let token = world.cancellation.ours();
    world.cancellation.crowd = all_at_once(threads, move |_| -> Crowd {
        let mut crowd = Crowd::default();
        for _ in 0..each {
            let job = token.observe();
            if let Cancel::Now(generation) = token.cancel(CancelReason::User) {
                crowd.cancelled.push(generation);
            }
            if let Reset::Opened(generation) = token.reset() {
                crowd.opened.push(generation);
            }
            assert!(job.is_cancelled(), "its generation was cancelled, by this thread or by another");
            crowd.told_cancelled.push(job);
        }
        crowd
    });
}

#[then("no cancel that a job was told of was taken back, and every generation was opened once")]
fn nothing_is_taken_back(world: &mut Features) {
    let crowd = &world.cancellation.crowd;
    let jobs: Vec<&Observed> = crowd.iter().flat_map(|seen| &seen.told_cancelled).collect();
    assert!(!jobs.is_empty());
    assert!(jobs.iter().all(|job| job.is_cancelled()));
    let once = |generations: Vec<Generation>| -> usize {
        let distinct: HashSet<Generation> = generations.iter().copied().collect();
        assert_eq!(distinct.len(), generations.len());
        distinct.len()
    };
    let cancelled = once(crowd.iter().flat_map(|seen| seen.cancelled.clone()).collect());
    let opened = once(crowd.iter().flat_map(|seen| seen.opened.clone()).collect());
    let is_cancelled = usize::from(world.cancellation.token().is_cancelled());
    assert_eq!(cancelled, opened + is_cancelled);
}
