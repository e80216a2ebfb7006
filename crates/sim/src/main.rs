//! `sim [SEED] [--runs N] [--broken NAME|all] [--last N] [--threads N]`: runs seeds and says what they
//! showed.
//!
//! Without a seed it begins at 0; with one and no count it runs that one and shows its last steps. Exit
//! status 1 says that a promise was broken, or that a broken program was not caught.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::process::ExitCode;
use std::time::Instant;

use sim::{BatchReport, BrokenProgram, Fault, LAST_STEPS, Promise, RunBatch, RunReport, run_many, run_seed};

const RUNS: u64 = 2_000;
/// A broken program has to be caught within so many runs.
const BROKEN_RUNS: u64 = 2_000;

struct Arguments {
    seed: Option<u64>,
    runs: Option<u64>,
    broken: Vec<BrokenProgram>,
    threads: usize,
    last: usize,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!(
                "error: {why}\n\nusage: sim [SEED] [--runs N] [--broken NAME|all] [--last N] [--threads N]"
            );
            return ExitCode::from(2);
        }
    };
    let passes = match (arguments.seed, arguments.runs, arguments.broken.as_slice()) {
        (Some(seed), None, []) => replay(seed, None, arguments.last),
        (Some(seed), None, [broken]) => replay(seed, Some(*broken), arguments.last),
        (seed, runs, []) => campaign(seed.unwrap_or(0), runs.unwrap_or(RUNS), arguments.threads),
        (seed, runs, broken) => {
            catch_all(broken, seed.unwrap_or(0), runs.unwrap_or(BROKEN_RUNS), arguments.threads)
        }
    };
    if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut arguments = Arguments { seed: None, runs: None, broken: Vec::new(), threads, last: LAST_STEPS };
    let mut words = words;
    let number = |word: Option<String>, of: &str| {
        let word = word.ok_or_else(|| format!("{of} needs a number"))?;
        word.parse::<u64>().map_err(|_| format!("`{word}` is not a number for {of}"))
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--runs" => arguments.runs = Some(number(words.next(), "--runs")?.max(1)),
            "--threads" => {
                arguments.threads = usize::try_from(number(words.next(), "--threads")?).unwrap_or(1).max(1);
            }
            "--last" => {
                arguments.last = usize::try_from(number(words.next(), "--last")?).unwrap_or(usize::MAX)
            }
            "--broken" => {
                let name = words.next().unwrap_or_default();
                let known =
                    || BrokenProgram::ALL.iter().map(|broken| broken.name()).collect::<Vec<_>>().join(", ");
                arguments.broken =
                    match name.as_str() {
                        "all" => BrokenProgram::ALL.to_vec(),
                        name => vec![BrokenProgram::parse(name).ok_or_else(|| {
                            format!("there is no broken program `{name}`; all, {}", known())
                        })?],
                    };
            }
            word => arguments.seed = Some(number(Some(word.to_owned()), "the seed")?),
        }
    }
    Ok(arguments)
}

/// Runs one seed twice, and says what it showed.
fn replay(seed: u64, broken: Option<BrokenProgram>, last: usize) -> bool {
    let (first, second) = (run_seed(seed, broken, last), run_seed(seed, broken, last));
    println!("seed {seed}: {} steps, trace {:016x}", first.steps, first.hash);
    if first.hash != second.hash {
        println!("its second run took other steps: trace {:016x}", second.hash);
        return false;
    }
    show(&first);
    first.violations.is_empty()
}

fn campaign(first: u64, runs: u64, threads: usize) -> bool {
    let begun = Instant::now();
    let total = run_many(RunBatch { first, runs, broken: None, threads });
    counts(&total);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} runs, {} steps, trace {:016x}, {seconds:.1} s", total.runs, total.steps, total.hash);
    match &total.caught {
        None => true,
        Some(report) => {
            println!(
                "\nseed {} breaks a promise; run it again with `cargo xtask sim {}`",
                report.seed, report.seed
            );
            show(report);
            false
        }
    }
}

fn counts(total: &BatchReport) {
    println!("faults that struck:");
    for (fault, count) in Fault::ALL.iter().zip(&total.faults) {
        println!("  {:<24} {count:>10}", fault.name());
    }
    println!("promises that were checked:");
    for (promise, count) in Promise::ALL.iter().zip(&total.checks) {
        println!("  {:>2} {:<40} {count:>10}", promise.number(), promise.words());
    }
}

fn show(report: &RunReport) {
    for violation in &report.violations {
        println!("  {violation}");
    }
    if !report.last_steps.is_empty() {
        println!("the last {} of {} steps:", report.last_steps.len(), report.steps);
        report.last_steps.iter().for_each(|step| println!("  {step}"));
    }
}

/// Every broken program has to be caught by the promise that it breaks.
fn catch_all(broken: &[BrokenProgram], first: u64, runs: u64, threads: usize) -> bool {
    let mut all = true;
    for broken in broken {
        let total = run_many(RunBatch { first, runs, broken: Some(*broken), threads });
        let promise = broken.promise().number();
        match &total.caught {
            Some(report) => {
                println!(
                    "{:<24} caught by promise {promise:>2} after {} runs, seed {}",
                    broken.name(),
                    total.runs,
                    report.seed
                );
            }
            None => {
                println!("{:<24} NOT caught by promise {promise} in {} runs", broken.name(), total.runs);
                all = false;
            }
        }
    }
    all
}
