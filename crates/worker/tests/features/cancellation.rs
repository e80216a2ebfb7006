//! Steps of #7166: the cancellation token between those who cancel, reset, wait and look.
//!
//! Our token is stopped in two ways. A waiter is a future driven by hand, so a scenario stands between its
//! being woken and its looking. A canceller wakes the waiters itself, one after the other; the first of them
//! is a listener that stops it, so a scenario stands between the cancel and the wake-ups.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Poll, Wake, Waker};

use cucumber::{given, then, when};
use sync::{Cancel, CancelReason, CancellationToken, CancelledFuture, Observed};

use crate::naive::{self, WaitPoint};
use crate::threads::{Held, Pauses};
use crate::world::Features;

/// What #7166's scenarios of the token have.
#[derive(Default)]
pub(crate) struct Scene {
    token: Option<Token>,
    /// Where a waiter will stand that is asleep now.
    wakes: Option<Held>,
    jobs: BTreeMap<String, Observer>,
    pauses: Arc<Pauses<JobPoint>>,
    waits: Arc<Pauses<WaitPoint>>,
}

#[derive(Clone)]
enum Token {
    Ours(CancellationToken),
    Naive(Arc<naive::CancellationToken>),
}

/// What a job asks whether it is cancelled: of our token the generation it observed, of the naive one the
/// token.
#[derive(Clone)]
enum Observer {
    Ours(Observed),
    Naive(Arc<naive::CancellationToken>),
}

/// Where a job can be stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum JobPoint {
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

    pub(crate) fn ours(&self) -> CancellationToken {
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

#[then("the token is no longer cancelled")]
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

#[when(expr = "thread {word} cancels the token, and thread {word} is woken but has not checked yet")]
fn cancels_and_wakes(world: &mut Features, canceller: String, waiter: String) {
    cancels(world, canceller);
    let woken = world.cancellation.wakes.take().expect("somebody waits");
    woken.wait_until_reached();
    world.threads.hold(&waiter, woken);
}

#[then(expr = "thread {word} sees that it was cancelled")]
fn told_cancelled(world: &mut Features, thread: String) {
    assert!(world.threads.answer::<bool>(&thread));
}

#[then(expr = "thread {word} sees that it was not cancelled")]
fn told_not_cancelled(world: &mut Features, thread: String) {
    assert!(!world.threads.answer::<bool>(&thread));
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

#[then(expr = "job {word} saw {string} at first and {string} in its teardown")]
fn told_in_teardown(world: &mut Features, job: String, at_first: String, in_teardown: String) {
    let shown = |is_cancelled| {
        if is_cancelled { "cancelled" } else { "not cancelled" }
    };
    let told: [bool; 2] = world.threads.answer(&job);
    assert_eq!(told.map(shown), [at_first.as_str(), in_teardown.as_str()]);
}

#[when(expr = "job {word} of {int} steps has done {int} of them and is between two checks")]
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
    // The same for both tokens: whoever resets knows nothing but that there was a cancel.
    world.threads.start_until(&thread, held, move || {
        assert!(token.is_cancelled());
        pauses.at(JobPoint::AboutToReset);
        token.reset();
    });
}

#[when(expr = "thread {word} has seen the cancel and is about to reset that one only")]
fn is_about_to_reset_one(world: &mut Features, thread: String) {
    let (token, pauses) = (world.cancellation.ours(), Arc::clone(&world.cancellation.pauses));
    let held = pauses.hold(JobPoint::AboutToReset);
    world.threads.start_until(&thread, held, move || {
        let seen = token.observe();
        assert!(seen.is_cancelled());
        pauses.at(JobPoint::AboutToReset);
        token.reset_if(seen.generation());
    });
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
