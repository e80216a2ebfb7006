//! docs/survive.md maps each promise to its proof. The last column of every row names, in backticks, only
//! tests and files that exist.
//!
//! A name is a test function (`crate::path::name`, or `name` alone), a scenario's or a model-check case's
//! title, or the path of a file. If the first word of a path is a crate's name, the function has to be in
//! that crate.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_text::code_of;
use super::{File, Finding};

/// The names that a row may use.
#[derive(Debug, Default)]
pub(crate) struct Tests<'a> {
    /// The functions of each crate.
    functions: BTreeMap<&'a str, BTreeSet<String>>,
    /// Titles of scenarios and of model-check cases.
    titles: BTreeSet<&'a str>,
    paths: BTreeSet<&'a str>,
}

impl<'a> Tests<'a> {
    pub(crate) fn in_files(files: &'a [File]) -> Self {
        let mut tests = Self::default();
        for file in files {
            tests.paths.insert(&file.path);
            if file.path.ends_with(".feature") {
                tests.titles.extend(file.text.lines().filter_map(scenario_title));
            } else if file.is_our_rust() {
                tests.functions.entry(crate_of(&file.path)).or_default().extend(functions_in(&file.text));
                tests.titles.extend(file.text.lines().filter_map(case_title));
            }
        }
        tests
    }

    fn has(&self, name: &str) -> bool {
        let bare = name.trim_end_matches("()");
        let mut segments = bare.split("::");
        let function = bare.rsplit("::").next().unwrap_or(bare);
        let crates = match segments.next().filter(|_| bare.contains("::")) {
            Some(first) if self.functions.contains_key(first) => vec![first],
            Some(_) | None => self.functions.keys().copied().collect(),
        };
        let title =
            name.split_once(' ').filter(|(seed, _)| seed.starts_with('#')).map_or(name, |(_, title)| title);
        crates
            .iter()
            .any(|name| self.functions.get(name).is_some_and(|functions| functions.contains(function)))
            || self.titles.contains(title)
            || self.paths.contains(name)
    }
}

pub(crate) fn check(path: &str, text: &str, tests: &Tests<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, cell) in last_cells(text) {
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            findings.push(Finding::new(
                path,
                line,
                "the row names no test: its last column has nothing in backticks",
            ));
        }
        for name in names.into_iter().filter(|name| !tests.has(name)) {
            findings.push(Finding::new(
                path,
                line,
                format!("there is no test, scenario, case or file `{name}`"),
            ));
        }
    }
    findings
}

/// The last cell of each table row below the header, with its line counted from 1.
fn last_cells(text: &str) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut below_header = false;
    for (index, line) in text.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else {
            below_header = false;
            continue;
        };
        if row.chars().all(|letter| "|-: ".contains(letter)) {
            below_header = true;
        } else if below_header {
            let row = row.strip_suffix('|').unwrap_or(row);
            cells.push((index + 1, row.rsplit('|').next().unwrap_or(row)));
        }
    }
    cells
}

fn scenario_title(line: &str) -> Option<&str> {
    let line = line.trim();
    let title =
        ["Scenario:", "Scenario Outline:", "Example:"].iter().find_map(|word| line.strip_prefix(word))?;
    Some(title.trim())
}

/// `no failure is lost` of `name: "no failure is lost"`, as a case is written.
fn case_title(line: &str) -> Option<&str> {
    line.split_once("name: \"")?.1.split('"').next()
}

fn functions_in(text: &str) -> BTreeSet<String> {
    let code = code_of(text);
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let named = code.match_indices("fn ").filter(|&(at, _)| !code[..at].ends_with(is_word));
    named
        .map(|(at, word)| code[at + word.len()..].chars().take_while(|&letter| is_word(letter)).collect())
        .collect()
}

/// `sync` of `crates/sync/…`, and `xtask`.
fn crate_of(path: &str) -> &str {
    let below = path.strip_prefix("crates/").unwrap_or(path);
    below.split('/').next().unwrap_or(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<File> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        vec![
            file(
                "crates/sync/tests/main.rs",
                "//! x\n#[test]\nfn nothing_is_lost() {}\n// fn only_a_comment() {}\n",
            ),
            file(
                "crates/engine/tests/shuttle.rs",
                "Case {\n    name: \"a stale write is refused\",\n}\nCase { seed: \"x\", name: \"on one line\" }\n",
            ),
            file("features/7088.feature", "Feature: x\n  Scenario: many threads trip once\n"),
        ]
    }

    fn checked(cell: &str) -> Vec<Finding> {
        let files = files();
        let text = format!("# What we survive\n\n| what | shown by |\n|---|---|\n| a crash | {cell} |\n");
        check("docs/survive.md", &text, &Tests::in_files(&files))
    }

    #[test]
    fn names_that_exist_pass() {
        for cell in [
            "`sync::main::nothing_is_lost`",
            "`nothing_is_lost`, and `many threads trip once`",
            "`#7166 a stale write is refused`, `on one line`",
            "`features/7088.feature`",
        ] {
            assert_eq!(checked(cell), [], "{cell}");
        }
    }

    #[test]
    fn names_that_do_not_exist_are_found_on_their_line() {
        for cell in
            ["`nothing_was_lost`", "`engine::nothing_is_lost`", "`only_a_comment`", "`features/7120.feature`"]
        {
            let lines: Vec<usize> = checked(cell).iter().map(|finding| finding.line).collect();
            assert_eq!(lines, [5], "{cell}");
        }
    }

    #[test]
    fn a_row_that_names_nothing_is_found() {
        let expected = "the row names no test: its last column has nothing in backticks";
        assert_eq!(checked("see above"), [Finding::new("docs/survive.md", 5, expected)]);
    }

    #[test]
    fn the_header_is_no_row() {
        assert_eq!(
            last_cells("| what | shown by |\n|---|:--|\n| a | b |\n\n| what | `x` |\n|---|---|\n"),
            [(3, " b ")]
        );
    }
}
