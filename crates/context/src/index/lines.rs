//! A text by its lines.
//!
//! # Invariants
//! 1. Lines are counted as [`str::lines`] counts them: an end closes a line, and a last one without an end is
//!    one too.

use memchr::memchr_iter;

/// A text that is asked for its lines again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineIndex {
    text: String,
    /// The end of each line, its end of line included.
    ends: Vec<usize>,
}

impl LineIndex {
    /// The lines of a text.
    ///
    /// ```
    /// use context::index::LineIndex;
    ///
    /// let lines = LineIndex::new("one\r\n\nthree".to_owned());
    /// assert_eq!(lines.len(), 3);
    /// assert_eq!((lines.get(1), lines.get(2), lines.get(3)), (Some("one"), Some(""), Some("three")));
    /// assert_eq!((lines.get(0), lines.get(4)), (None, None));
    /// ```
    pub fn new(text: String) -> LineIndex {
        let mut ends: Vec<usize> = memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1).collect();
        if ends.last().copied().unwrap_or(0) < text.len() {
            ends.push(text.len());
        }
        LineIndex { text, ends }
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of lines there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no line.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A line without its end, from 1.
    pub fn get(&self, number: usize) -> Option<&str> {
        let line = self.with_end(number)?;
        let line = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
        Some(line)
    }

    /// Returns a line with its end of line, counted from 1; the last may have no end.
    pub fn with_end(&self, number: usize) -> Option<&str> {
        let to = *self.ends.get(number.checked_sub(1)?)?;
        Some(&self.text[self.start(number)..to])
    }

    /// Some lines as they are in the text, one after the other. `from` and `to` count from 1, both included;
    /// lines beyond the end are left out.
    pub fn between(&self, from: usize, to: usize) -> &str {
        let to = to.min(self.len());
        if from == 0 || from > to { "" } else { &self.text[self.start(from)..self.ends[to - 1]] }
    }

    /// Returns the start of a line that exists.
    fn start(&self, number: usize) -> usize {
        if number < 2 { 0 } else { self.ends[number - 2] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_text() {
        for text in ["", "\n", "a", "a\n", "a\r\nb", "a\n\n\r\n", "é\n\rx\r"] {
            let lines = LineIndex::new(text.to_owned());
            let expected: Vec<&str> = text.lines().collect();
            let found: Vec<&str> = (1..=lines.len()).filter_map(|number| lines.get(number)).collect();
            assert_eq!(found, expected, "{text:?}");
            let with_ends: Vec<&str> =
                (1..=lines.len()).filter_map(|number| lines.with_end(number)).collect();
            assert_eq!(with_ends, text.split_inclusive('\n').collect::<Vec<_>>(), "{text:?}");
            assert_eq!(lines.between(1, usize::MAX), text);
        }
        let lines = LineIndex::new("a\nb\nc".to_owned());
        assert_eq!(
            [lines.between(2, 2), lines.between(2, 9), lines.between(3, 2), lines.between(0, 1)],
            ["b\n", "b\nc", "", ""]
        );
    }
}
