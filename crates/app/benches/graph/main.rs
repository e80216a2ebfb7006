//! `cargo xtask bench graph [--layers N] [--runs N] [--rounds N]`: what a node and a call of a tool cost
//! beyond what they do.
//!
//! - `graph_node`: a graph of N layers of 4 nodes, each of which needs all nodes of the layer before it and
//!   reads a small file. CPU for each node.
//! - `graph_tool_call`: the same with nodes that call a tool: its arguments and its result are held against
//!   their schemas.
//!
//! # Fair
//! Both in turns, in one run, on one disk. Both are durable: ours stores each node's end as it comes,
//! LangGraph's saver each layer, synchronously. Graphs are made beforehand on both sides (`agents plan use`,
//! `compile`); what is counted is running them. What a start costs is left out too: of ours a graph of one
//! layer is run as often, and only what the other layers cost beyond it is counted; LangGraph's process is
//! warm, and of it the same is done.
//!
//! # Not fair
//! Ours records every call with its arguments and its result, redacted, under a fence, and counts it against
//! limits; LangGraph keeps the state of the graph alone. That counts against us. LangGraph is Python, as its
//! users have it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../support/alone.rs"]
mod alone;
#[path = "../support/peers.rs"]
mod peers;
#[path = "../support/program.rs"]
mod program;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use program::Program;
use tempfile::TempDir;
use testkit::bench_row::{Better, median, option, row};

const GRAPH: &str = include_str!("langgraph_graph.py");
const WIDTH: usize = 4;
const FILE: &str = "a.txt";
const TEXT: &str = "a line of text\n";
/// As the kernel counts in /proc.
const TICKS_PER_S: f64 = 100.0;

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Tool,
}

impl Kind {
    fn row(self) -> &'static str {
        match self {
            Kind::Read => "graph_node",
            Kind::Tool => "graph_tool_call",
        }
    }

    fn node(self) -> String {
        match self {
            Kind::Read => format!("tool: read, with: {{path: {FILE}}}"),
            Kind::Tool => format!("tool: read_file, with: {{path: {FILE}}}"),
        }
    }

    /// What LangGraph's side calls it.
    fn word(self) -> &'static str {
        match self {
            Kind::Read => "node",
            Kind::Tool => "tool",
        }
    }
}

fn main() {
    let python = peers::tell("Python with LangGraph", peers::python());
    alone::go_inside();
    let (layers, runs, rounds) = (option("--layers", 25), option("--runs", 60), option("--rounds", 3));
    let mut rows = Vec::new();
    for kind in [Kind::Read, Kind::Tool] {
        let ours = Program::new(1, &[(FILE, TEXT)]);
        let mut theirs =
            python.as_ref().and_then(|python| peers::tell("LangGraph", LangGraph::start(python, kind)));
        let (mut of_ours, mut of_theirs) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            of_ours.push(per_node(layers, runs, |layers| our_cpu_s(&ours, kind, layers, runs)));
            of_theirs.extend(
                theirs.as_mut().map(|theirs| per_node(layers, runs, |layers| theirs.cpu_s(layers, runs))),
            );
            let last = |all: &[f64]| all.last().copied().unwrap_or(f64::NAN);
            println!(
                "round {round}: {} ours {:.0}, langgraph {:.0} us",
                kind.row(),
                last(&of_ours),
                last(&of_theirs)
            );
        }
        if !of_theirs.is_empty() {
            rows.push(row(
                kind.row(),
                "langgraph",
                median(&of_ours),
                median(&of_theirs),
                Better::Less,
                "cpu_us",
            ));
        }
    }
    println!();
    rows.iter().for_each(|row| println!("{row}"));
}

/// Microseconds of CPU for each node beyond the first layer.
fn per_node(layers: usize, runs: usize, mut cpu_s: impl FnMut(usize) -> f64) -> f64 {
    let (one, all) = (cpu_s(1), cpu_s(layers));
    (all - one) * 1e6 / ((layers - 1) * WIDTH * runs) as f64
}

/// The CPU of the processes that execute the plans.
fn our_cpu_s(program: &Program, kind: Kind, layers: usize, runs: usize) -> f64 {
    let mut actor = "nodes:\n".to_owned();
    for layer in 0..layers {
        let needs: Vec<String> = match layer.checked_sub(1) {
            Some(before) => (0..WIDTH).map(|place| format!("n{before}-{place}")).collect(),
            None => Vec::new(),
        };
        for place in 0..WIDTH {
            writeln!(actor, "  n{layer}-{place}: {{{}, needs: [{}]}}", kind.node(), needs.join(", "))
                .unwrap();
        }
    }
    let file = program.dir().join("graph.yaml");
    fs::write(&file, actor).unwrap();
    let file = file.to_str().unwrap();
    let made = ["plan", "use", "--actor", file, "--limit", "steps=none", "--limit", "tool_calls=none"];
    let plans: Vec<String> =
        (0..runs).map(|_| program.answer(&made)["plan_id"].as_str().unwrap().to_owned()).collect();
    let before = children_ticks();
    for plan in &plans {
        let ran = program.answer(&["plan", "execute", plan]);
        assert_eq!(ran["ledger"]["steps"]["used"], layers * WIDTH, "{ran}");
    }
    (children_ticks() - before) / TICKS_PER_S
}

/// What the processes that this one has waited for used, in ticks.
fn children_ticks() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // The name may hold anything; the numbers begin behind it.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // The 16th and the 17th of the line, of which two stand before the split.
    [13, 14].into_iter().map(|at| fields[at].parse::<f64>().unwrap()).sum()
}

/// A process with the same graphs.
struct LangGraph {
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
    process: Child,
    _dir: TempDir,
}

impl LangGraph {
    fn start(python: &Path, kind: Kind) -> Result<LangGraph, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = dir.path().join(FILE);
        fs::write(&file, TEXT).map_err(|error| error.to_string())?;
        let mut command = Command::new(python);
        command.args(["-c", GRAPH]).arg(dir.path().join("saved.db")).arg(&file).arg(kind.word());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let (Some(asked), Some(told)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("it has no streams".to_owned());
        };
        let mut graph = LangGraph { asked, told: BufReader::new(told), process, _dir: dir };
        if graph.line() == "ready" { Ok(graph) } else { Err("it does not start".to_owned()) }
    }

    fn cpu_s(&mut self, layers: usize, runs: usize) -> f64 {
        writeln!(self.asked, "{layers} {WIDTH} {runs}").unwrap();
        self.line().parse().unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.told.read_line(&mut line);
        line.trim().to_owned()
    }
}

impl Drop for LangGraph {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
