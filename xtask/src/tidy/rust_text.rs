//! Just enough of Rust's lexing for textual rules: separates code from comments and literals, and finds the
//! lines of tests.
//!
//! # Not here
//! Parsing. Macros, conditional compilation beyond `cfg(test)` and raw identifiers are taken as they are.

use std::ops::RangeInclusive;

/// The text with comments and the insides of literals turned into blanks. Lines and the number of letters
/// stay.
pub(crate) fn code_of(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < letters.len() {
        let blanked = blanked_from(&letters, at);
        if blanked == 0 {
            code.push(letters[at]);
            at += 1;
        } else {
            code.extend(
                letters[at..at + blanked].iter().map(|&letter| if letter == '\n' { '\n' } else { ' ' }),
            );
            at += blanked;
        }
    }
    code
}

/// Returns how many letters from `at` on are one comment or one literal; 0 if code is there.
fn blanked_from(letters: &[char], at: usize) -> usize {
    let rest = &letters[at..];
    match rest {
        ['/', '/', ..] => rest.iter().take_while(|&&letter| letter != '\n').count(),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => string(rest),
        ['\'', '\\', escaped @ ..] => {
            3 + escaped.iter().skip(1).take_while(|&&letter| letter != '\'').count()
                + usize::from(escaped.len() > 1)
        }
        ['\'', _, '\'', ..] => 3,
        ['r', '"' | '#', ..] if begins_literal(letters, at) => raw_string(rest),
        _ => 0,
    }
    .min(rest.len())
}

/// Returns whether the `r` at `at` is no end of a word: only a prefix `b` or `c` may come before it.
fn begins_literal(letters: &[char], at: usize) -> bool {
    let is_word =
        |letter: Option<&char>| letter.is_some_and(|letter| letter.is_alphanumeric() || *letter == '_');
    let before = at.checked_sub(1).and_then(|index| letters.get(index));
    let two_before = at.checked_sub(2).and_then(|index| letters.get(index));
    !is_word(before) || (matches!(before, Some('b' | 'c')) && !is_word(two_before))
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

fn raw_string(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&letter| letter == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let inside = &rest[2 + hashes..];
    let length = inside.windows(end.len()).position(|window| window == end).unwrap_or(inside.len());
    2 + hashes + length + end.len()
}

/// The lines, counted from 1, of the items under `#[cfg(test)]`. Takes what [`code_of`] gives.
pub(crate) fn test_lines(code: &str) -> Vec<RangeInclusive<usize>> {
    let line_of = |at: usize| 1 + code[..at].matches('\n').count();
    let attributes = code.match_indices("#[cfg(").filter(|&(at, _)| is_for_tests(&code[at..]));
    attributes.map(|(at, _)| line_of(at)..=line_of(at + item_length(&code[at..]))).collect()
}

fn is_for_tests(attribute: &str) -> bool {
    let condition = attribute.split(']').next().unwrap_or_default();
    let words = condition.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    words.into_iter().any(|word| word == "test") && !condition.contains("not(test")
}

/// From an attribute to the end of its item: a `;`, or the brace that closes the first one opened.
fn item_length(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in item.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth <= 1 => return at,
            '}' => depth -= 1,
            ';' if depth == 0 => return at,
            _ => {}
        }
    }
    item.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_code_stays() {
        let cases = [
            ("a // b", "a     "),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y", z)"#, "f(      , z)"),
            (r##"f(r#"a"b"#, z)"##, "f(        , z)"),
            (r#"f(br"a\", z)"#, "f(b     , z)"),
            (r"('a', '\'', '\n', b)", "(   ,     ,     , b)"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("r#type + for\"x\"", "r#type + for   "),
            ("\"one\ntwo\" three", "    \n     three"),
        ];
        for (text, expected) in cases {
            assert_eq!(code_of(text), expected, "{text}");
        }
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_text() {
        for text in ["\"a", "r#\"a", "/* a", "'\\", "\"\\", "'\\n"] {
            assert_eq!(code_of(text).trim(), "", "{text}");
        }
    }

    #[test]
    fn the_lines_of_a_test_module_are_found() {
        let code = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { {} }\n}\nfn c() {}\n#[cfg(all(test, unix))]\nuse d;\n";
        assert_eq!(test_lines(code), [2..=5, 7..=8]);
        assert_eq!(test_lines("#[cfg(not(test))]\nmod real {\n}\n#[cfg(latest)]\nuse x;\n"), []);
    }
}
