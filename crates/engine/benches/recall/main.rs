//! `cargo xtask bench recall REPO… [--queries N] [--without-aider]`: how much of what a commit changed stands
//! in the context that its message asks for.
//!
//! REPO is the path of a clone, bare or not; it is read only. The queries are messages of its own history
//! (`queries`), the tree is the parent's and the history ends there, the truth is what the commit changed
//! (`truth`): its files, the definitions round each change, the lines that it removed or replaced. Each is
//! asked for 1,024, 4,096 and 16,384 tokens.
//!
//! # Rivals
//! Keyword search (`keyword`), BM25 over windows of lines (`bm25`), Aider's repo map as it is given, and cut
//! to the budget. All work on the same trees and count with the same counter.
//!
//! # Printed
//! A table for each repository and for all together; the share of texts over the budget; CPU seconds; a row
//! for each measure, budget and rival with the paired bootstrap interval of the difference (`bootstrap`); and
//! whether the gate holds.
//!
//! # Fair
//! Ours runs with its own deadlines. An answer of Aider counts without what Python costs to start.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[cfg(not(shuttle))]
mod run;

#[cfg(not(shuttle))]
fn main() {
    run::run();
}

/// The model checks do without what this needs.
#[cfg(shuttle)]
fn main() {}
