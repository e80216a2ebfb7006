//! The programs that ours is measured beside: found on this machine, or installed with the ordinary clients.
//!
//! They are kept below the target directory from one run to the next. One that cannot be had is named, and
//! its rows are left out.

#![allow(dead_code, reason = "not every benchmark has all peers")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::alone;

/// A program of at least so many bytes is the real one; a script that starts it is smaller.
const REAL_BYTES_MIN: u64 = 1 << 20;

/// The peer, or nothing after it was told why.
pub(crate) fn tell<T>(name: &str, peer: Result<T, String>) -> Option<T> {
    peer.inspect_err(|why| {
        // Inside nothing can be installed; why it could not be was told outside.
        if !alone::is_inside() {
            println!("{name} cannot be had, and is left out: {why}");
        }
    })
    .ok()
}

/// Where peers are kept from one run to the next: beside what cargo builds.
pub(crate) fn peers_dir() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_agents"));
    let target = built.ancestors().nth(2).unwrap();
    let dir = target.join("peers");
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Codex, without the script of its package that starts the real program.
pub(crate) fn codex() -> Result<PathBuf, String> {
    from_npm("codex", "@openai/codex", "codex")
}

/// The server of Restate.
pub(crate) fn restate() -> Result<PathBuf, String> {
    from_npm("restate", "@restatedev/restate-server", "restate-server")
}

/// A Python with LangGraph, its saver for SQLite, and what a service of Restate needs.
pub(crate) fn python() -> Result<PathBuf, String> {
    const PACKAGES: [&str; 4] =
        ["langgraph", "langgraph-checkpoint-sqlite", "restate-sdk[serde]", "hypercorn"];
    const IMPORTS: &str = "import langgraph.graph, langgraph.checkpoint.sqlite, restate, hypercorn";
    let dir = peers_dir().join("python");
    let python = dir.join("bin/python");
    let is_whole = || client(Command::new(&python).args(["-c", IMPORTS]));
    if is_whole().is_ok() {
        return Ok(python);
    }
    install(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    install(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    is_whole().map(|()| python)
}

/// ripgrep from the path, a package, or its source.
pub(crate) fn ripgrep() -> Result<PathBuf, String> {
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&on_path).map(|dir| dir.join("rg")).find(|program| program.is_file());
    let dir = peers_dir().join("ripgrep");
    if let Some(found) = found.or_else(|| find(&dir, "rg", 1)) {
        return Ok(found);
    }
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let unpacked =
        install(Command::new("apt-get").args(["download", "ripgrep"]).current_dir(&dir)).and_then(|()| {
            let package = find_with(&dir, &|path| path.extension() == Some(OsStr::new("deb")));
            let package = package.ok_or_else(|| "apt-get left no package".to_owned())?;
            install(Command::new("dpkg").arg("-x").arg(package).arg(&dir))
        });
    if let Err(why) = unpacked {
        println!("ripgrep is built, since there is no package of it: {why}");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        install(Command::new(cargo).args(["install", "--locked", "ripgrep", "--root"]).arg(&dir))?;
    }
    find(&dir, "rg", 1).ok_or_else(|| "it was installed and is not there".to_owned())
}

fn from_npm(name: &str, package: &str, program: &str) -> Result<PathBuf, String> {
    let dir = peers_dir().join(name);
    if let Some(found) = find(&dir, program, REAL_BYTES_MIN) {
        return Ok(found);
    }
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let mut npm = Command::new("npm");
    install(npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&dir).arg(package))?;
    find(&dir, program, REAL_BYTES_MIN)
        .ok_or_else(|| "its package has no program for this machine".to_owned())
}

fn install(command: &mut Command) -> Result<(), String> {
    if alone::is_inside() {
        return Err("there is no network in here".to_owned());
    }
    client(command)
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

/// A program of this name that has at least so many bytes.
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
