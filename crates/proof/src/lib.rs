//! The harness of the model checks: cases that must hold, and naive twins of the same cases that must fail.
//!
//! A *case* is a promise explored over many thread schedules by loom or shuttle. A *twin* runs the same body
//! on a naive implementation, such as the bug of one of the four seed reports. The explorer must find its
//! *symptom*. A case whose twins survive proves nothing, so a surviving twin fails the run like a broken
//! promise does.
//!
//! # How a run goes
//! 1. A test binary (`harness = false`) lists its cases and calls [`main`].
//! 2. Each case explores in this process. Its body calls [`execution`] first, so that schedules are counted.
//! 3. Each twin explores in a child process, because loom aborts on a deadlock. The child's panic hook looks
//!    for the symptom in the panic message, prints it with the count and exits.
//!
//! # Not here
//! The explorers themselves: a case calls loom or shuttle as it needs, bounded by [`effort`].

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the printed lines are what this crate is for")]

use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};

/// A promise, explored over thread schedules.
pub struct Case {
    /// The seed report it answers, such as `7088`, or a word for a promise that no seed names.
    pub seed: &'static str,
    /// The promise that must hold, in a few words.
    pub name: &'static str,
    /// Explores our implementation; panics when the promise is broken.
    pub explore: fn(),
    /// The naive implementations that the same body must catch.
    pub twins: &'static [Twin],
}

/// A naive implementation under the body of its [`Case`].
pub struct Twin {
    /// The naivety of the implementation, in a few words.
    pub name: &'static str,
    /// Part of the panic message in which the failure shows.
    pub symptom: &'static str,
    /// Explores the naive implementation; must panic.
    pub explore: fn(),
}

/// The amount to explore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A bound that `cargo xtask test` can afford.
    Quick,
    /// The stated bound of `cargo xtask model-check`.
    Full,
}

impl Effort {
    /// The number of schedules that shuttle draws for a case, at random and again with few preemptions.
    pub fn schedules(self) -> usize {
        match self {
            Effort::Quick => 1_000,
            Effort::Full => 20_000,
        }
    }

    /// The number of preemptions up to which loom explores every schedule of a case. Three is the upper end
    /// of its own advice: most bugs need no more, and each one multiplies the schedules.
    pub fn preemptions(self) -> usize {
        match self {
            Effort::Quick => 2,
            Effort::Full => 3,
        }
    }
}

/// Asks for [`Effort::Quick`] when it is set to `quick`.
pub const EFFORT_VARIABLE: &str = "AGENTS_PROOF_EFFORT";

static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

/// Counts one explored schedule; the first call of every body.
pub fn execution() {
    EXECUTIONS.fetch_add(1, Ordering::Relaxed);
}

/// The amount that the caller of this process wants explored.
pub fn effort() -> Effort {
    match std::env::var(EFFORT_VARIABLE).as_deref() {
        Ok("quick") => Effort::Quick,
        Ok(_) | Err(_) => Effort::Full,
    }
}

/// Runs the cases of a test binary, or the one twin that the arguments name.
///
/// `bound` says under which bound the explorer is exhaustive, or how many schedules it draws.
pub fn main(explorer: &str, bound: &str, cases: &[Case]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--twin", case, twin] => explore_twin(cases, case, twin),
        ["--list", ..] => ExitCode::SUCCESS,
        [] => run_all(explorer, bound, cases.iter().collect()),
        words => {
            let is_meant = |case: &&Case| words.iter().all(|word| case.title().contains(word));
            let chosen: Vec<&Case> = cases.iter().filter(is_meant).collect();
            if chosen.is_empty() {
                // Not a failure here: the words may be meant for the cases of another binary of the same run.
                println!("{explorer}: no case has all of these words in its title");
                return ExitCode::SUCCESS;
            }
            run_all(explorer, bound, chosen)
        }
    }
}

impl Case {
    fn title(&self) -> String {
        format!("#{} {}", self.seed, self.name)
    }
}

fn run_all(explorer: &str, bound: &str, cases: Vec<&Case>) -> ExitCode {
    let mut failed = 0_usize;
    println!("{explorer}, {bound}");
    for case in &cases {
        EXECUTIONS.store(0, Ordering::Relaxed);
        println!("{}", case.title());
        let holds = std::panic::catch_unwind(case.explore).is_ok();
        let executions = EXECUTIONS.load(Ordering::Relaxed);
        if holds && executions > 0 {
            println!("  ours: holds in {executions} executions");
        } else if holds {
            println!("  ours: NOT EXPLORED: its body counted no execution");
            failed += 1;
        } else {
            println!("  ours: BROKEN after {executions} executions");
            failed += 1;
        }
        for twin in case.twins {
            match found_in_child(case, twin) {
                Ok(line) => println!("  naive ({}): {line}", twin.name),
                Err(why) => {
                    println!("  naive ({}): NOT FOUND: {why}", twin.name);
                    failed += 1;
                }
            }
        }
    }
    let promises: usize = cases.iter().map(|case| 1 + case.twins.len()).sum();
    println!("{} passed, {failed} failed", promises - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const FOUND: &str = "found: ";

fn found_in_child(case: &Case, twin: &Twin) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["--twin", case.name, twin.name])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().find_map(|line| line.strip_prefix(FOUND)) {
        Some(found) => Ok(found.to_owned()),
        None => Err(format!("expected `{}`, child ended with {}", twin.symptom, output.status)),
    }
}

fn explore_twin(cases: &[Case], case: &str, twin: &str) -> ExitCode {
    let found = cases
        .iter()
        .find(|known| known.name == case)
        .and_then(|known| known.twins.iter().find(|known| known.name == twin));
    let Some(twin) = found else {
        println!("no such twin: {case}: {twin}");
        return ExitCode::FAILURE;
    };
    let symptom = twin.symptom;
    let silent_hook = move |info: &std::panic::PanicHookInfo<'_>| {
        let message = info.payload_as_str().unwrap_or_default();
        if let Some((_, tail)) = message.split_once(symptom) {
            let rest_of_line = tail.lines().next().unwrap_or_default();
            let executions = EXECUTIONS.load(Ordering::Relaxed);
            println!("{FOUND}{symptom}{rest_of_line} found after {executions}");
            std::process::exit(0);
        }
    };
    std::panic::set_hook(Box::new(silent_hook));
    (twin.explore)();
    println!("the twin survived {} executions", EXECUTIONS.load(Ordering::Relaxed));
    ExitCode::FAILURE
}
