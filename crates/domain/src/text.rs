//! Shortens texts to a bound: by characters, by bytes, or to their beginning and end.
//!
//! # Invariants
//! No character is cut.

/// The text if it has at most `chars_max` characters; else a beginning of it and `…`, together so many.
///
/// ```
/// assert_eq!(domain::text::truncate_chars("äöü", 3), "äöü");
/// assert_eq!(domain::text::truncate_chars("äöüa", 3), "äö…");
/// ```
pub fn truncate_chars(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The longest beginning of at most `chars_max` characters.
pub fn first_chars(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

/// The longest beginning of at most `bytes_max` bytes.
pub fn first_bytes(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Returns the text if it has at most `head` and `tail` bytes together. Otherwise returns its beginning, one
/// line with the number of bytes that are missing, and its end.
///
/// ```
/// assert_eq!(domain::text::head_and_tail("äöü", 3, 2), "ä\n… 2 bytes left out …\nü");
/// assert_eq!(domain::text::head_and_tail("äöü", 3, 6), "äöü");
/// ```
pub fn head_and_tail(text: &str, head: usize, tail: usize) -> String {
    if text.len() <= head.saturating_add(tail) {
        return text.to_owned();
    }
    let first = first_bytes(text, head);
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
