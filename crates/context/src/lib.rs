//! How a plan gets its context: strategies that each propose something, run in parallel behind circuit
//! breakers.
//!
//! | word | where |
//! |---|---|
//! | [`Name`] | what a strategy is called, and the key of its breaker |
//! | [`Stop`] | what a strategy looks at to learn that nobody waits for it any more |
//! | [`Strategy`] | a way to find candidates |
//! | [`Run`], [`Outcome`] | what one strategy came to, and what its breaker said |
//! | [`ParallelStrategyExecutor`] | runs a batch of strategies: bounded, in time, in a fixed order |
//!
//! # Invariants
//! 1. No IO, no runtime, no `unsafe`. Time comes in through a [`sync::Clock`], threads through
//!    [`sync::primitives`].
//! 2. What a strategy does wrong (fail, panic, hang, lie) stays with that strategy.
//!
//! # Not here
//! The index, the strategies themselves and the stages round them; emitting events, which the engine does with
//! the answers it gets.

#![forbid(unsafe_code)]

mod name;
mod stop;
mod strategy;

mod executor;
mod run;

pub use executor::{Batch, ExecutorConfig, ExecutorConfigError, ParallelStrategyExecutor, PoolView, Task};
pub use name::{Name, NameError};
pub use run::{BatchCancelled, BreakerChange, Outcome, Run};
pub use stop::{Stop, Stopped};
pub use strategy::{Strategy, StrategyError};
