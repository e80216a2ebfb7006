//! Helpers that the tests and benchmarks of several crates share.
//!
//! - For tests: [`scripted_server`], an HTTP server whose answers are scripted, and [`peers`], the programs
//!   of others that `cargo xtask peers` installs.
//! - For benchmarks: [`bench_row`] prints a row next to a peer's, and [`cost`] measures processes. [`trees`]
//!   and [`mixed`] create the files that are changed, and [`judge`] compares the result. [`moments`] draws
//!   the moments of kills, and [`journal_marks`] finds those of an apply. [`git_peer`] is the same work by
//!   git.
//!
//! # Not here
//! Anything that uses a crate of ours: a helper that only one crate needs is next to its tests.

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a failure here is the failure of the test that asks"
)]

pub mod bench_row;
pub mod cost;
pub mod git_peer;
pub mod journal_marks;
pub mod judge;
pub mod mixed;
pub mod moments;
pub mod peers;
pub mod scripted_server;
pub mod trees;
