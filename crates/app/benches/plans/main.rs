//! `cargo xtask bench plans [--plans N] [--rounds N] [--held N] [--runs N] [--old PATH]`: plans a second,
//! memory of held plans, one plan from start to end.
//!
//! - `plans_read_only`: N plans of 4 durable steps that each read a file, 64 at once, left to a worker that
//!   waits for them; from the start of the command that makes them to the end of the last.
//! - `plans_edit`: the same with steps that each write or edit a file in a sandbox, captured and recorded
//!   after every step. The rate with 4 commands, each a process, is told without a row: no peer starts any.
//! - `plans_held`: how much one worker grows while it holds N plans in a step that waits, for each.
//! - `plan_of_two_steps`: `agents run` with two steps, beside `codex exec` with the same two commands.
//!
//! With `--old` the only peer is the program at that path, and ours may be at most 1.1 times slower.
//!
//! # Fair
//! All in turns, in one run, on one disk, medians over the rounds. Restate gets 64 clients that keep their
//! connections and cost next to nothing, and a service of two processes. LangGraph saves synchronously, which
//! is what makes its steps as durable as ours; its saver holds a lock, so it runs one plan at a time.
//!
//! # Not fair
//! The peers' steps do nothing, ours read or change files: that counts against us. Restate journals for a
//! cluster. Its service and LangGraph are Python, as most of their users have them. SQLite's saver syncs as
//! SQLite does by default. Codex carries a real agent, and asks a model three times that answers at once:
//! only the program around it is compared.

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

mod once;
mod others;
mod ours;

use std::path::{Path, PathBuf};

use others::{LangGraph, Restate};
use ours::{Ours, Steps};
use testkit::bench_row::{Better, Targets, median, old_program, option, row};

/// So many plans at once, on all sides that can.
const AT_ONCE: usize = 64;
const MB: f64 = 1_000_000.0;
/// How many times as long as the older program ours may take.
const OLD_TIMES_MAX: f64 = 1.1;

fn main() {
    if let Some(old) = old_program() {
        alone::go_inside();
        return beside_old(&old);
    }
    let codex = peers::tell("Codex", peers::codex());
    let python = peers::tell("Python with the peers' packages", peers::python());
    let restate = peers::tell("Restate", peers::restate());
    alone::go_inside();
    let mut rows = rates(option("--plans", 1000), option("--rounds", 3), restate, python);
    let held = option("--held", 1000);
    let each = Ours::held_bytes(held) / held as f64 / MB;
    println!("plans_held: {each:.3} MB for each of {held}, 1 is allowed");
    let (ours, others) = once::times(option("--runs", 20), codex, None);
    println!("plan_of_two_steps: {:.1} ms", median(&ours));
    if !others.is_empty() {
        rows.push(row("plan_of_two_steps", "codex", median(&ours), median(&others), Better::Less, "ms"));
    }
    println!();
    rows.iter().for_each(|row| println!("{row}"));
}

fn this_program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_agents"))
}

/// Ours and an older program in turns.
fn beside_old(old: &Path) {
    let (plans, rounds) = (option("--plans", 1000), option("--rounds", 5));
    let programs = [this_program(), old].map(|program| Ours::start(program, AT_ONCE));
    let kinds =
        [("plans_read_only", Steps::Read), ("plans_edit", Steps::Edit), ("plans_command", Steps::Command)];
    let mut rates = kinds.map(|_| [const { Vec::new() }; 2]);
    for round in 0..rounds {
        for (rates, (name, steps)) in rates.iter_mut().zip(kinds) {
            for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                rates[side].push(programs[side].rate(steps, plans));
            }
            println!("round {round}: {name} {:.0}, old {:.0} plans/s", rates[0][round], rates[1][round]);
        }
    }
    let mut targets = Targets::default();
    for (rates, (name, _)) in rates.iter().zip(kinds) {
        let medians = [median(&rates[0]), median(&rates[1])];
        targets.ratio(name, "old", medians, Better::More, "plans/s", 1.0 / OLD_TIMES_MAX);
    }
    drop(programs);
    let (ours, olds) = once::times(option("--runs", 100), None, Some(old));
    let medians = [median(&ours), median(&olds)];
    targets.ratio("plan_of_two_steps", "old", medians, Better::Less, "ms", 1.0 / OLD_TIMES_MAX);
    targets.check();
}

/// Plans a second, of ours and of the peers that there are.
fn rates(plans: usize, rounds: usize, restate: Option<PathBuf>, python: Option<PathBuf>) -> Vec<String> {
    let start = |server: &PathBuf, python: &PathBuf| {
        peers::tell("Restate", Restate::start(server, python, AT_ONCE).inspect_err(|why| println!("{why}")))
    };
    let mut restate =
        restate.as_ref().zip(python.as_ref()).and_then(|(server, python)| start(server, python));
    let mut langgraph = python.as_ref().and_then(|python| peers::tell("LangGraph", LangGraph::start(python)));
    let ours = Ours::start(this_program(), AT_ONCE);
    let [mut read, mut edit, mut command] = [const { Vec::new() }; 3];
    let mut others: [(&str, Vec<f64>); 2] = [("restate", Vec::new()), ("langgraph", Vec::new())];
    for round in 1..=rounds {
        read.push(ours.rate(Steps::Read, plans));
        others[0].1.extend(restate.as_mut().map(|restate| restate.rate(plans)));
        edit.push(ours.rate(Steps::Edit, plans));
        others[1].1.extend(langgraph.as_mut().map(|langgraph| langgraph.rate(plans)));
        command.push(ours.rate(Steps::Command, plans));
        let last = |rates: &[f64]| rates.last().copied().unwrap_or(f64::NAN);
        println!(
            "round {round}: read {:.0}, edit {:.0}, command {:.0}, restate {:.0}, langgraph {:.0} plans/s",
            last(&read),
            last(&edit),
            last(&command),
            last(&others[0].1),
            last(&others[1].1)
        );
    }
    println!("plans of 4 commands: {:.1} plans/s", median(&command));
    let mut rows = Vec::new();
    for (name, rates) in [("plans_read_only", &read), ("plans_edit", &edit)] {
        for (peer, others) in others.iter().filter(|(_, rates)| !rates.is_empty()) {
            rows.push(row(name, peer, median(rates), median(others), Better::More, "plans/s"));
        }
    }
    rows
}
