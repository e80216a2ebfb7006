//! Nothing is left for later: no ignored test, no unfinished function.
//!
//! A test that does not run proves nothing, and an unfinished function is a panic in waiting. Mentions in
//! comments and strings are no code and pass.

use super::Finding;
use super::rust_text::code_of;

const UNFINISHED: &str = "unfinished code: write it, or leave the item out";
const IGNORED: &str = "an ignored test shows nothing: run it, delete it, or make it an xtask command";

const REFUSED: [(&str, &str); 5] = [
    ("todo!(", UNFINISHED),
    ("unimplemented!(", UNFINISHED),
    ("#[ignore", IGNORED),
    (", ignore)]", IGNORED),
    (", ignore = ", IGNORED),
];

pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in code_of(text).lines().enumerate() {
        for (refused, why) in REFUSED {
            if line.contains(refused) {
                findings.push(Finding::new(path, index + 1, why));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_code_and_ignored_tests_are_found() {
        let text = "//! x\nfn f() { todo!() }\nfn g() { unimplemented!(\"g\") }\n#[ignore = \"slow\"]\n#[ignore]\n\
                    #[cfg_attr(unix, ignore)]\n";
        let lines: Vec<usize> =
            check("crates/a/src/lib.rs", text).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6]);
    }

    #[test]
    fn mentions_pass() {
        let text =
            "//! No `todo!()` here, nor #[ignore].\nfn f() { g(\"unimplemented!()\") }\nfn ignore() {}\n";
        assert_eq!(check("crates/a/src/lib.rs", text), []);
    }
}
