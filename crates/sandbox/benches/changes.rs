//! `cargo xtask bench changes [--files N] [--rounds N]`: applying 1000 one-line edits, durably, beside `git
//! apply`.
//!
//! Ours is the journal from its first byte to the moment that it is put away: when it says so, the edits
//! survive a loss of power. The peer is `git apply` of the same edits as it is, which survives nothing; then
//! with one `syncfs`, which is what ours does; then with an `fdatasync` of each file. Wall milliseconds,
//! medians, ours and the peers in turns, apply and undo in turns. The recording of changes is the store's
//! part of this benchmark.
//!
//! # Fairness
//! Ours runs in this process; that git has to be started (about a millisecond) is a part of how it is used.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "support/requests.rs"]
mod requests;

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::journal::{JournalId, JournalKind};
use testkit::bench_row::{Better, median, option, row};
use testkit::trees::{BenchTree, PlantedFile, line, text};

/// What is done to a peer's files after it has written them.
#[derive(Clone, Copy)]
enum Synced {
    No,
    AtOnce,
    OneByOne,
}

impl Synced {
    const ALL: [Synced; 3] = [Synced::No, Synced::AtOnce, Synced::OneByOne];

    fn peer(self) -> &'static str {
        match self {
            Synced::No => "git-apply",
            Synced::AtOnce => "git-apply+syncfs",
            Synced::OneByOne => "git-apply+fdatasync",
        }
    }
}

fn main() {
    let (files, rounds) = (option("--files", 1000), option("--rounds", 15));
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = one_line_edits(files);
    for project in ["ours", "gits"] {
        testkit::trees::plant(&dir.path().join(project), &before);
    }
    testkit::trees::write_patch(dir.path(), &before, &after, &dir.path().join("patch"));
    let mut sides = [&before, &after];
    let mut parts: [Vec<f64>; 3] = Default::default();
    let (mut ours, mut peers): (Vec<f64>, [Vec<f64>; 3]) = Default::default();
    for round in 0..rounds {
        for (at, synced) in Synced::ALL.into_iter().enumerate() {
            let number = round * Synced::ALL.len() + at;
            let took = apply(dir.path(), number, sides);
            assert_eq!(read(&dir.path().join("ours"), files), *sides[1]);
            ours.push(ms(took.iter().sum()));
            parts.iter_mut().zip(took).for_each(|(part, took)| part.push(ms(took)));
            peers[at].push(ms(git_apply(dir.path(), number % 2 == 1, synced, sides[1])));
            assert_eq!(read(&dir.path().join("gits"), files), *sides[1]);
            sides.reverse();
        }
    }
    let [prepare, commit, carry_out] = parts.map(|part| median(&part));
    println!(
        "of ours: {prepare:.1} ms journal, {commit:.1} ms commit, {carry_out:.1} ms files, sync and end\n"
    );
    for (synced, peer) in Synced::ALL.into_iter().zip(&peers) {
        let name = format!("apply_{files}_edits");
        println!("{}", row(&name, synced.peer(), median(&ours), median(peer), Better::Less, "ms"));
    }
}

/// So many files with 20 lines each, one line of each edited.
fn one_line_edits(files: usize) -> (BenchTree, BenchTree) {
    let path = |file: usize| format!("src/d{:03}/f{file:05}.txt", file / 25);
    let (mut before, mut after) = (BenchTree::new(), BenchTree::new());
    for file in 0..files {
        let old = text(file, 20);
        let new = old.replacen(&line(file, 9, "line"), &line(file, 9, "LINE"), 1);
        before.insert(path(file), PlantedFile { bytes: old.into_bytes(), mode: 0o644 });
        after.insert(path(file), PlantedFile { bytes: new.into_bytes(), mode: 0o644 });
    }
    (before, after)
}

/// Journal; commit; files, sync and end.
fn apply(dir: &Path, number: usize, [from, to]: [&BenchTree; 2]) -> [Duration; 3] {
    let journals = requests::journals(&dir.join("data"));
    let id = JournalId::from_u128(number as u128 + 1);
    let request = requests::request(id, JournalKind::Apply, &dir.join("ours"), requests::changes(from, to));
    settle(dir);
    let start = Instant::now();
    let prepared = journals.prepare(request, &requests::EmptyContentSource).unwrap();
    let written = start.elapsed();
    let committed = prepared.commit().unwrap();
    let sealed = start.elapsed();
    committed.carry_out().unwrap().retire().unwrap();
    let done = start.elapsed();
    journals.forget_undo(id).unwrap();
    [written, sealed - written, done - sealed]
}

fn git_apply(dir: &Path, reverse: bool, synced: Synced, to: &BenchTree) -> Duration {
    let root = dir.join("gits");
    let mut command = testkit::trees::git(&root);
    command.args(["apply", "-p2"]).args(reverse.then_some("-R")).arg("../patch");
    settle(dir);
    let start = Instant::now();
    assert!(command.status().unwrap().success());
    match synced {
        Synced::No => {}
        Synced::AtOnce => rustix::fs::syncfs(File::open(&root).unwrap()).unwrap(),
        Synced::OneByOne => {
            to.keys().for_each(|path| File::open(root.join(path)).unwrap().sync_data().unwrap());
        }
    }
    start.elapsed()
}

/// What others have written is not to be waited for.
fn settle(dir: &Path) {
    rustix::fs::syncfs(File::open(dir).unwrap()).unwrap();
}

/// The tree that lies there, of which no file is new or gone.
fn read(root: &Path, files: usize) -> BenchTree {
    let (mut tree, _) = one_line_edits(files);
    tree.iter_mut().for_each(|(path, file)| file.bytes = fs::read(root.join(path)).unwrap());
    tree
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
