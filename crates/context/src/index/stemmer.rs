//! A small English stemmer: enough that `retries` finds `retry`, cheap enough for every word of every file.
//!
//! # Invariants
//! 1. A word of at most four letters stays as it is.
//! 2. The stem is never empty.

/// The most letters of a word that is left alone.
pub(super) const SHORT_LETTERS: usize = 4;

/// Cuts the ending of a lower-case word, in place.
pub(super) fn stem(word: &mut Vec<u8>) -> &[u8] {
    if word.len() > SHORT_LETTERS {
        let was_verb = cut_ending(word);
        if was_verb {
            undouble(word);
        }
        if word.len() > SHORT_LETTERS && word.last() == Some(&b'e') {
            word.pop();
        }
    }
    word
}

/// Cuts the first ending that fits; whether it was one that doubles the letter before it.
fn cut_ending(word: &mut Vec<u8>) -> bool {
    let len = word.len();
    if word.ends_with(b"ies") {
        word.truncate(len - 3);
        word.push(b'y');
    } else if word.ends_with(b"sses") {
        word.truncate(len - 2);
    } else if word.ends_with(b"ing") && len > 6 {
        word.truncate(len - 3);
        return true;
    } else if word.ends_with(b"ed") && len > 5 {
        word.truncate(len - 2);
        return true;
    } else if word.ends_with(b"es") && len > 5 {
        word.truncate(len - 2);
    } else if word.ends_with(b"s") && !word.ends_with(b"ss") {
        word.truncate(len - 1);
    }
    false
}

/// `stopp` becomes `stop`; `call` and `pass` are whole words.
fn undouble(word: &mut Vec<u8>) {
    if let [.., before, last] = word[..]
        && before == last
        && !matches!(last, b'l' | b's')
    {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_family_have_one_stem() {
        let families: [&[&str]; 11] = [
            &["retry", "retries"],
            &["stop", "stopping", "stopped"],
            &["parse", "parsing", "parsed"],
            &["node", "nodes"],
            &["diff", "diffs"],
            &["cache", "caches", "caching", "cached"],
            &["match", "matches", "matching"],
            &["class", "classes"],
            &["running", "run"],
            &["call", "calling", "called"],
            &["index", "indexes", "indexing"],
        ];
        for family in families {
            let stems: Vec<Vec<u8>> =
                family.iter().map(|word| stem(&mut word.as_bytes().to_vec()).to_vec()).collect();
            assert!(stems.iter().all(|found| *found == stems[0]), "{family:?}: {stems:?}");
        }
    }

    #[test]
    fn short_words_stay() {
        for word in ["node", "uses", "bed", "ring", "miss", "a"] {
            assert_eq!(stem(&mut word.as_bytes().to_vec()), word.as_bytes());
        }
    }
}
