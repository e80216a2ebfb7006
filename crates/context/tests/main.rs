//! The promises of the context crate, by what they are about.
//!
//! | module | promises |
//! |---|---|
//! | `table` | every row of the permit table: how a run ends, what its breaker hears, what the line says |
//! | `order` | the order of the lines, under every order of completion |
//! | `isolation` | what one strategy does wrong stays with it |
//! | `pool` | how many threads there are, and what becomes of abandoned ones |
//! | `breakers` | counts over many calls: open, skipped, probed, closed |
//! | `cancel` | a cancel at every moment of a batch |
//! | `words` | names, stops and configuration |
//!
//! Time is a clock that the tests move, and threads meet at gates and channels, so nothing here depends on how
//! fast the machine is. A watchdog ends a test whose event never comes.

// Under a model checker the locks are not std's; `tests/shuttle` explores this code then.
#![cfg(not(any(loom, shuttle)))]
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and has no readers but its own"
)]

#[path = "cases/breakers.rs"]
mod breakers;
#[path = "cases/cancel.rs"]
mod cancel;
#[path = "cases/isolation.rs"]
mod isolation;
#[path = "cases/order.rs"]
mod order;
#[path = "cases/pool.rs"]
mod pool;
#[path = "cases/support.rs"]
mod support;
#[path = "cases/table.rs"]
mod table;
#[path = "cases/words.rs"]
mod words;
