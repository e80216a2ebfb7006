//! The primitives on real threads and against reference models. Schedules are explored in `loom/` instead.
//!
//! Index: `breaker`, `breaker_reference`, `catch_panic`, `clock`, `gate`, `histories`, `token`,
//! `token_reference`.

#![cfg(not(any(loom, shuttle)))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[path = "cases/breaker.rs"]
mod breaker;
#[path = "cases/breaker_reference.rs"]
mod breaker_reference;
#[path = "cases/catch_panic.rs"]
mod catch_panic;
#[path = "cases/clock.rs"]
mod clock;
#[path = "cases/gate.rs"]
mod gate;
#[path = "cases/histories.rs"]
mod histories;
#[path = "cases/token.rs"]
mod token;
#[path = "cases/token_reference.rs"]
mod token_reference;

/// Runs `body` on so many threads that all start at once, and gathers what they return.
fn on_threads<R: Send>(count: usize, body: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let start = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        let spawn = |index| {
            let (start, body) = (&start, &body);
            scope.spawn(move || {
                start.wait();
                body(index)
            })
        };
        let threads: Vec<_> = (0..count).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
