//! The gate of a run inside a process: code enters it before an effect, and nothing enters once it is closed.
//!
//! One word holds `[reason: 16 | inside: 48]`; reason 0 is open. Entering is one compare-and-swap
//! of `inside + 1` that fails on a closed word, so the test and the count cannot come apart.
//!
//! # Invariants
//! 1. After [`close`](EffectGate::close) returned, no [`Effect`] is handed out by `enter`.
//! 2. After [`drained`](EffectGate::drained), no effect is inside, and all that the effects wrote is visible.
//! 3. Exactly one closer gets the [`Finisher`]. A gate never opens again.
//!
//! # Not here
//! The effects themselves: a tool call, a process start, a model request, a store write of the plan. Ports
//! that have such an effect demand `&Effect`, so that code that forgets the gate does not compile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::primitives::atomic::{AtomicU64, Ordering};
use crate::token::{CancelReason, Cancelled};
use crate::waiters::{Level, Waiters, Waiting};

const INSIDE_BITS: u32 = 48;
const INSIDE_MASK: u64 = (1 << INSIDE_BITS) - 1;

/// The gate of one job run. `Clone` is the same gate.
///
/// ```
/// use sync::{CancelReason, EffectGate};
///
/// let gate = EffectGate::new();
/// let effect = gate.enter().expect("the gate is open");
/// let finisher = gate.close(CancelReason::User).expect("the first closer");
/// assert!(gate.enter().is_err(), "nothing begins any more");
/// drop(effect);
/// assert!(gate.drained_within(None).is_ok(), "and nothing is inside");
/// # drop(finisher);
/// ```
#[derive(Clone, Default)]
pub struct EffectGate {
    door: Arc<Door>,
}

#[derive(Default)]
struct Door {
    word: AtomicU64,
    waiters: Waiters,
}

impl Door {
    fn is_drained(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        reason_of(word).is_some() && word & INSIDE_MASK == 0
    }
}

fn reason_of(word: u64) -> Option<CancelReason> {
    CancelReason::from_code(word >> INSIDE_BITS)
}

/// The right to have one effect; leaving is dropping it.
#[derive(Debug)]
#[must_use = "an effect that is dropped has left the gate"]
pub struct Effect {
    /// `None` for the finisher's own, which is not counted: the gate is closed by then.
    gate: Option<EffectGate>,
}

/// The right to the last effects of a closed gate: the last capture and the final transaction.
#[derive(Debug)]
pub struct Finisher {
    effect: Effect,
}

impl Finisher {
    /// The effect under which the end is written.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }
}

/// The error of a drain that did not come to its end: so many effects are still inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillIn(pub u64);

impl std::fmt::Display for StillIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} effects have not ended", self.0)
    }
}

impl std::error::Error for StillIn {}

impl EffectGate {
    /// An open gate with nothing inside.
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters, unless the gate is closed.
    ///
    /// # Errors
    /// [`Cancelled`] with the reason of the first closer.
    pub fn enter(&self) -> Result<Effect, Cancelled> {
        let mut word = self.door.word.load(Ordering::Acquire);
        loop {
            if let Some(reason) = reason_of(word) {
                return Err(Cancelled { reason });
            }
            match self.swap(word, word + 1) {
                Ok(()) => {
                    return Ok(Effect { gate: Some(self.clone()) });
                }
                Err(found) => word = found,
            }
        }
    }

    /// Closes the gate for good. The first closer gets the [`Finisher`] and its reason stays.
    pub fn close(&self, reason: CancelReason) -> Option<Finisher> {
        let mut word = self.door.word.load(Ordering::Acquire);
        loop {
            if reason_of(word).is_some() {
                return None;
            }
            match self.swap(word, word | reason.code() << INSIDE_BITS) {
                Ok(()) => {
                    self.door.waiters.wake();
                    return Some(Finisher { effect: Effect { gate: None } });
                }
                Err(found) => word = found,
            }
        }
    }

    /// Why the gate is closed; `None` while it is open.
    pub fn closed(&self) -> Option<CancelReason> {
        reason_of(self.door.word.load(Ordering::Acquire))
    }

    /// Returns the number of effects that are inside.
    pub fn inside(&self) -> u64 {
        self.door.word.load(Ordering::Acquire) & INSIDE_MASK
    }

    /// Blocks until the gate is closed and empty.
    ///
    /// # Errors
    /// [`StillIn`] when `timeout` passed first.
    pub fn drained_within(&self, timeout: Option<Duration>) -> Result<(), StillIn> {
        match Waiting::on([Door::level(self)]).block(timeout) {
            true => Ok(()),
            false => Err(StillIn(self.inside())),
        }
    }

    /// Completes when the gate is closed and empty.
    pub fn drained(&self) -> Drained {
        Drained { waiting: Waiting::on([Door::level(self)]) }
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        self.door.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

impl Drop for Effect {
    fn drop(&mut self) {
        let Some(gate) = &self.gate else { return };
        let before = gate.door.word.fetch_sub(1, Ordering::AcqRel);
        if reason_of(before).is_some() && before & INSIDE_MASK == 1 {
            gate.door.waiters.wake();
        }
    }
}

impl std::fmt::Debug for EffectGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EffectGate")
            .field("closed", &self.closed())
            .field("inside", &self.inside())
            .finish_non_exhaustive()
    }
}

struct WaitForDrain(Arc<Door>);

impl Door {
    fn level(gate: &EffectGate) -> WaitForDrain {
        WaitForDrain(Arc::clone(&gate.door))
    }
}

impl Level for WaitForDrain {
    fn waiters(&self) -> &Waiters {
        &self.0.waiters
    }

    fn is_reached(&self) -> bool {
        self.0.is_drained()
    }
}

/// Completes when a gate is closed and empty; made by [`EffectGate::drained`].
#[must_use = "a future does nothing unless awaited"]
pub struct Drained {
    waiting: Waiting<WaitForDrain>,
}

impl Future for Drained {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.waiting.poll(context)
    }
}

impl std::fmt::Debug for Drained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drained").finish_non_exhaustive()
    }
}
