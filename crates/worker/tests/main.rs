//! The worker's parts on the in-memory store, under a virtual clock.
//!
//! Index: `plan_context`, `recovery`, `worker_runs`, `worker_cancel`, `worker_leases`, `worker_stop`,
//! `worker_faults`, `worker_ends`; `support` has the virtual runtime, the scripted runner and the store with
//! faults, `delegated` forwards the rest of that store.

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
#[path = "cases/plan_context.rs"]
mod plan_context;
#[path = "cases/recovery.rs"]
mod recovery;
#[path = "cases/support.rs"]
mod support;
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
