//! The simulation: does a seed decide all of a run, does every fault strike, is every promise looked at, and
//! is whoever breaks one caught? What the runs say about the program: `cargo xtask sim`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cases {
    mod caught;
    mod runs;
}
