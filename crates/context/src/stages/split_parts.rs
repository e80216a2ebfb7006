//! Parts that are small enough to be bought.
//!
//! A span that would take most of the tokens is cut, so that what matches best in it can be shown without the
//! rest. Lines that are named for sure are parts of their own: they are shown where what is round them does
//! not fit.
//!
//! # Invariants
//! 1. The parts of a span are a partition of its lines, in order; only the first begins its definition.
//! 2. A part of more than one line takes about a quarter of the tokens at most, or is a span that takes less
//!    than half.

use crate::index::{LineIndex, LineSpan, SpanKind};

/// A token is about so many bytes long.
const BYTES_PER_TOKEN: usize = 4;
/// A span that takes more than this part of the tokens is cut into such that take half of that.
const LARGE: usize = 2;
/// Shorter parts are not made, however few tokens there are.
const BYTES_MIN: usize = 160;

/// A part of a file, and the span that it was cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SplitPart {
    pub(super) part: LineSpan,
    pub(super) of: (u32, u32),
}

/// Cuts spans for so many tokens; `named` are lines that are shown for sure.
pub(super) fn cut(
    spans: &[LineSpan],
    lines: &LineIndex,
    named: &[(u32, u32)],
    tokens: u32,
) -> Vec<SplitPart> {
    let large = (tokens as usize * BYTES_PER_TOKEN / LARGE).max(2 * BYTES_MIN);
    let bytes = |from: u32, to: u32| lines.between(from as usize, to as usize).len();
    let mut cuts = Vec::with_capacity(spans.len());
    for span in spans {
        let is_large = bytes(span.from, span.to) > large;
        let is_edge =
            |line: u32| named.iter().any(|(first, last)| *first == line || last.saturating_add(1) == line);
        let (mut rest, of) = (*span, (span.from, span.to));
        for line in span.from + 1..=span.to {
            if is_edge(line) || (is_large && bytes(rest.from, line) > large / 2) {
                cuts.push(SplitPart { part: LineSpan { to: line - 1, ..rest }, of });
                let kind = if rest.kind == SpanKind::Def { SpanKind::Window } else { rest.kind };
                rest = LineSpan { from: line, kind, ..rest };
            }
        }
        cuts.push(SplitPart { part: rest, of });
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(lines: usize, named: &[(u32, u32)], tokens: u32) -> Vec<(u32, u32, SpanKind)> {
        // Lines of 32 bytes: 8 tokens, by the rule of thumb.
        let text = LineIndex::new(format!("{}\n", "x".repeat(31)).repeat(lines));
        let last = lines as u32;
        let head = LineSpan { from: 1, to: 2, def: None, kind: SpanKind::Head };
        let def = LineSpan { from: 3, to: last, def: Some(0), kind: SpanKind::Def };
        let cuts = cut(&[head, def], &text, named, tokens);
        assert!(cuts.iter().all(|cut| cut.of == if cut.part.from < 3 { (1, 2) } else { (3, last) }));
        cuts.into_iter().map(|cut| (cut.part.from, cut.part.to, cut.part.kind)).collect()
    }

    #[test]
    fn a_span_that_would_take_most_of_the_tokens_is_cut() {
        let (head, def, window) = (SpanKind::Head, SpanKind::Def, SpanKind::Window);
        assert_eq!(parts(22, &[], 320), [(1, 2, head), (3, 22, def)]);
        assert_eq!(parts(23, &[], 320), [(1, 2, head), (3, 12, def), (13, 22, window), (23, 23, window)]);
    }

    #[test]
    fn lines_that_are_named_are_a_part_of_their_own() {
        let (head, def, window) = (SpanKind::Head, SpanKind::Def, SpanKind::Window);
        assert_eq!(
            parts(12, &[(5, 6), (8, 12)], 4000),
            [(1, 2, head), (3, 4, def), (5, 6, window), (7, 7, window), (8, 12, window)]
        );
        assert_eq!(parts(12, &[(1, 12)], 4000), [(1, 2, head), (3, 12, def)]);
        assert_eq!(
            parts(22, &[(4, 22)], 0),
            [(1, 2, head), (3, 3, def), (4, 8, window), (9, 13, window), (14, 18, window), (19, 22, window)]
        );
    }
}
