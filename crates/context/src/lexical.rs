//! How well files match the words of a query: BM25F over their text, their definitions and their paths.
//!
//! # Invariants
//! 1. Sums run over the terms in the order of the query, so a score is the same on any number of threads.
//! 2. A file that holds no term scores 0, any other above 0.
//!
//! # Not here
//! Parts of files: `weigh`.

use crate::index::Facts;
use crate::index::terms::QueryTerm;
use crate::parallel::in_parallel;

/// How many terms of a query are looked up: those said most often, then first.
const TERMS_MAX: usize = 256;
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// What an occurrence counts for: in the text, in the name of a definition, in the path.
const FIELDS: [f32; 3] = [1.0, 3.0, 5.0];
/// Saying a word more often than this makes it no more important.
const SAID_MAX: u16 = 3;
const FILES_AT_A_TIME: usize = 256;

/// A word that is looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// The stemmed word.
    pub text: String,
    /// What it is looked up by.
    pub hash: u32,
    /// How rare it is among the files, times how often it was said.
    pub weight: f32,
}

/// One file's lists of hash and count, sorted by hash: text, definitions, path.
pub(crate) struct Fields<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) path_terms: &'a [(u32, u16)],
}

impl<'a> Fields<'a> {
    fn lists(&self) -> [&'a [(u32, u16)]; 3] {
        [&self.facts.terms, &self.facts.def_terms, self.path_terms]
    }

    fn lengths(&self) -> [f32; 3] {
        let sum = |list: &[(u32, u16)]| list.iter().map(|(_, count)| f32::from(*count)).sum();
        [self.facts.terms_len as f32, sum(&self.facts.def_terms), sum(self.path_terms)]
    }
}

/// What a query is worth: its terms with their weights, and the score of each file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lexical {
    pub(crate) terms: Vec<Term>,
    pub(crate) scores: Vec<f32>,
}

/// Scores every file.
pub(crate) fn lexical<'a>(
    query: Vec<QueryTerm>,
    files: usize,
    fields: impl Fn(usize) -> Fields<'a> + Sync,
) -> Lexical {
    let query = most_said(query);
    if query.is_empty() || files == 0 {
        return Lexical { terms: Vec::new(), scores: vec![0.0; files] };
    }
    let mut by_hash: Vec<(u32, usize)> = query.iter().enumerate().map(|(at, term)| (term.hash, at)).collect();
    by_hash.sort_unstable();
    let lengths = in_parallel(files, FILES_AT_A_TIME, |file| fields(file).lengths());
    let average = averages(&lengths);
    let hits = in_parallel(files, FILES_AT_A_TIME, |file| {
        frequencies(&fields(file), &by_hash, |field| normal_length(lengths[file][field], average[field]))
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
    Lexical { terms, scores }
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

fn averages(lengths: &[[f32; 3]]) -> [f32; 3] {
    let mut sums = [0.0_f64; 3];
    for of_file in lengths {
        for (sum, length) in sums.iter_mut().zip(of_file) {
            *sum += f64::from(*length);
        }
    }
    sums.map(|sum| (sum / lengths.len() as f64) as f32)
}

fn normal_length(length: f32, average: f32) -> f32 {
    if average > 0.0 { 1.0 - B + B * length / average } else { 1.0 }
}

/// The weighted frequency of each term that the file holds, in the order of the query.
fn frequencies(
    file: &Fields<'_>,
    by_hash: &[(u32, usize)],
    normal_length: impl Fn(usize) -> f32,
) -> Vec<(usize, f32)> {
    let mut hits: Vec<(usize, f32)> = Vec::new();
    for (field, list) in file.lists().into_iter().enumerate() {
        if list.is_empty() {
            continue;
        }
        let scale = FIELDS[field] / normal_length(field);
        for_common(list, by_hash, |term, count| {
            let gain = f32::from(count) * scale;
            match hits.iter_mut().find(|(known, _)| *known == term) {
                Some((_, sum)) => *sum += gain,
                None => hits.push((term, gain)),
            }
        });
    }
    hits.sort_by_key(|(term, _)| *term);
    hits
}

/// Tells the terms that both sorted lists hold, with their counts.
pub(crate) fn for_common(list: &[(u32, u16)], by_hash: &[(u32, usize)], mut tell: impl FnMut(usize, u16)) {
    let mut rest = list;
    for (hash, term) in by_hash {
        let at = rest.partition_point(|(known, _)| known < hash);
        rest = &rest[at..];
        match rest.first() {
            Some((known, count)) if known == hash => tell(*term, *count),
            Some(_) => {}
            None => return,
        }
    }
}
