//! Stretches of text with characters of which is not known what they are: letters, marks, blanks or digits.
//!
//! Such a character may belong to the piece before it, to the one after it, to both or to none, and not in the same way for
//! both vocabularies. So a stretch reaches from a place where both are known to cut to the next such place, and costs the most
//! that any way to cut it between makes of it.

use super::char_class::{Kind, kind, short_form};
use super::parts::most_tokens_cut;

/// How far both vocabularies may go without a cut, within a line.
pub(super) struct Stretch {
    pub(super) length: usize,
    pub(super) has_odd: bool,
    /// Whether line ends after it may belong to it.
    pub(super) takes_line_ends: bool,
}

/// The stretch at the front. A line end is one of its own.
pub(super) fn stretch(bytes: &[u8]) -> Stretch {
    let (mut last, mut at) = kind(bytes);
    let mut has_odd = last == Kind::Odd;
    while at < bytes.len() && last != Kind::LineEnd {
        let (kind, length) = kind(&bytes[at..]);
        if is_cut(last, kind, &bytes[at..]) {
            break;
        }
        has_odd |= kind == Kind::Odd;
        at += length;
        last = kind;
    }
    Stretch { length: at, has_odd, takes_line_ends: matches!(last, Kind::Odd | Kind::Mark | Kind::Blank) }
}

/// Whether both cut between a character and the one at the front of `rest`.
fn is_cut(last: Kind, next: Kind, rest: &[u8]) -> bool {
    match (last, next) {
        (_, Kind::LineEnd) => true,
        (Kind::Odd, _) | (_, Kind::Odd) | (Kind::Digit, Kind::Digit) => false,
        (Kind::Digit, _) | (_, Kind::Digit) | (Kind::Mark, Kind::Blank) => true,
        (Kind::Capital | Kind::Small | Kind::Letter, Kind::Mark) => short_form(rest) == 0,
        (Kind::Capital | Kind::Small | Kind::Letter, next) => !next.is_letter(),
        (Kind::Blank | Kind::LineEnd | Kind::Mark, _) => false,
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

/// Whether one of them may cut between two characters of a stretch.
fn may_be_cut(stretch: &[u8], at: usize, last: Kind, next: Kind) -> bool {
    let is_after_short_form =
        (2..=3).any(|length| at >= length && short_form(&stretch[at - length..at]) == length);
    match (last, next) {
        _ if is_after_short_form => true,
        (Kind::Small | Kind::Letter, Kind::Capital) => true,
        // Slashes at the front of a line may belong to the line before.
        (Kind::Mark, Kind::Mark) => stretch[at - 1] == b'/',
        // Only the last blank may go to what follows.
        (Kind::Blank, Kind::Blank) => stretch.get(at + 1).is_none_or(|byte| kind(&[*byte]).0 != Kind::Blank),
        (last, next) => !(last.is_letter() && next.is_letter()),
    }
}
