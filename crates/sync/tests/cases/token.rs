//! The token on real threads, with tokio, at its edges.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sync::{Cancel, CancelReason, CancellationToken, Cancelled, Parker, Reset};

use crate::on_threads;

const ALL_REASONS: [(CancelReason, &str); 7] = [
    (CancelReason::User, "asked for by the user"),
    (CancelReason::Timeout, "deadline passed"),
    (CancelReason::Shutdown, "shutting down"),
    (CancelReason::LeaseLost, "lease lost"),
    (CancelReason::Sibling, "a sibling failed"),
    (CancelReason::Limit, "limit reached"),
    (CancelReason::Superseded, "superseded"),
];

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn every_reason_survives_the_word_and_reads_well() {
    for (reason, text) in ALL_REASONS {
        let token = CancellationToken::new();
        let seen = token.observe();
        assert_eq!(seen.check(), Ok(()));
        token.cancel(reason);
        assert_eq!((seen.reason(), seen.own_reason()), (Some(reason), Some(reason)));
        assert_eq!(token.child().observe().own_reason(), None, "an ancestor's is not its own");
        assert_eq!(seen.check(), Err(Cancelled { reason }));
        assert_eq!(Cancelled { reason }.to_string(), format!("cancelled: {text}"));
    }
}

#[test]
fn all_waiters_wake_by_one_cancel_even_when_a_reset_follows_at_once() {
    for _ in 0..200 {
        let token = CancellationToken::new();
        let seen: Vec<_> = (0..4).map(|_| token.observe()).collect();
        let woken = on_threads(5, |index| match seen.get(index) {
            Some(seen) => seen.wait(None),
            None => {
                token.cancel(CancelReason::User);
                token.reset();
                true
            }
        });
        assert_eq!(woken, [true; 5]);
        assert!(!token.is_cancelled(), "the next generation is live");
    }
}

#[test]
fn each_generation_is_cancelled_by_one_of_many_cancellers() {
    let token = CancellationToken::new();
    for _ in 0..500 {
        let answers = on_threads(4, |_| token.cancel(CancelReason::User));
        assert_eq!(answers.iter().filter(|answer| matches!(answer, Cancel::Now(_))).count(), 1);
        let answers = on_threads(4, |_| token.reset());
        assert_eq!(answers.iter().filter(|answer| matches!(answer, Reset::Opened(_))).count(), 1);
    }
}

#[test]
fn a_wait_that_runs_out_of_time_says_so_and_leaves_nothing_behind() {
    let token = CancellationToken::new();
    assert!(!token.wait(Some(Duration::ZERO)));
    assert!(!token.wait(Some(Duration::from_nanos(1))));
    token.cancel(CancelReason::User);
    assert!(token.wait(Some(Duration::ZERO)));
    assert!(token.wait(Some(Duration::MAX)));
}

#[test]
fn a_reset_of_a_live_token_does_nothing() {
    let token = CancellationToken::new();
    let seen = token.observe();
    assert_eq!(token.reset(), Reset::Live(seen.generation()));
    token.cancel(CancelReason::User);
    assert!(seen.is_cancelled());
}

#[test]
fn a_timer_of_an_earlier_generation_cancels_nothing() {
    let token = CancellationToken::new();
    let first = token.observe().generation();
    assert_eq!(token.cancel_if(first, CancelReason::User), Cancel::Now(first));
    assert_eq!(token.cancel_if(first, CancelReason::Timeout), Cancel::Already(first));
    let opened = token.reset();
    let current = token.observe().generation();
    assert!(current > first);
    assert_eq!(opened, Reset::Opened(current));
    assert_eq!(token.cancel_if(first, CancelReason::Timeout), Cancel::Stale { current });
    assert_eq!(token.reset_if(first), Reset::Stale { current });
    assert!(!token.is_cancelled());
}

#[test]
fn a_generation_that_was_reset_before_anyone_looked_is_superseded() {
    let token = CancellationToken::new();
    let seen = token.observe();
    token.cancel(CancelReason::User);
    token.reset();
    assert_eq!(seen.reason(), Some(CancelReason::Superseded));
}

#[test]
fn a_child_is_cancelled_with_its_parent_and_alone() {
    let parent = CancellationToken::new();
    let (child, sibling) = (parent.child(), parent.child());
    child.cancel(CancelReason::Sibling);
    assert!(child.is_cancelled() && !sibling.is_cancelled() && !parent.is_cancelled());
    let observed = sibling.observe();
    parent.cancel(CancelReason::User);
    assert!(sibling.is_cancelled() && observed.is_cancelled());
    assert_eq!(sibling.observe().reason(), Some(CancelReason::User));
    assert_eq!(child.observe().reason(), Some(CancelReason::Sibling), "its own comes first");
}

#[test]
fn a_child_belongs_to_the_generation_it_was_born_in() {
    let parent = CancellationToken::new();
    let old = parent.child();
    parent.cancel(CancelReason::User);
    let born_cancelled = parent.child();
    parent.reset();
    let new = parent.child();
    assert!(old.is_cancelled() && born_cancelled.is_cancelled() && !new.is_cancelled());
    old.reset();
    assert!(old.is_cancelled(), "no reset of its own revives it");
}

#[test]
fn a_child_below_the_deepest_level_is_born_cancelled() {
    let mut token = CancellationToken::new();
    for _ in 0..8 {
        token = token.child();
        assert!(!token.is_cancelled());
    }
    let too_deep = token.child();
    assert_eq!(too_deep.observe().reason(), Some(CancelReason::Limit));
    assert_eq!(too_deep.observe().own_reason(), None);
    too_deep.cancel(CancelReason::User);
    too_deep.reset();
    assert!(too_deep.is_cancelled() && too_deep.child().is_cancelled(), "no reset revives it");
    assert!(!token.is_cancelled());
}

#[test]
fn dropping_every_token_leaves_a_waiter_waiting_and_nothing_leaking() {
    let token = CancellationToken::new();
    let seen = token.observe();
    let mut future = seen.cancelled();
    assert_eq!(poll(&mut future), Poll::Pending);
    drop(token);
    assert_eq!(poll(&mut future), Poll::Pending);
    assert!(!seen.wait(Some(Duration::ZERO)));
}

#[test]
fn a_waker_may_cancel_the_token_that_wakes_it() {
    struct Canceller(CancellationToken, Mutex<Option<Cancel>>);
    impl Wake for Canceller {
        fn wake(self: Arc<Self>) {
            let answer = self.0.cancel(CancelReason::Timeout);
            *self.1.lock().unwrap() = Some(answer);
        }
    }
    let token = CancellationToken::new();
    let canceller = Arc::new(Canceller(token.clone(), Mutex::new(None)));
    let mut future = token.cancelled();
    let waker = Waker::from(Arc::clone(&canceller));
    assert_eq!(pin!(&mut future).poll(&mut Context::from_waker(&waker)), Poll::Pending);
    let generation = token.observe().generation();
    assert_eq!(token.cancel(CancelReason::User), Cancel::Now(generation));
    assert_eq!(*canceller.1.lock().unwrap(), Some(Cancel::Already(generation)));
    assert_eq!(poll(&mut future), Poll::Ready(CancelReason::User));
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_asleep() {
    struct Panicker;
    impl Wake for Panicker {
        fn wake(self: Arc<Self>) {
            panic!("a waker of somebody else");
        }
    }
    let token = CancellationToken::new();
    let parker = Parker::new();
    let mut future = token.cancelled();
    let waker = Waker::from(Arc::new(Panicker));
    assert_eq!(pin!(&mut future).poll(&mut Context::from_waker(&waker)), Poll::Pending);
    let registration = token.observe().unpark_on_cancel(&parker);
    assert!(registration.is_some());
    let canceller = token.clone();
    assert!(std::thread::spawn(move || canceller.cancel(CancelReason::User)).join().is_err());
    parker.park();
    assert!(token.is_cancelled());
}

#[test]
fn a_registered_parker_is_woken_and_a_late_one_is_told() {
    let token = CancellationToken::new();
    let parker = Parker::new();
    let registration = token.child().observe().unpark_on_cancel(&parker).unwrap();
    assert_eq!(format!("{registration:?}"), "Registration { .. }");
    token.cancel(CancelReason::User);
    parker.park();
    drop(registration);
    assert!(token.observe().unpark_on_cancel(&parker).is_none());
}

#[tokio::test]
async fn a_task_selects_between_work_and_the_cancel() {
    let token = CancellationToken::new();
    let child = token.child();
    let task = tokio::spawn(async move {
        tokio::select! {
            reason = child.cancelled() => reason,
            () = std::future::pending::<()>() => unreachable!("never done"),
        }
    });
    tokio::task::yield_now().await;
    token.cancel(CancelReason::Shutdown);
    assert_eq!(task.await.unwrap(), CancelReason::Shutdown);
}

#[tokio::test]
async fn a_task_that_waits_across_a_reset_of_the_next_generation_still_hears_its_own() {
    let token = CancellationToken::new();
    let seen = token.observe();
    token.cancel(CancelReason::User);
    token.reset();
    assert_eq!(seen.cancelled().await, CancelReason::Superseded);
}

#[test]
fn debug_output_shows_generation_and_reason() {
    let token = CancellationToken::default();
    token.cancel(CancelReason::User);
    token.reset();
    assert_eq!(format!("{token:?}"), "CancellationToken { generation: 1, reason: None, .. }");
    assert_eq!(format!("{:?}", token.observe()), "Observed { generation: 1, reason: None, .. }");
    assert!(format!("{:?}", token.cancelled()).starts_with("CancelledFuture"));
}
