//! The rules as a whole: against reference models, against literal tables, and through their whole state
//! space.
//!
//! Index: `change`, `changeset_reference`, `error_reference`, `job_pick`, `job_reference`, `job_table`,
//! `lease_protocol` (in `lease_world`), `must_survive`, `plan_record`, `recovery_table`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and says what it searched by printing"
)]

#[path = "cases/change.rs"]
mod change;
#[path = "cases/changeset_reference.rs"]
mod changeset_reference;
#[path = "cases/error_reference.rs"]
mod error_reference;
#[path = "cases/job_pick.rs"]
mod job_pick;
#[path = "cases/job_reference.rs"]
mod job_reference;
#[path = "cases/job_table.rs"]
mod job_table;
#[path = "cases/lease_protocol.rs"]
mod lease_protocol;
#[path = "cases/lease_world.rs"]
mod lease_world;
#[path = "cases/must_survive.rs"]
mod must_survive;
#[path = "cases/plan_record.rs"]
mod plan_record;
#[path = "cases/recovery_table.rs"]
mod recovery_table;
#[path = "cases/sample.rs"]
mod sample;
