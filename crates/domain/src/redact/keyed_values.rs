//! Literals under keys that say that they are secret, in data: JSON, YAML, TOML, `.env` and their like.
//!
//! Text is not parsed: it may be a part of a file, a diff, or broken. A key is looked for, and the text after
//! it is read as a value of any of these languages. The value may be in quotes, bare, a block or a list.
//!
//! # Not here
//! Values in a map below such a key: each is judged by its own key.

use std::ops::Range;

use super::SECRET_BYTES_MIN;
use super::mark::SecretKind;
use super::patterns::is_literal;
use super::secret_rule::{LazyRegex, has_any};
use super::spans::SecretSpan;

/// A key that has one of them, in any case, says that its value is secret.
const SECRET_KEYS: [&str; 8] =
    ["secret", "token", "passw", "passphrase", "apikey", "api_key", "api-key", "credential"];

/// Such a key to its end, and the separator between it and its value.
const KEY_AND_SEPARATOR: &str = r#"(?i-u)(?:secret|token|passw|passphrase|api[_-]?key|credential)[A-Za-z0-9_.-]*(\\?["'])?[ \t]*([:=])[ \t]*"#;

/// Limits how far a list is read, and how far a line is looked at for a bare value. A whole file may be one
/// line.
const LIST_BYTES_MAX: usize = 64 * 1024;
const LINE_BYTES_MAX: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct KeyedValues {
    key_and_separator: LazyRegex,
}

impl KeyedValues {
    pub(super) fn new() -> KeyedValues {
        KeyedValues { key_and_separator: LazyRegex::new(KEY_AND_SEPARATOR) }
    }

    /// Returns whether a value under this key is secret.
    pub(super) fn is_secret_key(key: &str) -> bool {
        has_any(key.to_ascii_lowercase().as_bytes(), &SECRET_KEYS)
    }

    /// Returns whether this text under such a key is a secret: long enough, and not the place of one.
    pub(super) fn is_secret(value: &[u8]) -> bool {
        value.len() >= SECRET_BYTES_MIN && is_literal(value)
    }

    pub(super) fn find(&self, text: &[u8]) -> Vec<SecretSpan> {
        let mut spans = Vec::new();
        let keys = self.key_and_separator.get().into_iter().flat_map(|keys| keys.captures_iter(text));
        for found in keys {
            let (Some(key), Some(separator)) = (found.get(0), found.get(2)) else { continue };
            let value =
                KeyedValue { text, key: key.start(), begin: key.end(), in_flow: found.get(1).is_some() };
            // `image: registry/token-service:1.2.3` has no key `token-service`.
            let apart = value.in_flow || separator.as_bytes() == b"=" || separator.end() != key.end();
            let starts = text.get(key.end()).is_none_or(|byte| b"\"'[{\r\n".contains(byte));
            if apart || starts {
                spans.extend(
                    value.literals().into_iter().filter(|range| Self::is_secret(&text[range.clone()])),
                );
            }
        }
        spans.into_iter().map(|range| SecretSpan::new(range, SecretKind::Value)).collect()
    }
}

/// The place of a value.
struct KeyedValue<'a> {
    text: &'a [u8],
    key: usize,
    begin: usize,
    /// Within braces, or behind a key in quotes: a comma ends it.
    in_flow: bool,
}

impl KeyedValue<'_> {
    fn literals(&self) -> Vec<Range<usize>> {
        let rest = &self.text[self.begin..];
        for fence in [&b"\"\"\""[..], b"'''"] {
            if rest.starts_with(fence) {
                return vec![self.fenced(fence)];
            }
        }
        match rest {
            [b'"' | b'\'', ..] => self.quoted(self.begin).into_iter().collect(),
            [b'\\', b'"', ..] => vec![self.escaped_quoted()],
            [b'[', ..] => self.listed(),
            [b'|' | b'>', ..] => self.block().into_iter().collect(),
            [] | [b'\r' | b'\n', ..] => self.items(),
            [b'{' | b'!' | b'*' | b'&', ..] => Vec::new(),
            [_, ..] => self.bare().into_iter().collect(),
        }
    }

    fn fenced(&self, fence: &[u8]) -> Range<usize> {
        let begin = self.begin + fence.len();
        let rest = &self.text[begin..];
        let end = rest.windows(fence.len()).position(|bytes| bytes == fence).unwrap_or(rest.len());
        begin..begin + end
    }

    /// Returns the range within the quotes that open at `at`; without an end, the rest of the line.
    fn quoted(&self, at: usize) -> Option<Range<usize>> {
        let quote = *self.text.get(at)?;
        let begin = at + 1;
        let mut end = begin;
        loop {
            end += match self.text.get(end..).unwrap_or_default() {
                [b'\\', b'\n', ..] if quote == b'"' => 1,
                [b'\\', _, ..] if quote == b'"' => 2,
                [b'\'', b'\'', ..] if quote == b'\'' => 2,
                [] | [b'\n', ..] => return Some(begin..end),
                [byte, ..] if *byte == quote => return Some(begin..end),
                [_, ..] => 1,
            };
        }
    }

    /// JSON within a string of JSON.
    fn escaped_quoted(&self) -> Range<usize> {
        let begin = self.begin + 2;
        let rest = &self.text[begin..];
        let end = rest.iter().position(|byte| matches!(byte, b'\\' | b'"' | b'\n')).unwrap_or(rest.len());
        begin..begin + end
    }

    fn listed(&self) -> Vec<Range<usize>> {
        let mut items = Vec::new();
        let mut at = self.begin;
        let last = self.begin.saturating_add(LIST_BYTES_MAX);
        while let Some(byte) = self.text.get(at).filter(|_| at < last) {
            match byte {
                b']' => break,
                b'"' | b'\'' => match self.quoted(at) {
                    Some(item) => {
                        at = item.end;
                        items.push(item);
                    }
                    None => break,
                },
                _ => {}
            }
            at += 1;
        }
        items
    }

    /// The lines below that are set further in than the key.
    fn block(&self) -> Option<Range<usize>> {
        let first = self.line_end(self.begin) + 1;
        let indent = self.indent(self.line_begin(self.key));
        let mut end = first;
        while end < self.text.len() {
            let next = self.line_end(end);
            let blank = self.text[end..next].iter().all(u8::is_ascii_whitespace);
            if !blank && self.indent(end) <= indent {
                break;
            }
            end = (next + 1).min(self.text.len());
        }
        let body = self.text.get(first..end)?;
        let begin = first + body.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let trailing = body.iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
        (begin < end - trailing).then_some(begin..end - trailing)
    }

    /// Items `- value` in the lines below.
    fn items(&self) -> Vec<Range<usize>> {
        let mut items = Vec::new();
        let mut at = self.line_end(self.begin) + 1;
        while at < self.text.len() {
            let end = self.line_end(at);
            let dash = at + self.indent(at);
            let Some(value) = self.text[dash..end].strip_prefix(b"- ") else { break };
            let begin = dash + 2 + value.iter().take_while(|byte| **byte == b' ').count();
            let item = KeyedValue { begin, ..*self };
            items.extend(match self.text.get(begin) {
                Some(b'"' | b'\'') => self.quoted(begin),
                // A map: its keys speak for themselves.
                Some(_) | None if value.windows(2).any(|bytes| bytes == b": ") => None,
                Some(_) | None => item.bare(),
            });
            at = end + 1;
        }
        items
    }

    /// The rest of the line, without a comment; among other values, up to a comma or bracket.
    fn bare(&self) -> Option<Range<usize>> {
        let line = &self.text[self.begin..self.line_end(self.begin)];
        let before_key = &self.text[self.line_begin(self.key)..self.key];
        let in_flow = self.in_flow || before_key.contains(&b'{');
        let comment = line.windows(2).position(|bytes| bytes == b" #").unwrap_or(line.len());
        let ended = line.iter().position(|byte| in_flow && b",}]".contains(byte)).unwrap_or(line.len());
        let value = line[..comment.min(ended)].trim_ascii_end();
        let value = value.strip_suffix(b",").unwrap_or(value);
        let counted = value.iter().all(|byte| byte.is_ascii_digit() || b"._-".contains(byte));
        (!(counted && self.counts())).then_some(self.begin..self.begin + value.len())
    }

    /// Returns whether a number under this key is a number: `max_tokens`, not `password`.
    fn counts(&self) -> bool {
        self.text[self.key..self.begin].get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"token"))
    }

    fn line_begin(&self, at: usize) -> usize {
        let first = at.saturating_sub(LINE_BYTES_MAX);
        self.text[first..at]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(first, |newline| first + newline + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        let last = at.saturating_add(LINE_BYTES_MAX).min(self.text.len());
        let rest = self.text.get(at..last).unwrap_or_default();
        rest.iter().position(|byte| *byte == b'\n').map_or(last, |length| at + length)
    }

    fn indent(&self, line: usize) -> usize {
        let rest = self.text.get(line..).unwrap_or_default();
        rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    }
}
