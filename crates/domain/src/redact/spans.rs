//! Places of secrets in a text, brought into order.

use std::ops::Range;

use super::mark::SecretKind;

/// A secret's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretSpan {
    pub(super) range: Range<usize>,
    pub(super) kind: SecretKind,
}

impl SecretSpan {
    pub(super) fn new(range: Range<usize>, kind: SecretKind) -> SecretSpan {
        SecretSpan { range, kind }
    }
}

/// Rising and apart. Those that overlap become one, so that no rest of a secret stays. It has the kind of the
/// first, of the longer of two that begin together, of the one found first of two alike.
pub(super) fn join_spans(mut spans: Vec<SecretSpan>) -> Vec<SecretSpan> {
    spans.sort_by_key(|span| (span.range.start, std::cmp::Reverse(span.range.end)));
    let mut joined: Vec<SecretSpan> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.range.start < last.range.end => {
                last.range.end = last.range.end.max(span.range.end);
            }
            Some(_) | None => joined.push(span),
        }
    }
    joined
}

/// The spans, rising and apart, without what `marks`, rising and apart, cover, and without blank rests.
pub(super) fn cut_out(text: &[u8], spans: Vec<SecretSpan>, marks: &[Range<usize>]) -> Vec<SecretSpan> {
    let mut left = Vec::with_capacity(spans.len());
    let mut marks = marks;
    for SecretSpan { range, kind } in spans {
        while let Some((_, later)) = marks.split_first().filter(|(mark, _)| mark.end <= range.start) {
            marks = later;
        }
        let mut begin = range.start;
        for mark in marks.iter().take_while(|mark| mark.start < range.end) {
            left.push(SecretSpan::new(begin..mark.start.max(begin), kind));
            begin = mark.end;
        }
        left.push(SecretSpan::new(begin..range.end.max(begin), kind));
    }
    left.retain(|span| text.get(span.range.clone()).is_some_and(|rest| !rest.trim_ascii().is_empty()));
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(ranges: &[Range<usize>]) -> Vec<SecretSpan> {
        ranges.iter().map(|range| SecretSpan::new(range.clone(), SecretKind::Known)).collect()
    }

    #[test]
    fn spans_that_overlap_are_one_and_those_that_touch_are_two() {
        assert_eq!(join_spans(spans(&[5..9, 0..4, 2..3, 8..12, 12..14])), spans(&[0..4, 5..12, 12..14]));
        let kinds = [(0..4, SecretKind::Jwt), (0..4, SecretKind::Value), (0..2, SecretKind::Known)];
        let kinds = kinds.map(|(range, kind)| SecretSpan::new(range, kind)).to_vec();
        assert_eq!(join_spans(kinds), [SecretSpan::new(0..4, SecretKind::Jwt)]);
    }

    #[test]
    #[allow(
        clippy::single_range_in_vec_init,
        clippy::type_complexity,
        reason = "ranges of found, marks and rest"
    )]
    fn marks_are_cut_out_of_spans() {
        let cases: [(&[Range<usize>], &[Range<usize>], &[Range<usize>]); 6] = [
            (&[0..10], &[], &[0..10]),
            (&[0..10], &[0..10], &[]),
            (&[2..8], &[0..10], &[]),
            (&[0..10], &[2..4, 6..7], &[0..2, 4..6, 7..10]),
            (&[0..3, 5..9], &[2..6], &[0..2, 6..9]),
            (&[5..9], &[0..2, 9..11], &[5..9]),
        ];
        for (found, marks, left) in cases {
            assert_eq!(cut_out(b"abcdefghijkl", spans(found), marks), spans(left));
        }
        assert_eq!(cut_out(b"ab  \n fg", spans(&[0..8]), &[0..2, 6..7]), spans(&[7..8]));
    }
}
