//! Cancellation that cannot be lost: a token whose every generation is cancelled at most once, and stays so.
//!
//! One word holds `[generation: 48 | has ancestors: 1 | reason: 15]`; reason 0 is live. The word only grows.
//! `cancel` sets the reason, and `reset` of a cancelled token opens the next generation. `reset` of a live
//! one does nothing, because its observers must see the next cancel. So every generation but the newest is
//! cancelled. An observer that saw the token live, as the word `w`, is cancelled exactly when the word is
//! above `w`. The answer never changes back. The ancestor bit is set once, at birth: one load answers for a
//! live token without ancestors.
//!
//! # Invariants
//! 1. The word only grows; each step is one compare-and-swap.
//! 2. A cancelled generation stays cancelled for all who observed it; its first reason wins.
//! 3. A cancel of one generation never cancels a later one.
//! 4. A child knows its ancestors, each at the generation it was born in; ancestors know no children. A child
//!    made during a cancel is born cancelled: none can be missed and none can leak.
//! 5. A waiter registers at every level and tests each level's word under that level's lock (see `waiters`).
//!
//! # Not here
//! Deadlines: a timer is a caller of [`CancellationToken::cancel_if`] with the generation it saw.

mod observed_generation;
mod reason;

use std::sync::Arc;
use std::time::Duration;

pub use self::reason::{Cancel, CancelReason, Cancelled, Generation, Reset};
use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::waiters::{Level, Waiters};
pub use observed_generation::{CancelledFuture, Observed, Registration};

/// The most ancestors that a token may have: each costs every check one load more.
const DEPTH_MAX: usize = 8;
const GENERATION_SHIFT: u32 = 16;
const HAS_ANCESTORS: u64 = 1 << 15;
const REASON_MASK: u64 = HAS_ANCESTORS - 1;

/// A cancellation shared by any number of threads and tasks. `Clone` is the same token.
///
/// Code that works calls [`observe`](Self::observe) once, at its start, and asks the [`Observed`]: the answer
/// of a generation never changes back, whatever is reset meanwhile.
///
/// ```
/// use sync::{CancelReason, CancellationToken};
///
/// let token = CancellationToken::new();
/// let job = token.observe();
/// token.cancel(CancelReason::User);
/// token.reset();
/// assert!(job.is_cancelled(), "a cancelled job stays cancelled");
/// assert!(!token.is_cancelled(), "the next one starts fresh");
/// ```
#[derive(Clone)]
pub struct CancellationToken {
    node: Arc<Node>,
}

struct Node {
    word: AtomicU64,
    ancestors: Box<[NodeGeneration]>,
    waiters: Waiters,
}

impl Node {
    #[inline]
    fn is_cancelled_above(&self) -> bool {
        self.ancestors.iter().any(NodeGeneration::is_cancelled)
    }
}

/// One generation of one node.
#[derive(Clone)]
struct NodeGeneration {
    node: Arc<Node>,
    /// The word of this generation while it is live: any greater word means that it is cancelled.
    live: u64,
}

impl NodeGeneration {
    #[inline]
    fn is_cancelled(&self) -> bool {
        self.node.word.load(Ordering::Acquire) > self.live
    }

    fn reason(&self) -> Option<CancelReason> {
        let word = self.node.word.load(Ordering::Acquire);
        match generation_of(word) > generation_of(self.live) {
            true => Some(CancelReason::Superseded),
            false => CancelReason::from_code(word & REASON_MASK),
        }
    }
}

impl Level for NodeGeneration {
    fn waiters(&self) -> &Waiters {
        &self.node.waiters
    }

    fn is_reached(&self) -> bool {
        self.is_cancelled()
    }
}

fn generation_of(word: u64) -> u64 {
    word >> GENERATION_SHIFT
}

fn is_live(word: u64) -> bool {
    word & REASON_MASK == 0
}

impl CancellationToken {
    /// A live token without ancestors.
    pub fn new() -> Self {
        Self::with(0, Box::default())
    }

    fn with(word: u64, ancestors: Box<[NodeGeneration]>) -> Self {
        let node = Node { word: AtomicU64::new(word), ancestors, waiters: Waiters::default() };
        Self { node: Arc::new(node) }
    }

    /// A token that is cancelled with this one's present generation, and can be cancelled alone.
    ///
    /// See [`Observed::child`].
    pub fn child(&self) -> Self {
        self.observe().child()
    }

    /// Cancels the generation that this call finds.
    pub fn cancel(&self, reason: CancelReason) -> Cancel {
        self.cancel_where(|_| true, reason)
    }

    /// Cancels the generation that the caller saw, and none other: what timers use.
    pub fn cancel_if(&self, seen: Generation, reason: CancelReason) -> Cancel {
        self.cancel_where(|current| current == seen.0, reason)
    }

    fn cancel_where(&self, is_meant: impl Fn(u64) -> bool, reason: CancelReason) -> Cancel {
        let mut word = self.node.word.load(Ordering::Acquire);
        loop {
            let generation = Generation(generation_of(word));
            if !is_meant(generation.0) {
                return Cancel::Stale { current: generation };
            }
            if !is_live(word) {
                return Cancel::Already(generation);
            }
            match self.swap(word, word | reason.code()) {
                Ok(()) => {
                    self.node.waiters.wake();
                    return Cancel::Now(generation);
                }
                Err(found) => word = found,
            }
        }
    }

    /// Opens a new generation if the present one is cancelled; of a live one it does nothing.
    pub fn reset(&self) -> Reset {
        self.reset_where(|_| true)
    }

    /// Opens the generation after the one that the caller saw cancelled, and none other.
    pub fn reset_if(&self, seen: Generation) -> Reset {
        self.reset_where(|current| current == seen.0)
    }

    fn reset_where(&self, is_meant: impl Fn(u64) -> bool) -> Reset {
        let mut word = self.node.word.load(Ordering::Acquire);
        loop {
            let generation = generation_of(word);
            if !is_meant(generation) {
                return Reset::Stale { current: Generation(generation) };
            }
            if is_live(word) {
                return Reset::Live(Generation(generation));
            }
            match self.swap(word, (generation + 1) << GENERATION_SHIFT | word & HAS_ANCESTORS) {
                Ok(()) => return Reset::Opened(Generation(generation + 1)),
                Err(found) => word = found,
            }
        }
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        self.node.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    /// The generation that is current now, for ever.
    pub fn observe(&self) -> Observed {
        let live = self.node.word.load(Ordering::Acquire) & !REASON_MASK;
        Observed { step: NodeGeneration { node: Arc::clone(&self.node), live } }
    }

    /// Returns whether the generation that is current now is cancelled, or an ancestor's is: one load per
    /// level.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        let word = self.node.word.load(Ordering::Acquire);
        word & (REASON_MASK | HAS_ANCESTORS) != 0 && (!is_live(word) || self.node.is_cancelled_above())
    }

    /// Blocks until the generation that is current now is cancelled; false if `timeout` passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.observe().wait(timeout)
    }

    /// Completes when the generation that is current now is cancelled.
    pub fn cancelled(&self) -> CancelledFuture {
        self.observe().cancelled()
    }
}

impl Default for CancellationToken {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for CancellationToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let observed = self.observe();
        f.debug_struct("CancellationToken")
            .field("generation", &observed.generation().0)
            .field("reason", &observed.reason())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::parker::Parker;

    #[test]
    fn no_waiter_is_left_behind_at_any_level() {
        let parent = CancellationToken::new();
        let child = parent.child();
        let left = || (parent.node.waiters.len(), child.node.waiters.len());
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut future = pin!(child.cancelled());
            assert!(future.as_mut().poll(&mut context).is_pending());
            assert!(future.as_mut().poll(&mut context).is_pending());
            let registration = child.observe().unpark_on_cancel(&Parker::new());
            assert_eq!(left(), (2, 2), "one entry for each waiter at each level, however often it is polled");
            drop(registration);
        }
        assert!(!child.wait(Some(Duration::ZERO)));
        assert_eq!(left(), (0, 0));
        let mut future = pin!(child.cancelled());
        assert!(future.as_mut().poll(&mut context).is_pending());
        parent.cancel(CancelReason::User);
        assert!(future.as_mut().poll(&mut context).is_ready());
        assert_eq!(left(), (0, 1), "drained by the cancel");
    }

    #[test]
    fn a_parent_keeps_no_child_alive() {
        let parent = CancellationToken::new();
        let child = Arc::downgrade(&parent.child().node);
        assert!(child.upgrade().is_none());
        let grandchild = parent.child().child();
        drop(parent);
        assert!(!grandchild.is_cancelled(), "and a child needs its ancestors' words only");
    }
}
