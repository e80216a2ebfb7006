//! Assembles the context of a plan. Strategies that propose files run in parallel behind circuit breakers.
//! Ten stages then make one text of the proposals under a hard budget.
//!
//! | word | where |
//! |---|---|
//! | [`Pipeline`] | from a request to a context |
//! | [`stages`] | the ten stages, a trait and its default each |
//! | [`strategies`] | the ways to find candidates |
//! | [`Projects`], [`IndexedContents`] | what is looked into, and where files are read |
//! | [`TokenCounter`], [`ContextLedger`] | what a text costs, and what a node may still ask for |
//! | [`Name`] | what a strategy is called, and the key of its breaker |
//! | [`StopCheck`] | the check by which a strategy learns that no caller waits for it any more |
//! | [`SearchStrategy`] | a way to find candidates |
//! | [`StrategyRun`], [`RunOutcome`] | what one strategy came to, and what its breaker said |
//! | [`index`] | what is known of a project's files and commits |
//! | [`ports`] | the files and the history that it asks for |
//! | [`ParallelStrategyExecutor`] | runs a batch of strategies: bounded, in time, in a fixed order |
//!
//! # Invariants
//! 1. No IO but the index's own file, no runtime, no `unsafe`. A project's files and history come in through
//!    [`ports`] and [`IndexedContents`], time through a [`sync::Clock`]; the executor's threads through
//!    [`sync::primitives`].
//! 2. A strategy that fails, panics, hangs or gives wrong answers harms no other strategy.
//!
//! # Not here
//! Storing contexts, which the engine does with the answers it gets.

#![forbid(unsafe_code)]

mod batch_result;
mod bm25;
mod deadline;
mod file_reader;
mod hash_filter;
mod parallel_map;
mod part_scorer;
mod plan_decisions;
mod receipt_builder;
mod request_inputs;
mod snapshot_stats;
mod strategy;

mod executor;

pub mod index;
pub mod ports;

mod budget;
mod ledger;
mod tokens;

mod config;
mod error;
mod project;
mod view;

mod focus;
mod graph;

pub mod stages;
pub mod strategies;

mod pipeline;
mod render;

pub use budget::{Split, split};
pub use config::{PipelineConfig, PipelineConfigError};
pub use domain::context::{Name, NameError};
pub use error::Error;
pub use snapshot_stats::SnapshotCache;

pub use batch_result::{BatchCancelled, RunOutcome, StrategyBreakerChange, StrategyRun};
pub use bm25::Term;
pub use deadline::{StopCause, StopCheck};
pub use executor::{
    Batch, BreakerMove, ContextStrategies, Event, EventSink, ExecutorConfig, ExecutorConfigError,
    ParallelStrategyExecutor, PoolView, StrategyTask,
};
pub use file_reader::left_out;
pub use focus::Anchor;
pub use ledger::{ContextLedger, InsufficientTokens, LedgerView, RESERVE_MIN, Reservation};
pub use pipeline::{Pipeline, PipelineParts};
pub use project::{IndexedContents, IndexedRoot, OpenedProjects, Projects};
pub use request_inputs::{FileIndex, PathStatus, RequestInputs};
pub use strategy::{SearchStrategy, StrategyError};
pub use tokens::{LexicalCounter, TokenCounter};
pub use view::{GlobUnreadable, ViewFilter, ViewRules, Views};
