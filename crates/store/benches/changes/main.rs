//! `cargo xtask bench changes [--rounds N]`: how fast changes are recorded, beside the bare statements.
//!
//! Ours goes through the ports as the engine does: a call is admitted, then ended with its changes and their
//! contents in one transaction; or changes are recorded one by one from eight tasks at a time, and share
//! commits. The peer is `rusqlite` alone: the very statements with the very values that the store wrote in a
//! run of the same work, in the same transactions, on a file of the same tables with the same settings. So
//! the ratio says what lanes, fences, answers and checks cost; hashing is done before, on both sides. Entries
//! per second of wall time, medians, in turns. Applying is the sandbox's part of this benchmark.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

mod statements;
mod traced;
mod work;

use std::time::Instant;

use statements::Statements;
use testkit::bench_row::{Better, median, option, row};
use work::{Owned, Work};

fn main() {
    let rounds = option("--rounds", 9);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut rows = Vec::new();
    for work in Work::ALL {
        let statements = runtime.block_on(recorded(work));
        println!(
            "{}: {} statements in {} transactions for {} entries",
            work.name(),
            statements.timed(),
            statements.transactions(),
            work.entries()
        );
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(work.entries() as f64 / runtime.block_on(measured(work)));
            peer.push(work.entries() as f64 / statements.replay());
        }
        rows.push(row(work.name(), "rusqlite", median(&ours), median(&peer), Better::More, "entries_per_s"));
    }
    println!();
    rows.iter().for_each(|row| println!("{row}"));
}

/// Seconds that the work took on a fresh store.
async fn measured(work: Work) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let owned = Owned::new(dir.path()).await;
    owned.begin().await;
    let prepared = owned.prepare(work);
    let start = Instant::now();
    owned.run(prepared).await;
    start.elapsed().as_secs_f64()
}

/// The statements of the store in the same work.
async fn recorded(work: Work) -> Statements {
    let dir = tempfile::tempdir().unwrap();
    let listening = traced::Listening::start();
    let owned = Owned::new(dir.path()).await;
    listening.forget();
    owned.begin().await;
    let begun = listening.heard();
    owned.run(owned.prepare(work)).await;
    Statements::new(listening.end(), begun)
}
