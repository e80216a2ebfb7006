//! Compares two changes of one text by the lines that each replaces, without the texts.
//!
//! # Invariants
//! 1. An answer other than [`LinesVerdict::Unsure`] is that of [`merge`](super::merge) on the texts
//!    themselves.
//! 2. It does not matter which of the two changes is named first.

use super::reach;
use crate::change::file_state::Hash;
use crate::diff::lines::{LineChange, line_changes, lines_in, split_lines};

/// Lines of a base that a change replaces, and a mark of what it puts in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacedLines {
    /// The first line, from 0.
    pub start: u32,
    /// The first line after them; `start` if nothing is replaced and lines are only put in.
    pub end: u32,
    /// Identifies the text that is put in their place.
    pub text: u64,
}

/// The relation of two changes of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinesVerdict {
    /// They go together.
    Merge,
    /// They are in conflict.
    Conflict,
    /// Only a merge of the texts decides.
    Unsure,
}

/// The lines of `base` that are replaced in `text`, rising.
pub fn replaced_lines(base: &[u8], text: &[u8]) -> Vec<ReplacedLines> {
    let lines = split_lines(text);
    let replaced = |LineChange { before, after }: LineChange| ReplacedLines {
        start: before.start,
        end: before.end,
        text: mark(&lines_in(&lines, after).concat()),
    };
    line_changes(base, text).into_iter().map(replaced).collect()
}

fn mark(text: &[u8]) -> u64 {
    let hash = Hash::from_content(text);
    hash.as_bytes().iter().take(8).fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

/// Returns whether two changes of the same base go together.
///
/// ```
/// use domain::{LinesVerdict, compare_lines, replaced_lines};
///
/// let base = b"a\nb\nc\nd\n";
/// let change = |text: &[u8]| replaced_lines(base, text);
/// assert_eq!(compare_lines(&change(b"A\nb\nc\nd\n"), &change(b"a\nb\nc\nD\n")), LinesVerdict::Merge);
/// assert_eq!(compare_lines(&change(b"A\nb\nc\nd\n"), &change(b"x\nb\nc\nd\n")), LinesVerdict::Conflict);
/// ```
pub fn compare_lines(one: &[ReplacedLines], other: &[ReplacedLines]) -> LinesVerdict {
    let (mut one, mut other) = (one, other);
    let mut verdict = LinesVerdict::Merge;
    while let (Some(first), Some(second)) = (one.first(), other.first()) {
        // A range that ends before the other begins touches nothing of it.
        if first.end < second.start {
            one = &one[1..];
            continue;
        }
        if second.end < first.start {
            other = &other[1..];
            continue;
        }
        let start = first.start.min(second.start);
        let mut base = start..start;
        let (mut ones, mut others) = (0, 0);
        loop {
            let reached = reach_replaced(&one[ones..], &mut base);
            let also_reached = reach_replaced(&other[others..], &mut base);
            if reached + also_reached == 0 {
                break;
            }
            ones += reached;
            others += also_reached;
        }
        match (&one[..ones], &other[..others]) {
            ([first], [second]) if first == second => {}
            ([first], [second]) if (first.start, first.end) == (second.start, second.end) => {
                return LinesVerdict::Conflict;
            }
            // Both may have made the same of it in different ways.
            ([_, ..], [_, ..]) => verdict = LinesVerdict::Unsure,
            ([], _) | (_, []) => {}
        }
        (one, other) = (&one[ones..], &other[others..]);
    }
    verdict
}

fn reach_replaced(changes: &[ReplacedLines], base: &mut std::ops::Range<u32>) -> usize {
    reach(changes.iter().map(|change| change.start..change.end), base)
}
