//! `cargo xtask bench start [--runs N]`: how long the program takes to start and how large it is, beside Codex and ripgrep.
//!
//! Wall milliseconds from the start of the process to its end, medians, all programs in turns. Ours is the binary as
//! users get it, without symbols. The peers are installed with the ordinary clients below the target directory when they
//! are not there yet; one that cannot be had is named, and its rows are left out. Codex is measured without the script
//! of its package that starts the real program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../../sandbox/benches/support/row.rs"]
mod row;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use row::{Better, median, option, row};

/// So many plans are listed.
const PLANS: usize = 20;
const MB: f64 = 1_000_000.0;

/// A program and what it is asked for.
struct Started {
    name: &'static str,
    program: PathBuf,
    words: Vec<String>,
    dir: PathBuf,
    times: Vec<f64>,
}

impl Started {
    fn run(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(&self.words).current_dir(&self.dir).env("HOME", &self.dir).env("CODEX_HOME", &self.dir);
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
    let codex = tell("Codex", codex());
    let ripgrep = tell("ripgrep", ripgrep());
    make_plans(&agents, dir.path());
    let started = |name, program: &Path, words: &[&str]| Started {
        name,
        program: program.to_owned(),
        words: words.iter().map(|&word| word.to_owned()).collect(),
        dir: dir.path().to_owned(),
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

fn tell(name: &str, peer: Result<PathBuf, String>) -> Option<PathBuf> {
    peer.inspect_err(|why| println!("{name} cannot be had, and is left out: {why}")).ok()
}

/// Where peers are kept from one run to the next: beside what cargo builds.
fn peers_dir() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_agents"));
    let target = built.ancestors().nth(2).unwrap();
    let dir = target.join("peers");
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn codex() -> Result<PathBuf, String> {
    let dir = peers_dir().join("codex");
    if let Some(found) = find(&dir, "codex", 1 << 20) {
        return Ok(found);
    }
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    client(
        Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(&dir)
            .arg("@openai/codex"),
    )?;
    find(&dir, "codex", 1 << 20).ok_or_else(|| "its package has no program for this machine".to_owned())
}

fn ripgrep() -> Result<PathBuf, String> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&on_path).map(|dir| dir.join("rg")).find(|program| program.is_file());
    let dir = peers_dir().join("ripgrep");
    if let Some(found) = found.or_else(|| find(&dir, "rg", 1)) {
        return Ok(found);
    }
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let unpacked =
        client(Command::new("apt-get").args(["download", "ripgrep"]).current_dir(&dir)).and_then(|()| {
            let package = find_with(&dir, &|path| path.extension() == Some(OsStr::new("deb")));
            let package = package.ok_or_else(|| "apt-get left no package".to_owned())?;
            client(Command::new("dpkg").arg("-x").arg(package).arg(&dir))
        });
    if let Err(why) = unpacked {
        println!("ripgrep is built, since there is no package of it: {why}");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        client(Command::new(cargo).args(["install", "--locked", "ripgrep", "--root"]).arg(&dir))?;
    }
    find(&dir, "rg", 1).ok_or_else(|| "it was installed and is not there".to_owned())
}

/// Runs a client of a registry; what it says when it fails.
fn client(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(said.lines().last().unwrap_or("it failed and said nothing").to_owned())
}

/// A program of this name that has at least so many bytes: a script that starts it is smaller.
fn find(dir: &Path, name: &str, bytes_min: u64) -> Option<PathBuf> {
    find_with(dir, &|path| {
        path.file_name() == Some(OsStr::new(name))
            && fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() >= bytes_min)
    })
}

fn find_with(dir: &Path, is_it: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().find(|path| is_it(path)).cloned().or_else(|| {
        let is_dir = |path: &&PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        paths.iter().filter(is_dir).find_map(|dir| find_with(dir, is_it))
    })
}
