//! The clocks and the parker that sleeps on them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use sync::{Clock, ManualClock, Parker, SystemClock};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_system_clock_goes_on_and_never_back() {
    let clock = SystemClock::default();
    let first = clock.now();
    let mut last = first;
    while last == first {
        let next = clock.now();
        assert!(last <= next);
        last = next;
    }
}

#[test]
fn a_system_sleeper_wakes_by_its_deadline_or_by_hand() {
    let clock = SystemClock::new();
    let parker = Parker::new();
    clock.park_until(&parker, Some(Duration::ZERO));
    for at in [None, Some(Duration::MAX), Some(clock.now() + 1000 * SECOND)] {
        parker.unpark();
        clock.park_until(&parker, at);
        assert!(!parker.park_until(Instant::now()), "the wake-up is used up");
    }
}

#[test]
fn two_tasks_that_sleep_until_the_same_instant_are_both_woken() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let clock = ManualClock::new();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let mut sleeps = [Box::pin(clock.sleep(SECOND)), Box::pin(clock.sleep(SECOND))];
    for sleep in &mut sleeps {
        assert_eq!(sleep.as_mut().poll(&mut context), Poll::Pending);
    }
    clock.advance(SECOND);
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
}

#[test]
fn an_unpark_before_the_park_is_not_lost_and_counts_once() {
    let parker = Parker::new();
    parker.unpark();
    parker.unpark();
    parker.park();
    assert!(!parker.park_until(Instant::now()), "consumed");
    parker.unpark();
    assert!(parker.park_until(Instant::now() + SECOND), "told apart from a deadline");
    assert_eq!(format!("{parker:?}"), "Parker { .. }");
}

#[test]
fn a_manual_sleeper_wakes_when_the_clock_reaches_its_instant() {
    let clock = ManualClock::new();
    let parker = Parker::new();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            while clock.now() < SECOND {
                clock.park_until(&parker, Some(SECOND));
            }
            clock.now()
        });
        while !clock.advance_to_next_sleeper() {
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().unwrap(), SECOND);
    });
    clock.park_until(&parker, Some(SECOND));
    parker.unpark();
    clock.park_until(&parker, None);
    assert!(!clock.advance_to_next_sleeper(), "nobody sleeps any more");
    assert!(format!("{clock:?}").contains("now: 1s"));
}

#[test]
fn a_sleep_is_ready_exactly_at_its_instant() {
    let clock = ManualClock::new();
    let mut sleep = pin!(clock.sleep(SECOND));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(sleep.as_mut().poll(&mut context), Poll::Pending);
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(sleep.as_mut().poll(&mut context), Poll::Pending);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(sleep.as_mut().poll(&mut context), Poll::Ready(()));
    assert!(!clock.advance_to_next_sleeper());
}

#[test]
fn a_dropped_sleep_leaves_no_sleeper_behind() {
    let clock = ManualClock::new();
    {
        let mut sleep = pin!(clock.sleep(SECOND));
        assert_eq!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    }
    assert!(!clock.advance_to_next_sleeper());
}
