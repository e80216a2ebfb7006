//! The engine's parts on the in-memory store, under a virtual clock.
//!
//! Index: `definitions`, `definitions_frozen`, `models`, `plan_context`, `recovery`, `strategies`, `tools`, `worker_runs`,
//! `worker_cancel`, `worker_leases`, `worker_stop`, `recall` (what the benchmark of that name measures with),
//! `worker_faults`, `worker_ends`; `support` has the virtual runtime, the scripted runner and the store with faults,
//! `delegated` what that store passes on.

#![cfg(not(shuttle))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[macro_use]
#[path = "cases/delegated.rs"]
mod delegated;
#[path = "cases/definitions.rs"]
mod definitions;
#[path = "cases/definitions_frozen.rs"]
mod definitions_frozen;
#[path = "cases/models.rs"]
mod models;
#[path = "cases/plan_context.rs"]
mod plan_context;
#[path = "cases/recall.rs"]
mod recall;
#[path = "cases/recovery.rs"]
mod recovery;
#[path = "../../actors/tests/cases/scripted.rs"]
#[allow(dead_code, reason = "it serves the tests of other crates too")]
mod scripted;
#[path = "cases/strategies.rs"]
mod strategies;
#[path = "cases/support.rs"]
mod support;
#[path = "cases/tools.rs"]
mod tools;
#[path = "cases/worker_cancel.rs"]
mod worker_cancel;
#[path = "cases/worker_ends.rs"]
mod worker_ends;
#[path = "cases/worker_faults.rs"]
mod worker_faults;
#[path = "cases/worker_leases.rs"]
mod worker_leases;
#[path = "cases/worker_runs.rs"]
mod worker_runs;
#[path = "cases/worker_stop.rs"]
mod worker_stop;
