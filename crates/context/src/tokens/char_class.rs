//! The class of a character for a vocabulary: a letter, a digit, a mark, a blank, or unknown.
//!
//! # Not here
//! The categories of all of Unicode. Letters of the large alphabets are known to be letters, and common marks
//! to be marks; any other character is odd, and may be anything.

/// The class of a character for a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharClass {
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

impl CharClass {
    pub(super) fn is_letter(self) -> bool {
        matches!(self, CharClass::Capital | CharClass::Small | CharClass::Letter)
    }
}

/// The kinds of ASCII; of other bytes nothing is said.
const KINDS: [CharClass; 256] = {
    let mut kinds = [CharClass::Odd; 256];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte] = match byte as u8 {
            b'A'..=b'Z' => CharClass::Capital,
            b'a'..=b'z' => CharClass::Small,
            b'0'..=b'9' => CharClass::Digit,
            b' ' | b'\t' | 0x0b | 0x0c => CharClass::Blank,
            b'\r' | b'\n' => CharClass::LineEnd,
            _ => CharClass::Mark,
        };
        byte += 1;
    }
    kinds
};

/// The kind and the length of the first character.
#[inline]
pub(super) fn kind(bytes: &[u8]) -> (CharClass, usize) {
    match bytes[0] {
        first if first.is_ascii() => (KINDS[usize::from(first)], 1),
        _ => wide_kind(bytes),
    }
}

/// The kind of a character that is not ASCII: of one that is in no range here it is not guessed.
fn wide_kind(bytes: &[u8]) -> (CharClass, usize) {
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
        0xb5 | 0xc0..=0x24f | 0x370..=0x481 | 0x48a..=0x52f if character.is_uppercase() => CharClass::Capital,
        0xb5 | 0xc0..=0x24f | 0x370..=0x481 | 0x48a..=0x52f if character.is_lowercase() => CharClass::Small,
        // Kana, Han, Hangul.
        0x3041..=0x3096 | 0x30a1..=0x30fa | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xac00..=0xd7a3 => {
            CharClass::Letter
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
        | 0xf7 => CharClass::Mark,
        0x2010..=0x2027 | 0x2030..=0x205e | 0x20a0..=0x20bf | 0x2190..=0x23ff | 0x2500..=0x2775 => {
            CharClass::Mark
        }
        0x2794..=0x27bf | 0x3001..=0x3003 | 0x3008..=0x3011 | 0xff01..=0xff0f | 0x1f300..=0x1faff => {
            CharClass::Mark
        }
        // The other numbers differ between versions of Unicode.
        0xb2 | 0xb3 | 0xb9 | 0xbc..=0xbe => CharClass::Digit,
        _ => CharClass::Odd,
    };
    (kind, length)
}

/// Returns the number of bytes the characters have that belong.
pub(super) fn run(bytes: &[u8], belongs: impl Fn(CharClass) -> bool) -> usize {
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

/// The length of `'s`, `'ll` and the like at the front, or 0. The long `ſ` is an `s` too.
pub(super) fn short_form(bytes: &[u8]) -> usize {
    let at = |place: usize| bytes.get(place).map(u8::to_ascii_lowercase);
    match (at(0), at(1), at(2)) {
        (Some(b'\''), Some(b's' | b't' | b'm' | b'd'), _) => 2,
        (Some(b'\''), Some(b'r' | b'v'), Some(b'e'))
        | (Some(b'\''), Some(b'l'), Some(b'l'))
        | (Some(b'\''), Some(0xc5), Some(0xbf)) => 3,
        _ => 0,
    }
}
