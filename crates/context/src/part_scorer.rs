//! Scores the parts of one file against the words of a query.
//!
//! Parts that the index knows are weighed by their words. Parts in which a file is to be shown are weighed by
//! the places of the words in its text.
//!
//! # Invariants
//! 1. A word counts in the part that holds its line.
//! 2. Sums run over the terms in the order of the query.
//! 3. The same lines of UTF-8 weigh the same either way.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::bm25::{QueryTerms, Term};
use crate::graph::SpreadHasher;
use crate::index::terms;
use crate::index::terms::{Beginnings, ByteClass, Splitter, WORD_BYTES_MAX, class, is_word_class};
use crate::index::{ContentPart, ContentParts, Def};

/// A part of so many words is neither long nor short.
const USUAL_WORDS: f32 = 100.0;
const K1: f32 = 1.2;
/// The weight of an occurrence in the name of a definition, in addition to the one in its line.
const NAME_COUNTS: f32 = 2.0;

/// Looks words up.
pub(crate) struct PartScorer<'a> {
    terms: &'a [Term],
    asked: QueryTerms,
    beginnings: Beginnings,
}

/// The positions of the words of a query in a text.
#[derive(Debug, Default)]
pub(crate) struct TermHits {
    /// The number of terms there are up to the end of each line.
    terms_to: Vec<u32>,
    /// The line, from 1, and the place of the term in the query; by line.
    hits: Vec<(u32, u32)>,
}

/// The words that were met: how many terms each has, and which of the query. Each is split once, since the
/// files of a project say the same words again and again. They are one weigher's.
#[derive(Default)]
pub(crate) struct WordTerms {
    known: HashMap<u64, (u32, Vec<u32>), BuildHasherDefault<SpreadHasher>>,
    splitter: Splitter,
}

/// Lines of a file, and the name that is defined there.
pub(crate) struct NamedLines<'a> {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) name: Option<&'a str>,
}

impl<'a> PartScorer<'a> {
    pub(crate) fn new(terms: &'a [Term]) -> Self {
        let asked = QueryTerms::from_hashes(terms.iter().map(|term| term.hash));
        let beginnings = Beginnings::from_terms(terms.iter().map(|term| term.text.as_bytes()));
        Self { terms, asked, beginnings }
    }

    /// Looks for the words of the query in a text. Only words that begin like one of them are split.
    pub(crate) fn find_terms(&self, text: &str, words: &mut WordTerms) -> TermHits {
        let bytes = text.as_bytes();
        let mut met = TermHits::default();
        let (mut line, mut terms, mut at) = (1, 0, 0);
        while at < bytes.len() {
            let start = at;
            match class(bytes[at]) {
                ByteClass::Other => at += 1,
                ByteClass::Newline => {
                    met.terms_to.push(terms);
                    line += 1;
                    at += 1;
                }
                ByteClass::Digit => at += run(&bytes[at..]),
                ByteClass::Lower | ByteClass::Upper | ByteClass::Underscore | ByteClass::Wide => {
                    let mut is_plain = true;
                    while let Some(byte) = bytes.get(at) {
                        match class(*byte) {
                            ByteClass::Lower | ByteClass::Digit => {}
                            ByteClass::Upper | ByteClass::Underscore | ByteClass::Wide => is_plain = false,
                            ByteClass::Other | ByteClass::Newline => break,
                        }
                        at += 1;
                    }
                    if at - start > WORD_BYTES_MAX {
                        continue;
                    }
                    let word = &bytes[start..at];
                    let shape = match is_plain {
                        true => self.beginnings.shape_of_one(word),
                        false => self.beginnings.shape(word),
                    };
                    if shape.may_be_asked || !(is_plain || word.is_ascii()) {
                        let (count, found) = self.word(terms::hash_bytes(word), word, words);
                        terms += count;
                        met.hits.extend(found.iter().map(|term| (line, *term)));
                    } else {
                        terms += shape.terms;
                    }
                }
            }
        }
        met.terms_to.push(terms);
        met
    }

    /// The score of each part of a content that defines these.
    pub(crate) fn part_scores(&self, parts: &ContentParts, defs: &[Def], words: &mut WordTerms) -> Vec<f32> {
        let mut counts = vec![0.0_f32; self.terms.len()];
        let mut score = |part: ContentPart<'_>| {
            counts.fill(0.0);
            self.asked.for_common(part.terms.iter(), |term, count| counts[term] += f32::from(count));
            if let Some(def) = part.def.and_then(|def| defs.get(def)) {
                self.count_name(&def.name, words, &mut counts);
            }
            let length = part.terms.iter().map(|(_, count)| u32::from(count)).sum();
            self.score(&counts, length)
        };
        parts.iter().map(&mut score).collect()
    }

    /// The score of each stretch.
    pub(crate) fn scores(
        &self,
        met: &TermHits,
        stretches: &[NamedLines<'_>],
        words: &mut WordTerms,
    ) -> Vec<f32> {
        let mut counts = vec![0.0_f32; self.terms.len()];
        let mut score = |stretch: &NamedLines<'_>| {
            let from = met.hits.partition_point(|(line, _)| *line < stretch.from);
            let inside = met.hits[from..].iter().take_while(|(line, _)| *line <= stretch.to);
            let is_named = stretch.name.is_some();
            if met.hits.get(from).is_none_or(|(line, _)| *line > stretch.to) && !is_named {
                return 0.0;
            }
            counts.fill(0.0);
            inside.for_each(|(_, term)| counts[*term as usize] += 1.0);
            self.count_name(stretch.name.unwrap_or_default(), words, &mut counts);
            self.score(&counts, met.terms_in(stretch))
        };
        if self.terms.is_empty() {
            return vec![0.0; stretches.len()];
        }
        stretches.iter().map(&mut score).collect()
    }

    /// Counts the words of the name that is defined in a part.
    fn count_name(&self, name: &str, words: &mut WordTerms, counts: &mut [f32]) {
        for word in terms::words(name.as_bytes()) {
            if word.is_ascii() && !self.beginnings.shape(word).may_be_asked {
                continue;
            }
            let (_, found) = self.word(terms::hash_bytes(word), word, words);
            found.iter().for_each(|term| counts[*term as usize] += NAME_COUNTS);
        }
    }

    /// Returns the number of terms of the word with this hash, and those of the query among them.
    fn word<'w>(&self, hash: u64, word: &[u8], words: &'w mut WordTerms) -> (u32, &'w [u32]) {
        let WordTerms { known, splitter } = words;
        let known = known.entry(hash).or_insert_with(|| {
            let mut known = (0, Vec::new());
            splitter.split(word, &mut |term| {
                known.0 += 1;
                let hash = terms::fold(terms::hash_bytes(term));
                known.1.extend(self.asked.places(hash).map(|place| place as u32));
            });
            known
        });
        (known.0, &known.1)
    }

    fn score(&self, counts: &[f32], words: u32) -> f32 {
        let length = K1 * (0.25 + 0.75 * words as f32 / USUAL_WORDS);
        let part = |(term, tf): (&Term, &f32)| {
            if *tf > 0.0 { term.weight * tf * (K1 + 1.0) / (tf + length) } else { 0.0 }
        };
        self.terms.iter().zip(counts).map(part).sum()
    }
}

impl TermHits {
    /// Returns the number of terms the lines of a stretch have.
    fn terms_in(&self, stretch: &NamedLines<'_>) -> u32 {
        let to = |line: u32| match (line as usize).min(self.terms_to.len()) {
            0 => 0,
            lines => self.terms_to[lines - 1],
        };
        to(stretch.to).saturating_sub(to(stretch.from.saturating_sub(1)))
    }
}

/// Returns the number of bytes the word or number at the beginning has.
fn run(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_word_class(class(**byte))).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Language, LineIndex, LineSpan, Scanner, spans};
    use domain::RelPath;

    fn term(text: &str) -> Term {
        Term { text: text.to_owned(), hash: terms::hash(text), weight: 1.0 }
    }

    #[test]
    fn a_word_counts_in_the_part_that_holds_its_line() {
        let terms = [term("retry"), term("limit")];
        let weigher = PartScorer::new(&terms);
        let met =
            weigher.find_terms("one retryLimit\n2nd 33\nretries\n\nlast limit", &mut WordTerms::default());
        assert_eq!(met.hits, [(1, 0), (1, 1), (3, 0), (5, 1)]);
        assert_eq!(met.terms_to, [4, 4, 5, 5, 7]);
        let stretch = |from, to, name| NamedLines { from, to, name };
        let scores = weigher.scores(
            &met,
            &[
                stretch(1, 2, None),
                stretch(3, 3, None),
                stretch(3, 3, Some("retry")),
                stretch(4, 4, None),
                stretch(5, 9, None),
            ],
            &mut WordTerms::default(),
        );
        assert!(scores[0] > scores[1], "two words: {scores:?}");
        assert!(scores[2] > scores[1], "a name counts more: {scores:?}");
        assert_eq!(scores[3], 0.0);
        assert!(scores[4] > 0.0);
    }

    #[test]
    fn parts_that_the_index_knows_weigh_as_much_as_the_same_lines_of_the_text() {
        let terms = ["retry", "limit", "retrylimit", "größe", "s3", "fly"].map(term);
        let weigher = PartScorer::new(&terms);
        let words = [
            "retries",
            "RetryLimit",
            "retry_limits",
            "x",
            "0xretry",
            "naïve",
            "Größe—limit",
            "flies",
            "S3",
            "\r",
            "   ",
            "-",
            "un-limit",
            "limit",
        ];
        let mut state = 7_usize;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut weighed = 0;
        for path in ["a.rs", "a.py", "a.md", "a.txt"] {
            for lines in [0, 1, 5, 130, 400] {
                let mut text = String::new();
                for line in 0..lines {
                    match next(12) {
                        0 => text.push_str(&format!("fn retry_{line}() {{")),
                        1 => text.push_str(&format!("def limit{line}():")),
                        2 => text.push_str("# Retry the limit"),
                        3 => {}
                        _ => (0..next(6)).for_each(|_| {
                            text.push_str(words[next(words.len())]);
                            text.push(' ');
                        }),
                    }
                    text.push('\n');
                }
                let text = if next(2) == 0 { text } else { text.trim_end().to_owned() };
                let path = RelPath::new(path).unwrap();
                let language = Language::detect(&path, text.as_bytes());
                let (facts, parts) = Scanner::default().scan_parts(language, text.as_bytes());
                let spans = spans(&LineIndex::new(text.clone()), &facts);
                let stretch = |span: &LineSpan| NamedLines {
                    from: span.from,
                    to: span.to,
                    name: span.def.map(|def| &*facts.defs()[def].name),
                };
                let stretches: Vec<NamedLines<'_>> = spans.iter().map(stretch).collect();
                let met = weigher.find_terms(&text, &mut WordTerms::default());
                let by_text = weigher.scores(&met, &stretches, &mut WordTerms::default());
                let by_parts = weigher.part_scores(&parts, facts.defs(), &mut WordTerms::default());
                assert_eq!(by_parts, by_text, "{text}");
                weighed += by_parts.iter().filter(|score| **score > 0.0).count();
            }
        }
        assert!(weighed > 100, "{weighed}");
    }
}
