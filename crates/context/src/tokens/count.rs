//! The most tokens that a text can have: cut into pieces as the vocabularies cut it, and each piece bounded.
//!
//! A vocabulary cuts a text into pieces before it looks anything up. A piece is a word with the one mark or
//! blank before it, three digits, marks with the line ends after them, or blanks.
//! [`piece_bound`](super::piece_bound) bounds the cost of a piece.
//!
//! A piece that reaches over the end of a line is counted line by line as well. A token that does so is paid
//! for by the line in which it ends. The line in which it begins pays for the most that can come before it.
//! Only line ends, lines of blanks and, in o200k, slashes at the front of a line can belong to the text
//! before the line.
//!
//! # Invariants
//! 1. Lines one by one cost no less than together: a count over the end of a line is never above the sum of
//!    its lines.
//! 2. If the two vocabularies cut differently, the dearer way counts.
//! 3. One pass; a byte costs at most a fixed number of steps.

use super::char_class::{CharClass, kind, run, short_form};
use super::piece_bound::{most_tokens, most_tokens_before};
use super::unknown_chars;
use super::vocabulary::{LONGEST, PieceHash};

/// The most tokens of a text.
pub(super) fn most_tokens_of(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let (mut at, mut sum) = (0, 0);
    // A text may be a line whose line before is not known.
    let mut before = Preceding::Marks { length: 0 };
    // Up to here there is no odd character that a piece could hold.
    let mut plain = if text.is_ascii() { bytes.len() } else { 0 };
    while at < bytes.len() {
        let mut odd = None;
        if at >= plain {
            let stretch = unknown_chars::stretch(&bytes[at..]);
            odd = stretch.has_odd.then(|| odd_piece(&bytes[at..at + stretch.length], &stretch));
            plain = at + stretch.length;
        }
        let piece = odd.unwrap_or_else(|| next(bytes, at, before));
        at += piece.length;
        sum += piece.tokens;
        before = piece.ends;
    }
    sum
}

/// The text before a piece, as far as it matters to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Preceding {
    /// Line ends that belong to marks: a piece of so many bytes, none if it is not known.
    Marks {
        length: usize,
    },
    /// Text to which line ends may belong.
    Odd,
    Other,
}

/// One piece, or several whose ends depend on one another.
#[derive(Clone, Copy)]
struct TokenPiece {
    length: usize,
    tokens: u64,
    ends: Preceding,
}

impl TokenPiece {
    fn new(length: usize, tokens: u64, ends: Preceding) -> TokenPiece {
        TokenPiece { length, tokens, ends }
    }

    fn then(self, other: TokenPiece) -> TokenPiece {
        TokenPiece::new(self.length + other.length, self.tokens + other.tokens, other.ends)
    }
}

fn next(text: &[u8], at: usize, before: Preceding) -> TokenPiece {
    let bytes = &text[at..];
    match (kind(bytes).0, before) {
        (CharClass::Capital | CharClass::Small | CharClass::Letter, _) => word(bytes, 0),
        (CharClass::Digit, _) => {
            let length = run(bytes, |kind| kind == CharClass::Digit);
            TokenPiece::new(length, digits(&bytes[..length]), Preceding::Other)
        }
        (CharClass::LineEnd, Preceding::Odd) => {
            let length = run(bytes, |kind| kind == CharClass::LineEnd);
            let first = bytes[..length].iter().position(|byte| *byte == b'\n').map_or(length, |end| end + 1);
            let tokens = first as u64 + line_by_line(&bytes[first..length]);
            TokenPiece::new(length, tokens, Preceding::Marks { length: 0 })
        }
        (CharClass::LineEnd, Preceding::Marks { .. }) => {
            let piece = blanks(bytes);
            let are_line_ends = bytes[..piece.length].iter().all(|byte| is_line_end(*byte));
            let ends = if are_line_ends { Preceding::Marks { length: 0 } } else { piece.ends };
            TokenPiece { ends, ..piece }
        }
        (CharClass::Blank | CharClass::LineEnd, _) => blanks(bytes),
        (CharClass::Mark, Preceding::Marks { length }) if bytes[0] == b'/' => slashes(text, at, length),
        (CharClass::Mark | CharClass::Odd, _) => mark(bytes),
    }
}

/// Characters of which is not known how they are cut: they cost the most that any way to cut them makes of
/// them. The line end after them costs a token a byte, since it may belong to them.
fn odd_piece(bytes: &[u8], stretch: &unknown_chars::UncutSpan) -> TokenPiece {
    let ends = if stretch.takes_line_ends { Preceding::Odd } else { Preceding::Other };
    TokenPiece::new(stretch.length, unknown_chars::most_tokens(bytes), ends)
}

/// Both vocabularies know all numbers of up to three digits.
const DIGITS_TOGETHER: usize = 3;

/// Digits are cut after every third character, and no number is known that has any but ASCII.
fn digits(bytes: &[u8]) -> u64 {
    let length = if bytes.is_ascii() { bytes.len().div_ceil(DIGITS_TOGETHER) } else { bytes.len() };
    length as u64
}

/// A word, after `lead` bytes of the mark or blank that belongs to it, with the `'s` or the like after it.
/// The vocabulary `cl100k` takes all letters together and cuts before `'s`. In `o200k` a new piece begins
/// with a capital after a small letter, and the cut is after `'s`.
fn word(bytes: &[u8], lead: usize) -> TokenPiece {
    let first = lead + hump(&bytes[lead..]);
    let letters = first + run(&bytes[first..], CharClass::is_letter);
    let length = letters + short_form(&bytes[letters..]);
    let mut tokens = most_tokens(&bytes[..letters]);
    if first < length {
        tokens += most_tokens(&bytes[letters..length]);
        let (mut at, mut end, mut humps) = (0, first, 0);
        while end < letters {
            humps += most_tokens(&bytes[at..end]);
            at = end;
            end = at + hump(&bytes[at..letters]);
        }
        tokens = tokens.max(humps + most_tokens(&bytes[at..length]));
    }
    TokenPiece::new(length, tokens, Preceding::Other)
}

/// Returns the number of bytes the letters have up to the next capital after a small one.
fn hump(bytes: &[u8]) -> usize {
    let capitals = run(bytes, |kind| matches!(kind, CharClass::Capital | CharClass::Letter));
    capitals + run(&bytes[capitals..], |kind| matches!(kind, CharClass::Small | CharClass::Letter))
}

/// A piece that begins with a mark.
fn mark(bytes: &[u8]) -> TokenPiece {
    let length = kind(bytes).1;
    if length == bytes.len() || !kind(&bytes[length..]).0.is_letter() {
        return marks(bytes, 0);
    }
    let mut whole = word(bytes, length);
    // cl100k takes `'s` away from `'string`.
    let short = short_form(bytes);
    if short > 0 {
        let rest = if whole.length > short { word(&bytes[short..], 0).tokens } else { 0 };
        whole.tokens = whole.tokens.max(most_tokens(&bytes[..short]) + rest);
    }
    whole
}

/// Marks in a row after `lead` bytes, with the line ends after them.
fn marks(bytes: &[u8], lead: usize) -> TokenPiece {
    let marks = lead + run(&bytes[lead..], |kind| kind == CharClass::Mark);
    let length = marks + run(&bytes[marks..], |kind| kind == CharClass::LineEnd);
    let piece = &bytes[..length];
    if length == marks {
        return TokenPiece::new(length, most_tokens(piece), Preceding::Other);
    }
    // The tokens that slashes save together with the marks are counted with the slashes.
    let is_open = bytes.get(length) == Some(&b'/');
    let tokens = if is_open { line_by_line(piece) } else { most_tokens_of_lines(piece) };
    TokenPiece::new(length, tokens, Preceding::Marks { length })
}

/// The most slashes at the front of a line that a token of o200k holds which begins in the line before.
const SLASHES_JOINED: usize = 3;

/// Slashes at the front of a line, after a piece of marks and line ends of `marks` bytes. In `o200k` they
/// belong to that piece, and a new piece begins after them.
///
/// It joins two, four or eight slashes before any with a line end. So of four none goes to the line before,
/// of two both, and of three one may be left.
fn slashes(text: &[u8], at: usize, marks: usize) -> TokenPiece {
    let bytes = &text[at..];
    let slashes = run_of(bytes, b'/');
    let is_line = bytes.get(slashes).is_some_and(|byte| is_line_end(*byte));
    // As cl100k cuts it, and as o200k does: these end at the same place, a few pieces later at the most.
    let mut whole = mark(bytes);
    let mut rest = TokenPiece::new(slashes, 0, Preceding::Other);
    while rest.length != whole.length {
        if rest.length < whole.length {
            rest = rest.then(next(text, at + rest.length, rest.ends));
        } else {
            whole = whole.then(next(text, at + whole.length, whole.ends));
        }
    }
    let joined = match slashes {
        0..SLASHES_JOINED => 1 + rest.tokens,
        SLASHES_JOINED if is_line => {
            1 + rest.tokens.max(line_by_line(&bytes[SLASHES_JOINED - 1..whole.length]))
        }
        SLASHES_JOINED => 2 + rest.tokens,
        _ => most_tokens(&bytes[..slashes]) + rest.tokens,
    };
    let mut tokens = whole.tokens.max(joined);
    if marks > 0 && !is_line {
        let front = &text[at - marks..at];
        let apart = most_tokens_of_lines(front) + whole.tokens;
        let together = most_tokens(&text[at - marks..at + slashes]) + rest.tokens;
        tokens = tokens.min(apart.max(together).saturating_sub(line_by_line(front)));
    }
    // The marks after the slashes are a piece of their own to one of them, and with the slashes to the other.
    let ends = match whole.ends {
        Preceding::Marks { .. } => Preceding::Marks { length: 0 },
        ends @ (Preceding::Odd | Preceding::Other) => ends,
    };
    TokenPiece::new(whole.length, tokens, ends)
}

/// Blanks and line ends, with the word or the marks that take the last blank.
fn blanks(bytes: &[u8]) -> TokenPiece {
    let length = run(bytes, |kind| matches!(kind, CharClass::Blank | CharClass::LineEnd));
    if let Some(end) = bytes[..length].iter().rposition(|byte| is_line_end(*byte)) {
        return TokenPiece::new(end + 1, most_tokens_of_lines(&bytes[..=end]), Preceding::Other);
    }
    if length == bytes.len() {
        return TokenPiece::new(length, most_tokens(bytes), Preceding::Other);
    }
    let (front, rest) = bytes.split_at(length - 1);
    let mut last = match kind(&rest[1..]).0 {
        CharClass::Capital | CharClass::Small | CharClass::Letter => word(rest, 1),
        CharClass::Mark if rest[0] == b' ' => marks(rest, 1),
        CharClass::Digit | CharClass::Blank | CharClass::LineEnd | CharClass::Mark | CharClass::Odd => {
            TokenPiece::new(1, 1, Preceding::Other)
        }
    };
    last.tokens += most_tokens(front);
    last.length += front.len();
    last
}

/// The most tokens of a piece that may have several line ends: together no more than line by line.
fn most_tokens_of_lines(piece: &[u8]) -> u64 {
    let lines = line_by_line(piece);
    if piece[..piece.len().saturating_sub(1)].contains(&b'\n') {
        most_tokens(piece).min(lines)
    } else {
        lines
    }
}

fn line_by_line(piece: &[u8]) -> u64 {
    piece.split_inclusive(|byte| *byte == b'\n').map(most_tokens_of_line).sum()
}

/// Returns the most tokens of a line of a piece, whether the piece ends with it or continues. Few that have
/// returns are known, and long ones only just as they are: these cost more still.
fn most_tokens_of_line(line: &[u8]) -> u64 {
    let Some(front) = line.strip_suffix(b"\n") else {
        return if line.contains(&b'\r') { line.len() as u64 } else { most_tokens(line) };
    };
    let is_returned = front.ends_with(b"\r");
    let front = front.strip_suffix(b"\r").unwrap_or(front);
    if front.contains(&b'\r') {
        return line.len() as u64;
    }
    let is_blank = front.iter().all(u8::is_ascii_whitespace);
    let before = most_tokens_before(front, |end| is_blank || is_returned || may_go_on(&line[end..]));
    let lone = if is_returned || line.len() > LONGEST { most_tokens(front) + 1 } else { 0 };
    most_tokens(line).max(before).max(lone)
}

/// The continuations of tokens that begin before the end of a line of marks, as far as they show whether
/// there are any.
const BEYOND: [&[u8]; 6] = [b"\n", b"/", b"//", b"\n\n", b"\n/", b"\n//"];

/// Returns true if a token may begin with the end of a line and continue after it.
fn may_go_on(end: &[u8]) -> bool {
    BEYOND.into_iter().any(|beyond| {
        let hash = beyond.iter().fold(PieceHash::from_bytes(end), |hash, byte| hash.then(*byte));
        hash.is_known() || (end.len() + beyond.len() <= LONGEST && hash.may_be_known())
    })
}

fn run_of(bytes: &[u8], byte: u8) -> usize {
    bytes.iter().take_while(|other| **other == byte).count()
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token that reaches over the end of a line of marks is seen by its continuation; blanks and returns
    /// are not asked.
    #[test]
    fn every_token_that_goes_on_beyond_a_line_is_told_by_what_it_goes_on_with() {
        let mut found = 0;
        for name in ["cl100k_base", "o200k_base"] {
            let vocabulary = tiktoken::get_encoding(name).expect("it is built in");
            for token in (0..vocabulary.vocab_size() as u32).map(|token| vocabulary.decode(&[token])) {
                let Some(end) = token.iter().position(|byte| *byte == b'\n') else { continue };
                let is_asked = token.is_ascii() && !token.contains(&b'\r') && token[0].is_ascii_punctuation();
                if is_asked && end + 1 < token.len() && token.len() <= LONGEST {
                    assert!(may_go_on(&token[..=end]), "{name}: {:?}", String::from_utf8_lossy(&token));
                    found += 1;
                }
            }
        }
        assert!(found > 300, "{found}");
    }
}
