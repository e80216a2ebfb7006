//! The bounds of a text that a model is shown: its beginning and its end, cut at line ends.

/// The length of the beginning that is shown.
pub const HEAD_BYTES: usize = 16 << 10;
/// The length of the end that is shown.
pub const TAIL_BYTES: usize = 48 << 10;
/// The limit of the text of one result that a model reads.
pub const RESULT_BYTES_MAX: usize = 50 << 10;
/// The limit of the lines of one result that a model reads.
pub const RESULT_LINES_MAX: usize = 2_000;

/// Returns the text if it has at most `bytes_max` bytes and [`RESULT_LINES_MAX`] lines. Else it returns the
/// first quarter of that, a line with `advice` on how to get the rest, and the last three quarters. Lines stay
/// whole, unless a single line is longer than its part.
///
/// ```
/// let text = "one\ntwo\nthree\nfour\nfive\n";
/// assert_eq!(actors::tool::first_and_last_lines(text, 16, "ask again"), "one\n[… left out here: ask again]\nfour\nfive\n");
/// assert_eq!(actors::tool::first_and_last_lines(text, 24, "ask again"), text);
/// ```
pub fn first_and_last_lines(text: &str, bytes_max: usize, advice: &str) -> String {
    let lines = text.split_inclusive('\n').count();
    if text.len() <= bytes_max && lines <= RESULT_LINES_MAX {
        return text.to_owned();
    }
    let (head, tail) = (bytes_max / 4, bytes_max - bytes_max / 4);
    let (head_lines, tail_lines) = (RESULT_LINES_MAX / 4, RESULT_LINES_MAX - RESULT_LINES_MAX / 4);
    let (first, last) = (first_lines(text, head, head_lines), last_lines(text, tail, tail_lines));
    let break_before = if first.is_empty() || first.ends_with('\n') { "" } else { "\n" };
    format!("{first}{break_before}[… left out here: {advice}]\n{last}")
}

/// Returns the first lines of a text within both bounds; a part of the first line if that alone is too long.
pub fn first_lines(text: &str, bytes_max: usize, lines_max: usize) -> &str {
    let mut end = 0;
    for line in text.split_inclusive('\n').take(lines_max) {
        if end + line.len() > bytes_max {
            break;
        }
        end += line.len();
    }
    match end {
        0 => &text[..text.floor_char_boundary(bytes_max)],
        end => &text[..end],
    }
}

fn last_lines(text: &str, bytes_max: usize, lines_max: usize) -> &str {
    let mut start = text.len();
    for line in text.split_inclusive('\n').rev().take(lines_max) {
        if text.len() - start + line.len() > bytes_max {
            break;
        }
        start -= line.len();
    }
    match start {
        start if start == text.len() => {
            &text[text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..]
        }
        start => &text[start..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_that_is_too_long_is_cut_between_characters() {
        let long = "ä".repeat(100);
        assert_eq!(first_lines(&long, 9, 1), "ä".repeat(4));
        let shown = first_and_last_lines(&long, 40, "x");
        assert_eq!(shown, format!("{}\n[… left out here: x]\n{}", "ä".repeat(5), "ä".repeat(15)));
    }

    #[test]
    fn many_short_lines_are_too_many() {
        let text = "a\n".repeat(RESULT_LINES_MAX + 1);
        let shown = first_and_last_lines(&text, usize::MAX / 2, "x");
        assert_eq!(shown.lines().count(), RESULT_LINES_MAX + 1);
        assert!(shown.contains("[… left out here: x]\n"));
    }

    proptest! {
        #[test]
        fn only_whole_lines_are_shown_and_never_more_than_the_bound(
            lines in proptest::collection::vec("[a-z]{0,12}", 0..40), bytes_max in 60_usize..200,
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let shown = first_and_last_lines(&text, bytes_max, "x");
            if text.len() <= bytes_max {
                prop_assert_eq!(&shown, &text);
            } else {
                let (first, last) = shown.split_once("[… left out here: x]\n").unwrap();
                prop_assert!(first.len() + last.len() <= bytes_max);
                prop_assert!(text.starts_with(first) && text.ends_with(last));
                prop_assert!(first.ends_with('\n') && last.ends_with('\n'));
            }
        }
    }
}
