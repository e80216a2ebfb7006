//! One pass over a file's bytes: its words, its identifiers, its definitions.
//!
//! # How it is fast
//! An identifier is hashed while it is passed over and counted under that hash. Only the distinct ones, a
//! tenth of all, are split into words, stemmed and hashed again. Definitions are looked for once per line,
//! and most lines say with their first byte that they hold none. The words of each part are counted from the
//! numbers of the identifiers in their order, without another look at the bytes.
//!
//! # Invariants
//! 1. The facts depend on nothing but the bytes and the language: files that a [`Scanner`] saw before leave
//!    no trace.
//! 2. Any bytes have facts; nothing here fails.
//!
//! # Not here
//! The form of a definition: `definitions`. Reading files: the index asks its tree.

use domain::RelPath;

use super::definitions::Definitions;
use super::facts::{Def, Facts, ScanResult};
use super::language::Language;
use super::parts::ContentParts;
use super::path_only_files::{PathOnly, has_long_lines, is_binary, is_generated};
use super::spans::{partition, starts};
use super::terms::{
    ByteClass, FNV_PRIME, FNV_START, Splitter, WORD_BYTES_MAX, class, fold, hash_bytes, is_word_class,
    merged, words,
};

/// The shortest identifier that is worth following.
const IDENT_BYTES_MIN: u16 = 3;

/// The facts of a file.
pub fn scan(path: &RelPath, bytes: &[u8]) -> Facts {
    Scanner::default().scan(Language::detect(path, bytes), bytes)
}

/// Scans one file after another and reuses its memory between them.
#[derive(Default)]
pub struct Scanner {
    words: WordTable,
    splitter: Splitter,
    /// The numbers of the words in the order of the text.
    said: Vec<u32>,
    lines: Vec<LineEnd>,
    /// The hashes of the terms of all distinct words, and where those of each end.
    terms: (Vec<u32>, Vec<u32>),
}

/// The amount up to the end of a line: bytes, its end of line included, and words.
#[derive(Clone, Copy, Default)]
struct LineEnd {
    byte: usize,
    said: usize,
}

impl Scanner {
    /// The facts of a content in a language.
    pub fn scan(&mut self, language: Language, bytes: &[u8]) -> Facts {
        Facts::new(language, self.find(language, bytes))
    }

    /// The facts of a content in a language, and its parts.
    pub fn scan_parts(&mut self, language: Language, bytes: &[u8]) -> (Facts, ContentParts) {
        let found = self.find(language, bytes);
        let parts = self.parts(bytes, &found.defs);
        (Facts::new(language, found), parts)
    }

    fn find(&mut self, language: Language, bytes: &[u8]) -> ScanResult {
        self.clear();
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut found = ScanResult { bytes: size, is_utf8: true, ..ScanResult::default() };
        found.path_only = if is_binary(bytes) {
            Some(PathOnly::Binary)
        } else if is_generated(bytes) {
            Some(PathOnly::Generated)
        } else {
            None
        };
        if found.path_only != Some(PathOnly::Binary) {
            found.lines = lines(bytes);
            found.is_utf8 = std::str::from_utf8(bytes).is_ok();
        }
        if found.path_only.is_none() && has_long_lines(bytes.len(), found.lines, language.kind()) {
            found.path_only = Some(PathOnly::LongLines);
        }
        if found.path_only.is_none() {
            let definitions = self.pass(language, bytes);
            found.defs = definitions.finish(found.lines);
            self.count_terms(bytes, &mut found);
        }
        found
    }

    fn clear(&mut self) {
        self.words.clear();
        self.said.clear();
        self.lines.clear();
        self.terms.0.clear();
        self.terms.1.clear();
    }

    /// Counts the words of all lines, and shows each line to who looks for definitions.
    fn pass(&mut self, language: Language, bytes: &[u8]) -> Definitions {
        let mut definitions = Definitions::new(language);
        let mut line_start = 0;
        let mut at = 0;
        while at < bytes.len() {
            match class(bytes[at]) {
                ByteClass::Other => at += 1,
                ByteClass::Newline => {
                    definitions.line(&bytes[line_start..at]);
                    at += 1;
                    self.lines.push(LineEnd { byte: at, said: self.said.len() });
                    line_start = at;
                }
                ByteClass::Digit => {
                    at += bytes[at..].iter().take_while(|byte| is_word_class(class(**byte))).count();
                }
                ByteClass::Lower | ByteClass::Upper | ByteClass::Underscore | ByteClass::Wide => {
                    let start = at;
                    let mut hash = FNV_START;
                    while at < bytes.len() && is_word_class(class(bytes[at])) {
                        hash = (hash ^ u64::from(bytes[at])).wrapping_mul(FNV_PRIME);
                        at += 1;
                    }
                    if at - start <= WORD_BYTES_MAX {
                        self.said.push(self.words.count(hash, start, at - start));
                    }
                }
            }
        }
        if line_start < bytes.len() {
            definitions.line(&bytes[line_start..]);
            self.lines.push(LineEnd { byte: bytes.len(), said: self.said.len() });
        }
        definitions
    }

    fn count_terms(&mut self, bytes: &[u8], found: &mut ScanResult) {
        let mut terms = Vec::with_capacity(self.words.distinct.len() * 2);
        let mut idents = Vec::with_capacity(self.words.distinct.len());
        for word in &self.words.distinct {
            if word.len >= IDENT_BYTES_MIN {
                idents.push((fold(word.hash), word.count));
            }
            let text = &bytes[word.start as usize..word.start as usize + usize::from(word.len)];
            self.splitter.split(text, &mut |term| {
                let hash = fold(hash_bytes(term));
                terms.push((hash, word.count));
                self.terms.0.push(hash);
            });
            self.terms.1.push(self.terms.0.len() as u32);
        }
        let mut def_terms = Vec::new();
        for name in found.defs.iter().flat_map(|def| words(def.name.as_bytes())) {
            self.splitter.split(name, &mut |term| def_terms.push((fold(hash_bytes(term)), 1)));
        }
        found.terms = merged(terms);
        found.idents = merged(idents);
        found.def_terms = merged(def_terms);
        found.terms_len =
            found.terms.iter().fold(0_u32, |sum, (_, count)| sum.saturating_add(u32::from(*count)));
    }

    /// The parts of what was passed over last.
    fn parts(&self, bytes: &[u8], defs: &[Def]) -> ContentParts {
        let is_blank = |line: u32| {
            let line = &bytes[self.end_of(line - 1).byte..self.end_of(line).byte];
            String::from_utf8_lossy(line).trim().is_empty()
        };
        let starts: Vec<(u32, u32)> = defs.iter().map(starts).collect();
        let spans = partition(self.lines.len() as u32, &is_blank, &starts);
        let mut counts = vec![0_u16; self.words.distinct.len()];
        ContentParts::new(spans.iter().map(|span| {
            let (from, to) = (self.end_of(span.from - 1), self.end_of(span.to));
            (span.def, self.terms_of(&self.said[from.said..to.said], &mut counts))
        }))
    }

    /// Returns the end of a line, counted from 1; the default for line 0.
    fn end_of(&self, line: u32) -> LineEnd {
        line.checked_sub(1).map_or(LineEnd::default(), |line| self.lines[line as usize])
    }

    /// The terms of some words. `counts` has a place for each distinct word, and is all 0 before and after.
    fn terms_of(&self, said: &[u32], counts: &mut [u16]) -> Vec<(u32, u16)> {
        let mut distinct = Vec::with_capacity(said.len());
        for word in said {
            let count = &mut counts[*word as usize];
            if *count == 0 {
                distinct.push(*word as usize);
            }
            *count = count.saturating_add(1);
        }
        let (terms, ends) = &self.terms;
        let mut found = Vec::with_capacity(distinct.len() * 2);
        for word in distinct {
            let from = word.checked_sub(1).map_or(0, |before| ends[before]);
            let of_word = &terms[from as usize..ends[word] as usize];
            found.extend(of_word.iter().map(|hash| (*hash, counts[word])));
            counts[word] = 0;
        }
        merged(found)
    }
}

/// Returns the number of lines there are; a last one without an end counts.
pub(super) fn lines(bytes: &[u8]) -> u32 {
    let ended = bytes.iter().filter(|byte| **byte == b'\n').count();
    let open = usize::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
    u32::try_from(ended + open).unwrap_or(u32::MAX)
}

/// A distinct word of a file: the place of its first occurrence, and its count.
#[derive(Clone, Copy)]
struct DistinctWord {
    hash: u64,
    start: u32,
    len: u16,
    count: u16,
}

/// The distinct words, found by hash. The table is at most half full, so a search is short.
struct WordTable {
    distinct: Vec<DistinctWord>,
    /// Place in `distinct` plus one; 0 is free. A power of two long.
    slots: Vec<u32>,
}

/// The number of slots there are at first.
const SLOTS_MIN: usize = 2048;

impl Default for WordTable {
    fn default() -> Self {
        WordTable { distinct: Vec::new(), slots: vec![0; SLOTS_MIN] }
    }
}

impl WordTable {
    fn clear(&mut self) {
        self.distinct.clear();
        self.slots.fill(0);
    }

    /// Counts a word; its number.
    fn count(&mut self, hash: u64, start: usize, len: usize) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = place(hash) & mask;
        loop {
            match self.slots[slot] {
                0 => break,
                number => {
                    let word = &mut self.distinct[number as usize - 1];
                    if word.hash == hash {
                        word.count = word.count.saturating_add(1);
                        return number - 1;
                    }
                }
            }
            slot = (slot + 1) & mask;
        }
        // Both fit: a file that is scanned is below 4 GiB, a word at most 64 bytes long.
        self.distinct.push(DistinctWord { hash, start: start as u32, len: len as u16, count: 1 });
        self.slots[slot] = self.distinct.len() as u32;
        if self.distinct.len() * 2 > self.slots.len() {
            self.grow();
        }
        self.distinct.len() as u32 - 1
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        let mask = self.slots.len() - 1;
        for (number, word) in self.distinct.iter().enumerate() {
            let mut slot = place(word.hash) & mask;
            while self.slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = number as u32 + 1;
        }
    }
}

/// The low bits of FNV are weak in short words; the high ones make up for it.
fn place(hash: u64) -> usize {
    (hash ^ (hash >> 29)) as usize
}

#[cfg(test)]
mod tests {
    use super::super::HashCounts;
    use super::super::terms::{hash, of_text};
    use super::*;

    fn facts(path: &str, text: &str) -> Facts {
        scan(&RelPath::new(path).unwrap(), text.as_bytes())
    }

    fn listed(counts: HashCounts<'_>) -> Vec<(u32, u16)> {
        counts.iter().collect()
    }

    #[test]
    fn identifiers_are_counted_as_written_and_words_by_their_stems() {
        let found = facts("a.txt", "retryLimit x retries, retryLimit");
        assert_eq!(listed(found.idents()), merged(vec![(hash("retryLimit"), 2), (hash("retries"), 1)]));
        assert_eq!(
            listed(found.terms()),
            merged(vec![(hash("retry"), 3), (hash("limit"), 2), (hash("retrylimit"), 2)])
        );
        assert_eq!((found.terms_len, found.lines, found.bytes), (7, 1, 32));
    }

    #[test]
    fn the_terms_of_a_file_are_the_terms_of_its_text() {
        let text = "fn parseJSON(naïve: &str) -> Größe { 0xFF } // поиск\n";
        assert_eq!(listed(facts("a.rs", text).terms()), of_text(text));
    }

    #[test]
    fn a_scanner_forgets_the_file_before() {
        let mut scanner = Scanner::default();
        let many: String =
            (0..5000).map(|number| format!("word{number} ")).collect::<String>().replace("9 ", "9\n");
        assert_eq!(scanner.scan(Language::Text, many.as_bytes()).idents().iter().count(), 5000);
        let after = scanner.scan(Language::Rust, b"fn one() {}\n");
        assert_eq!(after, Scanner::default().scan(Language::Rust, b"fn one() {}\n"));
        assert_eq!(after.idents().iter().count(), 1);
    }

    #[test]
    fn what_is_not_read_by_people_has_no_words() {
        let long = "abc ".repeat(100);
        for (text, reason, lines) in [
            ("abc\0def\n", PathOnly::Binary, 0),
            ("// generated, do not edit\nfn x() {}\n", PathOnly::Generated, 2),
            (long.as_str(), PathOnly::LongLines, 1),
        ] {
            let found = facts("a.rs", text);
            assert_eq!((found.path_only, found.lines), (Some(reason), lines));
            assert!(found.terms().is_empty() && found.idents().is_empty() && found.defs().is_empty());
        }
        // In prose a line may be a paragraph.
        assert_eq!(facts("a.md", &long).path_only, None);
        assert_eq!(facts("a.md", &long.repeat(6)).path_only, Some(PathOnly::LongLines));
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_scanned_too() {
        let found = scan(&RelPath::new("a.txt").unwrap(), b"caf\xe9 retry\n");
        assert!(!found.is_utf8);
        assert_eq!(found.terms().get(hash("retry")), 1);
    }

    #[test]
    fn lines_are_counted_with_an_open_last_one() {
        for (text, expected) in [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(lines(text.as_bytes()), expected, "{text:?}");
        }
    }
}
