//! How well the parts of one file match the words of a query.
//!
//! # Invariants
//! 1. Parts are looked at line by line: a word counts in the part that holds its line.
//! 2. Sums run over the terms in the order of the query.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::graph::Spread;
use crate::index::terms::{
    self, Class, FNV_PRIME, FNV_START, Splitter, WORD_BYTES_MAX, class, is_word_class,
};
use crate::lexical::Term;

/// A part of so many words is neither long nor short.
const USUAL_WORDS: f32 = 100.0;
const K1: f32 = 1.2;
/// What an occurrence in the name of a definition counts beside the one in its line.
const NAME_COUNTS: f32 = 2.0;

/// Looks words up.
pub(crate) struct Weigher<'a> {
    terms: &'a [Term],
    /// Hash and place in `terms`, sorted.
    by_hash: Vec<(u32, u32)>,
}

/// Where the words of a query stand in a text.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// How many terms there are up to the end of each line.
    terms_to: Vec<u32>,
    /// The line, from 1, and the place of the term in the query; by line.
    hits: Vec<(u32, u32)>,
}

/// The words that were met: how many terms each has, and which of the query. Each is split once, since the files of a
/// project say the same words again and again. They are one weigher's.
#[derive(Default)]
pub(crate) struct Words {
    known: HashMap<u64, (u32, Vec<u32>), BuildHasherDefault<Spread>>,
    splitter: Splitter,
}

/// Lines of a file, and the name that is defined there.
pub(crate) struct Stretch<'a> {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) name: Option<&'a str>,
}

impl<'a> Weigher<'a> {
    pub(crate) fn new(terms: &'a [Term]) -> Self {
        let mut by_hash: Vec<(u32, u32)> =
            terms.iter().enumerate().map(|(at, term)| (term.hash, at as u32)).collect();
        by_hash.sort_unstable();
        Self { terms, by_hash }
    }

    /// Looks for the words of the query in a text. A word is hashed while it is passed over, as the scanner does it.
    pub(crate) fn met(&self, text: &str, words: &mut Words) -> Met {
        let bytes = text.as_bytes();
        let mut met = Met::default();
        let (mut line, mut terms, mut at) = (1, 0, 0);
        while at < bytes.len() {
            let start = at;
            match class(bytes[at]) {
                Class::Other => at += 1,
                Class::Newline => {
                    met.terms_to.push(terms);
                    line += 1;
                    at += 1;
                }
                Class::Digit => at += run(&bytes[at..]),
                Class::Lower | Class::Upper | Class::Underscore | Class::Wide => {
                    let mut hash = FNV_START;
                    while at < bytes.len() && is_word_class(class(bytes[at])) {
                        hash = (hash ^ u64::from(bytes[at])).wrapping_mul(FNV_PRIME);
                        at += 1;
                    }
                    if at - start <= WORD_BYTES_MAX {
                        let (count, found) = self.word(hash, &bytes[start..at], words);
                        terms += count;
                        met.hits.extend(found.iter().map(|term| (line, *term)));
                    }
                }
            }
        }
        met.terms_to.push(terms);
        met
    }

    /// The score of each stretch.
    pub(crate) fn scores(&self, met: &Met, stretches: &[Stretch<'_>]) -> Vec<f32> {
        let mut words = Words::default();
        let mut counts = vec![0.0_f32; self.terms.len()];
        let mut score = |stretch: &Stretch<'_>| {
            let from = met.hits.partition_point(|(line, _)| *line < stretch.from);
            let inside = met.hits[from..].iter().take_while(|(line, _)| *line <= stretch.to);
            let is_named = stretch.name.is_some();
            if met.hits.get(from).is_none_or(|(line, _)| *line > stretch.to) && !is_named {
                return 0.0;
            }
            counts.fill(0.0);
            inside.for_each(|(_, term)| counts[*term as usize] += 1.0);
            for word in terms::words(stretch.name.unwrap_or_default().as_bytes()) {
                let (_, found) = self.word(terms::hash_bytes(word), word, &mut words);
                found.iter().for_each(|term| counts[*term as usize] += NAME_COUNTS);
            }
            self.score(&counts, met.terms_in(stretch))
        };
        if self.terms.is_empty() {
            return vec![0.0; stretches.len()];
        }
        stretches.iter().map(&mut score).collect()
    }

    /// How many terms the word with this hash has, and which of the query.
    fn word<'w>(&self, hash: u64, word: &[u8], words: &'w mut Words) -> (u32, &'w [u32]) {
        let Words { known, splitter } = words;
        let known = known.entry(hash).or_insert_with(|| {
            let mut known = (0, Vec::new());
            splitter.split(word, &mut |term| {
                known.0 += 1;
                known.1.extend(self.find(terms::fold(terms::hash_bytes(term))));
            });
            known
        });
        (known.0, &known.1)
    }

    /// The place of a term of the query.
    fn find(&self, hash: u32) -> Option<u32> {
        let at = self.by_hash.binary_search_by_key(&hash, |(known, _)| *known).ok()?;
        Some(self.by_hash[at].1)
    }

    fn score(&self, counts: &[f32], words: u32) -> f32 {
        let length = K1 * (0.25 + 0.75 * words as f32 / USUAL_WORDS);
        let part = |(term, tf): (&Term, &f32)| {
            if *tf > 0.0 { term.weight * tf * (K1 + 1.0) / (tf + length) } else { 0.0 }
        };
        self.terms.iter().zip(counts).map(part).sum()
    }
}

impl Met {
    /// How many terms the lines of a stretch have.
    fn terms_in(&self, stretch: &Stretch<'_>) -> u32 {
        let to = |line: u32| match (line as usize).min(self.terms_to.len()) {
            0 => 0,
            lines => self.terms_to[lines - 1],
        };
        to(stretch.to).saturating_sub(to(stretch.from.saturating_sub(1)))
    }
}

/// How many bytes the word or number at the beginning has.
fn run(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_word_class(class(**byte))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(text: &str) -> Term {
        Term { text: text.to_owned(), hash: terms::hash(text), weight: 1.0 }
    }

    #[test]
    fn a_word_counts_in_the_part_that_holds_its_line() {
        let terms = [term("retry"), term("limit")];
        let weigher = Weigher::new(&terms);
        let met = weigher.met("one retryLimit\n2nd 33\nretries\n\nlast limit", &mut Words::default());
        assert_eq!(met.hits, [(1, 0), (1, 1), (3, 0), (5, 1)]);
        assert_eq!(met.terms_to, [4, 4, 5, 5, 7]);
        let stretch = |from, to, name| Stretch { from, to, name };
        let scores = weigher.scores(
            &met,
            &[
                stretch(1, 2, None),
                stretch(3, 3, None),
                stretch(3, 3, Some("retry")),
                stretch(4, 4, None),
                stretch(5, 9, None),
            ],
        );
        assert!(scores[0] > scores[1], "two words: {scores:?}");
        assert!(scores[2] > scores[1], "a name counts more: {scores:?}");
        assert_eq!(scores[3], 0.0);
        assert!(scores[4] > 0.0);
    }
}
