//! Git is started in one place, which holds it back: a repository is foreign, and its configuration can name
//! programs.
//!
//! Tests and benchmarks make their own repositories, and start git as they like.

use super::Finding;
use super::rust_text::{code_of, test_lines};

/// The file that starts git.
const ALLOWED: &str = "crates/sandbox/src/git_command.rs";
/// Shared by tests and benchmarks.
const TESTKIT: &str = "crates/testkit/";

pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let is_product = path.starts_with("crates/") && path.contains("/src/") && !path.starts_with(TESTKIT);
    if path == ALLOWED || !is_product {
        return Vec::new();
    }
    let tests = test_lines(&code_of(text));
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines
        .filter(|&(line, text)| starts_git(text) && !tests.iter().any(|module| module.contains(&line)))
        .map(|(line, _)| Finding::new(path, line, format!("git is started here: that belongs in {ALLOWED}")))
        .collect()
}

/// Returns whether a line starts git by name, or by a path that ends with its name.
fn starts_git(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("new(\"").any(|(at, start)| {
        let word = code[at + start.len()..].split('"').next().unwrap_or_default();
        word == "git" || word.ends_with("/git") || word.starts_with("git-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_is_found_wherever_it_is_started_outside_of_tests() {
        let text = "fn f() {\n    Command::new(\"git\");\n    Command::new(\"/usr/bin/git\");\n}\n";
        let found = |path: &str| check(path, text).iter().map(|finding| finding.line).collect::<Vec<_>>();
        assert_eq!(found("crates/engine/src/a.rs"), [2, 3]);
        assert!(found(ALLOWED).is_empty());
        assert!(found("crates/engine/tests/a.rs").is_empty());
        assert!(found("crates/engine/benches/a.rs").is_empty());
        assert!(found("crates/testkit/src/a.rs").is_empty());
        let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert!(check("crates/engine/src/a.rs", &tests).is_empty());
    }
}
