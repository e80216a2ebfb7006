//! Every source file opens with `//!`: what it is, its invariants, what is not there. Its lines fit next to
//! code.

use super::Finding;

/// Limits how wide a line of a header may be, as rustfmt has it for code.
const COLUMNS_MAX: usize = 110;

pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    unheaded(path, text).into_iter().chain(too_wide(path, text)).collect()
}

/// Returns the lines of prose that are too wide. Tables, pictures and links cannot be wrapped.
fn too_wide(path: &str, text: &str) -> Vec<Finding> {
    let mut is_picture = false;
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate().take_while(|(_, line)| line.starts_with("//!")) {
        let prose = line["//!".len()..].trim_start();
        is_picture ^= prose.starts_with("```");
        let is_prose = !is_picture && !prose.starts_with('|') && prose.contains(' ');
        if is_prose && line.chars().count() > COLUMNS_MAX {
            let what = format!("a line of a header is wider than {COLUMNS_MAX} columns");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

fn unheaded(path: &str, text: &str) -> Option<Finding> {
    let headed = text
        .strip_prefix("//!")
        .is_some_and(|rest| !rest.lines().next().unwrap_or_default().trim().is_empty());
    (!headed).then(|| Finding::new(path, 1, "opens without a header (`//! …`) that says what the file is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_found() {
        for text in ["use std::fmt;\n", "", "// a comment\n", "\n//! late\n", "//!\n//! empty first line\n"] {
            assert!(!check("crates/a/src/lib.rs", text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn a_header_passes() {
        assert_eq!(check("crates/a/src/lib.rs", "//! The words of a.\n\nuse std::fmt;\n"), []);
    }

    #[test]
    fn a_line_that_is_too_wide_is_found_but_not_in_a_table() {
        let wide = format!("a {}", "b".repeat(COLUMNS_MAX));
        let text = format!("//! {wide}\n//! | {wide} |\n//! ```\n//! {wide}\n//! ```\n\n/// {wide}\n");
        let lines: Vec<usize> =
            check("crates/a/src/lib.rs", &text).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1]);
    }
}
