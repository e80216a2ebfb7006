//! `cargo xtask soak [--plans N] [--kills N] [--seed N]`: many plans, many workers, and workers killed at
//! random.
//!
//! 4 worker processes of 4 workers each work on N short plans that edit files, with tools and with commands.
//! Whole processes are killed with `kill -9` at random moments, spread over the run, and started again at
//! once. In the end: every plan is complete and was told as ended at most once, its diff is exactly what its
//! steps make when each is done once, and no sandbox, mount, process or lock is left, which `agents doctor`
//! finds too.
//!
//! # Invariants
//! 1. Which worker is killed and when, counted in plans that ended and a pause, depends on the seed only.
//! 2. What is wrong is printed, all of it, and the program fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

mod kinds;
mod left;
#[path = "../support/program.rs"]
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use kinds::Kind;
use program::{News, Program, Worker};
use testkit::bench_row::option;
use testkit::moments::{Dice, DurationSpan};

const PROCESSES: usize = 4;
const WORKERS_EACH: usize = 4;
/// Plans that one command makes.
const BATCH: usize = 25;
/// A kill comes within this time after the plan that it waits for.
const KILL_WITHIN: Duration = Duration::from_millis(60);
/// After so long without news it is asked whether anything is left to do.
const QUIET: Duration = Duration::from_millis(500);
/// More than anybody soaks with.
const LIST_MAX: &str = "1000000";
/// After so long without news something is stuck.
const STUCK: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let (plans, kills) = (option("--plans", 2000), option("--kills", 50));
    let seed = option("--seed", testkit::moments::fresh_seed());
    println!(
        "{plans} plans, {PROCESSES} processes of {WORKERS_EACH} workers, {kills} kills; again with --seed {seed}"
    );
    let start = Instant::now();
    let program = Program::new(PROCESSES * WORKERS_EACH, &kinds::FILES);
    let mut soak = Soak::new(&program, Dice::new(seed as u64));
    let made = soak.submit(plans);
    soak.work(plans, kills);
    let resumed = soak.resume();
    let seconds = start.elapsed().as_secs_f64();
    println!("all ended after {seconds:.1} s; {} kills met {} running jobs", soak.kills, soak.met);
    println!("{resumed} plans were put aside since their workers died too often, and were resumed");
    let mut wrong = Vec::new();
    if soak.kills < kills {
        wrong.push(format!("all ended before the last {} kills", kills - soak.kills));
    }
    wrong.extend(soak.finish());
    wrong.extend(plans_wrong(&program, &made));
    wrong.extend(left::over(&program));
    wrong.iter().for_each(|what| println!("wrong: {what}"));
    println!("{} wrong after {:.1} s", wrong.len(), start.elapsed().as_secs_f64());
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The workers, and what they told.
struct Soak<'p> {
    program: &'p Program,
    dice: Dice,
    workers: Vec<Worker>,
    tell: Sender<News>,
    news: Receiver<News>,
    /// How often each plan was told as ended.
    ended: BTreeMap<String, usize>,
    /// What each worker has claimed and not told as ended.
    running: BTreeMap<u32, BTreeSet<String>>,
    wrong: Vec<String>,
    kills: usize,
    met: usize,
}

impl<'p> Soak<'p> {
    fn new(program: &'p Program, dice: Dice) -> Soak<'p> {
        let (tell, news) = channel();
        let workers: Vec<Worker> = (0..PROCESSES).map(|_| program.worker(WORKERS_EACH, &tell)).collect();
        let mut soak = Soak {
            program,
            dice,
            workers,
            tell,
            news,
            ended: BTreeMap::new(),
            running: BTreeMap::new(),
            wrong: Vec::new(),
            kills: 0,
            met: 0,
        };
        let mut ready = 0;
        while ready < PROCESSES {
            let news = soak.news.recv_timeout(STUCK).expect("the workers do not start");
            ready += usize::from(news.is("ready"));
            soak.take(&news);
        }
        soak
    }

    /// The plans with their kind and item.
    fn submit(&self, plans: usize) -> Vec<(String, Kind, String)> {
        let mut made = Vec::new();
        for (batch, first) in (0..plans).step_by(BATCH).enumerate() {
            let kind = Kind::ALL[batch % Kind::ALL.len()];
            let items: Vec<String> =
                (first..plans.min(first + BATCH)).map(|item| format!("item{item}")).collect();
            let ids = self.program.submit(kind.actor(), &items);
            made.extend(ids.into_iter().zip(items).map(|(id, item)| (id, kind, item)));
        }
        made
    }

    /// Until no job is left, with kills spread over the plans that end.
    fn work(&mut self, plans: usize, kills: usize) {
        let pause = DurationSpan::new(KILL_WITHIN);
        let mut last = Instant::now();
        loop {
            match self.news.recv_timeout(QUIET) {
                Ok(news) => {
                    last = news.at;
                    self.take(&news);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let jobs = &self.program.answer(&["job", "list"])["jobs"];
                    if jobs.as_array().is_some_and(Vec::is_empty) {
                        return;
                    }
                    assert!(last.elapsed() < STUCK, "nothing happens any more, and there is to do: {jobs}");
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Spread over nine tenths of them: some are never told as ended, when their worker is killed first.
            let due = self.ended.len() * (kills + 1) * 10 / (plans * 9).max(1);
            if self.kills < kills.min(due) {
                std::thread::sleep(pause.draw(&mut self.dice));
                self.kill_one();
            }
        }
    }

    fn take(&mut self, news: &News) {
        let running = self.running.entry(news.worker).or_default();
        if news.is("claimed") {
            running.insert(news.plan().to_owned());
        } else if news.is("finished") {
            running.remove(news.plan());
            if news.how() == "succeeded" {
                *self.ended.entry(news.plan().to_owned()).or_default() += 1;
            } else {
                self.wrong.push(format!("not how a job should end: {}", news.told));
            }
        } else if !["ready", "freed", "draining"].iter().any(|event| news.is(event)) {
            self.wrong.push(format!("not what a worker should tell: {}", news.told));
        }
    }

    fn kill_one(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take(&news);
        }
        let chosen = (0..PROCESSES - 1).find(|_| self.dice.one_in(PROCESSES as u64)).unwrap_or(PROCESSES - 1);
        let worker = &mut self.workers[chosen];
        self.met += self.running.get(&worker.id()).map_or(0, BTreeSet::len);
        worker.kill();
        *worker = self.program.worker(WORKERS_EACH, &self.tell);
        self.kills += 1;
    }

    /// Resumes what nobody takes any more since too many workers died of it: here it was not its fault.
    fn resume(&mut self) -> usize {
        let errored = states(self.program, "errored");
        for plan in &errored {
            let error = self.program.answer(&["plan", "status", plan])["error"].take();
            // Anything else is told in the end.
            if error["message"].as_str().is_some_and(|message| message.starts_with("its worker died ")) {
                self.program.answer(&["plan", "resume", plan, "--detach"]);
            }
        }
        self.work(1, 0);
        errored.len()
    }

    /// Stops the workers; what was wrong with them.
    fn finish(mut self) -> Vec<String> {
        for worker in std::mem::take(&mut self.workers) {
            let id = worker.id();
            let status = worker.stop();
            if !status.success() {
                self.wrong.push(format!("worker {id} ended with {status}"));
            }
        }
        while let Ok(news) = self.news.recv_timeout(QUIET) {
            self.take(&news);
        }
        let twice = self.ended.iter().filter(|&(_, &times)| times > 1);
        self.wrong.extend(twice.map(|(plan, times)| format!("plan {plan} ended {times} times")));
        self.wrong
    }
}

/// The plans in this state.
fn states(program: &Program, state: &str) -> BTreeSet<String> {
    let list = program.answer(&["plan", "list", "--phase", "execute", "--state", state, "--limit", LIST_MAX]);
    let plans = list["plans"].as_array().unwrap();
    plans.iter().map(|plan| plan["plan_id"].as_str().unwrap().to_owned()).collect()
}

/// Plans that are not complete, or changed something else than they should have.
fn plans_wrong(program: &Program, made: &[(String, Kind, String)]) -> Vec<String> {
    let complete = states(program, "complete");
    let check = |(plan, kind, item): &(String, Kind, String)| {
        if !complete.contains(plan) {
            let status = program.answer(&["plan", "status", plan]);
            let (phase, state, error) = (&status["phase"], &status["state"], &status["error"]);
            return Some(format!("plan {plan} ({kind:?}) is {phase} {state}: {error}"));
        }
        let told = kinds::told(&program.answer(&["plan", "diff", plan]));
        let expected = kind.changes(item);
        let what = || format!("plan {plan} ({kind:?}) changed {told:?} instead of {expected:?}");
        (told != expected).then(what)
    };
    std::thread::scope(|scope| {
        let shares = made.chunks(made.len().div_ceil(PROCESSES).max(1));
        let threads: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().filter_map(check).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
