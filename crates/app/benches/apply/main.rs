//! `cargo xtask bench apply [--runs N] [--files N] [--kills N] [--seed N]`: the program itself, killed while
//! it works.
//!
//! First it is struck at single system calls: 44 shapes of changes (`shapes`), 2000 kills in apply, undo,
//! recovery and capture, and errors of the system among them (`strikes`). No tree may be anything but before
//! or after.
//!
//! Then a plan that changes 1000 files is applied with `agents plan apply --yes` and taken back with `agents
//! plan undo --yes`, and each of them is killed with `kill -9`: a third at a moment drawn over its whole
//! life, the others after its journal was begun. So are some of the commands after it, which recover first of
//! all. Then the files are read and the plan is asked for: both are wholly applied or wholly not, and they
//! agree. Every fortieth of `--runs` is done here; the many are done by the sandbox's part of this benchmark,
//! without the program around the journal.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

mod program;
mod shapes;
mod strikes;

use std::collections::BTreeMap;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use program::Program;
use testkit::bench_row::{Better, option, row};
use testkit::git_peer::GitPeer;
use testkit::journal_marks::ReachedMark;
use testkit::judge::{Kind, TreeSide};
use testkit::moments::{Dice, DurationSpan, wait};

/// One in so many of all runs is one of the whole program.
const SHARE: usize = 40;
/// One in so many kills is drawn over the whole life of the process.
const WHOLE_LIFE_EVERY: u64 = 3;
/// One in so many recoveries is killed.
const RECOVERY_EVERY: u64 = 2;
/// How often it is looked whether a journal was begun.
const LOOK_EVERY: Duration = Duration::from_micros(100);

fn main() -> ExitCode {
    let (runs, files) = (option("--runs", 1000).div_ceil(SHARE), option("--files", 1000));
    let seed = option("--seed", testkit::moments::fresh_seed());
    let kills = option("--kills", 2000);
    println!("{kills} kills at system calls; again with --seed {seed}");
    let struck = strikes::run(kills, seed as u64);
    if struck != ExitCode::SUCCESS || runs == 0 {
        return struck;
    }
    println!("{runs} × `agents plan apply` and `undo` of {files} files, killed; again with --seed {seed}");
    let mut dice = Dice::new(seed as u64);
    let program = Program::new(files);
    let mut side = TreeSide::Before;
    let mut spans = BTreeMap::new();
    for kind in Kind::ALL {
        let start = Instant::now();
        program.must(kind);
        let whole = start.elapsed();
        println!("a whole {}: {:.1} ms", kind.word(), whole.as_secs_f64() * 1000.0);
        // What is shorter than the whole is found out by the kills.
        spans.insert(kind, [whole, whole / 2, whole / 2].map(DurationSpan::new));
    }
    let mut git = GitPeer::new(files);
    let mut tally = Tally::default();
    while tally.runs() < 2 * runs {
        git.turn(&mut dice);
        let kind = Kind::from(side);
        let [whole, to_done, recovery] = spans.get_mut(&kind).unwrap();
        let reached = if dice.one_in(WHOLE_LIFE_EVERY) {
            kill_over_its_life(&program, kind, whole, &mut dice)
        } else {
            kill_after_its_journal(&program, kind, to_done, &mut dice)
        };
        tally.count(kind, reached);
        if reached >= ReachedMark::Commit && dice.one_in(RECOVERY_EVERY) {
            tally.in_recovery += usize::from(kill_recovery(&program, recovery, &mut dice));
        }
        match program.stands(kind, reached) {
            Ok(now) => side = now,
            Err(why) => {
                tally.wrong.push(format!("{} killed, {}: {why}", kind.word(), reached.words()));
                break;
            }
        }
    }
    git.print();
    tally.print(&git)
}

/// Kills it at any time; how far its journal came.
fn kill_over_its_life(
    program: &Program,
    kind: Kind,
    whole: &mut DurationSpan,
    dice: &mut Dice,
) -> ReachedMark {
    let start = Instant::now();
    let mut process = program.start(kind);
    let ended = wait(&mut process, start, whole.draw(dice));
    whole.learn(ended);
    kill(&mut process);
    program.open_journal()
}

/// Kills it at a time after its journal was begun, aiming at the writes between commit and done mark.
fn kill_after_its_journal(
    program: &Program,
    kind: Kind,
    to_done: &mut DurationSpan,
    dice: &mut Dice,
) -> ReachedMark {
    let mut process = program.start(kind);
    while !program.has_open_journal() && process.try_wait().unwrap().is_none() {
        std::thread::sleep(LOOK_EVERY);
    }
    wait(&mut process, Instant::now(), to_done.draw(dice));
    kill(&mut process);
    let reached = program.open_journal();
    to_done.aim(matches!(reached, ReachedMark::Journal | ReachedMark::Commit));
    reached
}

/// Kills a command that recovers; whether it had still to do.
fn kill_recovery(program: &Program, recovery: &mut DurationSpan, dice: &mut Dice) -> bool {
    let start = Instant::now();
    let mut process = program.start_reading();
    wait(&mut process, start, recovery.draw(dice));
    kill(&mut process);
    let met = program.has_open_journal();
    recovery.aim(met);
    met
}

fn kill(process: &mut Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

#[derive(Default)]
struct Tally {
    killed: BTreeMap<Kind, usize>,
    reached: BTreeMap<ReachedMark, usize>,
    in_recovery: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn count(&mut self, kind: Kind, reached: ReachedMark) {
        *self.killed.entry(kind).or_default() += 1;
        *self.reached.entry(reached).or_default() += 1;
    }

    fn runs(&self) -> usize {
        self.killed.values().sum()
    }

    fn print(&self, git: &GitPeer) -> ExitCode {
        println!();
        for (kind, count) in &self.killed {
            println!("killed in {}: {count}", kind.word());
        }
        for (reached, count) in &self.reached {
            let words = match reached {
                ReachedMark::Nothing => "without an open journal",
                ReachedMark::Journal | ReachedMark::Commit | ReachedMark::Done | ReachedMark::Retired => {
                    reached.words()
                }
            };
            println!("  {words:<32} {count:>5}");
        }
        println!("killed in a recovery: {}", self.in_recovery);
        self.wrong.iter().for_each(|what| println!("wrong: {what}"));
        println!();
        let ours = self.wrong.len() as f64 / self.runs().max(1) as f64;
        println!(
            "{}",
            row(
                "agents_killed",
                testkit::git_peer::name(Kind::Apply),
                ours,
                git.torn_share(Kind::Apply),
                Better::Less,
                "torn_share"
            )
        );
        if self.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
