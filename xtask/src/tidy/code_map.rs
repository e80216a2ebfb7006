//! ARCHITECTURE.md names every crate: as `name` in backticks, as `crates/name` or as the folder `name/`.
//!
//! The bare word does not count: `sync` and `context` are also words of prose.

use super::Finding;

pub(crate) fn check(path: &str, text: &str, crates: &[&str]) -> Vec<Finding> {
    let missing = crates.iter().filter(|name| !is_named(text, name));
    missing.map(|name| Finding::new(path, 1, format!("does not name the crate `{name}`"))).collect()
}

fn is_named(text: &str, name: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let whole = !before.ends_with(is_word) && !after.starts_with(is_word);
        let in_backticks = before.ends_with('`') && after.starts_with('`');
        whole && (in_backticks || before.ends_with("crates/") || after.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_is_not_named_is_found() {
        for text in ["", "sync and async code", "`async`", "async/"] {
            let expected = Finding::new("ARCHITECTURE.md", 1, "does not name the crate `sync`");
            assert_eq!(check("ARCHITECTURE.md", text, &["sync"]), [expected], "{text}");
        }
    }

    #[test]
    fn a_named_crate_passes() {
        for text in ["the primitives (`sync`)", "  sync/  the primitives", "see crates/sync for"] {
            assert_eq!(check("ARCHITECTURE.md", text, &["sync"]), [], "{text}");
        }
    }
}
