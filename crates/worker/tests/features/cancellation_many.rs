//! Steps of #7166: many threads that cancel, reset, wait and look.

use std::collections::HashSet;
use std::sync::{Arc, Barrier};

use cucumber::{given, then, when};
use sync::{Cancel, CancelReason, CancellationToken, Generation, Observed, Reset};

use crate::cancellation::Listener;
use crate::threads::{Pauses, all_at_once};
use crate::world::Features;

/// What the scenarios of many threads have, beside the token.
#[derive(Default)]
pub(crate) struct Scene {
    listener: Option<Listener>,
    waiters: Vec<String>,
    /// What many threads that cancelled were told, each with its reason.
    cancels: Vec<(CancelReason, Cancel)>,
    meetings: Vec<Meeting>,
    crowd: Vec<Crowd>,
}

#[derive(Debug, PartialEq)]
struct HasObserved;

/// What a thread in `wait` is told, and the reason that it reads then.
type Waited = (bool, Option<CancelReason>);

#[given(expr = "{int} thread(s) that wait for the cancel of what they observe now")]
fn many_wait(world: &mut Features, count: usize) {
    let token = world.cancellation.ours();
    let scene = &mut world.cancellation_many;
    scene.listener = Some(Listener::first_of(&token));
    scene.waiters = (1..=count).map(|number| format!("waiter {number}")).collect();
    for waiter in scene.waiters.clone() {
        let (token, pauses) = (token.clone(), Arc::new(Pauses::default()));
        let observed = pauses.hold(HasObserved);
        let wait = move || -> Waited {
            let generation = token.observe();
            pauses.at(HasObserved);
            (generation.wait(None), generation.reason())
        };
        world.threads.start_until(&waiter, observed, wait);
        world.threads.go(&waiter);
    }
}

#[when(expr = "thread {word} cancels the token, and has not woken anybody yet")]
fn cancels_without_waking(world: &mut Features, thread: String) {
    let listener = world.cancellation_many.listener.as_ref().expect("somebody waits");
    let held = listener.hold_next_canceller();
    let token = world.cancellation.ours();
    world.threads.start_until(&thread, held, move || token.cancel(CancelReason::User));
}

#[then(expr = "all {int} threads see that they were cancelled")]
fn all_are_told(world: &mut Features, count: usize) {
    let waiters = world.cancellation_many.waiters.clone();
    let told: Vec<bool> = waiters
        .iter()
        .map(|waiter| {
            world.threads.finish(waiter);
            world.threads.answer::<Waited>(waiter).0
        })
        .collect();
    assert_eq!(told, vec![true; count]);
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
    world.cancellation_many.meetings =
        met.map(|((token, job), (cancel, reset))| Meeting { token, job, cancel, reset }).collect();
}

#[then("in each round the job is cancelled, and the token is cancelled exactly if the reset came first")]
fn meetings_are_ordered(world: &mut Features) {
    assert!(!world.cancellation_many.meetings.is_empty());
    for meeting in &world.cancellation_many.meetings {
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
    world.cancellation_many.cancels =
        all_at_once(threads, move |thread| (REASONS[thread], token.cancel(REASONS[thread])));
}

#[then("one of them learns that it cancelled, and the others that it was already cancelled")]
fn one_cancelled(world: &mut Features) {
    let generation = world.cancellation.ours().observe().generation();
    let cancels = &world.cancellation_many.cancels;
    let how_many = |what| cancels.iter().filter(|(_, told)| *told == what).count();
    assert_eq!(
        (how_many(Cancel::Now(generation)), how_many(Cancel::Already(generation))),
        (1, cancels.len() - 1),
    );
}

#[then("the reason is that of the one who cancelled")]
fn reason_of_the_first(world: &mut Features) {
    let first = world
        .cancellation_many
        .cancels
        .iter()
        .find(|(_, told)| matches!(told, Cancel::Now(_)))
        .map(|(reason, _)| *reason);
    assert!(!world.cancellation_many.waiters.is_empty());
    for waiter in &world.cancellation_many.waiters {
        assert_eq!(world.threads.answer::<Waited>(waiter), (true, first));
    }
    assert_eq!(world.cancellation.ours().observe().reason(), first);
}

/// What one of many threads saw.
#[derive(Default)]
struct Crowd {
    told_cancelled: Vec<Observed>,
    cancelled: Vec<Generation>,
    opened: Vec<Generation>,
}

#[when(expr = "{int} threads cancel, reset and check {int} times each, all starting at once")]
fn crowd(world: &mut Features, threads: usize, each: usize) {
    let token = world.cancellation.ours();
    world.cancellation_many.crowd = all_at_once(threads, move |_| -> Crowd {
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

#[then("no cancel that a job saw was reverted, and every generation was opened once")]
fn nothing_is_taken_back(world: &mut Features) {
    let crowd = &world.cancellation_many.crowd;
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
    let is_cancelled = usize::from(world.cancellation.ours().is_cancelled());
    assert_eq!(cancelled, opened + is_cancelled);
}
