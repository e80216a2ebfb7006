//! The token: a cancel is heard by all who observed its generation, and by nobody else.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;
use proof::{Case, Twin};
use sync::{Cancel, CancelReason, CancellationToken, Generation, Observed, Parker, Reset};

use crate::explore;
use crate::naive::token as naive;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            seed: "7166",
            name: "wait beside cancel and reset: the waiter hears the cancel",
            explore: || explore(a_reset_hides_no_cancel_from_a_waiter::<CancellationToken>),
            twins: &[
                Twin {
                    name: "event set and clear",
                    symptom: "deadlock",
                    explore: || explore(a_reset_hides_no_cancel_from_a_waiter::<naive::Event>),
                },
                Twin {
                    name: "the same in a lock, as the report suggests",
                    symptom: "cancel lost to a reset",
                    explore: || explore(a_reset_hides_no_cancel_from_a_waiter::<naive::LockedEvent>),
                },
                Twin {
                    name: "wake before the word",
                    symptom: "deadlock",
                    explore: || explore(a_reset_hides_no_cancel_from_a_waiter::<naive::WakeFirst>),
                },
            ],
        },
        Case {
            seed: "7166",
            name: "observer beside cancel and reset: seen once, seen always",
            explore: || explore(what_was_seen_stays::<CancellationToken>),
            twins: &[Twin {
                name: "event set and clear",
                symptom: "cancelled, and then not",
                explore: || explore(what_was_seen_stays::<naive::Event>),
            }],
        },
        Case {
            seed: "7166",
            name: "2 resetters beside a cancel of the new generation: that cancel stays",
            explore: || explore(a_second_reset_erases_no_cancel::<CancellationToken>),
            twins: &[Twin {
                name: "blind reset",
                symptom: "cancel erased by a second reset",
                explore: || explore(a_second_reset_erases_no_cancel::<naive::BlindReset>),
            }],
        },
        Case {
            seed: "7166",
            name: "2 resetters of one generation: one opens the next",
            explore: || explore(one_reset_opens_a_generation),
            twins: &[],
        },
        Case {
            seed: "7166",
            name: "reset of a live token beside a cancel: its observers hear it",
            explore: || explore(a_reset_of_a_live_token_detaches_nobody::<CancellationToken>),
            twins: &[Twin {
                name: "reset opens a generation when live",
                symptom: "observer never hears of it",
                explore: || explore(a_reset_of_a_live_token_detaches_nobody::<naive::AlwaysOpens>),
            }],
        },
        Case {
            seed: "token",
            name: "child made beside a cancel: cancelled",
            explore: || explore(no_child_escapes::<CancellationToken>),
            twins: &[Twin {
                name: "list of children, no second look",
                symptom: "child outlived the cancel",
                explore: || explore(no_child_escapes::<naive::ChildList>),
            }],
        },
        Case {
            seed: "token",
            name: "parent's cancel beside a child's cancel and reset: the child stays cancelled",
            explore: || explore(no_reset_revives_a_child),
            twins: &[],
        },
        Case {
            seed: "token",
            name: "a future dropped beside a cancel: the others wake",
            explore: || explore(a_dropped_future_takes_no_wake_up),
            twins: &[],
        },
        Case {
            seed: "token",
            name: "a child's future beside the parent's cancel: it wakes",
            explore: || explore(a_future_wakes_by_its_parent),
            twins: &[],
        },
        Case {
            seed: "token",
            name: "2 cancels at once: one is first and its reason stays",
            explore: || explore(the_first_reason_wins),
            twins: &[],
        },
    ]
}

/// The operations of a token that the bodies need.
pub(crate) trait Token: Clone + Send + Sync + 'static {
    type Seen: Send + 'static;
    fn new() -> Self;
    fn observe(&self) -> Self::Seen;
    fn wait(seen: &Self::Seen) -> bool;
    fn is_cancelled(seen: &Self::Seen) -> bool;
    fn cancel(&self);
    fn reset(&self);
}

/// The further operations that the body with two resetters needs.
pub(crate) trait ResetIf: Token {
    /// Resets the generation that was seen; true if this call opened the next.
    fn reset_seen(&self, seen: &Self::Seen) -> bool;
    fn is_cancelled_now(&self) -> bool;
}

/// The operations that the body with a child needs.
pub(crate) trait Parent: Clone + Send + Sync + 'static {
    fn new() -> Self;
    fn child(&self) -> Self;
    fn cancel(&self);
    fn is_cancelled(&self) -> bool;
}

impl Token for CancellationToken {
    type Seen = Observed;

    fn new() -> Self {
        CancellationToken::new()
    }

    fn observe(&self) -> Observed {
        CancellationToken::observe(self)
    }

    fn wait(seen: &Observed) -> bool {
        seen.wait(None)
    }

    fn is_cancelled(seen: &Observed) -> bool {
        seen.is_cancelled()
    }

    fn cancel(&self) {
        CancellationToken::cancel(self, CancelReason::User);
    }

    fn reset(&self) {
        CancellationToken::reset(self);
    }
}

impl ResetIf for CancellationToken {
    fn reset_seen(&self, seen: &Observed) -> bool {
        matches!(self.reset_if(seen.generation()), Reset::Opened(_))
    }

    fn is_cancelled_now(&self) -> bool {
        CancellationToken::is_cancelled(self)
    }
}

impl Parent for CancellationToken {
    fn new() -> Self {
        CancellationToken::new()
    }

    fn child(&self) -> Self {
        CancellationToken::child(self)
    }

    fn cancel(&self) {
        CancellationToken::cancel(self, CancelReason::User);
    }

    fn is_cancelled(&self) -> bool {
        CancellationToken::is_cancelled(self)
    }
}

fn a_reset_hides_no_cancel_from_a_waiter<T: Token>() {
    let token = T::new();
    let seen = token.observe();
    let waiter = thread::spawn(move || T::wait(&seen));
    token.cancel();
    token.reset();
    assert!(waiter.join().unwrap(), "cancel lost to a reset: the waiter woke and saw nothing");
    assert!(!T::is_cancelled(&token.observe()), "the next generation is live");
}

fn what_was_seen_stays<T: Token>() {
    let token = T::new();
    let seen = token.observe();
    let observer = thread::spawn(move || (T::is_cancelled(&seen), T::is_cancelled(&seen), seen));
    let resetter = {
        let token = token.clone();
        thread::spawn(move || token.reset())
    };
    token.cancel();
    resetter.join().unwrap();
    let (first, second, seen) = observer.join().unwrap();
    assert!(second || !first, "cancelled, and then not");
    assert!(T::is_cancelled(&seen), "cancelled, and then not");
}

fn a_second_reset_erases_no_cancel<T: ResetIf>() {
    let token = T::new();
    let seen = token.observe();
    token.cancel();
    let other = {
        let (token, seen) = (token.clone(), token.observe());
        thread::spawn(move || token.reset_seen(&seen))
    };
    token.reset_seen(&seen);
    token.cancel();
    other.join().unwrap();
    assert!(token.is_cancelled_now(), "cancel erased by a second reset");
}

fn one_reset_opens_a_generation() {
    let token = CancellationToken::new();
    token.cancel(CancelReason::User);
    let seen = token.observe();
    let other = {
        let (token, seen) = (token.clone(), seen.clone());
        thread::spawn(move || token.reset_seen(&seen))
    };
    let mine = token.reset_seen(&seen);
    assert_ne!(mine, other.join().unwrap(), "one reset opens the generation");
    assert!(!token.is_cancelled());
}

fn a_reset_of_a_live_token_detaches_nobody<T: Token>() {
    let token = T::new();
    let seen = token.observe();
    let resetter = {
        let token = token.clone();
        thread::spawn(move || token.reset())
    };
    token.cancel();
    resetter.join().unwrap();
    assert!(T::is_cancelled(&seen), "the observer never hears of it");
}

fn no_child_escapes<T: Parent>() {
    let parent = T::new();
    let maker = {
        let parent = parent.clone();
        thread::spawn(move || parent.child())
    };
    parent.cancel();
    let child = maker.join().unwrap();
    assert!(child.is_cancelled(), "child outlived the cancel");
}

fn no_reset_revives_a_child() {
    let parent = CancellationToken::new();
    let child = parent.child();
    let seen = child.observe();
    let resetter = {
        let child = child.clone();
        thread::spawn(move || {
            child.cancel(CancelReason::Sibling);
            child.reset();
        })
    };
    parent.cancel(CancelReason::User);
    resetter.join().unwrap();
    assert!(child.is_cancelled() && seen.is_cancelled(), "revived by a reset of its own");
    assert_eq!(child.observe().reason(), Some(CancelReason::User));
}

fn a_dropped_future_takes_no_wake_up() {
    let token = CancellationToken::new();
    let (leaving, staying) = (token.observe(), token.observe());
    let leaver = thread::spawn(move || {
        let mut future = pin!(leaving.cancelled());
        let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    });
    let stayer = thread::spawn(move || block_on(staying.cancelled()));
    token.cancel(CancelReason::Timeout);
    leaver.join().unwrap();
    assert_eq!(stayer.join().unwrap(), CancelReason::Timeout);
}

fn a_future_wakes_by_its_parent() {
    let parent = CancellationToken::new();
    let child = parent.child();
    let waiter = thread::spawn(move || block_on(child.cancelled()));
    parent.cancel(CancelReason::Shutdown);
    assert_eq!(waiter.join().unwrap(), CancelReason::Shutdown);
}

fn the_first_reason_wins() {
    let token = CancellationToken::new();
    let seen = token.observe();
    let other = {
        let token = token.clone();
        thread::spawn(move || token.cancel(CancelReason::Timeout))
    };
    let mine = token.cancel(CancelReason::User);
    let theirs = other.join().unwrap();
    let generation: Generation = seen.generation();
    let expected = match (mine, theirs) {
        (Cancel::Now(now), Cancel::Already(already)) if (now, already) == (generation, generation) => {
            CancelReason::User
        }
        (Cancel::Already(already), Cancel::Now(now)) if (now, already) == (generation, generation) => {
            CancelReason::Timeout
        }
        answers => panic!("not one first: {answers:?}"),
    };
    assert_eq!(seen.reason(), Some(expected));
}

struct Unpark(Parker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let parker = Parker::new();
    let waker = Waker::from(Arc::new(Unpark(parker.clone())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.park(),
        }
    }
}
