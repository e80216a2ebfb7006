//! Runs steps in lanes: one after the other within a lane, the lanes side by side.
//!
//! Each line of a step is printed with its name in front, because the lines of several steps mix. When a step
//! fails, no further one begins, and the steps that run are waited for. At the end the output of the failed
//! one is printed again, in one piece.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Receives each line that a step prints.
pub(crate) type LineSink<'a> = &'a mut dyn FnMut(&str);

/// Runs a step and shows its lines.
type StepAction<'a> = Box<dyn Fn(LineSink<'_>) -> Result<(), Failure> + Sync + 'a>;

/// A part of the run with a name and a time of its own.
pub(crate) struct Step<'a> {
    pub(crate) name: &'static str,
    /// The names of steps of other lanes that have to pass first.
    pub(crate) needs: &'static [&'static str],
    /// The command that repeats it alone.
    pub(crate) repeat: String,
    pub(crate) action: StepAction<'a>,
}

/// The time that a step took.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StepTime {
    pub(crate) name: &'static str,
    pub(crate) time: Duration,
}

/// Runs all lanes to their end and returns the times, in the order in which the steps passed.
/// Returns an error if a step failed: the first one that did.
pub(crate) fn run(lanes: &[Vec<Step<'_>>]) -> Result<Vec<StepTime>, Failure> {
    let board = Board::default();
    thread::scope(|scope| {
        for lane in lanes {
            scope.spawn(|| board.run_lane(lane));
        }
    });
    let progress = board.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    match progress.failure {
        Some(failure) => Err(failure),
        None => Ok(progress.times),
    }
}

#[derive(Default)]
struct Board {
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    passed: BTreeSet<&'static str>,
    times: Vec<StepTime>,
    failure: Option<Failure>,
}

impl Board {
    fn run_lane(&self, lane: &[Step<'_>]) {
        for step in lane {
            if !self.wait_for(step.needs) {
                return;
            }
            println!("{} begins", step.name);
            let begun = Instant::now();
            let mut output = String::new();
            let result = (step.action)(&mut |line| {
                println!("{} | {line}", step.name);
                output += line;
                output.push('\n');
            });
            let time = begun.elapsed();
            match result {
                Ok(()) => println!("{}: {}", step.name, minutes_and_seconds(time)),
                Err(_) => println!("\n{} FAILED. Its output:\n\n{output}", step.name),
            }
            self.record(step, time, result);
        }
    }

    /// Blocks until the named steps have passed. Returns false if a step failed.
    fn wait_for(&self, needs: &[&str]) -> bool {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |progress: &mut Progress| {
            progress.failure.is_none() && !needs.iter().all(|name| progress.passed.contains(name))
        };
        let progress = self.changed.wait_while(progress, waits).unwrap_or_else(PoisonError::into_inner);
        progress.failure.is_none()
    }

    fn record(&self, step: &Step<'_>, time: Duration, result: Result<(), Failure>) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(()) => {
                progress.passed.insert(step.name);
                progress.times.push(StepTime { name: step.name, time });
            }
            Err(failure) => {
                let failure = Failure::new(format!("step `{}` failed: {}", step.name, failure.fact()))
                    .hint(format!("repeat it with `{}`", step.repeat));
                progress.failure.get_or_insert(failure);
            }
        }
        self.changed.notify_all();
    }
}

/// `1.4 s`, `12 min 05 s`.
pub(crate) fn minutes_and_seconds(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step<'a>(
        name: &'static str,
        needs: &'static [&'static str],
        action: impl Fn() -> Result<(), Failure> + Sync + 'a,
    ) -> Step<'a> {
        Step { name, needs, repeat: format!("repeat {name}"), action: Box::new(move |_| action()) }
    }

    #[test]
    fn a_step_begins_when_what_it_needs_has_passed() {
        let order = Mutex::new(Vec::new());
        let note = |name: &'static str| {
            let order = &order;
            move || {
                order.lock().unwrap().push(name);
                Ok(())
            }
        };
        let lanes = [
            vec![step("tests", &["build", "install"], note("tests"))],
            vec![step("install", &["build"], note("install"))],
            vec![step("build", &[], note("build"))],
        ];
        assert!(run(&lanes).is_ok_and(|times| times.len() == 3));
        assert_eq!(*order.lock().unwrap(), ["build", "install", "tests"]);
    }

    #[test]
    fn a_failure_ends_every_lane_and_says_how_to_repeat_the_step() {
        let lanes = [
            vec![step("tests", &["build"], || panic!("begun though the build failed"))],
            vec![
                step("build", &[], || Err(Failure::new("no linker"))),
                step("kills", &[], || panic!("begun after a failure")),
            ],
        ];
        let expected = Failure::new("step `build` failed: no linker").hint("repeat it with `repeat build`");
        assert_eq!(run(&lanes), Err(expected));
    }

    #[test]
    fn times_are_written_in_the_unit_that_one_would_use() {
        assert_eq!(minutes_and_seconds(Duration::from_millis(1_440)), "1.4 s");
        assert_eq!(minutes_and_seconds(Duration::from_secs(725)), "12 min 05 s");
    }
}
