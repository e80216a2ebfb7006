//! A rival: BM25 over windows of lines, the best windows first.
//!
//! It has the same words as ours: split at humps, stemmed, without stop words.

use std::collections::HashMap;

use context::TokenCounter;
use context::index::terms::{of_text, query_terms};

use super::texts::{Page, Text};

const WINDOW_LINES: usize = 40;
const STEP_LINES: usize = 30;
const K1: f64 = 1.2;
const B: f64 = 0.75;

struct Window<'t> {
    path: &'t str,
    lines: Vec<&'t str>,
    /// How often each word of the query stands in it.
    counts: Vec<f64>,
    length: f64,
}

/// What it shows of these files, for each number of tokens.
pub(crate) fn bm25(files: &[Text], query: &str, budgets: &[u32], counter: &dyn TokenCounter) -> Vec<String> {
    let terms = query_terms(query);
    let places: HashMap<u32, usize> = terms.iter().enumerate().map(|(at, term)| (term.hash, at)).collect();
    let mut windows: Vec<Window<'_>> = files.iter().flat_map(|file| windows(file, &places)).collect();
    let count = windows.len() as f64;
    let mean = windows.iter().map(|window| window.length).sum::<f64>() / count.max(1.0);
    let worth: Vec<f64> = (0..terms.len())
        .map(|at| {
            let having = windows.iter().filter(|window| window.counts[at] > 0.0).count() as f64;
            f64::from(terms[at].count) * (1.0 + (count - having + 0.5) / (having + 0.5)).ln()
        })
        .collect();
    let score = |window: &Window<'_>| -> f64 {
        let damp = K1 * (1.0 - B + B * window.length / mean);
        let of_term = |(count, worth): (&f64, &f64)| worth * count * (K1 + 1.0) / (count + damp);
        window.counts.iter().zip(&worth).map(of_term).sum()
    };
    windows.retain(|window| window.counts.iter().any(|count| *count > 0.0));
    // Windows stand by path and line; a stable sort keeps that order among equals.
    windows.sort_by(|a, b| score(b).total_cmp(&score(a)));
    budgets.iter().map(|tokens| page(&windows, *tokens, counter)).collect()
}

fn windows<'t>(file: &'t Text, places: &HashMap<u32, usize>) -> Vec<Window<'t>> {
    let lines: Vec<&str> = file.text.lines().collect();
    let last = lines.len().saturating_sub(WINDOW_LINES).div_ceil(STEP_LINES);
    let window = |number: usize| {
        let from = number * STEP_LINES;
        let lines = lines[from..(from + WINDOW_LINES).min(lines.len())].to_vec();
        let found = of_text(&lines.join("\n"));
        let mut counts = vec![0.0; places.len()];
        for (hash, count) in &found {
            if let Some(place) = places.get(hash) {
                counts[*place] = f64::from(*count);
            }
        }
        let length = found.iter().map(|(_, count)| f64::from(*count)).sum();
        Window { path: &file.path, lines, counts, length }
    };
    if lines.is_empty() { Vec::new() } else { (0..=last).map(window).collect() }
}

fn page(windows: &[Window<'_>], tokens: u32, counter: &dyn TokenCounter) -> String {
    let mut page = Page::new(tokens, counter);
    for window in windows {
        let whole =
            page.line(&format!("{}:", window.path)) && window.lines.iter().all(|line| page.line(line));
        if !whole {
            break;
        }
    }
    page.into_text()
}
