//! `cargo xtask sim [SEED] [--runs N] [--broken NAME|all]`: whole runs of workers and plans in virtual time.
//!
//! A seed is a run. Without one, 2,000 are run, or as many as `--runs` says; a seed alone is run twice and
//! has to take the same steps. `--broken` runs programs that are wrong on purpose, each of which has to be
//! caught. What the words mean is decided by crates/sim.

use crate::child::Child;
use crate::failure::Failure;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    // Optimised: it takes millions of steps.
    Child::cargo(["run", "--quiet", "--locked", "--release", "-p", "sim", "--"])
        .arguments(arguments)
        .run(workspace)
}

/// The program as the tests have built it by then, for the two thousand runs of `cargo xtask test`.
pub(crate) fn quick(words: &[&str]) -> Child {
    Child::cargo(["run", "--quiet", "--locked", "-p", "sim", "--"].iter().chain(words).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_handed_on() {
        let line = quick(&["8841"]).to_string();
        assert_eq!(line, "cargo run --quiet --locked -p sim -- 8841");
    }
}
