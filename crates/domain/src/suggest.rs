//! The name that was probably meant by a word that names nothing.

use strsim::osa_distance;

/// The number of letters that are enough of a beginning.
const BEGINNING_MIN: usize = 3;
/// Of so many letters one may be wrong.
const LETTERS_PER_SLIP: usize = 3;

/// Returns the candidate that differs from `word` by the fewest letters changed, added, left out or swapped.
/// They may be at most a third of the longer word. If there is none, returns one that `word` is the beginning of. If
/// there is none either, returns the only one that has it as a whole word between `-`, `_`, `.` and `/`. Of
/// equals the first is returned.
///
/// ```
/// use domain::nearest;
///
/// assert_eq!(nearest("promt", ["args", "prompt"]), Some("prompt"));
/// assert_eq!(nearest("colour", ["args", "prompt"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near: Vec<(usize, &str)> =
        candidates.into_iter().map(|candidate| (osa_distance(word, candidate), candidate)).collect();
    let letters = word.chars().count();
    let is_near = |(distance, candidate): &&(usize, &str)| {
        *distance <= letters.max(candidate.chars().count()) / LETTERS_PER_SLIP
    };
    if let Some((_, candidate)) = near.iter().filter(is_near).min_by_key(|(distance, _)| *distance) {
        return Some(candidate);
    }
    let is_longer = |candidate: &str| letters >= BEGINNING_MIN && candidate.starts_with(word);
    let mut all = near.iter().map(|(_, candidate)| *candidate);
    all.clone().find(|candidate| is_longer(candidate)).or_else(|| {
        let has_it = |candidate: &&str| candidate.split(['-', '_', '.', '/']).any(|part| part == word);
        let only = all.find(has_it).filter(|_| letters >= BEGINNING_MIN)?;
        all.find(has_it).is_none().then_some(only)
    })
}

/// `; did you mean …?`, or nothing: the end of a sentence about a word that names nothing.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, candidates) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_meant() {
        assert_eq!(nearest("", ["a"]), None);
        assert_eq!(nearest("a", []), None);
        assert_eq!(nearest("m", ["b"]), None, "a third of one letter is none");
        assert_eq!(
            nearest("rnu", ["on", "run"]),
            Some("run"),
            "a swap is one slip, and two of three are too many"
        );
        assert_eq!(nearest("rnu", ["on"]), None);
        assert_eq!(nearest("rn", ["on", "run"]), Some("run"), "a letter is missing");
        assert_eq!(nearest("id", ["if"]), None);
        assert_eq!(nearest("int", ["list", "integer"]), Some("integer"), "a beginning");
        assert_eq!(nearest("nedes", ["node", "needs"]), Some("needs"), "two letters changed places");
        assert_eq!(nearest("xyz", ["abc"]), None);
        assert_eq!(nearest("bool", ["string", "boolean"]), Some("boolean"), "a beginning");
        assert_eq!(nearest("keyword", ["arce", "simple-keyword"]), Some("simple-keyword"), "one word of it");
        assert_eq!(nearest("keyword", ["other_keyword", "simple-keyword"]), None, "of two neither");
        assert_eq!(nearest("key", ["simple-keyword"]), None, "a part of a word is none");
        assert_eq!(nearest("to", ["way.to"]), None, "so short a word says nothing");
        assert_eq!(did_you_mean("promt", ["prompt"]), "; did you mean `prompt`?");
        assert_eq!(did_you_mean("colour", ["prompt"]), "");
    }
}
