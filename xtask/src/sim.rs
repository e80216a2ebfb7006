//! `cargo xtask sim [SEED] [--runs N] [--broken NAME|all]`: whole runs of workers and plans in virtual time.
//!
//! A seed is a run. Without one, 2,000 are run, or as many as `--runs` says; a seed alone is run twice and
//! has to take the same steps. `--broken` runs programs that are wrong on purpose, each of which has to be
//! caught. The crate `sim` interprets the words.

use crate::child::Child;
use crate::failure::Failure;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    // Optimised: it takes millions of steps.
    Child::cargo(["run", "--quiet", "--locked", "--release", "-p", "sim", "--"])
        .arguments(arguments)
        .run(workspace)
}
