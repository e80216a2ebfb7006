//! The promises of every store, and the messages of its refusals.
//!
//! Index: `conformance` (one suite for all stores; each store is one line below), `error_messages`,
//! `sqlite_contents` (large ones, on the disk and collected), `sqlite_open` (whose file, which version, found
//! again), `sqlite_processes` (many at once, killed ones).
//!
//! Further modules: `sqlite_bench`.

#![cfg(not(any(loom, shuttle)))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[macro_use]
mod conformance;
#[path = "cases/error_messages.rs"]
mod error_messages;
#[path = "cases/sqlite_bench.rs"]
mod sqlite_bench;
#[path = "cases/sqlite_contents.rs"]
mod sqlite_contents;
#[path = "cases/sqlite_open.rs"]
mod sqlite_open;
#[path = "cases/sqlite_processes.rs"]
mod sqlite_processes;

use std::sync::Arc;

use store::MemoryStore;

conformance!(memory, |clock| Arc::new(MemoryStore::new(Arc::new(clock))));
conformance!(sqlite, sqlite_bench::fresh);
