//! The most tokens that a text can have: cut into pieces as the vocabularies cut it, and each piece bounded.
//!
//! A vocabulary cuts a text before it looks anything up: a word with the one mark or blank before it, three digits, marks
//! with the line ends after them, blanks. Within a piece it joins neighbours for as long as two that stand side by side are
//! together a token. So a piece that it knows is one token, and of any other it ends with tokens of which no two neighbours
//! are known together: [`most_tokens`] is the largest number of such parts, which no order of joining can pass.
//!
//! # Invariants
//! 1. Lines one by one cost no less than together: nothing but line ends reaches over the end of a line, and those cost no
//!    more together than their lines do.
//! 2. Where the two vocabularies cut differently, the dearer way counts.
//! 3. One pass, no memory but some fixed rows; a byte costs at most a fixed number of steps.
//!
//! # Not here
//! The categories of all of Unicode. Letters of the large alphabets are known to be letters; any other character is a
//! piece of its own and costs a token a byte, unless it is known.

use super::known::{Hash, LONGEST};

/// The most tokens of a text.
pub(super) fn most_tokens_of(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let (mut at, mut sum) = (0, 0);
    let mut before = Before::LineEnd;
    while at < bytes.len() {
        let piece = next(&bytes[at..], before);
        at += piece.length;
        sum += piece.tokens;
        before = piece.ends;
    }
    sum
}

/// What stands before a piece, as far as that matters to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    LineEnd,
    Letter,
    Odd,
    Other,
}

/// One piece, or several whose ends depend on one another.
struct Piece {
    length: usize,
    tokens: u64,
    ends: Before,
}

impl Piece {
    fn new(length: usize, tokens: u64, ends: Before) -> Piece {
        Piece { length, tokens, ends }
    }
}

fn next(bytes: &[u8], before: Before) -> Piece {
    let (kind, length) = kind(bytes);
    match kind {
        Kind::Capital | Kind::Small | Kind::Letter => word(bytes, 0),
        Kind::Digit => {
            let length = run(bytes, |kind| kind == Kind::Digit);
            Piece::new(length, digits(&bytes[..length]), Before::Other)
        }
        // Marks take the line ends after them, and so may an odd character.
        Kind::LineEnd if before == Before::Odd => marks(bytes, 0),
        Kind::Blank | Kind::LineEnd => blanks(bytes),
        Kind::Odd => Piece::new(length, odd(&bytes[..length]), Before::Odd),
        Kind::Mark if before == Before::LineEnd && bytes[0] == b'/' => slashes(bytes),
        Kind::Mark => mark(bytes, length, before),
    }
}

/// Both vocabularies know all numbers of up to three digits.
const DIGITS_TOGETHER: usize = 3;

/// Digits are cut after every third character, and no number is known that has any but ASCII.
fn digits(bytes: &[u8]) -> u64 {
    let length = if bytes.is_ascii() { bytes.len().div_ceil(DIGITS_TOGETHER) } else { bytes.len() };
    length as u64
}

/// A character that may be a letter to one vocabulary and a mark to the other.
fn odd(character: &[u8]) -> u64 {
    if Hash::of(character).is_known() { 1 } else { character.len() as u64 }
}

/// A word, after `lead` bytes of the mark or blank that belongs to it. cl100k takes all letters together, o200k begins
/// anew with a capital after a small letter.
fn word(bytes: &[u8], lead: usize) -> Piece {
    let first = lead + hump(&bytes[lead..]);
    let length = first + run(&bytes[first..], Kind::is_letter);
    let mut tokens = most_tokens(&bytes[..length]);
    if first < length {
        let (mut at, mut humps) = (first, most_tokens(&bytes[..first]));
        while at < length {
            let end = at + hump(&bytes[at..length]);
            humps += most_tokens(&bytes[at..end]);
            at = end;
        }
        tokens = tokens.max(humps);
    }
    Piece::new(length, tokens, Before::Letter)
}

/// How many bytes the letters have up to the next capital after a small one.
fn hump(bytes: &[u8]) -> usize {
    let capitals = run(bytes, |kind| matches!(kind, Kind::Capital | Kind::Letter));
    capitals + run(&bytes[capitals..], |kind| matches!(kind, Kind::Small | Kind::Letter))
}

/// A piece that begins with a mark of `length` bytes.
fn mark(bytes: &[u8], length: usize, before: Before) -> Piece {
    let short = short_form(bytes);
    if short > 0 && before == Before::Letter {
        return Piece::new(short, 1, Before::Other);
    }
    if length == bytes.len() || !kind(&bytes[length..]).0.is_letter() {
        return marks(bytes, 0);
    }
    let mut whole = word(bytes, length);
    // cl100k takes `'s` away from `'string`; and a mark after what may be one is no part of the word.
    let cut = match before {
        Before::Odd => length,
        Before::LineEnd | Before::Letter | Before::Other => short,
    };
    if cut > 0 {
        let rest = if whole.length > cut { word(&bytes[cut..], 0).tokens } else { 0 };
        whole.tokens = whole.tokens.max(most_tokens(&bytes[..cut]) + rest);
    }
    whole
}

/// The length of `'s`, `'ll` and the like at the front, or 0.
fn short_form(bytes: &[u8]) -> usize {
    let at = |place: usize| bytes.get(place).map(u8::to_ascii_lowercase);
    match (at(0), at(1), at(2)) {
        (Some(b'\''), Some(b's' | b't' | b'm' | b'd'), _) => 2,
        (Some(b'\''), Some(b'r' | b'v'), Some(b'e')) | (Some(b'\''), Some(b'l'), Some(b'l')) => 3,
        _ => 0,
    }
}

/// Marks in a row after `lead` bytes, with the line ends after them.
fn marks(bytes: &[u8], lead: usize) -> Piece {
    let marks = lead + run(&bytes[lead..], |kind| kind == Kind::Mark);
    let length = marks + run(&bytes[marks..], |kind| kind == Kind::LineEnd);
    let ends = if length > marks { Before::LineEnd } else { Before::Other };
    Piece::new(length, most_tokens_by_line(&bytes[..length]), ends)
}

/// Slashes at the front of a line: o200k takes them to the marks at the end of the line before, and what follows begins
/// anew.
fn slashes(bytes: &[u8]) -> Piece {
    let slashes = run_of(bytes, b'/');
    let mut whole = mark(bytes, 1, Before::LineEnd);
    if whole.length > slashes {
        let cut = most_tokens(&bytes[..slashes]) + next(&bytes[slashes..whole.length], Before::Other).tokens;
        whole.tokens = whole.tokens.max(cut);
    }
    whole
}

/// Blanks and line ends, with the word or the marks that take the last blank.
fn blanks(bytes: &[u8]) -> Piece {
    let length = run(bytes, |kind| matches!(kind, Kind::Blank | Kind::LineEnd));
    if let Some(end) = bytes[..length].iter().rposition(|byte| is_line_end(*byte)) {
        return Piece::new(end + 1, most_tokens_by_line(&bytes[..=end]), Before::LineEnd);
    }
    if length == bytes.len() {
        return Piece::new(length, most_tokens(bytes), Before::Other);
    }
    let (front, rest) = bytes.split_at(length - 1);
    let mut last = match kind(&rest[1..]).0 {
        Kind::Capital | Kind::Small | Kind::Letter => word(rest, 1),
        Kind::Mark if rest[0] == b' ' => marks(rest, 1),
        Kind::Digit | Kind::Blank | Kind::LineEnd | Kind::Mark | Kind::Odd => Piece::new(1, 1, Before::Other),
    };
    last.length += front.len();
    last.tokens += most_tokens(front);
    last
}

/// The most tokens of a piece that may have several line ends: together no more than line by line.
fn most_tokens_by_line(piece: &[u8]) -> u64 {
    match piece.iter().position(|byte| is_line_end(*byte)) {
        Some(end) if end + 1 < piece.len() => {
            let lines = piece.split_inclusive(|byte| *byte == b'\n').map(most_tokens_of_line).sum();
            let is_one_line = !piece[..piece.len() - 1].contains(&b'\n');
            if is_one_line { lines } else { most_tokens(piece).min(lines) }
        }
        Some(_) | None => most_tokens_of_line(piece),
    }
}

/// The most tokens of a line of a piece. Lines together may have more tokens than one by one, so a line costs what makes up
/// for an empty one after it. Few that have returns are known, and long ones only just as they are: these cost more still.
fn most_tokens_of_line(line: &[u8]) -> u64 {
    let Some(front) = line.strip_suffix(b"\n") else {
        return if line.contains(&b'\r') { line.len() as u64 } else { most_tokens(line) };
    };
    let is_returned = front.ends_with(b"\r");
    let front = front.strip_suffix(b"\r").unwrap_or(front);
    if front.contains(&b'\r') {
        line.len() as u64
    } else if is_returned || line.len() > LONGEST {
        most_tokens(line).max(most_tokens(front) + 1)
    } else if front.is_empty() {
        1
    } else {
        let mut with_empty = [b'\n'; LONGEST + 1];
        with_empty[..line.len()].copy_from_slice(line);
        most_tokens(line).max(most_tokens(&with_empty[..=line.len()]) - 1)
    }
}

/// The largest number of parts of a piece of which no two neighbours are known together.
///
/// A part is at most [`LONGEST`] bytes long and a token of one of them, as far as that is known. The rings hold the last
/// `LONGEST` places.
fn most_tokens(piece: &[u8]) -> u64 {
    let length = piece.len();
    if length <= 1 || Hash::of(piece).is_known() {
        return length.min(1) as u64;
    }
    if length == 2 {
        return 2;
    }
    let mut ways = Ways { rows: [[0; LONGEST]; LONGEST], lengths: [0; LONGEST] };
    let mut known = [0_u32; LONGEST];
    for at in 0..length {
        let (parts, together) = parts_from(&piece[at..], length);
        known[at % LONGEST] = together;
        let (mut lengths, row) = ways.take(at);
        if at == 0 {
            ways.extend(at, parts, 0);
        }
        while lengths != 0 {
            let last = lengths.trailing_zeros() as usize;
            lengths &= lengths - 1;
            let joined = if last < LONGEST { known[(at - last) % LONGEST] >> last } else { 0 };
            ways.extend(at, parts & !joined, row[last - 1]);
        }
    }
    let most = ways.take(length).1.iter().max().copied().unwrap_or(0);
    // Without any way to part it, nothing is known of it but its bytes.
    if most > 0 { u64::from(most) } else { length as u64 }
}

/// The ways to part a piece, by where their last part ends and how long it is.
struct Ways {
    rows: [[u32; LONGEST]; LONGEST],
    /// The lengths that a row has, as bits.
    lengths: [u32; LONGEST],
}

impl Ways {
    /// Puts a part behind `so_far` others, for each length that is in the bits of `parts`.
    fn extend(&mut self, at: usize, mut parts: u32, so_far: u32) {
        while parts != 0 {
            let length = parts.trailing_zeros() as usize;
            let end = (at + length) % LONGEST;
            let cell = &mut self.rows[end][length - 1];
            *cell = (*cell).max(so_far + 1);
            self.lengths[end] |= 1 << length;
            parts &= parts - 1;
        }
    }

    /// The ways that end here; their row is free for the end that is `LONGEST` further.
    fn take(&mut self, at: usize) -> (u32, [u32; LONGEST]) {
        let lengths = std::mem::take(&mut self.lengths[at % LONGEST]);
        (lengths, std::mem::take(&mut self.rows[at % LONGEST]))
    }
}

/// The lengths of the parts at the front of `rest` that may be tokens, and of those that both vocabularies know, as bits.
/// The whole piece is none: it would have been known.
fn parts_from(rest: &[u8], whole: usize) -> (u32, u32) {
    let (mut parts, mut known) = (0, 0);
    let mut hash = Hash::EMPTY;
    let mut is_ascii = true;
    for (length, byte) in (1..).zip(rest.iter().take(LONGEST)) {
        hash = hash.then(*byte);
        is_ascii &= byte.is_ascii();
        if is_ascii && length > 1 && !hash.may_begin() {
            break;
        }
        let is_known = length == 1 || hash.is_known();
        known |= u32::from(is_known) << length;
        if length < whole && (is_known || !is_ascii || hash.may_be_known()) {
            parts |= 1 << length;
        }
    }
    (parts, known)
}

/// What a character is to a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Capital,
    Small,
    /// Neither capital nor small.
    Letter,
    Digit,
    Blank,
    LineEnd,
    Mark,
    Odd,
}

impl Kind {
    fn is_letter(self) -> bool {
        matches!(self, Kind::Capital | Kind::Small | Kind::Letter)
    }
}

/// The kinds of ASCII; of other bytes nothing is said.
const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Odd; 256];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte] = match byte as u8 {
            b'A'..=b'Z' => Kind::Capital,
            b'a'..=b'z' => Kind::Small,
            b'0'..=b'9' => Kind::Digit,
            b' ' | b'\t' | 0x0b | 0x0c => Kind::Blank,
            b'\r' | b'\n' => Kind::LineEnd,
            _ => Kind::Mark,
        };
        byte += 1;
    }
    kinds
};

/// The kind and the length of the first character.
#[inline]
fn kind(bytes: &[u8]) -> (Kind, usize) {
    match bytes[0] {
        first if first.is_ascii() => (KINDS[usize::from(first)], 1),
        _ => wide_kind(bytes),
    }
}

/// The kind of a character that is not ASCII: of one that is in no range here it is not guessed.
fn wide_kind(bytes: &[u8]) -> (Kind, usize) {
    let low = |byte: u8, bits: u32| u32::from(byte) & ((1 << bits) - 1);
    let (code, length) = match *bytes {
        [a @ ..0xe0, b, ..] => ((low(a, 5) << 6) | low(b, 6), 2),
        [a @ ..0xf0, b, c, ..] => ((low(a, 4) << 12) | (low(b, 6) << 6) | low(c, 6), 3),
        [a, b, c, d, ..] => ((low(a, 3) << 18) | (low(b, 6) << 12) | (low(c, 6) << 6) | low(d, 6), 4),
        _ => (0, bytes.len()),
    };
    let character = char::from_u32(code).unwrap_or_default();
    let kind = match code {
        // Latin, Greek, Cyrillic.
        0xb5 | 0xc0..=0x24f | 0x370..=0x481 | 0x48a..=0x52f if character.is_uppercase() => Kind::Capital,
        0xb5 | 0xc0..=0x24f | 0x370..=0x481 | 0x48a..=0x52f if character.is_lowercase() => Kind::Small,
        // Kana, Han, Hangul.
        0x3041..=0x3096 | 0x30a1..=0x30fa | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7a3 => {
            Kind::Letter
        }
        // Marks of Latin, of printing and money, arrows, mathematics, frames, marks of Han, emoji.
        0x80..=0x84
        | 0x86..=0x9f
        | 0xa1..=0xa9
        | 0xab..=0xb1
        | 0xb4
        | 0xb6..=0xb8
        | 0xbb
        | 0xbf
        | 0xd7
        | 0xf7 => Kind::Mark,
        0x2010..=0x2027 | 0x2030..=0x205e | 0x20a0..=0x20bf | 0x2190..=0x23ff | 0x2500..=0x2775 => Kind::Mark,
        0x2794..=0x27bf | 0x3001..=0x3003 | 0x3008..=0x3011 | 0xff01..=0xff0f | 0x1f300..=0x1faff => {
            Kind::Mark
        }
        _ if character.is_numeric() => Kind::Digit,
        _ => Kind::Odd,
    };
    (kind, length)
}

/// How many bytes the characters have that belong.
fn run(bytes: &[u8], belongs: impl Fn(Kind) -> bool) -> usize {
    let mut at = 0;
    while let Some(first) = bytes.get(at) {
        let (kind, length) =
            if first.is_ascii() { (KINDS[usize::from(*first)], 1) } else { wide_kind(&bytes[at..]) };
        if !belongs(kind) {
            break;
        }
        at += length;
    }
    at
}

fn run_of(bytes: &[u8], byte: u8) -> usize {
    bytes.iter().take_while(|other| **other == byte).count()
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}
