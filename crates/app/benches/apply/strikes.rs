//! The program struck at a system call: killed there for certain, or told that the call failed.
//!
//! `strace` counts the calls of an undisturbed run, and strikes at one of them in the next: so a strike is
//! drawn over what is really done, and it is known whether it struck.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::shapes::{SHAPES, Shape};
use testkit::moments::Dice;

/// Calls that leave something on the disk, or look at it.
const CALLS: [&str; 18] = [
    "openat2",
    "openat",
    "pwrite64",
    "write",
    "ftruncate",
    "linkat",
    "renameat2",
    "renameat",
    "rename",
    "unlinkat",
    "mkdirat",
    "symlinkat",
    "fchmodat",
    "fchmod",
    "fchownat",
    "fdatasync",
    "fsync",
    "syncfs",
];
/// What a call may be told instead.
const ERRORS: [&str; 4] = ["ENOSPC", "EIO", "EINTR", "EACCES"];
/// How often in a row a call is interrupted.
const INTERRUPTIONS: u64 = 100;
/// Of the kills of a shape, so many are in a capture.
const CAPTURES_IN: usize = 12;
/// So many errors for each kill.
const ERRORS_PER_KILL: f64 = 0.25;

/// All below a project: kind, mode and content by path.
type Tree = BTreeMap<Vec<u8>, String>;

fn survey(root: &Path) -> Tree {
    use std::os::unix::ffi::OsStrExt;
    let mut found = Tree::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode() & 0o7777;
            let what = if metadata.is_symlink() {
                format!("link {:?}", fs::read_link(&path).unwrap())
            } else if metadata.is_dir() {
                dirs.push(path.clone());
                format!("directory {mode:04o}")
            } else {
                format!("file {mode:04o} {}", domain::Hash::from_content(&fs::read(&path).unwrap()))
            };
            found.insert(path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec(), what);
        }
    }
    found
}

/// What is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Struck {
    Apply,
    Undo,
    Recovery,
    Capture,
}

impl Struck {
    fn word(self) -> &'static str {
        match self {
            Struck::Apply => "apply",
            Struck::Undo => "undo",
            Struck::Recovery => "recovery",
            Struck::Capture => "run and capture",
        }
    }
}

/// What is done to a call.
#[derive(Clone, Copy)]
enum Blow {
    Kill,
    Error(&'static str, Until),
}

#[derive(Clone, Copy)]
enum Until {
    Once,
    ForEver,
}

/// One shape, with a project, a plan and both trees.
struct Stage<'a> {
    shape: &'a Shape,
    dir: TempDir,
    plan: String,
    before: Tree,
    after: Tree,
    /// How often each call is made, undisturbed.
    calls: BTreeMap<(Struck, &'static str), u64>,
}

impl<'a> Stage<'a> {
    fn new(shape: &'a Shape) -> Result<Stage<'a>, String> {
        let dir = tempfile::tempdir().unwrap();
        let mut stage = Stage {
            shape,
            dir,
            plan: String::new(),
            before: Tree::new(),
            after: Tree::new(),
            calls: BTreeMap::new(),
        };
        fs::create_dir(stage.root()).unwrap();
        stage.sh(shape.before)?;
        stage.before = survey(&stage.root());
        let run = stage.count(Struck::Capture, &stage.run_words())?;
        let plan = run["data"]["plan_id"].as_str();
        stage.plan = plan.ok_or_else(|| format!("no plan in {run}"))?.to_owned();
        stage.is("captured", &stage.before.clone())?;
        stage.count(Struck::Apply, &["plan", "apply", &stage.plan.clone(), "--yes"])?;
        stage.after = survey(&stage.root());
        if stage.after == stage.before {
            return Err("nothing was applied".to_owned());
        }
        stage.count(Struck::Undo, &["plan", "undo", &stage.plan.clone(), "--yes"])?;
        stage.is("undone", &stage.before.clone())?;
        Ok(stage)
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn run_words(&self) -> Vec<&'a str> {
        vec!["run", "--", "sh", "-ec", self.shape.change]
    }

    fn sh(&self, script: &str) -> Result<(), String> {
        let done = Command::new("sh").args(["-ec", script]).current_dir(self.root()).status().unwrap();
        if done.success() { Ok(()) } else { Err(format!("the shape cannot be made: {script}")) }
    }

    fn command(&self, around: &[String], words: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_agents").to_owned();
        let line: Vec<&str> = around.iter().chain([&program]).map(String::as_str).collect();
        let mut command = Command::new(line[0]);
        command
            .args(&line[1..])
            .arg("--data-dir")
            .arg(self.dir.path().join("data"))
            .args(["--format", "json"])
            .args(words);
        command.current_dir(self.root()).env("HOME", self.dir.path()).env("XDG_CONFIG_HOME", self.dir.path());
        command.stdin(Stdio::null());
        command
    }

    fn answer(&self, words: &[&str]) -> Result<Value, String> {
        let output = self.command(&[], words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(format!("{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr)));
        }
        serde_json::from_str(&said).map_err(|error| format!("{words:?}: {error}: {said}"))
    }

    fn is(&self, what: &str, wanted: &Tree) -> Result<(), String> {
        let found = survey(&self.root());
        if found == *wanted { Ok(()) } else { Err(format!("{what}: {}", differences(wanted, &found))) }
    }

    /// Runs undisturbed, and counts the calls.
    fn count(&mut self, struck: Struck, words: &[&str]) -> Result<Value, String> {
        let log = self.dir.path().join("calls");
        let around = strace(&log, &format!("trace={}", CALLS.join(",")));
        let output = self.command(&around, words).output().unwrap();
        if !output.status.success() {
            return Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stdout)));
        }
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
        for call in CALLS {
            // A strike is counted in each thread by itself: so is what it is drawn over.
            let mut of_thread: BTreeMap<&str, u64> = BTreeMap::new();
            for line in text.lines() {
                let mut words = line.split_whitespace();
                let (thread, made) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                if made.starts_with(&format!("{call}(")) {
                    *of_thread.entry(thread).or_default() += 1;
                }
            }
            if let Some(made) = of_thread.values().max() {
                self.calls.insert((struck, call), *made);
            }
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(&said).map_err(|error| format!("{words:?}: {error}: {said}"))
    }

    /// Strikes a call of it; whether that struck, and what it said.
    fn strike(&self, struck: Struck, words: &[&str], blow: Blow, dice: &mut Dice) -> (bool, Output) {
        let of = if struck == Struck::Recovery { Struck::Apply } else { struck };
        let known: Vec<_> = self.calls.iter().filter(|((what, _), _)| *what == of).collect();
        let ((_, call), made) = known[dice.below(known.len() as u64) as usize];
        // A recovery makes fewer: it is struck early.
        let made = if struck == Struck::Recovery { made.div_ceil(2) } else { *made };
        let at = 1 + dice.below(made);
        let how = match blow {
            Blow::Kill => format!("inject={call}:signal=KILL:when={at}"),
            Blow::Error(error, Until::Once) => format!("inject={call}:error={error}:when={at}"),
            // A call that is interrupted is made again: for ever would be a program that never ends, whichever it is.
            Blow::Error("EINTR", Until::ForEver) => {
                format!("inject={call}:error=EINTR:when={at}..{}", at + INTERRUPTIONS)
            }
            Blow::Error(error, Until::ForEver) => format!("inject={call}:error={error}:when={at}+"),
        };
        let log = self.dir.path().join("calls");
        let mut around = strace(&log, &format!("trace={call}"));
        around.extend(["-e".to_owned(), how]);
        let output = self.command(&around, words).output().unwrap();
        let is_struck = match blow {
            Blow::Kill => output.status.signal() == Some(9),
            Blow::Error(..) => {
                fs::read(&log).is_ok_and(|log| log.windows(10).any(|part| part == b"(INJECTED)"))
            }
        };
        (is_struck, output)
    }

    /// After a recovery: all is before or after, files and plan agree, and nothing is left over.
    fn judge(&self) -> Result<bool, String> {
        let status = self.answer(&["plan", "status", &self.plan])?;
        let data = &status["data"];
        let is_applied = data["phase"] == "apply" && data["state"] == "applied" && data["undone"] == false;
        self.is("files", if is_applied { &self.after } else { &self.before })?;
        let open = fs::read_dir(self.dir.path().join("data/journal")).unwrap().count();
        if open > 0 { Err("a journal is open after its recovery".to_owned()) } else { Ok(is_applied) }
    }
}

fn strace(log: &Path, what: &str) -> Vec<String> {
    let words = ["strace", "-f", "-qq", "-o", log.to_str().unwrap(), "-e", what];
    words.map(str::to_owned).to_vec()
}

fn differences(wanted: &Tree, found: &Tree) -> String {
    let of = |tree: &Tree, other: &Tree| -> Vec<String> {
        tree.iter()
            .filter(|(path, what)| other.get(*path) != Some(what))
            .take(6)
            .map(|(path, what)| format!("{} {what}", path.escape_ascii()))
            .collect()
    };
    format!("wanted {:?}, found {:?}", of(wanted, found), of(found, wanted))
}

/// What was done, and what came of it.
#[derive(Default)]
struct Tally {
    kills: BTreeMap<Struck, usize>,
    errors: BTreeMap<(&'static str, Struck), usize>,
    missed: usize,
    wrong: Vec<String>,
}

/// Strikes every shape until there were so many kills.
pub(crate) fn run(kills: usize, seed: u64) -> ExitCode {
    if Command::new("strace").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("wrong: strace is needed to strike at calls, and is not there");
        return ExitCode::FAILURE;
    }
    let mut tally = Tally::default();
    let each = kills.div_ceil(SHAPES.len());
    for (shape, n) in SHAPES.iter().zip(0..) {
        let mut dice = Dice::new(seed.wrapping_add(n));
        if let Err(why) = strike_shape(shape, each, &mut dice, &mut tally) {
            tally.wrong.push(format!("{}: {why}", shape.name));
        }
    }
    tally.print()
}

fn strike_shape(shape: &Shape, kills: usize, dice: &mut Dice, tally: &mut Tally) -> Result<(), String> {
    let mut stage = Stage::new(shape)?;
    let mut is_applied = false;
    let mut done = 0;
    let mut tries = 0;
    while done < kills && tries < 8 * kills {
        tries += 1;
        if tries % CAPTURES_IN == 1 {
            let (is_struck, _) = stage.strike(Struck::Capture, &stage.run_words(), Blow::Kill, dice);
            done += tally.count(Struck::Capture, is_struck);
            is_applied = stage.judge()?;
            continue;
        }
        let struck = if is_applied { Struck::Undo } else { Struck::Apply };
        let verb = if is_applied { "undo" } else { "apply" };
        let plan = stage.plan.clone();
        let words = ["plan", verb, &plan, "--yes"];
        if dice.below(100) < (ERRORS_PER_KILL * 100.0) as u64 {
            let error = ERRORS[dice.below(ERRORS.len() as u64) as usize];
            let until = if dice.one_in(3) { Until::ForEver } else { Until::Once };
            let (is_struck, _) = stage.strike(struck, &words, Blow::Error(error, until), dice);
            if is_struck {
                *tally.errors.entry((error, struck)).or_default() += 1;
            }
        } else {
            let (is_struck, _) = stage.strike(struck, &words, Blow::Kill, dice);
            done += tally.count(struck, is_struck);
            if is_struck && dice.one_in(2) {
                let (is_struck, _) =
                    stage.strike(Struck::Recovery, &["plan", "status", &plan], Blow::Kill, dice);
                done += tally.count(Struck::Recovery, is_struck);
            }
        }
        is_applied = stage.judge().map_err(|why| format!("{verb}: {why}"))?;
        if stage.is_final_but_not_applied()? {
            // An error made the plan one that is not applied any more: another one takes its place.
            stage = Stage::new(shape)?;
            is_applied = false;
        }
    }
    Ok(())
}

impl Stage<'_> {
    /// Whether the plan came to an end from which it cannot be applied again.
    fn is_final_but_not_applied(&self) -> Result<bool, String> {
        let status = self.answer(&["plan", "status", &self.plan])?;
        Ok(status["data"]["state"] == "cancelled")
    }
}

impl Tally {
    /// Counts a kill that struck.
    fn count(&mut self, struck: Struck, is_struck: bool) -> usize {
        if is_struck {
            *self.kills.entry(struck).or_default() += 1;
        } else {
            self.missed += 1;
        }
        usize::from(is_struck)
    }

    fn print(&self) -> ExitCode {
        println!();
        let kills: usize = self.kills.values().sum();
        println!("{kills} kills that struck, over {} shapes ({} missed)", SHAPES.len(), self.missed);
        for (struck, count) in &self.kills {
            println!("  in {:<18} {count:>5}", struck.word());
        }
        let errors: usize = self.errors.values().sum();
        println!("{errors} calls that were told an error");
        for ((error, struck), count) in &self.errors {
            println!("  {error:<7} in {:<10} {count:>5}", struck.word());
        }
        self.wrong.iter().for_each(|what| println!("wrong: {what}"));
        println!("{} wrong trees", self.wrong.len());
        println!("bench agents_struck/none ours={} peer=0 ratio=1.00 unit=wrong_trees", self.wrong.len());
        if self.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
