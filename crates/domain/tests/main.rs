//! The rules as a whole: against reference models, against literal tables, and through their whole state
//! space.
//!
//! Index: `change`, `changeset_reference`, `error_reference`, `claim_order`, `job_reference`, `job_table`,
//! `lease_protocol` (in `lease_world`), `ledger_reference`, `must_survive`, `plan_record`, `recovery_table`;
//! of changes: `net`, `merge`, `merge_file`, `hunks`, `hunks_git`, `renames`, `selection`, `redact`; of
//! plans: `plan_state`, `manual_transition`, `job_effects`, `decision`, `automation`, `plan_spec`,
//! `validation`, `lock`, `event_draft`; of definitions: `arg`, `template`, `expr`, `graph`, `invariant`.
//!
//! Further modules: `sample`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and says what it searched by printing"
)]

#[path = "cases/arg.rs"]
mod arg;
#[path = "cases/automation.rs"]
mod automation;
#[path = "cases/change.rs"]
mod change;
#[path = "cases/changeset_reference.rs"]
mod changeset_reference;
#[path = "cases/claim_order.rs"]
mod claim_order;
#[path = "cases/decision.rs"]
mod decision;
#[path = "cases/error_reference.rs"]
mod error_reference;
#[path = "cases/event_draft.rs"]
mod event_draft;
#[path = "cases/expr.rs"]
mod expr;
#[path = "cases/graph.rs"]
mod graph;
#[path = "cases/hunks.rs"]
mod hunks;
#[path = "cases/hunks_git.rs"]
mod hunks_git;
#[path = "cases/invariant.rs"]
mod invariant;
#[path = "cases/job_effects.rs"]
mod job_effects;
#[path = "cases/job_reference.rs"]
mod job_reference;
#[path = "cases/job_table.rs"]
mod job_table;
#[path = "cases/lease_protocol.rs"]
mod lease_protocol;
#[path = "cases/lease_world.rs"]
mod lease_world;
#[path = "cases/ledger_reference.rs"]
mod ledger_reference;
#[path = "cases/lock.rs"]
mod lock;
#[path = "cases/manual_transition.rs"]
mod manual_transition;
#[path = "cases/merge.rs"]
mod merge;
#[path = "cases/merge_file.rs"]
mod merge_file;
#[path = "cases/must_survive.rs"]
mod must_survive;
#[path = "cases/net.rs"]
mod net;
#[path = "cases/plan_record.rs"]
mod plan_record;
#[path = "cases/plan_spec.rs"]
mod plan_spec;
#[path = "cases/plan_state.rs"]
mod plan_state;
#[path = "cases/recovery_table.rs"]
mod recovery_table;
#[path = "cases/redact.rs"]
mod redact;
#[path = "cases/renames.rs"]
mod renames;
#[path = "cases/sample.rs"]
mod sample;
#[path = "cases/selection.rs"]
mod selection;
#[path = "cases/template.rs"]
mod template;
#[path = "cases/validation.rs"]
mod validation;
