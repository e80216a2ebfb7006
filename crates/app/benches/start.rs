//! `cargo xtask bench start [--runs N] [--old PATH]`: how long the program takes to start and how large it
//! is, beside Codex and ripgrep; or beside an older build of itself.
//!
//! Wall milliseconds from the start of the process to its end, medians, all programs in turns. Ours is the
//! binary as users get it, without symbols. The peers are installed with the ordinary clients below the
//! target directory when they are not there yet; one that cannot be had is named, and its rows are left out.
//! Codex is measured without the script of its package that starts the real program.
//!
//! With `--old` the peer is the program at that path: starting, listing plans, and `run -- true`, in a
//! repository of one file and on a copy of `examples/sample`, whose check runs too (the user trusts it). Both
//! take turns, the one that begins changes with each turn, and each has its own store. It fails if ours takes
//! more than 1.15 times as long.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "support/alone.rs"]
mod alone;
#[path = "support/peers.rs"]
mod peers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use testkit::bench_row::{Better, Targets, median, old_program, option, row};

/// So many plans are listed.
const PLANS: usize = 20;
const MB: f64 = 1_000_000.0;
/// How many times as long as the older program ours may take.
const OLD_TIMES_MAX: f64 = 1.15;

/// A program and what it is asked for.
struct Started {
    name: &'static str,
    program: PathBuf,
    words: Vec<String>,
    dir: PathBuf,
    home: PathBuf,
    times: Vec<f64>,
}

impl Started {
    fn run(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(&self.words).current_dir(&self.dir);
        command.env("HOME", &self.home).env("CODEX_HOME", &self.home).env("XDG_CONFIG_HOME", &self.home);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let status = command.status().unwrap();
        self.times.push(start.elapsed().as_secs_f64() * 1000.0);
        assert!(status.success(), "{}: {status}", self.name);
    }
}

fn main() {
    let runs = option("--runs", 300);
    let dir = tempfile::tempdir().unwrap();
    let agents = without_symbols(dir.path());
    if let Some(old) = old_program() {
        return beside_old(&agents, &old, dir.path(), runs);
    }
    let codex = peers::tell("Codex", peers::codex());
    let ripgrep = peers::tell("ripgrep", peers::ripgrep());
    make_plans(&agents, dir.path());
    let started = |name, program: &Path, words: &[&str]| Started {
        name,
        program: program.to_owned(),
        words: words.iter().map(|&word| word.to_owned()).collect(),
        dir: dir.path().to_owned(),
        home: dir.path().to_owned(),
        times: Vec::new(),
    };
    let data = dir.path().join("data");
    let list = ["--data-dir", data.to_str().unwrap(), "plan", "list"];
    let mut ours =
        [started("start_version", &agents, &["--version"]), started("start_plan_list", &agents, &list)];
    let mut peers: Vec<Started> =
        codex.iter().map(|program| started("codex", program, &["--version"])).collect();
    peers.extend(ripgrep.iter().map(|program| started("rg", program, &["--version"])));
    // The first start reads the file from the disk, and is not counted.
    for run in 0..=runs {
        for one in ours.iter_mut().chain(&mut peers) {
            one.run();
            if run == 0 {
                one.times.clear();
            }
        }
    }
    let mut rows = Vec::new();
    for ours in &ours {
        println!("{}: {:.2} ms", ours.name, median(&ours.times));
        for peer in &peers {
            rows.push(row(
                ours.name,
                peer.name,
                median(&ours.times),
                median(&peer.times),
                Better::Less,
                "ms",
            ));
        }
    }
    let size = |path: &Path| fs::metadata(path).unwrap().len() as f64 / MB;
    println!("binary_size: {:.1} MB", size(&agents));
    for peer in &peers {
        rows.push(row("binary_size", peer.name, size(&agents), size(&peer.program), Better::Less, "MB"));
    }
    println!();
    rows.iter().for_each(|row| println!("{row}"));
}

/// Ours and an older program in turns.
fn beside_old(agents: &Path, old: &Path, dir: &Path, runs: usize) {
    let mut ours = starts_of(agents, &dir.join("new"), true);
    let mut olds = starts_of(old, &dir.join("old"), false);
    for run in 0..=runs {
        for (ours, old) in ours.iter_mut().zip(&mut olds) {
            let turn = if run % 2 == 0 { [&mut *ours, &mut *old] } else { [&mut *old, &mut *ours] };
            for one in turn {
                one.run();
                if run == 0 {
                    one.times.clear();
                }
            }
        }
    }
    let mut targets = Targets::default();
    for (ours, old) in ours.iter().zip(&olds) {
        let medians = [median(&ours.times), median(&old.times)];
        targets.ratio(ours.name, "old", medians, Better::Less, "ms", 1.0 / OLD_TIMES_MAX);
    }
    targets.check();
}

/// What is asked of a program, with a store and projects of its own below `dir`.
fn starts_of(program: &Path, dir: &Path, has_trust: bool) -> Vec<Started> {
    fs::create_dir(dir).unwrap();
    make_plans(program, dir);
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sample");
    must(Command::new("cp").arg("-r").arg(sample).arg(dir));
    let [plain, sample] = ["project", "sample"].map(|name| dir.join(name));
    for project in [&plain, &sample] {
        for words in [
            &["init", "--quiet"][..],
            &["add", "."],
            &["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "a"],
        ] {
            must(Command::new("git").args(words).current_dir(project).env("HOME", dir));
        }
    }
    let data = dir.join("data");
    let started = |name, words: &[&str], project: &Path| Started {
        name,
        program: program.to_owned(),
        words: ["--data-dir", data.to_str().unwrap()]
            .iter()
            .chain(words)
            .map(|&word| word.to_owned())
            .collect(),
        dir: project.to_owned(),
        home: dir.to_owned(),
        times: Vec::new(),
    };
    if has_trust {
        started("trust", &["trust"], &sample).run();
    }
    vec![
        started("start_version", &["--version"], &plain),
        started("start_plan_list", &["plan", "list"], &plain),
        started("run_true", &["run", "--", "true"], &plain),
        started("run_true_sample", &["run", "--", "true"], &sample),
    ]
}

fn must(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// The program as users get it.
fn without_symbols(dir: &Path) -> PathBuf {
    let (built, stripped) = (env!("CARGO_BIN_EXE_agents"), dir.join("agents"));
    let done = Command::new("strip").arg("-o").arg(&stripped).arg(built).status();
    if !done.is_ok_and(|status| status.success()) {
        println!("there is no `strip`: ours is measured with its symbols");
        fs::copy(built, &stripped).unwrap();
    }
    stripped
}

/// Some plans, so that there is something to list.
fn make_plans(agents: &Path, dir: &Path) {
    let project = dir.join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("file"), "one\n").unwrap();
    for _ in 0..PLANS {
        let mut command = Command::new(agents);
        command.arg("--data-dir").arg(dir.join("data")).args(["plan", "use", "--", "true"]);
        let output = command.current_dir(&project).env("HOME", dir).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
