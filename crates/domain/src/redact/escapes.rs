//! Removes the sequences that a terminal obeys from a text, so that a secret that they split is whole again.

use super::spans::SecretSpan;

const ESC: u8 = 0x1b;

/// A text without escape sequences, and where each byte of it came from.
pub(super) struct UnescapedText {
    pub(super) text: Vec<u8>,
    from: Vec<usize>,
}

impl UnescapedText {
    /// `None` if there is nothing to leave out.
    pub(super) fn new(text: &[u8]) -> Option<UnescapedText> {
        if !text.contains(&ESC) {
            return None;
        }
        let (mut kept, mut from, mut at) =
            (Vec::with_capacity(text.len()), Vec::with_capacity(text.len()), 0);
        while at < text.len() {
            let length = sequence(&text[at..]);
            if length == 0 {
                kept.push(text[at]);
                from.push(at);
                at += 1;
            }
            at += length;
        }
        Some(UnescapedText { text: kept, from })
    }

    /// Returns where spans of it are in the text that it was made from, sequences within them included.
    pub(super) fn spans(&self, spans: Vec<SecretSpan>) -> Vec<SecretSpan> {
        let origin = |at: usize| self.from.get(at).copied().unwrap_or_default();
        let spans = spans.into_iter().filter(|span| !span.range.is_empty());
        spans
            .map(|SecretSpan { range, kind }| {
                SecretSpan::new(origin(range.start)..origin(range.end - 1) + 1, kind)
            })
            .collect()
    }
}

/// The length of the sequence that a text begins with; 0 if it begins with none.
fn sequence(text: &[u8]) -> usize {
    let until = |from: usize, ends: &dyn Fn(u8) -> bool| {
        let end = text.iter().skip(from).position(|byte| ends(*byte));
        end.map_or(text.len(), |end| from + end + 1)
    };
    match text {
        [ESC, b'[', ..] => until(2, &|byte| (0x40..=0x7e).contains(&byte) || byte == b'\n'),
        [ESC, b']' | b'P' | b'X' | b'^' | b'_', ..] => until(2, &|byte| matches!(byte, 7 | ESC | b'\n')),
        [ESC, _, ..] => 2,
        [ESC] => 1,
        [_, ..] | [] => 0,
    }
}
