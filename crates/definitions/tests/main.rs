//! Definitions as users write them, and what a plan freezes of them.
//!
//! Index: `definitions_read`, `freeze`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[path = "cases/definitions_read.rs"]
mod definitions_read;
#[path = "cases/freeze.rs"]
mod freeze;
