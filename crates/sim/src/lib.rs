//! Runs the real workers, rules and services against a simulated machine, store and crowd, in virtual time.
//!
//! A seed decides everything: how many workers and plans there are, who is next, what fails when. So a run
//! that broke a promise is a number, and running it again shows the same.
//!
//! # Where to begin
//! - `world`: the parts of a run, and the loop that moves it; `executor`: picks the next task.
//! - `scenario` and `fault`: what is drawn from the seed; `run_phases` and `users`: the course of the run.
//! - `faulty`: the store with everything that can happen around a step of it; `machine`: files, processes,
//!   journals.
//! - `runner`: runs a claimed job, as the phases of the engine do it.
//! - `promise_watch` and `end_checks`: the promises. [`BrokenProgram`]: programs that must be caught breaking
//!   them.
//!
//! # What is real
//! The `AsyncWorker`, `PlanExecutionContext` and `ErrorRecoveryService` of `worker`, the store's
//! `MemoryStore`, the rules of `domain`, the primitives of `sync` and `tokio::sync`. Not real: the phases,
//! which here run on a machine of numbers, by the same protocol: `runner/sandbox_call` follows the engine's
//! step by step.
//!
//! # Invariants
//! 1. One thread for each run, no clock, no randomness but the seed's: the hash of all steps is the same each
//!    time.
//! 2. A check that cannot fail proves nothing: each promise has a broken program that is caught by it.

#![forbid(unsafe_code)]

mod broken_programs;
mod end_checks;
mod executor;
mod fault;
mod faulty;
mod housekeeping;
mod machine;
mod many_runs;
mod promise;
mod promise_watch;
mod random;
mod run_phases;
mod runner;
mod scenario;
mod trace;
mod users;
mod worker;
mod world;

use std::sync::Arc;

pub use broken_programs::BrokenProgram;
pub use fault::Fault;
pub use many_runs::{BatchReport, RunBatch, run_many};
pub use promise::{Promise, PromiseViolation};
pub use trace::LAST_STEPS;

/// The report of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// Of all steps: the same seed has the same.
    pub hash: u64,
    /// The number of steps that it took.
    pub steps: u64,
    /// The violations of promises; empty for a run that passed.
    pub violations: Vec<PromiseViolation>,
    /// The number of times that each fault struck, in order of [`Fault::ALL`].
    pub faults: Vec<u64>,
    /// The number of times that each promise was checked, in order of [`Promise::ALL`].
    pub checks: Vec<u64>,
    /// The last steps, for people.
    pub last_steps: Vec<String>,
}

/// Runs one seed; with `broken`, of a program that is wrong. The last `kept_steps` can be read if it breaks a
/// promise.
pub fn run_seed(seed: u64, broken: Option<BrokenProgram>, kept_steps: usize) -> RunReport {
    let world = world::SimWorld::new(seed, broken, kept_steps);
    world.run(Box::pin(run_phases::direct(Arc::clone(&world))));
    let violations = world.watch.violations();
    let (hash, steps, last) = {
        let trace = world.trace();
        (trace.hash(), trace.steps(), trace.last())
    };
    let report = RunReport {
        seed,
        hash,
        steps,
        last_steps: if violations.is_empty() { Vec::new() } else { last },
        violations,
        faults: world.faults().counts().to_vec(),
        checks: world.watch.checks().to_vec(),
    };
    world.take_down();
    report
}
