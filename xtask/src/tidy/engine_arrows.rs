//! The arrows between the folders of `engine`, written down: a new one has to be added here, and argued for.
//!
//! # Invariants
//! 1. `tools` uses no other folder.
//! 2. `query` never writes: it names no `Effect`, no `Claim` and no `move_plan`.
//! 3. Nothing but `engine.rs`, `plan`, `maintenance`, `query`, `apply` and `context` knows of `workers`.

use super::Finding;

const SOURCE: &str = "crates/engine/src/";
/// The folders, and those that each may use.
const ARROWS: [(&str, &[&str]); 8] = [
    ("apply", &["plan", "query", "run", "workers"]),
    ("context", &["plan", "query", "workers"]),
    ("maintenance", &["apply", "query", "run", "workers"]),
    ("plan", &["context", "maintenance", "query", "run", "tools", "workers"]),
    ("query", &["plan", "run", "workers"]),
    ("run", &["apply", "context", "maintenance", "plan", "query", "tools"]),
    ("tools", &[]),
    ("workers", &["plan", "run"]),
];
/// The names that only writers use.
const WRITES: [&str; 3] = ["Effect", "Claim", "move_plan"];

/// Returns a finding for each path of a file that points to a folder which its own may not use.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let Some(folder) = path.strip_prefix(SOURCE).and_then(|below| Some(below.split_once('/')?.0)) else {
        return Vec::new();
    };
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == folder) else {
        let what =
            format!("the folder {folder} has no arrows: give it some in xtask/src/tidy/engine_arrows.rs");
        return vec![Finding::new(path, 1, what)];
    };
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
        for used in folders_in(line).filter(|used| *used != folder && !allowed.contains(used)) {
            findings.push(Finding::new(path, index + 1, format!("{folder} must not use {used}")));
        }
        let written = WRITES.iter().find(|word| folder == "query" && has_word(line, word));
        findings
            .extend(written.map(|word| Finding::new(path, index + 1, format!("query only reads: {word}"))));
    }
    findings
}

/// Returns the folders that paths of the line name.
fn folders_in(line: &str) -> impl Iterator<Item = &str> {
    let paths = line.match_indices("crate::").map(|(at, start)| &line[at + start.len()..]);
    paths.filter_map(|rest| ARROWS.iter().map(|(name, _)| *name).find(|name| starts_with_word(rest, name)))
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word)
        .is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
            && starts_with_word(&line[at..], word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_is_not_written_down_is_found() {
        let found = check("crates/engine/src/tools/read.rs", "use crate::plan::create;\n");
        assert_eq!(found, [Finding::new("crates/engine/src/tools/read.rs", 1, "tools must not use plan")]);
        assert_eq!(check("crates/engine/src/run/mod.rs", "use crate::query::find;\n// crate::workers\n"), []);
        assert_eq!(check("crates/engine/src/engine.rs", "use crate::workers::pool;\n"), []);
        assert_eq!(check("crates/engine/src/other/a.rs", "").len(), 1);
    }

    #[test]
    fn a_query_that_writes_is_found() {
        let text = "let claim = 1;\nstore.move_plan(id);\nlet effective = 2;\nfn a(effect: &Effect) {}\n";
        let lines: Vec<usize> =
            check("crates/engine/src/query/a.rs", text).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
