//! The words that differ between an old line and the new line in its place.
//!
//! # Invariants
//! 1. Ranges rise, do not touch each other, and begin and end between characters.
//! 2. Lines that have little in common have no changed words: the whole line changed.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// The maximum length of a line whose words are compared.
const WORDS_BYTES_MAX: usize = 4 << 10;

/// The bytes of both lines that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedWords {
    /// In the old line.
    pub old: Vec<Range<usize>>,
    /// In the new line.
    pub new: Vec<Range<usize>>,
}

/// The words that differ; `None` if the lines have so little in common that no word is worth naming.
///
/// ```
/// use domain::changed_words;
///
/// let words = changed_words("let a = old(b);", "let a = new(b);").unwrap();
/// assert_eq!((words.old, words.new), (vec![8..11], vec![8..11]));
/// assert_eq!(changed_words("one two three", "something else"), None);
/// ```
pub fn changed_words(old: &str, new: &str) -> Option<ChangedWords> {
    if old.len() > WORDS_BYTES_MAX || new.len() > WORDS_BYTES_MAX || old == new {
        return None;
    }
    let (old_words, new_words) = (words(old), words(new));
    let mut input: InternedInput<&str> = InternedInput::default();
    input.update_before(old_words.iter().map(|word| &old[word.clone()]));
    input.update_after(new_words.iter().map(|word| &new[word.clone()]));
    let mut changed = ChangedWords::default();
    for hunk in Diff::compute(Algorithm::Histogram, &input).hunks() {
        push(&mut changed.old, &old_words, hunk.before);
        push(&mut changed.new, &new_words, hunk.after);
    }
    let weight = |text: &str| text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
    let differs = |text: &str, ranges: &[Range<usize>]| -> usize {
        ranges.iter().map(|range| weight(&text[range.clone()])).sum()
    };
    let same = weight(old) - differs(old, &changed.old);
    (same * 3 >= weight(old).max(weight(new))).then_some(changed)
}

/// Runs of letters and digits, runs of blanks, and single other characters.
fn words(text: &str) -> Vec<Range<usize>> {
    #[derive(PartialEq)]
    enum CharKind {
        Word,
        Blank,
        Other,
    }
    let kind = |letter: char| match letter {
        _ if letter.is_alphanumeric() || letter == '_' => CharKind::Word,
        _ if letter.is_whitespace() => CharKind::Blank,
        _ => CharKind::Other,
    };
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut last = CharKind::Other;
    for (at, letter) in text.char_indices() {
        let (end, kind) = (at + letter.len_utf8(), kind(letter));
        match words.last_mut() {
            Some(word) if kind == last && kind != CharKind::Other => word.end = end,
            Some(_) | None => words.push(at..end),
        }
        last = kind;
    }
    words
}

fn push(ranges: &mut Vec<Range<usize>>, words: &[Range<usize>], changed: Range<u32>) {
    let changed = words.get(changed.start as usize..changed.end as usize).unwrap_or_default();
    let (Some(first), Some(last)) = (changed.first(), changed.last()) else { return };
    match ranges.last_mut() {
        Some(range) if range.end == first.start => range.end = last.end,
        Some(_) | None => ranges.push(first.start..last.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(old: &str, new: &str) -> Option<(String, String)> {
        let words = changed_words(old, new)?;
        let mark = |text: &str, ranges: &[Range<usize>]| {
            let mut out = text.to_owned();
            for range in ranges.iter().rev() {
                out.insert(range.end, ']');
                out.insert(range.start, '[');
            }
            out
        };
        Some((mark(old, &words.old), mark(new, &words.new)))
    }

    #[test]
    fn changed_words_are_found_and_unlike_lines_have_none() {
        let found = |old: &str, new: &str| marked(old, new).unwrap();
        assert_eq!(found("a.len() + 1", "a.len() + 2"), ("a.len() + [1]".into(), "a.len() + [2]".into()));
        assert_eq!(found("héllo wörld", "héllo wörd"), ("héllo [wörld]".into(), "héllo [wörd]".into()));
        assert_eq!(found("f(a, b)", "f(a, b, c)"), ("f(a, b)".into(), "f(a, b[, c])".into()));
        assert_eq!(found("  x = 1", "    x = 1"), ("[  ]x = 1".into(), "[    ]x = 1".into()));
        assert_eq!(marked("", "all of it"), None);
        assert_eq!(marked("same", "same"), None);
        assert_eq!(marked(&"long ".repeat(2_000), &"lang ".repeat(2_000)), None);
    }
}
