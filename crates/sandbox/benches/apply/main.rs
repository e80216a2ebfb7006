//! `cargo xtask bench apply [--runs N] [--files N] [--seed N]`: applies and undos that are killed, beside
//! `git apply`.
//!
//! A child process applies a change of 1000 files through the journal, or undoes it, and is killed with `kill
//! -9` at a moment drawn at random: a third of them over its whole life, the others over the time between its
//! commit and its end, since that is where something can be torn. Some recoveries are killed too, and then
//! the recovery of those. After the last recovery every file is read: all are as before or all are as asked,
//! with their modes, their inodes and their links, and nothing else lies beside them. In between, `git apply`
//! of the same patch is killed in the same way.
//!
//! Ends with an error when anything was torn or lost, and when a full run did not reach the moments that it
//! is about.
//!
//! # Not here
//! Power loss (the tests of the journal), and the whole program (`crates/app/benches/apply.rs`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../support/requests.rs"]
mod requests;

mod child;
mod kills;

use std::process::ExitCode;

use kills::Kills;
use testkit::bench_row::{Better, option, row};
use testkit::git_peer::GitPeer;
use testkit::judge::Kind;
use testkit::moments::Dice;

/// One in so many turns is git's.
const GIT_EVERY: usize = 8;
/// From so many runs on it is an error not to have met the moments.
const FULL_RUNS: usize = 100;

fn main() -> ExitCode {
    if child::acted() {
        return ExitCode::SUCCESS;
    }
    let (runs, files) = (option("--runs", 1000), option("--files", 1000));
    let seed = option("--seed", testkit::moments::fresh_seed());
    println!("{runs} applies and {runs} undos of {files} files, killed; again with --seed {seed}");
    let mut dice = Dice::new(seed as u64);
    let mut kills = Kills::new(files, &mut dice);
    let mut git = GitPeer::new(files);
    for turn in 1_usize.. {
        if kills.are_enough(runs) {
            break;
        }
        kills.turn(runs, &mut dice);
        if turn.is_multiple_of(GIT_EVERY) {
            git.turn(&mut dice);
        }
    }
    kills.print();
    git.print();
    println!();
    let mut fine = true;
    for (kind, name) in [(Kind::Apply, "apply_killed"), (Kind::Undo, "undo_killed")] {
        let (ours, peer) = (kills.torn_share(kind), git.torn_share(kind));
        println!("{}", row(name, testkit::git_peer::name(kind), ours, peer, Better::Less, "torn_share"));
        fine &= kills.nothing_torn_or_lost(kind) && (runs < FULL_RUNS || kills.met_enough(kind, runs));
    }
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
