//! `cargo xtask soak [--plans N] [--kills N] [--seed N]`: many plans, with whole worker processes killed at
//! random.
//!
//! The work is a bench target of the program's crate: those are given the built program, and are built as it
//! is released.

use crate::child::Child;
use crate::failure::Failure;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    command(arguments).run(workspace)
}

fn command(arguments: &[String]) -> Child {
    Child::cargo(["bench", "--locked", "-p", "app", "--bench", "soak", "--"]).arguments(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_told_reaches_the_soak() {
        let line = command(&["--kills".to_owned(), "5".to_owned()]).to_string();
        assert_eq!(line, "cargo bench --locked -p app --bench soak -- --kills 5");
    }
}
