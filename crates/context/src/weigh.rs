//! How well the parts of one file match the words of a query.
//!
//! # Invariants
//! 1. Parts are looked at line by line: a word counts in the part that holds its line.
//! 2. Sums run over the terms in the order of the query.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::graph::Spread;
use crate::index::terms::{self, Splitter};
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
    by_hash: Vec<(u32, usize)>,
}

/// The words of a file that were met: how many terms each has, and which of the query. Each is split once, since files
/// say the same words again and again.
#[derive(Default)]
struct Words {
    known: HashMap<u64, (u32, Vec<usize>), BuildHasherDefault<Spread>>,
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
        let mut by_hash: Vec<(u32, usize)> =
            terms.iter().enumerate().map(|(at, term)| (term.hash, at)).collect();
        by_hash.sort_unstable();
        Self { terms, by_hash }
    }

    /// The score of each stretch; they are sorted and do not overlap.
    pub(crate) fn scores(&self, text: &str, stretches: &[Stretch<'_>]) -> Vec<f32> {
        if self.terms.is_empty() {
            return vec![0.0; stretches.len()];
        }
        let mut lines = text.as_bytes().split_inclusive(|byte| *byte == b'\n');
        let mut line = 0;
        let mut met = Words::default();
        let mut counts = vec![0.0_f32; self.terms.len()];
        let mut scores = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            counts.fill(0.0);
            let mut words = 0_u32;
            while line < stretch.to {
                let Some(bytes) = lines.next() else { break };
                line += 1;
                if line >= stretch.from {
                    words += self.count(bytes, 1.0, &mut met, &mut counts);
                }
            }
            if let Some(name) = stretch.name {
                self.count(name.as_bytes(), NAME_COUNTS, &mut met, &mut counts);
            }
            scores.push(self.score(&counts, words));
        }
        scores
    }

    /// Adds `each` for every term of the query in `bytes`; gives how many terms there are at all.
    fn count(&self, bytes: &[u8], each: f32, words: &mut Words, counts: &mut [f32]) -> u32 {
        let mut sum = 0;
        for word in terms::words(bytes) {
            let known = words.known.entry(terms::hash_bytes(word)).or_insert_with(|| {
                let mut known = (0, Vec::new());
                words.splitter.split(word, &mut |term| {
                    known.0 += 1;
                    known.1.extend(self.find(terms::fold(terms::hash_bytes(term))));
                });
                known
            });
            sum += known.0;
            known.1.iter().for_each(|term| counts[*term] += each);
        }
        sum
    }

    /// The place of a term of the query.
    fn find(&self, hash: u32) -> Option<usize> {
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
