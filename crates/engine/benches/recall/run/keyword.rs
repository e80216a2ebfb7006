//! A rival: what somebody gets who searches for the words of the question.
//!
//! Files by how many different words they have, then by how many lines match; of each its matching lines.

use std::cmp::Reverse;

use context::TokenCounter;
use context::index::terms::query_terms;

use super::texts::{Page, Text};

const LINES_PER_FILE_MAX: usize = 20;
const WORD_LETTERS_MIN: usize = 3;

/// What it shows of these files.
pub(crate) fn keyword(files: &[Text], query: &str, tokens: u32, counter: &dyn TokenCounter) -> String {
    let words = words(query);
    let mut found: Vec<(usize, usize, &Text, Vec<&str>)> = Vec::new();
    for file in files {
        let mut seen = vec![false; words.len()];
        let mut lines = Vec::new();
        for line in file.text.lines() {
            let lower = line.to_ascii_lowercase();
            let mut is_hit = false;
            for (word, seen) in words.iter().zip(&mut seen) {
                let has = lower.contains(word);
                *seen |= has;
                is_hit |= has;
            }
            if is_hit {
                lines.push(line);
            }
        }
        let distinct = seen.iter().filter(|seen| **seen).count();
        if distinct > 0 {
            found.push((distinct, lines.len(), file, lines));
        }
    }
    found.sort_by_key(|(distinct, hits, file, _)| (Reverse(*distinct), Reverse(*hits), &file.path));
    let mut page = Page::new(tokens, counter);
    for (_, _, file, lines) in found {
        let lines = lines.into_iter().take(LINES_PER_FILE_MAX);
        if !page.line(&format!("{}:", file.path)) || !lines.into_iter().all(|line| page.line(line)) {
            break;
        }
    }
    page.into_text()
}

/// The words that say something, in small letters.
pub(crate) fn words(query: &str) -> Vec<String> {
    let all = query.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let worth = all.filter(|word| word.chars().count() >= WORD_LETTERS_MIN && !query_terms(word).is_empty());
    let mut words: Vec<String> = worth.map(str::to_ascii_lowercase).collect();
    words.sort();
    words.dedup();
    words
}
