//! Comments in plain English: a count of the words and first words that readers stumble over, which may only
//! fall.
//!
//! The words and their replacements are those of CONTRIBUTING.md, section "Names and words". A comment that
//! begins with one of [`FIRST_WORDS`] names no subject; one of [`WORDS`] has a plainer synonym.

use super::{File, Finding};

/// First words of a comment that leave its subject out.
const FIRST_WORDS: [&str; 7] = ["What", "How", "Who", "Whoever", "Which", "Where", "Whether"];
/// Words with a plainer synonym.
const WORDS: [&str; 16] = [
    "told",
    "tells",
    "kept",
    "stands",
    "lies",
    "lives",
    "whoever",
    "nobody",
    "somebody",
    "anew",
    "beside",
    "mended",
    "broken off",
    "taken back",
    "set aside",
    "goes on",
];
/// The number of comments that may begin with one of [`FIRST_WORDS`].
const FIRST_WORDS_MAX: usize = 0;
/// The number of times that [`WORDS`] may occur in comments.
const WORDS_MAX: usize = 0;

/// Returns a finding for each count that is not the one written down here.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let (mut first, mut words) = (0, 0);
    for file in files.iter().filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/")) {
        let mut is_continued = false;
        for line in file.text.lines() {
            let comment = doc_text(line);
            if let Some(text) = comment {
                first += usize::from(!is_continued && begins_without_subject(text));
                words += WORDS.iter().map(|word| occurrences(text, word)).sum::<usize>();
            }
            is_continued = comment.is_some_and(|text| !text.is_empty());
        }
    }
    let counts = [("FIRST_WORDS_MAX", first, FIRST_WORDS_MAX), ("WORDS_MAX", words, WORDS_MAX)];
    counts.into_iter().filter_map(|(name, found, max)| judge(name, found, max)).collect()
}

fn judge(name: &str, found: usize, max: usize) -> Option<Finding> {
    let what = match found.cmp(&max) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => format!("only {found} are left: lower {name} to that"),
        std::cmp::Ordering::Greater => {
            format!(
                "{found} places break the rules of plain English, {max} did before ({name}): reword the new ones"
            )
        }
    };
    Some(Finding::new("xtask/src/tidy/plain_words.rs", 1, what))
}

/// Returns the text of a doc comment; `None` if the line is none.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

fn begins_without_subject(text: &str) -> bool {
    let word = text.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
    FIRST_WORDS.contains(&word)
}

fn occurrences(text: &str, word: &str) -> usize {
    let is_letter =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(word)
        .filter(|(at, found)| {
            !is_letter(text[..*at].chars().next_back()) && !is_letter(text[at + found.len()..].chars().next())
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_as_whole_words_of_comments() {
        assert_eq!(occurrences("it is told, untold, and told", "told"), 2);
        assert_eq!(doc_text("    /// It is kept."), Some("It is kept."));
        assert_eq!(doc_text("let kept = 1; // kept"), None);
    }

    #[test]
    fn a_comment_that_names_no_subject_is_found() {
        assert!(begins_without_subject("What a plan may use.") && begins_without_subject("Whether it is."));
        assert!(!begins_without_subject("Whatever it is") && !begins_without_subject("A plan."));
    }

    #[test]
    fn a_count_that_rose_or_fell_is_a_finding() {
        assert_eq!(judge("MAX", 3, 3), None);
        assert!(judge("MAX", 4, 3).is_some_and(|finding| finding.what.contains("reword")));
        assert!(judge("MAX", 2, 3).is_some_and(|finding| finding.what.contains("lower MAX")));
    }
}
