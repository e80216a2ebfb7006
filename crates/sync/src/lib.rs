//! The concurrency primitives under everything else: the types that many threads share, and nothing more.
//!
//! | type | what it makes impossible |
//! |---|---|
//! | [`CircuitBreaker`] | a lost failure count, two trips of one threshold, a late result credited to a newer state |
//! | [`CancellationToken`] | a cancel lost to a reset, or leaking into the next generation |
//! | [`EffectGate`] | an effect that begins after the gate closed, or is still inside after it drained |
//! | [`KeyedHistories`] | two creators of one history, of whom one is overwritten |
//!
//! # Invariants
//! 1. No IO, no runtime, no thread of its own, no `unsafe`. Time comes in through a [`Clock`].
//! 2. Every lock, atomic and thread comes from [`primitives`], so loom and shuttle explore this very code.
//! 3. No lock is held while foreign code runs, except the closure given to [`KeyedHistories`], which says so.
//! 4. At most one lock is held at a time. A poisoned lock is taken over, never propagated.
//!
//! The argument for each memory ordering, and the model-check case behind each claim, are in
//! `docs/concurrency.md`.
//!
//! # Not here
//! The users of the primitives: strategies, plans, jobs and stores are in the crates above.

#![forbid(unsafe_code)]

mod catch_panic;
pub mod primitives;
mod waiters;

mod breaker;
mod clock;
mod gate;
mod histories;
mod parker;
mod token;

pub use breaker::{
    Breaker, BreakerConfig, BreakerConfigError, BreakerState, BreakerView, CircuitBreaker, Permit,
    RecordOutcome, RejectReason, Rejected,
};
pub use catch_panic::{Panicked, contained};
pub use clock::{Clock, ManualClock, Sleep, SystemClock};
pub use gate::{Drained, Effect, EffectGate, Finisher, StillIn};
pub use histories::KeyedHistories;
pub use parker::Parker;
pub use token::{
    Cancel, CancelReason, CancellationToken, Cancelled, CancelledFuture, Generation, Observed, Registration,
    Reset,
};
