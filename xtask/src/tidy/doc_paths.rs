//! Files that documents and comments name exist.
//!
//! A path is anything that begins with `crates/`, `xtask/`, `docs/`, `features/` or `examples/` and ends like
//! a file.

use std::collections::BTreeSet;

use super::{File, Finding};

const TOPS: [&str; 5] = ["crates/", "xtask/", "docs/", "features/", "examples/"];
const ENDINGS: [&str; 5] = [".rs", ".md", ".feature", ".yaml", ".sh"];

/// Returns a finding for each file that a document names and that is not there.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let known: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let documents = files.iter().filter(|file| file.path.ends_with(".md"));
    documents.flat_map(|file| in_document(&file.path, &file.text, &known)).collect()
}

fn in_document(path: &str, text: &str, known: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let is_part = |letter: char| letter.is_alphanumeric() || "/._-".contains(letter);
        for word in line.split(|letter: char| !is_part(letter)) {
            let word = word.trim_end_matches('.');
            let is_path =
                TOPS.iter().any(|top| word.starts_with(top)) && ENDINGS.iter().any(|end| word.ends_with(end));
            if is_path && !known.contains(word) {
                findings.push(Finding::new(path, index + 1, format!("there is no file {word}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_found() {
        let known = BTreeSet::from(["crates/a/src/lib.rs"]);
        let text = "See `crates/a/src/lib.rs` and crates/a/src/gone.rs.\nAlso crates/a/src and gone.rs.\n";
        assert_eq!(
            in_document("a.md", text, &known),
            [Finding::new("a.md", 1, "there is no file crates/a/src/gone.rs")]
        );
    }
}
