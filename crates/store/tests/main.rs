//! What every store promises, and what a store says when it refuses.
//!
//! Index: `conformance` (one suite for all stores; each store is one line below), `error_words`.

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
#[path = "cases/error_words.rs"]
mod error_words;

use std::sync::Arc;

use store::MemoryStore;

conformance!(memory, |clock| Arc::new(MemoryStore::new(Arc::new(clock))));
