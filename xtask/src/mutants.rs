//! `cargo xtask mutants [crate] [arguments…]`: the measure of whether the tests of a crate can fail.
//!
//! `cargo mutants` changes one expression at a time and runs the tests; a change that no test notices is
//! *missed*. A missed mutant is allowed only if `docs/concurrency.md` names it (`replace … with … in …`) and
//! explains why no ordinary test can see it. Its line does not count, because lines move.

use crate::child::Child;
use crate::failure::Failure;
use crate::install;
use crate::workspace::Workspace;

const EXPLANATIONS: &str = "docs/concurrency.md";
const MISSED: &str = "mutants.out/missed.txt";

/// The exit statuses of `cargo mutants` when it did its work: all caught, some missed, some timed out (which
/// counts as caught). Any other status means that it could not measure.
const MEASURED: [i32; 3] = [0, 2, 3];

pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    install::subcommand(workspace, "cargo-mutants", &Child::cargo(["mutants", "--version"]))?;
    let explanations = workspace.read(EXPLANATIONS)?;
    let (package, extra) = match arguments.split_first() {
        Some((package, extra)) if !package.starts_with('-') => (package.as_str(), extra),
        Some(_) | None => ("sync", arguments),
    };
    // A relative path, so that the mutated copy of the tree builds inside itself. In a target directory
    // shared with the original, each would take the other's artefacts for its own.
    let command = Child::cargo(["mutants", "-j1", "-p", package])
        .variable("CARGO_TARGET_DIR", "target")
        .arguments(extra);
    let status = command.run_for_status(workspace)?;
    if !status.code().is_some_and(|code| MEASURED.contains(&code)) {
        return Err(Failure::new(format!("`cargo mutants` could not measure `{package}`: {status}"))
            .hint(format!("repeat it with `{command}`; its logs are in mutants.out/log")));
    }
    if extra.iter().any(|argument| argument.starts_with("--list")) {
        return Ok(());
    }
    judge(&workspace.read(MISSED)?, &explanations)
}

fn judge(missed: &str, explanations: &str) -> Result<(), Failure> {
    let (explained, unexplained): (Vec<&str>, Vec<&str>) = missed
        .lines()
        .filter(|line| !line.is_empty())
        .partition(|line| explanations.contains(words_of(line)));
    println!("{} missed mutants are explained in {EXPLANATIONS}", explained.len());
    if unexplained.is_empty() {
        return Ok(());
    }
    let fact =
        format!("{} missed mutants are not explained:\n  {}", unexplained.len(), unexplained.join("\n  "));
    let hint = "write the test that notices, or, where none can, put the mutant's words (`replace …`) with the reason";
    Err(Failure::new(fact).hint(format!("{hint} into {EXPLANATIONS}")))
}

/// `replace a with b in c` of `crates/sync/src/x.rs:1:2: replace a with b in c`.
fn words_of(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSED: &str = "crates/sync/src/word.rs:12:5: replace < with <= in Word::next\n";

    #[test]
    fn an_explained_mutant_passes_wherever_it_stands_now() {
        assert_eq!(judge(MISSED, "- `replace < with <= in Word::next`: equal within the bound"), Ok(()));
    }

    #[test]
    fn an_unexplained_mutant_fails_by_name() {
        let failure = judge(MISSED, "- `replace < with <= in Word::previous`: another one");
        assert!(failure.is_err_and(|failure| failure.fact().contains("crates/sync/src/word.rs:12:5")));
    }

    #[test]
    fn nothing_missed_passes() {
        assert_eq!(judge("", ""), Ok(()));
    }
}
