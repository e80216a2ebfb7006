//! Values that are known to be secret, in the forms in which they appear, and their prints. A process that
//! has only the prints finds the values by them.
//!
//! # Prints
//! A print is the length of a form, a rolling hash of it and a keyed hash. A text is read once for each
//! length, with the rolling hash; where that is known, the keyed hash decides. Without the key a print says
//! nothing of its value.
//!
//! # Invariants
//! 1. A form is found wherever it is in a text, also within a longer word.
//! 2. Prints are of use under their own key only; [`key_fingerprint`] distinguishes one key from another.

use std::collections::{BTreeMap, BTreeSet};

use regex::bytes::Regex;

use super::SECRET_BYTES_MIN;
use super::mark::SecretKind;
use super::spans::SecretSpan;

/// The limit of prints that are looked for, so that reading a text stays cheap.
const PRINTS_MAX: usize = 96;
const DIGEST_BYTES: usize = 16;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The print of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretPrint {
    bytes: usize,
    rolling: u64,
    digest: [u8; DIGEST_BYTES],
}

impl SecretPrint {
    /// As a line of text.
    pub fn to_line(&self) -> String {
        let digest: String = self.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {:016x} {digest}", self.bytes, self.rolling)
    }

    /// Reads a line; `None` if it is none.
    pub fn parse(line: &str) -> Option<SecretPrint> {
        let mut words = line.split(' ');
        let bytes = words.next()?.parse().ok().filter(|bytes| *bytes >= SECRET_BYTES_MIN)?;
        let rolling = u64::from_str_radix(words.next()?, 16).ok()?;
        let hex = words.next().filter(|hex| hex.len() == 2 * DIGEST_BYTES && hex.is_ascii())?;
        let mut digest = [0; DIGEST_BYTES];
        for (at, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
        }
        words.next().is_none().then_some(SecretPrint { bytes, rolling, digest })
    }
}

/// Returns a text that distinguishes this key from others, and discloses nothing of it.
pub fn key_fingerprint(key: &[u8; 32]) -> String {
    digest_of(key, b"fingerprint of the key").iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Values and prints that are looked for.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownValues {
    forms: BTreeSet<Vec<u8>>,
    pattern: Option<Regex>,
    /// By length, then by rolling hash.
    prints: BTreeMap<usize, BTreeMap<u64, [u8; DIGEST_BYTES]>>,
}

impl KnownValues {
    pub(super) fn new(values: &[String]) -> Result<KnownValues, regex::Error> {
        KnownValues::default().with(values)
    }

    /// The same, and these too.
    pub(super) fn with(&self, values: &[String]) -> Result<KnownValues, regex::Error> {
        let mut forms = self.forms.clone();
        forms.extend(values.iter().flat_map(|value| forms_of(value.as_bytes())));
        if forms == self.forms {
            return Ok(self.clone());
        }
        // Of two that begin alike the longer is found.
        let mut sorted: Vec<&Vec<u8>> = forms.iter().collect();
        sorted.sort_by_key(|form| std::cmp::Reverse(form.len()));
        let pattern: Vec<String> = sorted.iter().map(|form| escaped(form)).collect();
        let pattern = if pattern.is_empty() { None } else { Some(Regex::new(&pattern.join("|"))?) };
        Ok(KnownValues { forms, pattern, prints: self.prints.clone() })
    }

    /// The same, and what has these prints.
    pub(super) fn with_prints(&self, key: &[u8; 32], prints: &[SecretPrint]) -> KnownValues {
        let own: BTreeSet<SecretPrint> = self.forms.iter().map(|form| print(key, form)).collect();
        let mut known = self.clone();
        for print in prints.iter().rev().filter(|print| !own.contains(print)).take(PRINTS_MAX) {
            known.prints.entry(print.bytes).or_default().insert(print.rolling, print.digest);
        }
        known
    }

    pub(super) fn find(&self, key: &[u8; 32], text: &[u8]) -> Vec<SecretSpan> {
        let found = self.pattern.iter().flat_map(|pattern| pattern.find_iter(text));
        let mut spans: Vec<SecretSpan> =
            found.map(|found| SecretSpan::new(found.range(), SecretKind::Known)).collect();
        for (bytes, prints) in &self.prints {
            let mut rolling = RollingHash::new(*bytes);
            for (at, byte) in text.iter().enumerate() {
                rolling.push(*byte, at.checked_sub(*bytes).map(|gone| text[gone]));
                let Some(begin) = (at + 1).checked_sub(*bytes) else { continue };
                if let Some(digest) = prints.get(&rolling.hash)
                    && digest_of(key, &text[begin..=at]) == *digest
                {
                    spans.push(SecretSpan::new(begin..at + 1, SecretKind::Known));
                }
            }
        }
        spans
    }
}

/// Returns the prints of all forms of a value.
pub(super) fn prints_of(key: &[u8; 32], value: &str) -> Vec<SecretPrint> {
    forms_of(value.as_bytes()).into_iter().map(|form| print(key, &form)).collect()
}

fn print(key: &[u8; 32], form: &[u8]) -> SecretPrint {
    let mut rolling = RollingHash::new(form.len());
    form.iter().for_each(|byte| rolling.push(*byte, None));
    SecretPrint { bytes: form.len(), rolling: rolling.hash, digest: digest_of(key, form) }
}

fn digest_of(key: &[u8; 32], form: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&blake3::keyed_hash(key, form).as_bytes()[..DIGEST_BYTES]);
    digest
}

/// A hash of the last bytes, moved on byte by byte.
struct RollingHash {
    hash: u64,
    /// The weight of the byte that leaves.
    oldest: u64,
}

impl RollingHash {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

    fn new(bytes: usize) -> RollingHash {
        let oldest = (0..bytes).fold(1_u64, |weight, _| weight.wrapping_mul(Self::BASE));
        RollingHash { hash: 0, oldest }
    }

    fn push(&mut self, byte: u8, gone: Option<u8>) {
        let weight = |byte: u8| u64::from(byte) + 1;
        self.hash = self.hash.wrapping_mul(Self::BASE).wrapping_add(weight(byte));
        if let Some(gone) = gone {
            self.hash = self.hash.wrapping_sub(self.oldest.wrapping_mul(weight(gone)));
        }
    }
}

/// Returns a value as it is, in base64 wherever it begins within what was encoded, in hexadecimal digits, and
/// as in an address. Short values have none: they are too likely to be found where they are no secret.
fn forms_of(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let value = value.trim_ascii();
    if value.len() < SECRET_BYTES_MIN {
        return BTreeSet::new();
    }
    let mut forms = BTreeSet::from([value.to_vec()]);
    for before in 0..3 {
        let encoded = base64_within(value, before);
        let in_address = encoded.iter().map(|byte| match byte {
            b'+' => b'-',
            b'/' => b'_',
            other => *other,
        });
        forms.extend([in_address.collect(), encoded.clone()]);
    }
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    for hex in ["0123456789ABCDEF", "0123456789abcdef"] {
        let digits = |byte: &u8| [byte >> 4, byte & 15].map(|at| hex.as_bytes()[usize::from(at)]);
        forms.insert(value.iter().flat_map(digits).collect());
        let percent = value.iter().flat_map(|byte| match is_plain(byte) {
            true => vec![*byte],
            false => [b"%".as_slice(), &digits(byte)].concat(),
        });
        forms.insert(percent.collect());
    }
    forms.retain(|form| form.len() >= SECRET_BYTES_MIN);
    forms
}

/// Returns the letters of base64 that a value alone decides, if so many bytes modulo 3 come before it.
fn base64_within(value: &[u8], before: usize) -> Vec<u8> {
    let bits: Vec<u8> =
        value.iter().flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1)).collect();
    // The first letter that has no bit of what comes before.
    let first = (6 - (before * 8) % 6) % 6;
    let letters = bits.get(first..).unwrap_or_default().chunks_exact(6);
    let letter = |bits: &[u8]| BASE64[bits.iter().fold(0, |sum, bit| sum * 2 + usize::from(*bit))];
    letters.map(letter).collect()
}

fn escaped(form: &[u8]) -> String {
    form.iter().fold(String::from("(?-u)"), |pattern, byte| pattern + &format!("\\x{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [3; 32];

    #[test]
    fn a_print_finds_what_it_was_made_of_and_nothing_else() {
        let prints = prints_of(&KEY, "hunter2-hunter2");
        let lines: Vec<SecretPrint> =
            prints.iter().map(|print| SecretPrint::parse(&print.to_line()).unwrap()).collect();
        assert_eq!(lines, prints);
        let known = KnownValues::default().with_prints(&KEY, &lines);
        let find = |text: &[u8]| {
            known
                .find(&KEY, text)
                .into_iter()
                .map(|span| (span.range.start, span.range.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(find(b"a hunter2-hunter2."), [(2, 17)]);
        assert_eq!(find(b"hunter2-hunter2"), [(0, 15)]);
        assert!(find(b"hunter2-hunter3 and hunter2").is_empty());
        assert!(known.find(&[4; 32], b"hunter2-hunter2").is_empty(), "another key knows nothing");
    }

    #[test]
    fn base64_is_known_wherever_the_value_begins() {
        // base64 of "a:hunter2-hunter2", "ab:…" and "hunter2-hunter2".
        let known = KnownValues::new(&["hunter2-hunter2".to_owned()]).unwrap();
        for text in ["aHVudGVyMi1odW50ZXIy", "YTpodW50ZXIyLWh1bnRlcjI=", "YWI6aHVudGVyMi1odW50ZXIyOng="] {
            assert_eq!(known.find(&KEY, text.as_bytes()).len(), 1, "{text}");
        }
    }

    #[test]
    fn hexadecimal_digits_are_known_in_both_cases() {
        let known = KnownValues::new(&["hunter2/Hunter2".to_owned()]).unwrap();
        for text in
            ["x68756e746572322f48756e7465723220", "68756E746572322F48756E74657232", "hunter2%2FHunter2"]
        {
            assert_eq!(known.find(&KEY, text.as_bytes()).len(), 1, "{text}");
        }
        let prints = prints_of(&KEY, "hunter2/Hunter2");
        let by_prints = KnownValues::default().with_prints(&KEY, &prints);
        assert_eq!(by_prints.find(&KEY, b"68756e746572322f48756e74657232").len(), 1);
    }

    #[test]
    fn keys_are_told_apart_by_their_fingerprints() {
        assert_eq!(key_fingerprint(&KEY), key_fingerprint(&[3; 32]));
        assert_ne!(key_fingerprint(&KEY), key_fingerprint(&[4; 32]));
        assert_eq!(SecretPrint::parse(&format!("key {}", key_fingerprint(&KEY))), None);
    }

    #[test]
    fn lines_that_are_no_prints_are_none() {
        for line in ["", "3 00 00", "15 zz 00", "x", "15 0000000000000001 00"] {
            assert_eq!(SecretPrint::parse(line), None, "{line}");
        }
    }
}
