//! The executor and the ledger under many thread schedules, and the naive ones that the same exploration must
//! catch.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --profile proof -p context --test shuttle`
//!
//! | case | threads explored | twins that must fail |
//! |---|---|---|
//! | each run counts once, in a fixed order | 2 pipelines × ok, panic, hang, open; a clock; 2 workers and their replacements | counted by task and collector; lines in completion order |
//! | a cancel counts nothing and frees the probe | a pipeline with a hung probe and one that obeys; a canceller; 2 workers | the task keeps the permit; what a cancelled task says is counted |
//! | requests of a node at once never sum above its window | 3 askers, twice each: one spends, one half, one goes away | looks, then takes; gives back, then writes down |
//!
//! Index: `cases`, `ledger`, `naive`, `stage`.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and has no readers but its own"
)]

#[cfg(not(shuttle))]
fn main() {}

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    cases::main()
}

#[cfg(shuttle)]
mod cases;
#[cfg(shuttle)]
mod ledger;
#[cfg(shuttle)]
mod naive;
#[cfg(shuttle)]
mod stage;
