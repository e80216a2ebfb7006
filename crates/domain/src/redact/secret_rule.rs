//! Patterns of secrets that are compiled when a text first calls for them.
//!
//! Compiling all patterns takes milliseconds, as long as the rest of a short command. A short text is
//! therefore looked at for words first. A pattern is compiled only if one of the words is there without which
//! it cannot match. A long text is searched for all patterns at once.
//!
//! # Invariants
//! A rule matches no text that has none of its words, in capitals or not. The tests hold every rule against
//! samples.

use std::sync::OnceLock;

use memchr::memmem;
use regex::bytes::{Captures, Regex, RegexSet};

use super::mark::SecretKind;
use super::spans::SecretSpan;

/// Above this length one search for all patterns is cheaper than one for each word.
const SHORT_BYTES_MAX: usize = 64 * 1024;

/// A pattern, the group of which is the secret, and what else must hold for it.
pub(super) struct SecretRule {
    pub(super) kind: SecretKind,
    /// In lower case. The pattern matches only where one of them is, in any case.
    pub(super) words: &'static [&'static str],
    pub(super) pattern: &'static str,
    pub(super) check: fn(&[u8]) -> bool,
}

/// Returns whether one of the words, which are in lower case, is in a text that is in lower case too.
pub(super) fn has_any(lower: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| memmem::find(lower, word.as_bytes()).is_some())
}

/// One pattern.
#[derive(Debug)]
pub(super) struct LazyRegex {
    pattern: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl LazyRegex {
    pub(super) const fn new(pattern: &'static str) -> LazyRegex {
        LazyRegex { pattern, compiled: OnceLock::new() }
    }

    /// The compiled pattern; `None` if it cannot be compiled, which the tests rule out.
    pub(super) fn get(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.pattern).ok()).as_ref()
    }
}

/// Rules that are looked for together.
pub(super) struct Patterns {
    rules: &'static [SecretRule],
    compiled: Vec<LazyRegex>,
    any: OnceLock<Option<RegexSet>>,
}

impl std::fmt::Debug for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patterns").field("rules", &self.rules.len()).finish()
    }
}

impl Patterns {
    pub(super) fn new(rules: &'static [SecretRule]) -> Patterns {
        let compiled = rules.iter().map(|rule| LazyRegex::new(rule.pattern)).collect();
        Patterns { rules, compiled, any: OnceLock::new() }
    }

    /// Returns the secrets in `text`, in no order.
    pub(super) fn find(&self, text: &[u8]) -> Vec<SecretSpan> {
        let mut spans = Vec::new();
        for at in self.candidates(text) {
            let (Some(rule), Some(lazy)) = (self.rules.get(at), self.compiled.get(at)) else { continue };
            let secret = |found: Captures<'_>| found.get(1).map(|secret| secret.range());
            let found = lazy.get().into_iter().flat_map(|regex| regex.captures_iter(text)).filter_map(secret);
            let real = found.filter(|range| (rule.check)(&text[range.clone()]));
            spans.extend(real.map(|range| SecretSpan::new(range, rule.kind)));
        }
        spans
    }

    /// The numbers of the rules that may match.
    fn candidates(&self, text: &[u8]) -> Vec<usize> {
        if text.len() > SHORT_BYTES_MAX {
            let set = || RegexSet::new(self.rules.iter().map(|rule| rule.pattern)).ok();
            if let Some(any) = self.any.get_or_init(set) {
                return any.matches(text).into_iter().collect();
            }
        }
        let lower = text.to_ascii_lowercase();
        let may_match = |(at, rule): (usize, &SecretRule)| has_any(&lower, rule.words).then_some(at);
        self.rules.iter().enumerate().filter_map(may_match).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Asserts that every pattern compiles and that its words do not keep it from matching the samples.
    pub(in crate::redact) fn check_rules(rules: &'static [SecretRule], samples: &[&str]) {
        let patterns = Patterns::new(rules);
        for (rule, lazy) in rules.iter().zip(&patterns.compiled) {
            let regex = lazy.get().unwrap();
            assert!(rule.words.iter().all(|word| *word == word.to_ascii_lowercase()), "{:?}", rule.words);
            let matching: Vec<&&str> =
                samples.iter().filter(|text| regex.is_match(text.as_bytes())).collect();
            assert!(!matching.is_empty(), "no sample for {}", rule.pattern);
            for text in matching {
                assert!(has_any(text.to_ascii_lowercase().as_bytes(), rule.words), "{text}");
            }
        }
    }

    /// Asserts that a short text and a long one with the same secrets give the same.
    pub(in crate::redact) fn check_lengths(rules: &'static [SecretRule], samples: &[&str]) {
        let patterns = Patterns::new(rules);
        let ranges = |text: &str| {
            let mut ranges: Vec<(usize, usize)> = patterns
                .find(text.as_bytes())
                .iter()
                .map(|span| (span.range.start, span.range.end))
                .collect();
            ranges.sort();
            ranges
        };
        for text in samples {
            let long = format!("{text}\n{}", " .\n".repeat(SHORT_BYTES_MAX));
            assert_eq!(ranges(text), ranges(&long), "{text}");
            assert!(!ranges(text).is_empty(), "{text}");
        }
    }
}
