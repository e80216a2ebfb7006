//! Lines, and where two texts differ by lines.
//!
//! # Invariants
//! 1. A line is the bytes up to and with `\n`; the last one may lack it. The lines joined are the text.
//! 2. Changes rise, and at least one common line is between two of them, on both sides.
//! 3. The same two texts always give the same changes: addresses of hunks rest upon it.

use std::ops::Range;

use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, InternedInput};

/// Above this many bytes the differ's line numbers might not reach; nothing that is text comes near.
const DIFF_BYTES_MAX: usize = i32::MAX as usize - 1;

/// Lines of `before` that were replaced by lines of `after`; one of both may be empty. From 0, half open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineChange {
    pub(crate) before: Range<u32>,
    pub(crate) after: Range<u32>,
}

/// The lines of a text.
pub(crate) fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    byte_lines(text).collect()
}

/// Those of `lines` in `range`, joined.
pub(crate) fn push_lines(out: &mut Vec<u8>, lines: &[&[u8]], range: Range<u32>) {
    for line in lines_in(lines, range) {
        out.extend_from_slice(line);
    }
}

/// Those of `lines` in `range`; the part of `range` beyond the end is left out.
pub(crate) fn lines_in<'a, 'text>(lines: &'a [&'text [u8]], range: Range<u32>) -> &'a [&'text [u8]] {
    let end = lines.len().min(range.end as usize);
    let start = end.min(range.start as usize);
    &lines[start..end]
}

/// Returns where the texts differ.
pub(crate) fn line_changes(before: &[u8], after: &[u8]) -> Vec<LineChange> {
    if before.len() > DIFF_BYTES_MAX || after.len() > DIFF_BYTES_MAX {
        return everything(before, after);
    }
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    diff.hunks().map(|hunk| LineChange { before: hunk.before, after: hunk.after }).collect()
}

fn everything(before: &[u8], after: &[u8]) -> Vec<LineChange> {
    if before == after {
        return Vec::new();
    }
    let count = |text| u32::try_from(byte_lines(text).count()).unwrap_or(u32::MAX);
    vec![LineChange { before: 0..count(before), after: 0..count(after) }]
}
