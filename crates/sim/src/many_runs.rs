//! Many seeds, one after the other on each of several threads.
//!
//! # Invariants
//! What is summed up does not depend on which thread ran which seed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sync::primitives::{Mutex, lock};

use crate::broken_programs::BrokenProgram;
use crate::fault::FAULTS;
use crate::promise::PROMISES;
use crate::{LAST_STEPS, RunReport, run_seed};

/// A batch of seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct RunBatch {
    /// The first seed.
    pub first: u64,
    /// The number of runs, one after the other.
    pub runs: u64,
    /// The program that is run.
    pub broken: Option<BrokenProgram>,
    /// The number of runs at once.
    pub threads: usize,
}

/// All runs together.
#[derive(Clone, Debug)]
pub struct BatchReport {
    /// The number of runs.
    pub runs: u64,
    /// The steps of all.
    pub steps: u64,
    /// One hash of all hashes.
    pub hash: u64,
    /// The number of times that each fault struck.
    pub faults: Vec<u64>,
    /// The number of times that each promise was checked.
    pub checks: Vec<u64>,
    /// The run with the lowest seed that broke what it is meant to keep; for a broken program, what it is
    /// meant to break.
    pub caught: Option<RunReport>,
}

/// Runs until all are done or one is caught.
pub fn run_many(many: RunBatch) -> BatchReport {
    let next = AtomicU64::new(0);
    let is_caught = AtomicBool::new(false);
    let total = Mutex::new(BatchReport {
        runs: 0,
        steps: 0,
        hash: 0,
        faults: vec![0; FAULTS],
        checks: vec![0; PROMISES],
        caught: None,
    });
    std::thread::scope(|scope| {
        for _ in 0..many.threads.max(1) {
            scope.spawn(|| {
                while !is_caught.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= many.runs {
                        return;
                    }
                    let report = run_seed(many.first.wrapping_add(index), many.broken, LAST_STEPS);
                    if lock(&total).add(report, many.broken) {
                        is_caught.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl BatchReport {
    /// Adds a run; whether it was caught.
    fn add(&mut self, report: RunReport, broken: Option<BrokenProgram>) -> bool {
        self.runs += 1;
        self.steps += report.steps;
        self.hash = self.hash.wrapping_add((report.hash ^ report.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        self.faults.iter_mut().zip(&report.faults).for_each(|(sum, count)| *sum += count);
        self.checks.iter_mut().zip(&report.checks).for_each(|(sum, count)| *sum += count);
        let is_meant = |promise| broken.is_none_or(|broken| broken.promise() == promise);
        let is_caught = report.violations.iter().any(|violation| is_meant(violation.promise));
        if is_caught && self.caught.as_ref().is_none_or(|known| known.seed > report.seed) {
            self.caught = Some(report);
        }
        is_caught
    }
}
