//! The store's writer under many thread schedules, and the naive writers that the same exploration must
//! catch.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --profile proof -p store --test shuttle`
//!
//! | case | threads explored | twins that must fail |
//! |---|---|---|
//! | answered once, after the commit | 2 that submit, one that shuts down, the writer, whose commits fail | answer first; closed tested, then pushed |
//! | none is forgotten | 3 that submit into a full lane, of which one gives up, the writer | one woken for each place |
//! | what was taken in is written | one that asks, goes away and shuts down, the writer | ends as soon as it is closed |
//!
//! Explored is the folder `src/sqlite/writer` as it is, with lanes and batches so small that they are often
//! full.
//!
//! # Not here
//! The batches in SQLite: the tests next to the writer, on real files.
//!
//! Index: `disk`, `cases`, `naive`, `writer`.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, and has no readers but its own"
)]

#[cfg(shuttle)]
mod cases;
#[cfg(shuttle)]
mod disk;
#[cfg(shuttle)]
mod naive;

/// Private to the store, and not to be published for a test: its source is compiled here once more.
#[cfg(shuttle)]
#[path = "../../src/sqlite/writer/mod.rs"]
#[allow(dead_code, reason = "a part of it is there for SQLite")]
mod writer;

/// As the writer knows it.
#[cfg(shuttle)]
use store::StoreError;

#[cfg(not(shuttle))]
fn main() {}

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    cases::main()
}
