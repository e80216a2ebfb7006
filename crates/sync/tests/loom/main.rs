//! The primitives under loom: every schedule of a few threads, up to a bound on preemptions.
//!
//! Index: `breaker` (seed #7088), `token` (#7166), `gate`, `histories` (#7333). Each body is generic, and
//! runs on ours and on the naive twins in `naive/`, which must fail it. Run by `cargo xtask model-check`.
//!
//! Further modules: `naive`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[cfg(loom)]
mod breaker;
#[cfg(loom)]
mod gate;
#[cfg(loom)]
mod histories;
#[cfg(loom)]
mod naive;
#[cfg(loom)]
mod token;

#[cfg(not(loom))]
fn main() {}

#[cfg(loom)]
fn main() -> std::process::ExitCode {
    let cases: Vec<proof::Case> =
        [breaker::cases(), token::cases(), gate::cases(), histories::cases()].into_iter().flatten().collect();
    let bound = format!("exhaustive up to {} preemptions", preemptions_max());
    proof::main("loom", &bound, &cases)
}

#[cfg(loom)]
fn preemptions_max() -> usize {
    let wanted = std::env::var("LOOM_MAX_PREEMPTIONS").ok().and_then(|bound| bound.parse().ok());
    wanted.unwrap_or(proof::effort().preemptions())
}

/// Explores every schedule of `body` within the bound.
#[cfg(loom)]
fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions_max());
    model.check(move || {
        proof::execution();
        body();
    });
}
