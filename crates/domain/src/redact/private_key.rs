//! Private keys in PEM form, whole or cut off, as text or within a string of a program.

use std::ops::Range;

use memchr::memmem;

use super::mark::SecretKind;
use super::secret_rule::LazyRegex;
use super::spans::SecretSpan;

/// The pattern with which every private key begins.
const PRIVATE_KEY_BEGIN: &str = r"(?-u)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----";

const PRIVATE_KEY_END: &str = r"(?-u)-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----";

/// No private key is longer.
const KEY_BYTES_MAX: usize = 64 * 1024;

/// A line of a key has at least as many letters in a row; names in a program that speaks of keys have fewer.
const MATERIAL_LETTERS_MIN: usize = 32;

#[derive(Debug)]
pub(super) struct PrivateKeys {
    begin: LazyRegex,
    end: LazyRegex,
}

impl PrivateKeys {
    pub(super) fn new() -> PrivateKeys {
        PrivateKeys { begin: LazyRegex::new(PRIVATE_KEY_BEGIN), end: LazyRegex::new(PRIVATE_KEY_END) }
    }

    pub(super) fn find(&self, text: &[u8]) -> Vec<SecretSpan> {
        if memmem::find(text, b"-----BEGIN ").is_none() {
            return Vec::new();
        }
        let begins = self.begin.get().into_iter().flat_map(|begin| begin.find_iter(text));
        begins
            .filter_map(|begin| self.key_at(text, begin.range()))
            .map(|range| SecretSpan::new(range, SecretKind::PrivateKey))
            .collect()
    }

    /// From the beginning line to the ending one; where that was cut off, as far as it looks like a key.
    fn key_at(&self, text: &[u8], begin: Range<usize>) -> Option<Range<usize>> {
        let rest = &text[begin.end..text.len().min(begin.end.saturating_add(KEY_BYTES_MAX))];
        let (body, end) = match self.end.get().and_then(|end| end.find(rest)) {
            Some(end) => (&rest[..end.start()], end.end()),
            None => {
                let length = rest.iter().take_while(|byte| in_body(**byte)).count();
                (&rest[..length], length)
            }
        };
        has_material(body).then_some(begin.start..begin.end + end)
    }
}

fn in_body(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=\\:,.-".contains(&byte)
}

fn has_material(body: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    body.split(|byte| !is_letter(byte)).any(|run| run.len() >= MATERIAL_LETTERS_MIN)
}
