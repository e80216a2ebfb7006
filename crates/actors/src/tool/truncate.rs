//! Long text cut to its beginning and its end.
//!
//! # Invariants
//! 1. What is left has at most head and tail, and one line that says how many bytes are missing.
//! 2. No character is cut.

/// The length of the beginning that is shown.
pub const HEAD_BYTES: usize = 16 << 10;
/// The length of the end that is shown.
pub const TAIL_BYTES: usize = 48 << 10;

/// The text, or its beginning and its end.
///
/// ```
/// assert_eq!(actors::tool::head_and_tail("äöü", 3, 2), "ä\n… 2 bytes left out …\nü");
/// assert_eq!(actors::tool::head_and_tail("äöü", 3, 6), "äöü");
/// ```
pub fn head_and_tail(text: &str, head: usize, tail: usize) -> String {
    if text.len() <= head.saturating_add(tail) {
        return text.to_owned();
    }
    let first = &text[..text.floor_char_boundary(head)];
    let last = &text[text.ceil_char_boundary(text.len() - tail)..];
    let left_out = text.len() - first.len() - last.len();
    format!("{first}\n… {left_out} bytes left out …\n{last}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_beginning_and_the_end_stay_whatever_the_text_is(text in "\\PC{0,80}", head in 0_usize..40, tail in 0_usize..40) {
            let shown = head_and_tail(&text, head, tail);
            if text.len() <= head + tail {
                prop_assert_eq!(shown, text);
            } else {
                let (first, rest) = shown.split_once("\n… ").unwrap();
                let (left_out, last) = rest.split_once(" bytes left out …\n").unwrap();
                prop_assert!(first.len() <= head && last.len() <= tail);
                prop_assert!(text.starts_with(first) && text.ends_with(last));
                prop_assert_eq!(first.len() + last.len() + left_out.parse::<usize>().unwrap(), text.len());
            }
        }
    }
}
