//! The header of a test program names every module of it, so that a reader finds the file of a promise.

use super::Finding;

/// Returns a finding for each module that the header does not name.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let is_index =
        path.contains("/tests/") && (path.ends_with("/main.rs") || path.ends_with("/cases/mod.rs"));
    if !is_index {
        return Vec::new();
    }
    let header: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
    let modules = text.lines().enumerate().filter_map(|(index, line)| {
        let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';')?;
        Some((index + 1, name))
    });
    modules
        // The folder that has the modules has the index.
        .filter(|(_, name)| *name != "cases" && !header.contains(&format!("`{name}`")))
        .map(|(line, name)| Finding::new(path, line, format!("the header does not name the module `{name}`")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_the_header_does_not_name_is_found() {
        let text = "//! Index: `a`.\n\nmod a;\nmod b;\n";
        let found = check("crates/x/tests/main.rs", text);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [4]);
        assert_eq!(check("crates/x/src/main.rs", text), []);
    }
}
