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
//! | `strategy_events` | a breaker that opens or closes is reported exactly once |
//! | `index_disk` | the index in its file: found again, killed, shared, spoiled, thrown away |
//! | `golden_parsed`, `golden_script`, `golden_scanned`, `golden_prose` | what is found in a file of each language |
//! | `index_history` | which commits the index knows, and when git is asked |
//! | `index_image` | the image of an index: read instead of the tables, drawn anew, damaged |
//! | `index_update` | what an update of the index notices, reads and leaves |
//! | `words` | names, stops and configuration |
//! | `counter` | the count of tokens is never below that of real vocabularies |
//! | `assemble` | what a context holds: golden texts, focus, depth, redaction, several projects |
//! | `fields` | every field of a request and every rule of a view changes the receipt |
//! | `hostile` | strategies that lie, fail or hang; cancels; files that move |
//! | `requests` | ten thousand random requests: within budget, the same twice, the receipt adds up |
//!
//! Time is a clock that the tests move, and threads meet at gates and channels, so nothing here depends on
//! how fast the machine is. A watchdog ends a test whose event never comes.
//!
//! Further modules: `ground`, `index_golden`, `index_support`, `support`.

// Under a model checker the locks are not std's; `tests/shuttle` explores this code then.
#![cfg(not(any(loom, shuttle)))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, and has no readers but its own"
)]

#[path = "cases/assemble.rs"]
mod assemble;
#[path = "cases/breakers.rs"]
mod breakers;
#[path = "cases/cancel.rs"]
mod cancel;
#[path = "cases/counter.rs"]
mod counter;
#[path = "cases/fields.rs"]
mod fields;
#[path = "cases/golden_parsed.rs"]
mod golden_parsed;
#[path = "cases/golden_prose.rs"]
mod golden_prose;
#[path = "cases/golden_scanned.rs"]
mod golden_scanned;
#[path = "cases/golden_script.rs"]
mod golden_script;
#[path = "cases/ground.rs"]
mod ground;
#[path = "cases/hostile.rs"]
mod hostile;
#[path = "cases/index_disk.rs"]
mod index_disk;
#[path = "cases/index_golden.rs"]
mod index_golden;
#[path = "cases/index_history.rs"]
mod index_history;
#[path = "cases/index_image.rs"]
mod index_image;
#[path = "cases/index_support.rs"]
mod index_support;
#[path = "cases/index_update.rs"]
mod index_update;
#[path = "cases/isolation.rs"]
mod isolation;
#[path = "cases/order.rs"]
mod order;
#[path = "cases/pool.rs"]
mod pool;
#[path = "cases/requests.rs"]
mod requests;
#[path = "cases/strategy_events.rs"]
mod strategy_events;
#[path = "cases/support.rs"]
mod support;
#[path = "cases/table.rs"]
mod table;
#[path = "cases/words.rs"]
mod words;
