//! `cargo xtask bench sandbox [--files N] [--rounds N] [--old PATH [--turns N]]`: what a sandbox and a
//! capture cost, beside git and cp.
//!
//! Two repositories, one of 6,500 files and one ten times as large. Set-ups are wall milliseconds, captures
//! are CPU milliseconds of this process and its children; every value is a median, ours and the peer take
//! turns. What is about overlays is measured as root and once more as an ordinary user, who needs a user
//! namespace for it.
//!
//! With `--old` the peer is an older build of this benchmark, at that path. Both run in turns, and ours may
//! take at most 1.1 times as long.
//!
//! # Fairness
//! Everything is warm. Nothing that was made is removed before the end, and what others have removed is
//! waited for: ext4 is slow at making files after many were removed, for half a minute. The repository is
//! packed, so that `cp -a` does not copy thousands of loose objects. The shadow repository of the peer has
//! seen the whole tree before, so that it finds one changed file by its index.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

mod capture;
mod copies;
mod cpu;
mod overlays;
mod project;
mod quiet;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use project::BenchProjects;
use testkit::bench_row::{Better, Targets, median, old_program, option};

/// The first word of the process that is an ordinary user's.
const AS_USER: &str = "__as_user";
/// Nobody in particular.
const USER: u32 = 65534;
/// How many times as long as the older build ours may take.
const OLD_TIMES_MAX: f64 = 1.1;

fn main() -> ExitCode {
    sandbox::dispatch();
    let (files, rounds) = (option("--files", 6500), option("--rounds", 7));
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, dir, ..] = &words[..]
        && word == AS_USER
    {
        let projects = BenchProjects::at(Path::new(dir), "user", files);
        overlays::measure(&projects, rounds).iter().for_each(|row| println!("{row}"));
        return ExitCode::SUCCESS;
    }
    if let Some(old) = old_program() {
        beside_old(&old, files, rounds);
        return ExitCode::SUCCESS;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let projects = BenchProjects::make(dir.path(), if is_root { "root" } else { "user" }, files);
    quiet::wait(&projects.dir);
    let mut rows = overlays::measure(&projects, rounds);
    let (of_copies, copies) = copies::measure(&projects, rounds);
    rows.extend(of_copies);
    rows.extend(capture::measure(&projects, rounds));
    if is_root {
        rows.extend(as_user(&projects, rounds));
    } else {
        println!("not root: only what an ordinary user sees was measured");
    }
    drop(copies);
    println!();
    rows.iter().for_each(|row| println!("{row}"));
    ExitCode::SUCCESS
}

/// Runs this benchmark and an older build of it in turns.
fn beside_old(old: &Path, files: usize, rounds: usize) {
    let programs = [std::env::current_exe().unwrap(), old.to_owned()];
    let mut measured: [BTreeMap<String, Vec<f64>>; 2] = Default::default();
    for turn in 0..option("--turns", 3) {
        for side in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let mut command = Command::new(&programs[side]);
            command.args(["--files", &files.to_string(), "--rounds", &rounds.to_string()]);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            for (name, ours) in String::from_utf8_lossy(&output.stdout).lines().filter_map(own_value) {
                measured[side].entry(name).or_default().push(ours);
            }
        }
    }
    let [ours, olds] = measured;
    let mut targets = Targets::default();
    for (name, ours) in &ours {
        let Some(old) = olds.get(name) else { continue };
        targets.ratio(name, "old", [median(ours), median(old)], Better::Less, "ms", 1.0 / OLD_TIMES_MAX);
    }
    targets.check();
}

/// The name of a row, and what ours took.
fn own_value(line: &str) -> Option<(String, f64)> {
    let mut words = line.strip_prefix("bench ")?.split(' ');
    let name = words.next()?.split('/').next()?.to_owned();
    Some((name, words.next()?.strip_prefix("ours=")?.parse().ok()?))
}

/// Gives the projects to an ordinary user, and lets that user measure.
fn as_user(projects: &BenchProjects, rounds: usize) -> Vec<String> {
    let (dir, files) = (&projects.dir, projects.small.files);
    lchown(dir, Some(USER), Some(USER)).unwrap();
    [&projects.small, &projects.large].iter().for_each(|project| give(&project.path));
    // The directory that this program was built in need not be that user's to read.
    let program = dir.join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command.arg(AS_USER).arg(dir).args(["--files", &files.to_string(), "--rounds", &rounds.to_string()]);
    command.current_dir(dir).env("HOME", dir).env("TMPDIR", dir).uid(USER).gid(USER);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        println!("as an ordinary user it failed: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    let (rows, notes): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with("bench "));
    notes.iter().for_each(|note| println!("{note}"));
    rows.into_iter().map(str::to_owned).collect()
}

fn give(path: &Path) {
    lchown(path, Some(USER), Some(USER)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}
