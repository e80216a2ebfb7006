//! `cargo xtask bench cancel [--runs N] [--old PATH]`: from the wish to stop a plan to the word that it has
//! stopped, and whether that is true.
//!
//! A worker runs a plan whose command is a tree of 7 processes that ignore every signal that can be ignored,
//! leave their group and their session, and write into the sandbox and into a directory outside it. `agents
//! plan cancel` is timed from its start to its end. Then: no process of the tree lives, nothing is written
//! any more, the plan says what it said when the cancel came back, also after all runs, and no sandbox is
//! left. What is not so counts into `effects_after`.
//!
//! Beside it `codex exec` runs the same tree as a command that its scripted model asked for, and gets a
//! SIGINT, as from Ctrl-C: timed until Codex has ended and the tree is dead. A tree that lives 2 seconds
//! later is counted, killed, and costs Codex no time: its row is then that of its end alone. With `--old` the
//! program at that path is asked in its place, and ours may take at most 1.1 times as long.
//!
//! # Fair
//! In turns, the same tree, each in its own program's sandbox.
//!
//! # Not fair
//! Codex stops what it runs itself; ours is asked from another process, starts for it, and waits for the
//! worker: that counts against us. Codex keeps no record that would have to be right afterwards.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../support/alone.rs"]
mod alone;
#[path = "../support/codex.rs"]
mod codex;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/peers.rs"]
mod peers;
#[path = "../support/program.rs"]
mod program;

mod tree;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Instant;

use codex::Codex;
use program::{Program, Worker};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::bench_row::{Better, Targets, median, old_program, option, row};
use tree::Tree;

/// How many times as long as the older program ours may take.
const OLD_TIMES_MAX: f64 = 1.1;

fn main() -> ExitCode {
    let old = old_program();
    let codex = if old.is_none() { peers::tell("Codex", peers::codex()) } else { None };
    alone::go_inside();
    let runs = option("--runs", 200);
    let ours = Ours::new(Path::new(env!("CARGO_BIN_EXE_agents")));
    let old = old.map(|program| Ours::new(&program));
    let mut old_times = Vec::new();
    let mut theirs = codex.map(|program| Theirs::new(Codex::new(program)));
    let (mut times, mut done, mut effects) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        old_times.extend(old.as_ref().map(|old| old.cancel(run).time_ms));
        let one = ours.cancel(run);
        times.push(one.time_ms);
        effects.extend(one.effects.iter().map(|effect| format!("run {run}: {effect}")));
        done.push(one);
        if let Some(theirs) = &mut theirs {
            theirs.interrupt(run);
        }
    }
    for (run, one) in done.iter().enumerate() {
        let late = ours.changed_since(one);
        effects.extend(late.iter().map(|effect| format!("run {run}, after all: {effect}")));
    }
    let most = times.iter().copied().fold(f64::NAN, f64::max);
    println!("cancel: {:.1} ms, at most {most:.1} ms, {runs} runs", median(&times));
    effects.iter().for_each(|effect| println!("wrong: {effect}"));
    if let Some(theirs) = &theirs {
        println!("codex: {} trees of {runs} outlived it", theirs.outlived);
        println!("\neffects_after={}", effects.len());
        println!("{}", row("cancel", "codex", median(&times), median(&theirs.times), Better::Less, "ms"));
    } else {
        println!("\neffects_after={}", effects.len());
    }
    if !old_times.is_empty() {
        let (mut targets, medians) = (Targets::default(), [median(&times), median(&old_times)]);
        targets.ratio("cancel", "old", medians, Better::Less, "ms", 1.0 / OLD_TIMES_MAX);
        targets.check();
    }
    if effects.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A project with the tree's program in it.
fn project(agents: &Path) -> Program {
    let program = Program::at(agents, 4, &[(tree::SCRIPT_NAME, tree::SCRIPT), ("a.txt", "one\n")]);
    fs::create_dir(program.dir().join("out")).unwrap();
    program
}

struct Ours {
    program: Program,
    _worker: Worker,
}

/// A cancelled plan.
struct Cancelled {
    time_ms: f64,
    plan: String,
    tree: Tree,
    /// What the plan said of itself when the cancel came back.
    status: Value,
    written: u64,
    effects: Vec<String>,
}

impl Ours {
    fn new(agents: &Path) -> Ours {
        let program = project(agents);
        let (tell, news) = channel();
        let worker = program.worker(4, &tell);
        assert!(news.recv().unwrap().is("ready"));
        // It goes on telling; nobody listens.
        std::thread::spawn(move || news.iter().for_each(drop));
        Ours { program, _worker: worker }
    }

    fn cancel(&self, run: usize) -> Cancelled {
        let tree = Tree::new(&self.program.dir().join("out"), &format!("run{run}"));
        let dir = tree.dir.to_str().unwrap();
        let (mark, words) = (format!("TREE={dir}"), tree.words());
        let mut asked = vec!["run", "--detach", "--writable", dir, "--env", &mark, "--"];
        asked.extend(words.iter().map(String::as_str));
        let plan = self.program.answer(&asked)["plan_id"].as_str().unwrap().to_owned();
        tree.wait_until_it_stands();
        let mut command = self.program.command(&["plan", "cancel", &plan]);
        let start = Instant::now();
        let output = command.output().unwrap();
        let time_ms = start.elapsed().as_secs_f64() * 1000.0;
        // At once, before anything else gives it time to die.
        let alive = tree.alive();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let status = self.status(&plan);
        let mut effects = Vec::new();
        if !alive.is_empty() {
            effects.push(format!("{} processes live", alive.len()));
        }
        if tree.beats() {
            effects.push("it writes".to_owned());
        }
        if status["state"] != "cancelled" {
            effects.push(format!("the plan is {}", status["state"]));
        }
        let written = tree.written();
        Cancelled { time_ms, plan, tree, status, written, effects }
    }

    fn status(&self, plan: &str) -> Value {
        self.program.answer(&["plan", "status", plan])
    }

    /// What is not any more as it was when the cancel came back.
    fn changed_since(&self, then: &Cancelled) -> Vec<String> {
        let mut changed = Vec::new();
        if self.status(&then.plan) != then.status {
            changed.push("something was recorded".to_owned());
        }
        if then.tree.written() != then.written {
            changed.push("something was written".to_owned());
        }
        if self.program.data().join("sandboxes").read_dir().is_ok_and(|mut entries| entries.next().is_some())
        {
            changed.push("a sandbox is left".to_owned());
        }
        changed
    }
}

/// Codex with the same tree.
struct Theirs {
    codex: Codex,
    program: Program,
    times: Vec<f64>,
    outlived: usize,
}

impl Theirs {
    fn new(codex: Codex) -> Theirs {
        let program = project(Path::new(env!("CARGO_BIN_EXE_agents")));
        Theirs { codex, program, times: Vec::new(), outlived: 0 }
    }

    fn interrupt(&mut self, run: usize) {
        let tree = Tree::new(&self.program.dir().join("out"), &format!("run{run}"));
        let dir = tree.dir.display();
        let roots = format!("sandbox_workspace_write.writable_roots=[\"{dir}\"]");
        let mut command = self.codex.exec(&self.program.project(), &[tree.words().join(" ")]);
        let mut process = command.args(["-c", &roots, "start it"]).env("TREE", &tree.dir).spawn().unwrap();
        tree.wait_until_it_stands();
        let start = Instant::now();
        kill_process(Pid::from_child(&process), Signal::INT).unwrap();
        process.wait().unwrap();
        let ended = start.elapsed();
        let time = match tree.death() {
            Ok(later) => ended + later,
            Err(_) => {
                self.outlived += 1;
                ended
            }
        };
        self.times.push(time.as_secs_f64() * 1000.0);
    }
}
