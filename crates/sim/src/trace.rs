//! The trace of a run, step by step: all of it in one hash, the last steps in words.
//!
//! # Invariants
//! 1. Two runs with the same hash took the same steps in the same order at the same times.
//! 2. The words are made only if a reader wants them.

use std::collections::VecDeque;
use std::fmt;

/// The number of steps that are stored to be read.
pub const LAST_STEPS: usize = 50;

const FNV_START: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceStep {
    at_ms: u64,
    task: u32,
    what: &'static str,
    detail: [u64; 2],
}

impl fmt::Display for TraceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceStep { at_ms, task, what, detail: [first, second] } = self;
        write!(f, "{:>9}.{:03} s  task {task:<5} {what:<24}", at_ms / 1_000, at_ms % 1_000)?;
        match (first, second) {
            (0, 0) => Ok(()),
            (_, 0) => write!(f, " {first:x}"),
            (_, _) => write!(f, " {first:x} {second:x}"),
        }
    }
}

/// The steps of one run.
#[derive(Debug)]
pub(crate) struct RunTrace {
    hash: u64,
    steps: u64,
    kept: usize,
    last: VecDeque<TraceStep>,
}

impl RunTrace {
    /// Makes a trace whose last steps, as many as given, can be read.
    pub(crate) fn new(kept: usize) -> Self {
        Self { hash: FNV_START, steps: 0, kept, last: VecDeque::with_capacity(kept.min(LAST_STEPS)) }
    }

    pub(crate) fn note(&mut self, at_ms: u64, task: u32, what: &'static str, detail: [u64; 2]) {
        for byte in what.bytes() {
            self.mix(u64::from(byte));
        }
        for word in [at_ms, u64::from(task), detail[0], detail[1]] {
            self.mix(word);
        }
        self.steps += 1;
        if self.last.len() >= self.kept {
            self.last.pop_front();
        }
        self.last.push_back(TraceStep { at_ms, task, what, detail });
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn last(&self) -> Vec<String> {
        self.last.iter().map(TraceStep::to_string).collect()
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(FNV_PRIME).rotate_left(23);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(steps: &[(u64, u32, &'static str, [u64; 2])]) -> u64 {
        let mut trace = RunTrace::new(LAST_STEPS);
        for &(at, task, what, detail) in steps {
            trace.note(at, task, what, detail);
        }
        trace.hash()
    }

    #[test]
    fn any_difference_is_another_hash() {
        let one = (1, 2, "claim", [3, 4]);
        let others = [(2, 2, "claim", [3, 4]), (1, 3, "claim", [3, 4]), (1, 2, "cancel", [3, 4])];
        assert_eq!(hash(&[one, one]), hash(&[one, one]));
        for other in others {
            assert_ne!(hash(&[one, other]), hash(&[other, one]));
            assert_ne!(hash(&[one]), hash(&[other]));
        }
        assert_ne!(hash(&[one]), hash(&[(1, 2, "claim", [3, 5])]));
    }

    #[test]
    fn the_last_fifty_steps_are_kept() {
        let mut trace = RunTrace::new(LAST_STEPS);
        for at in 0..60 {
            trace.note(at, 0, "claim", [0, 0]);
        }
        assert_eq!((trace.last().len(), trace.steps()), (50, 60));
        assert!(trace.last()[0].contains("0.010 s"), "{}", trace.last()[0]);
    }
}
