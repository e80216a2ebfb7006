//! Tests wait for the event that they test, never for time. A sleep is too short on a busy machine and too
//! long on an idle one.
//!
//! A test is any code below a `tests` folder, in a file `tests.rs` or under `#[cfg(test)]`. The method of a
//! passed-in clock (`clock.sleep(…)`) is no sleep. If a test is about time itself, the line or the one above
//! says so with the comment `tidy: allow sleep`.

use super::Finding;
use super::rust_text::{code_of, test_lines};

const ALLOWED: &str = "// tidy: allow sleep";

pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let code = code_of(text);
    let in_test_file = path.ends_with("/tests.rs") || path.contains("/tests/");
    let modules = test_lines(&code);
    let lines: Vec<&str> = text.lines().collect();
    let is_allowed = |line: usize| {
        let above = line.checked_sub(2).and_then(|index| lines.get(index));
        [lines.get(line - 1), above].into_iter().flatten().any(|line| line.contains(ALLOWED))
    };
    let numbered = code.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered
        .filter(|&(line, _)| in_test_file || modules.iter().any(|module| module.contains(&line)))
        .filter(|&(line, code)| sleeps(code) && !is_allowed(line))
        .map(|(line, _)| Finding::new(path, line, "a test sleeps: wait for the event, or pass a clock in"))
        .collect()
}

/// Returns whether a line of code names `thread::sleep` or `time::sleep`, or calls a `sleep` that was
/// imported.
fn sleeps(code: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices("sleep").any(|(at, word)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let whole = !before.ends_with(is_word);
        let called = ["(", "_until(", "_ms("].iter().any(|call| after.starts_with(call));
        let of_std_or_tokio = before.ends_with("thread::") || before.ends_with("time::");
        let imported = !before.ends_with(['.', ':']) && !before.trim_end().ends_with("fn");
        whole && (of_std_or_tokio || (called && imported))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_in(path: &str, text: &str) -> Vec<usize> {
        check(path, text).iter().map(|finding| finding.line).collect()
    }

    const TEST: &str = "crates/a/tests/main.rs";
    const NONE: [usize; 0] = [];

    #[test]
    fn every_way_to_sleep_in_a_test_is_found() {
        for text in [
            "std::thread::sleep(d);",
            "tokio::time::sleep(d).await;",
            "use std::thread::sleep;",
            "time::sleep_until(then).await;",
            "sleep(Duration::from_millis(5));",
            "f(|| sleep(d))",
        ] {
            assert_eq!(lines_in(TEST, text), [1], "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_sleep_passes() {
        for text in
            ["clock.sleep(d).await;", "fn sleep(d: Duration) {}", "let sleeper = 1;", "// thread::sleep(d)"]
        {
            assert_eq!(lines_in(TEST, text), NONE, "{text}");
        }
    }

    #[test]
    fn only_tests_are_judged() {
        let text =
            "fn f() { thread::sleep(d) }\n#[cfg(test)]\nmod tests {\n  fn g() { thread::sleep(d) }\n}\n";
        assert_eq!(lines_in("crates/a/src/lib.rs", text), [4]);
        assert_eq!(lines_in("crates/a/src/tests.rs", text), [1, 4]);
    }

    #[test]
    fn the_comment_allows_it_on_its_line_or_above() {
        let reasoned = "thread::sleep(d); // tidy: allow sleep: the clock's own test\n";
        assert_eq!(lines_in(TEST, reasoned), NONE);
        assert_eq!(lines_in(TEST, "// tidy: allow sleep\nthread::sleep(d);\nthread::sleep(d);\n"), [3]);
    }
}
