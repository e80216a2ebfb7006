//! The engine's parts that need no program around them.
//!
//! Index: `models`, `tools`, `recall` (the measures of the benchmark of that name).
//!
//! Further modules: `scripted`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[path = "cases/models.rs"]
mod models;
#[path = "cases/recall.rs"]
mod recall;
#[path = "cases/tools.rs"]
mod tools;
