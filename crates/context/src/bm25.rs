//! Scores files against the words of a query: BM25F over their text, their definitions and their paths.
//!
//! # Invariants
//! 1. Sums run over the terms in the order of the query, so a score is the same on any number of threads.
//! 2. A file that holds no term scores 0, any other above 0.
//!
//! # Not here
//! Parts of files: `part_scorer`.

use crate::hash_filter::HashFilter;
use crate::index::terms::QueryTerm;
use crate::index::{Facts, HashCounts, ImageTermHits, TermField};
use crate::parallel_map::in_parallel;

/// The number of terms of a query that are looked up: those said most often, then first.
const TERMS_MAX: usize = 256;
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The weight of an occurrence: in the text, in the name of a definition, in the path.
const FIELDS: [f32; 3] = [1.0, 3.0, 5.0];
/// Saying a word more often than this makes it no more important.
const SAID_MAX: u16 = 3;
const FILES_AT_A_TIME: usize = 256;
/// Of the words of a file one in hundreds passes that is not asked for.
const SIEVE_BITS: u32 = 16;

/// A word that is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The stemmed word.
    pub text: String,
    /// The hash by which the term is looked up.
    pub hash: u32,
    /// The rarity of the term among the files, times the number of its occurrences in the query.
    pub weight: f32,
}

/// One file's lists of hash and count, sorted by hash: text, definitions, path.
pub(crate) struct FieldTerms<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) path_terms: HashCounts<'a>,
    pub(crate) lengths: Lengths,
}

/// The total number of terms of each list.
pub(crate) type Lengths = [f32; 3];

/// The lengths of a file's lists.
pub(crate) fn lengths(facts: &Facts, path_terms: HashCounts<'_>) -> Lengths {
    let of_path: u32 = path_terms.iter().map(|(_, count)| u32::from(count)).sum();
    [facts.terms_len, facts.def_terms_len(), of_path].map(|length| length as f32)
}

impl FieldTerms<'_> {
    /// Calls `tell` for each query term that the file holds: the field, the place in the query and the count.
    /// Terms that the index image answers for are not looked up in the facts.
    fn for_common(&self, asked: &QueryTerms, held: &ImageTermHits, mut tell: impl FnMut(usize, usize, u16)) {
        match held.in_content(self.facts) {
            Some(words) => words.iter().for_each(|(term, field, count)| match field {
                TermField::Text => tell(0, *term as usize, *count),
                TermField::Name => tell(1, *term as usize, *count),
            }),
            None => {
                asked.for_common(self.facts.terms().iter(), |term, count| tell(0, term, count));
                asked.for_common(self.facts.def_terms().iter(), |term, count| tell(1, term, count));
            }
        }
        asked.for_common(self.path_terms.iter(), |term, count| tell(2, term, count));
    }
}

/// A scored query: its terms with their weights, and the score of each file.
#[derive(Clone, Debug, Default)]
pub(crate) struct LexicalQuery {
    pub(crate) terms: Vec<Term>,
    pub(crate) scores: Vec<f32>,
}

/// Scores every file.
pub(crate) fn lexical<'a>(
    query: Vec<QueryTerm>,
    files: usize,
    fields: impl Fn(usize) -> FieldTerms<'a> + Sync,
) -> LexicalQuery {
    let query = most_said(query);
    if query.is_empty() || files == 0 {
        return LexicalQuery { terms: Vec::new(), scores: vec![0.0; files] };
    }
    let hashes: Vec<u32> = query.iter().map(|term| term.hash).collect();
    let asked = QueryTerms::from_hashes(hashes.iter().copied());
    let held = ImageTermHits::find((0..files).map(|file| fields(file).facts), &hashes);
    let average = averages(files, |file| fields(file).lengths);
    let hits = in_parallel(files, FILES_AT_A_TIME, |file| {
        let file = fields(file);
        let scale = |field: usize| FIELDS[field] / normal_length(file.lengths[field], average[field]);
        frequencies(&file, &asked, &held, [scale(0), scale(1), scale(2)])
    });
    let mut found_in = vec![0_u32; query.len()];
    hits.iter().flatten().for_each(|(term, _)| found_in[*term] += 1);
    let weigh = |(term, found_in): (QueryTerm, &u32)| {
        let rarity = rarity(files as f32, *found_in as f32);
        let said = f32::from(term.count.min(SAID_MAX)).sqrt();
        Term { text: term.text, hash: term.hash, weight: said * rarity }
    };
    let terms: Vec<Term> = query.into_iter().zip(&found_in).map(weigh).collect();
    let score = |hits: &Vec<(usize, f32)>| {
        hits.iter().map(|(term, tf)| terms[*term].weight * tf * (K1 + 1.0) / (tf + K1)).sum::<f32>()
    };
    let scores = hits.iter().map(score).collect();
    LexicalQuery { terms, scores }
}

/// `ln(1 + (N − n + ½) / (n + ½))`: the fewer of all hold it, the more it says.
pub(crate) fn rarity(all: f32, holding: f32) -> f32 {
    (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln()
}

fn most_said(mut query: Vec<QueryTerm>) -> Vec<QueryTerm> {
    if query.len() > TERMS_MAX {
        // Stable: of those said equally often the first stay.
        query.sort_by_key(|term| std::cmp::Reverse(term.count));
        query.truncate(TERMS_MAX);
    }
    query
}

fn averages(files: usize, lengths: impl Fn(usize) -> Lengths) -> Lengths {
    let mut sums = [0.0_f64; 3];
    for file in 0..files {
        for (sum, length) in sums.iter_mut().zip(lengths(file)) {
            *sum += f64::from(length);
        }
    }
    sums.map(|sum| (sum / files as f64) as f32)
}

fn normal_length(length: f32, average: f32) -> f32 {
    if average > 0.0 { 1.0 - B + B * length / average } else { 1.0 }
}

/// The weighted frequency of each term that the file holds, in the order of the query.
fn frequencies(
    file: &FieldTerms<'_>,
    asked: &QueryTerms,
    held: &ImageTermHits,
    scales: [f32; 3],
) -> Vec<(usize, f32)> {
    let mut hits: Vec<(usize, f32)> = Vec::new();
    file.for_common(asked, held, |field, term, count| {
        let gain = f32::from(count) * scales[field];
        match hits.iter_mut().find(|(known, _)| *known == term) {
            Some((_, sum)) => *sum += gain,
            None => hits.push((term, gain)),
        }
    });
    hits.sort_by_key(|(term, _)| *term);
    hits
}

/// The terms of a query, to be looked for in the lists of files.
pub(crate) struct QueryTerms {
    /// Hash and place in the query, sorted.
    by_hash: Vec<(u32, usize)>,
    sieve: HashFilter,
}

impl QueryTerms {
    /// These, in the order of the query.
    pub(crate) fn from_hashes(hashes: impl Iterator<Item = u32>) -> QueryTerms {
        let mut by_hash: Vec<(u32, usize)> = hashes.enumerate().map(|(at, hash)| (hash, at)).collect();
        by_hash.sort_unstable();
        QueryTerms {
            sieve: HashFilter::from_hashes(SIEVE_BITS, by_hash.iter().map(|(hash, _)| *hash)),
            by_hash,
        }
    }

    /// Calls `tell` for each term that a list holds too, with its place in the query and its count. Nearly
    /// all of a list is passed over, so it is looked through from end to end and not searched for each term.
    pub(crate) fn for_common(
        &self,
        list: impl Iterator<Item = (u32, u16)>,
        mut tell: impl FnMut(usize, u16),
    ) {
        for (hash, count) in list {
            self.places(hash).for_each(|term| tell(term, count));
        }
    }

    /// Returns the places in the query of the terms with this hash.
    pub(crate) fn places(&self, hash: u32) -> impl Iterator<Item = usize> {
        let known = if self.sieve.may_hold(hash) { self.by_hash.as_slice() } else { &[] };
        let at = known.partition_point(|(known, _)| *known < hash);
        known[at..].iter().take_while(move |(known, _)| *known == hash).map(|(_, term)| *term)
    }
}
