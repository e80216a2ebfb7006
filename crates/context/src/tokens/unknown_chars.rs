//! Stretches of text with characters whose class is not known: letters, marks, blanks or digits.
//!
//! Such a character may belong to the piece before it, to the one after it, to both or to none. The two
//! vocabularies may differ in that. So a stretch reaches from a place where both are known to cut to the next
//! such place. It costs the most that any way to cut it can cost.

use super::char_class::{CharClass, kind, short_form};
use super::piece_bound::most_tokens_cut;

/// The reach of both vocabularies without a cut, within a line.
pub(super) struct UncutSpan {
    pub(super) length: usize,
    pub(super) has_odd: bool,
    /// True if line ends after it may belong to it.
    pub(super) takes_line_ends: bool,
}

/// The stretch at the front. A line end is one of its own.
pub(super) fn stretch(bytes: &[u8]) -> UncutSpan {
    let (mut last, mut at) = kind(bytes);
    let mut has_odd = last == CharClass::Odd;
    while at < bytes.len() && last != CharClass::LineEnd {
        let (kind, length) = kind(&bytes[at..]);
        if is_cut(last, kind, &bytes[at..]) {
            break;
        }
        has_odd |= kind == CharClass::Odd;
        at += length;
        last = kind;
    }
    UncutSpan {
        length: at,
        has_odd,
        takes_line_ends: matches!(last, CharClass::Odd | CharClass::Mark | CharClass::Blank),
    }
}

/// Returns true if both cut between a character and the one at the front of `rest`.
fn is_cut(last: CharClass, next: CharClass, rest: &[u8]) -> bool {
    match (last, next) {
        (_, CharClass::LineEnd) => true,
        (CharClass::Odd, _) | (_, CharClass::Odd) | (CharClass::Digit, CharClass::Digit) => false,
        (CharClass::Digit, _) | (_, CharClass::Digit) | (CharClass::Mark, CharClass::Blank) => true,
        (CharClass::Capital | CharClass::Small | CharClass::Letter, CharClass::Mark) => short_form(rest) == 0,
        (CharClass::Capital | CharClass::Small | CharClass::Letter, next) => !next.is_letter(),
        (CharClass::Blank | CharClass::LineEnd | CharClass::Mark, _) => false,
    }
}

/// The most tokens that a stretch can begin with.
pub(super) fn most_tokens(stretch: &[u8]) -> u64 {
    let (mut last, mut begin) = kind(stretch);
    most_tokens_cut(stretch, |at| {
        if at < begin {
            return false;
        }
        let (kind, length) = kind(&stretch[at..]);
        let may_be_cut = may_be_cut(stretch, at, last, kind);
        begin = at + length;
        last = kind;
        may_be_cut
    })
}

/// Returns true if one of them may cut between two characters of a stretch.
fn may_be_cut(stretch: &[u8], at: usize, last: CharClass, next: CharClass) -> bool {
    let is_after_short_form =
        (2..=3).any(|length| at >= length && short_form(&stretch[at - length..at]) == length);
    match (last, next) {
        _ if is_after_short_form => true,
        (CharClass::Small | CharClass::Letter, CharClass::Capital) => true,
        // Slashes at the front of a line may belong to the line before.
        (CharClass::Mark, CharClass::Mark) => stretch[at - 1] == b'/',
        // Only the last blank may go to what follows.
        (CharClass::Blank, CharClass::Blank) => {
            stretch.get(at + 1).is_none_or(|byte| kind(&[*byte]).0 != CharClass::Blank)
        }
        (last, next) => !(last.is_letter() && next.is_letter()),
    }
}
