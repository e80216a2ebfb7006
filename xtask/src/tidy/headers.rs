//! Every source file opens with `//!`: what it is, its invariants, what is not there.

use super::Finding;

pub(crate) fn check(path: &str, text: &str) -> Option<Finding> {
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
            assert!(check("crates/a/src/lib.rs", text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn a_header_passes() {
        assert_eq!(check("crates/a/src/lib.rs", "//! The words of a.\n\nuse std::fmt;\n"), None);
    }
}
