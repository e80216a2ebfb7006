//! The engine's pillars under shuttle: random and PCT schedules of many threads, on the in-memory store.
//!
//! Index: `changesets` (seed #7120), `errors` (#7333), `worker` (#7166's worker, double dispatch). Bodies are
//! generic and run on ours and on the naive twins beside them. Run by `cargo xtask model-check`.
//!
//! Further modules: `support`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[cfg(shuttle)]
mod changesets;
#[cfg(shuttle)]
mod errors;
#[cfg(shuttle)]
mod support;
#[cfg(shuttle)]
mod worker;

#[cfg(not(shuttle))]
fn main() {}

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    let cases: Vec<proof::Case> =
        [changesets::cases(), errors::cases(), worker::cases()].into_iter().flatten().collect();
    let each = proof::effort().schedules();
    proof::main("shuttle", &format!("{each} random and {each} PCT schedules a case"), &cases)
}

/// Preemptions that a PCT schedule places.
#[cfg(shuttle)]
const PCT_DEPTH: usize = 3;

/// Draws schedules of `body`, half of them at random, half with few preemptions at random places.
#[cfg(shuttle)]
fn explore(body: fn()) {
    let counted = move || {
        proof::execution();
        body();
    };
    shuttle::check_random(counted, proof::effort().schedules());
    shuttle::check_pct(counted, proof::effort().schedules(), PCT_DEPTH);
}
