//! A type name means one thing in the whole workspace, so that a search for it finds one definition.
//!
//! Role words that their module qualifies (`foo::Error`, `bar::Config`) may repeat.

use std::collections::BTreeMap;

use super::{File, Finding};

/// Words for a role, which the module qualifies.
const ROLES: [&str; 12] = [
    "Args", "Config", "Error", "Inner", "Kind", "Options", "Request", "Response", "Settings", "Shared",
    "State", "Visitor",
];
/// The words before the name of a type.
const KEYWORDS: [&str; 4] = ["struct ", "enum ", "trait ", "union "];

/// Returns a finding for each definition of a name that is defined more than once.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/")) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(name) = defined(line).filter(|name| !ROLES.contains(name)) {
                places.entry(name).or_default().push((&file.path, index + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, places) in places.iter().filter(|(_, places)| places.len() > 1) {
        let what = format!("`{name}` is defined {} times: give it a name of its own", places.len());
        findings.extend(places.iter().map(|(path, line)| Finding::new(path, *line, what.clone())));
    }
    findings
}

/// Returns the name of the type that the line defines; `None` if it defines none.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let rest = KEYWORDS.iter().find_map(|keyword| line.strip_prefix(keyword))?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_whatever_their_visibility() {
        assert_eq!(defined("pub struct PlanView {"), Some("PlanView"));
        assert_eq!(defined("    pub(crate) enum Side<'a> {"), Some("Side"));
        assert_eq!(defined("trait Store: Send {"), Some("Store"));
        assert_eq!(defined("let structure = 1;"), None);
    }

    #[test]
    fn a_name_with_two_meanings_is_found_in_both_places() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/a/src/a.rs", "struct Told;\nstruct Error;\n"),
            file("crates/b/src/b.rs", "struct Other;\nenum Told {}\nenum Error {}\n"),
            file("crates/b/tests/main.rs", "struct Told;\n"),
        ];
        let places: Vec<(String, usize)> =
            check(&files).into_iter().map(|finding| (finding.path, finding.line)).collect();
        assert_eq!(places, [("crates/a/src/a.rs".to_owned(), 1), ("crates/b/src/b.rs".to_owned(), 2)]);
    }
}
