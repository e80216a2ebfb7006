//! The words by which files are found: split, folded, stemmed and hashed, alike for files, paths and queries.
//!
//! # Invariants
//! 1. One function makes all terms, so that the terms of a query match those of the index.
//! 2. A list of terms is sorted by hash and names each hash once.
//!
//! # Not here
//! The count of each word in a file: `scan`. The worth of a term: the strategies.

use std::collections::HashSet;
use std::sync::OnceLock;

use domain::RelPath;
use memchr::memrchr;

use super::stemmer::{SHORT_LETTERS, stem};

/// A longer run of letters is no word to search for: an encoded blob, a digest.
pub(crate) const WORD_BYTES_MAX: usize = 64;

/// A word in it that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    /// The stemmed word.
    pub text: String,
    /// The hash by which the term is looked up.
    pub hash: u32,
    /// The number of occurrences in the query.
    pub count: u16,
}

/// The hash of an identifier as it is written, or of a term that was made already: FNV-1a of 64 bits, folded
/// to 32.
///
/// ```
/// assert_eq!(context::index::terms::hash(""), 0x4FD0_BFC1);
/// ```
pub fn hash(text: &str) -> u32 {
    fold(hash_bytes(text.as_bytes()))
}

pub(crate) const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
pub(crate) const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_START, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

pub(crate) fn fold(hash: u64) -> u32 {
    ((hash >> 32) ^ hash) as u32
}

/// The terms of a text and how often each occurs, sorted by hash.
pub fn of_text(text: &str) -> Vec<(u32, u16)> {
    let mut found = Vec::new();
    Splitter::default().terms(text.as_bytes(), &mut found);
    merged(found)
}

/// Finds the terms of paths, those of a folder once for all files that follow one another in it.
#[derive(Default)]
pub(crate) struct PathTerms {
    splitter: Splitter,
    folder: Vec<u8>,
    of_folder: Vec<(u32, u16)>,
}

impl PathTerms {
    /// The terms of a path and how often each occurs, sorted by hash.
    pub(crate) fn of(&mut self, path: &RelPath) -> Vec<(u32, u16)> {
        let path = path.as_bytes();
        // No word continues beyond the end of a folder's name.
        let (folder, name) = path.split_at(memrchr(b'/', path).map_or(0, |end| end + 1));
        if self.folder != folder {
            self.folder = folder.to_vec();
            self.of_folder.clear();
            self.splitter.terms(folder, &mut self.of_folder);
        }
        let mut found = self.of_folder.clone();
        self.splitter.terms(name, &mut found);
        merged(found)
    }
}

/// Returns the terms of a query, in its order, without the words that say nothing.
///
/// ```
/// use context::index::terms::query_terms;
///
/// let terms = query_terms("fix the retries of JobRescuer");
/// let texts: Vec<&str> = terms.iter().map(|term| term.text.as_str()).collect();
/// assert_eq!(texts, ["retry", "job", "rescuer", "jobrescuer"]);
/// ```
pub fn query_terms(text: &str) -> Vec<QueryTerm> {
    let mut terms: Vec<QueryTerm> = Vec::new();
    let mut splitter = Splitter::default();
    for word in words(text.as_bytes()) {
        splitter.split(word, &mut |term| {
            let text = String::from_utf8_lossy(term).into_owned();
            if is_stop_word(&text) {
                return;
            }
            match terms.iter_mut().find(|known| known.text == text) {
                Some(known) => known.count = known.count.saturating_add(1),
                None => terms.push(QueryTerm { hash: hash(&text), text, count: 1 }),
            }
        });
    }
    terms
}

/// Sorted by hash, the counts of equal hashes added up.
pub(crate) fn merged(mut found: Vec<(u32, u16)>) -> Vec<(u32, u16)> {
    found.sort_unstable_by_key(|(hash, _)| *hash);
    found.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
    found
}

/// The class of a byte within a word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteClass {
    Other,
    Newline,
    Lower,
    Upper,
    Digit,
    Underscore,
    /// Part of a character beyond ASCII: what it is shows when the word is split.
    Wide,
}

pub(crate) const CLASSES: [ByteClass; 256] = classes();

const fn classes() -> [ByteClass; 256] {
    let mut table = [ByteClass::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'\n' => ByteClass::Newline,
            b'a'..=b'z' => ByteClass::Lower,
            b'A'..=b'Z' => ByteClass::Upper,
            b'0'..=b'9' => ByteClass::Digit,
            b'_' => ByteClass::Underscore,
            0x80.. => ByteClass::Wide,
            _ => ByteClass::Other,
        };
        byte += 1;
    }
    table
}

pub(crate) fn class(byte: u8) -> ByteClass {
    CLASSES[usize::from(byte)]
}

pub(crate) fn is_word_class(class: ByteClass) -> bool {
    !matches!(class, ByteClass::Other | ByteClass::Newline)
}

/// The identifiers and runs of letters in some bytes. A run that begins with a digit is a number and no word.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|byte| !is_word_class(class(*byte)))
        .filter(|word| !word.is_empty() && word.len() <= WORD_BYTES_MAX && class(word[0]) != ByteClass::Digit)
}

/// Makes terms of words; reuses its memory between them.
#[derive(Default)]
pub(crate) struct Splitter {
    part: Vec<u8>,
    whole: Vec<u8>,
}

impl Splitter {
    /// Puts down the hash of each term of a text.
    fn terms(&mut self, text: &[u8], found: &mut Vec<(u32, u16)>) {
        for word in words(text) {
            self.split(word, &mut |term| found.push((fold(hash_bytes(term)), 1)));
        }
    }

    /// Calls `tell` for the terms of one word: its parts, and if there are several the whole.
    pub(crate) fn split(&mut self, word: &[u8], tell: &mut dyn FnMut(&[u8])) {
        if word.iter().any(|byte| *byte >= 0x80) {
            return self.split_wide(word, tell);
        }
        self.whole.clear();
        let mut parts = 0;
        let mut from = 0;
        while from < word.len() {
            let to = part_end(word, from);
            if class(word[from]) != ByteClass::Underscore {
                self.whole.extend(word[from..to].iter().map(u8::to_ascii_lowercase));
                parts += 1;
                self.tell_part(&word[from..to], tell);
            }
            from = to;
        }
        if parts > 1 {
            tell(stem(&mut self.whole));
        }
    }

    fn tell_part(&mut self, part: &[u8], tell: &mut dyn FnMut(&[u8])) {
        if !is_told(part) {
            return;
        }
        self.part.clear();
        self.part.extend(part.iter().map(u8::to_ascii_lowercase));
        tell(stem(&mut self.part));
    }

    /// Letters of any script; marks and dashes beyond ASCII separate words like those within.
    fn split_wide(&mut self, word: &[u8], tell: &mut dyn FnMut(&[u8])) {
        let text = String::from_utf8_lossy(word);
        for run in text.split(|character: char| !character.is_alphanumeric()) {
            if run.is_ascii() {
                if !run.is_empty() {
                    self.split(run.as_bytes(), tell);
                }
            } else if run.chars().nth(1).is_some() {
                tell(run.to_lowercase().as_bytes());
            }
        }
    }
}

/// The shape of a word that is not split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WordShape {
    /// The number of terms it has.
    pub(crate) terms: u32,
    /// True if one of them may be asked for.
    pub(crate) may_be_asked: bool,
}

/// The beginnings of some terms: most words of a file begin otherwise, and need not be split to be passed
/// over.
pub(crate) struct Beginnings(Vec<u64>);

impl Beginnings {
    /// The number of letters of a beginning that count.
    const LETTERS: usize = 3;
    /// The number of bits that distinguish small letters. Digits look like some of them, which only costs a
    /// look.
    const LETTER_BITS: usize = 5;

    pub(crate) fn from_terms<'a>(terms: impl Iterator<Item = &'a [u8]>) -> Beginnings {
        let mut known = Beginnings(vec![0; 1 << (Self::LETTERS * Self::LETTER_BITS - 6)]);
        for term in terms {
            let (word, bit) = Self::place(term);
            known.0[word] |= bit;
        }
        known
    }

    /// Returns whether the stem of a part may be one of the terms. A stem begins as its word does, but for
    /// `flies` and `fly`.
    fn may_hold(&self, part: &[u8]) -> bool {
        let (word, bit) = Self::place(part);
        self.0[word] & bit != 0 || part.len() == SHORT_LETTERS + 1
    }

    fn place(term: &[u8]) -> (usize, u64) {
        let letter = |at: usize| term.get(at).map_or(0, |byte| usize::from(byte & 0x1f));
        let bits = (0..Self::LETTERS).fold(0, |bits, at| bits << Self::LETTER_BITS | letter(at));
        (bits >> 6, 1 << (bits & 63))
    }

    /// Returns the shape of a word of ASCII letters.
    pub(crate) fn shape(&self, word: &[u8]) -> WordShape {
        let mut shape = WordShape::default();
        let mut parts = 0;
        // Of the whole only the beginning and the length count.
        let mut whole = [0; SHORT_LETTERS + 2];
        let mut whole_len = 0;
        let mut from = 0;
        while from < word.len() {
            let to = part_end(word, from);
            if class(word[from]) != ByteClass::Underscore {
                let part = &word[from..to];
                parts += 1;
                for byte in part.iter().take(whole.len() - whole_len) {
                    whole[whole_len] = *byte;
                    whole_len += 1;
                }
                if is_told(part) {
                    shape.terms += 1;
                    shape.may_be_asked |= self.may_hold(part);
                }
            }
            from = to;
        }
        if parts > 1 {
            shape.terms += 1;
            shape.may_be_asked |= self.may_hold(&whole[..whole_len]);
        }
        shape
    }

    /// The same of a word of small letters and digits that begins with a letter: it has one part.
    pub(crate) fn shape_of_one(&self, word: &[u8]) -> WordShape {
        if is_told(word) {
            WordShape { terms: 1, may_be_asked: self.may_hold(word) }
        } else {
            WordShape::default()
        }
    }
}

/// Returns true if a part of a word is a term: it has two letters, and is no number.
fn is_told(part: &[u8]) -> bool {
    part.len() >= 2 && class(part[0]) != ByteClass::Digit
}

/// Returns the end of the part that begins at `from`: at an underscore, at a hump, or with the word.
fn part_end(word: &[u8], from: usize) -> usize {
    let first = class(word[from]);
    let mut at = from + 1;
    while at < word.len() {
        let (before, here) = (class(word[at - 1]), class(word[at]));
        if (here == ByteClass::Underscore) != (first == ByteClass::Underscore) {
            break;
        }
        let goes_up = here == ByteClass::Upper && matches!(before, ByteClass::Lower | ByteClass::Digit);
        let ends_capitals = here == ByteClass::Lower && before == ByteClass::Upper && at - 1 > from;
        if goes_up {
            break;
        }
        if ends_capitals {
            return at - 1;
        }
        at += 1;
    }
    at
}

/// Words of English and of commit messages that do not help to find a place.
const STOP_WORDS: &str = "a about add after again all allow also always am an and any are as at avoid be because been \
     before being better both but by can cannot change chore could did do does doc docs don during each ensure etc ever \
     feat few fix for from had has have how i if implement improve in instead into introduce is it its just like make \
     may minor more most must need new no not now of on once one only or other our out over properly refactor remove \
     same should simplify so some still such support test than that the their them then there these they this those to \
     too typo up update use various very was we were what when where which while who why will with without would you \
     your adds added docs fixes fixed makes tests uses used using";

/// None of them is longer.
const STOP_WORD_BYTES_MAX: usize = 9;

/// Returns whether a name is a word of everyday English: even if it is defined, comments and texts elsewhere
/// do not mean the definition.
pub fn is_everyday(name: &str) -> bool {
    static WORDS: OnceLock<HashSet<&'static str>> = OnceLock::new();
    if name.len() > STOP_WORD_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return false;
    }
    WORDS.get_or_init(|| STOP_WORDS.split_whitespace().collect()).contains(name)
}

fn is_stop_word(term: &str) -> bool {
    static STEMS: OnceLock<HashSet<Vec<u8>>> = OnceLock::new();
    let stems = STEMS.get_or_init(|| {
        let mut buffer = Vec::new();
        let stemmed = STOP_WORDS.split_whitespace().map(|word| {
            buffer.clear();
            buffer.extend_from_slice(word.as_bytes());
            stem(&mut buffer).to_vec()
        });
        stemmed.collect()
    });
    stems.contains(term.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut splitter = Splitter::default();
        for word in words(text.as_bytes()) {
            splitter.split(word, &mut |term| found.push(String::from_utf8(term.to_vec()).unwrap()));
        }
        found
    }

    #[test]
    fn words_are_split_at_underscores_and_humps_and_kept_whole() {
        let table: [(&str, &[&str]); 12] = [
            ("retry_limit", &["retry", "limit", "retrylimit"]),
            ("HTTPServer", &["http", "server", "httpserver"]),
            ("parseJSONText", &["pars", "json", "text", "parsejsontext"]),
            ("utf8Decode", &["utf8", "decod", "utf8decod"]),
            ("__init__", &["init"]),
            ("x", &[]),
            ("a_b", &["ab"]),
            ("0xFF 12ab", &[]),
            ("don't", &["don"]),
            ("naïve Größe—mark", &["naïve", "größe", "mark"]),
            ("поиск файлов", &["поиск", "файлов"]),
            ("SHA256", &["sha256"]),
        ];
        for (text, expected) in table {
            assert_eq!(texts(text), expected, "{text}");
        }
        assert_eq!(texts(&"a".repeat(65)), Vec::<String>::new());
        assert_eq!(texts(&"a".repeat(64)).len(), 1);
    }

    #[test]
    fn a_word_that_is_passed_over_has_as_many_terms_as_one_that_is_split_and_none_that_is_asked_for() {
        let asked = ["retry", "limit", "ab", "1b", "sha256", "s3", "fly", "run", "runlimit"];
        let beginnings = Beginnings::from_terms(asked.iter().map(|term| term.as_bytes()));
        let pieces = [
            "retries", "Limit", "_", "__", "a", "B", "1", "1b", "SHA256", "S3", "HTTP", "Server", "zz",
            "flies", "running",
        ];
        let mut passed = 0;
        for one in pieces {
            for other in pieces {
                for third in pieces {
                    let word = format!("{one}{other}{third}");
                    let terms = texts(&word);
                    if class(word.as_bytes()[0]) == ByteClass::Digit {
                        continue;
                    }
                    let shape = beginnings.shape(word.as_bytes());
                    assert_eq!(shape.terms as usize, terms.len(), "{word}: {terms:?}");
                    let is_asked = terms.iter().any(|term| asked.contains(&term.as_str()));
                    assert!(shape.may_be_asked || !is_asked, "{word}: {terms:?}");
                    passed += usize::from(!shape.may_be_asked);
                    if word.bytes().all(|byte| matches!(class(byte), ByteClass::Lower | ByteClass::Digit)) {
                        assert_eq!(beginnings.shape_of_one(word.as_bytes()), shape, "{word}");
                    }
                }
            }
        }
        assert!(passed > 300, "{passed}: most words are not looked at");
    }

    #[test]
    fn files_paths_and_queries_meet_in_the_same_terms() {
        let query = query_terms("Retries retry_limit");
        let terms: Vec<(&str, u16)> = query.iter().map(|term| (term.text.as_str(), term.count)).collect();
        assert_eq!(terms, [("retry", 2), ("limit", 1), ("retrylimit", 1)]);
        let path = PathTerms::default().of(&RelPath::new("src/retry/limits.rs").unwrap());
        let text = of_text("the retry limit");
        for term in &query[..2] {
            assert!(path.contains(&(term.hash, 1)));
            assert!(text.contains(&(term.hash, 1)));
        }
    }

    #[test]
    fn paths_have_the_terms_of_their_text_whatever_came_before_them() {
        let mut terms = PathTerms::default();
        for path in
            ["Makefile", "a_b/retryLimit.rs", "a_b/run/run.rs", "a_b/run/walk.rs", "run.rs", "größe/ü.md"]
        {
            assert_eq!(terms.of(&RelPath::new(path).unwrap()), of_text(path), "{path}");
        }
    }

    #[test]
    fn a_query_of_empty_words_asks_for_nothing() {
        assert_eq!(query_terms("Fix: add some new tests, and update the docs (#12)"), []);
        assert_eq!(query_terms(""), []);
    }

    #[test]
    fn equal_hashes_are_counted_together() {
        assert_eq!(merged(vec![(7, 1), (3, 2), (7, 65_535)]), [(3, 2), (7, 65_535)]);
        assert_eq!(of_text("run Run run"), [(hash("run"), 3)]);
    }
}
