//! `cargo xtask bench context [--repo PATH] [--query TEXT] [--rounds N]`: what an index and a context cost.
//!
//! On a clone of a repository (this one, unless a path says which), at its newest commit; the query is that
//! commit's message unless one is given. CPU seconds, seconds on the wall and the most memory of:
//!
//! - `context_cold`: the index of a tree of which nothing is known, beside Aider's repo map without its tags
//!   and ripgrep;
//! - `context_edit`: the index after one file was edited, beside Aider's repo map after the same edit;
//! - `context_warm`: a context of 1,024 tokens by a new process, beside Aider's repo map with its tags and
//!   ripgrep;
//! - `context_held`: the same by a process that has the snapshot in memory.
//!
//! # Fair
//! All in turns, in one run, on one tree. Ours is a new process each time, from its start to its end, with
//! the git that it runs; Aider's process has started before, and what Python costs to start is not counted.
//! ripgrep searches for the words of the query, without regard to case, and prints the names of files.
//!
//! # Not fair
//! ripgrep ranks nothing and shows nothing. Ours also reads the history, which neither does. Aider is Python,
//! as its users have it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[cfg(not(shuttle))]
mod run;

/// The program's own.
#[cfg(not(shuttle))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(not(shuttle))]
fn main() {
    run::run();
}

/// The model checks do without what this needs.
#[cfg(shuttle)]
fn main() {}
