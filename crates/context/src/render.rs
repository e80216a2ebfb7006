//! Renders the packed files as text.
//!
//! # Invariants
//! 1. The texts of the fragments, one after the other, are the text of the files.
//! 2. Lines that are shown in full appear as they are, between a line of their numbers and one of a gap. So
//!    they are not taken for ours. A single line follows its number.
//! 3. A header is one line, whatever a path or a title holds.

use std::fmt::Write;

use domain::context::{Depth, FileLocation, Fragment, Name};
use domain::path::is_unseen;
use domain::{Hash, RelPath};

use crate::TokenCounter;
use crate::stages::{ContextItem, PackedItem, PartDetail};

/// The number of characters of a title that are shown.
const TITLE_CHARS_MAX: usize = 60;

/// The contents of the line that names a file.
pub(crate) struct FileHeader<'a> {
    /// The project's name, where there are several.
    pub(crate) alias: Option<&'a str>,
    pub(crate) path: &'a RelPath,
    /// Its language, or why it is not shown.
    pub(crate) what: &'a str,
    pub(crate) lines: Option<u32>,
    pub(crate) title: Option<&'a str>,
}

/// The line that names a file.
pub(crate) fn header_line(header: &FileHeader<'_>) -> String {
    let mut line = String::from("## ");
    if let Some(alias) = header.alias {
        line.push_str(alias);
        line.push(':');
    }
    // Writing to a text cannot fail.
    let _ = write!(line, "{} ({}", header.path, header.what);
    if let Some(lines) = header.lines {
        let _ = write!(line, ", {lines} {}", if lines == 1 { "line" } else { "lines" });
    }
    if let Some(title) = header.title {
        line.push_str(": ");
        line.extend(title.chars().filter(|character| !is_unseen(*character)).take(TITLE_CHARS_MAX));
    }
    line.push_str(")\n");
    line
}

/// The line that names a file of which nothing is shown.
pub(crate) fn listed_line(header: &FileHeader<'_>) -> String {
    match header.alias {
        Some(alias) => format!("## {alias}:{}\n", header.path),
        None => format!("## {}\n", header.path),
    }
}

/// The line before lines that are shown in full.
pub(crate) fn numbers_line(from: u32, to: u32) -> String {
    format!("{from}-{to}:\n")
}

/// The line after lines that are shown in full, if the file continues.
pub(crate) fn gap_line() -> &'static str {
    "…\n"
}

/// The fragments of a file, in the order of its lines: its header first.
pub(crate) fn fragments(
    item: &ContextItem,
    bought: &PackedItem,
    counter: &dyn TokenCounter,
) -> Vec<Fragment> {
    let why: Vec<(Name, f32)> =
        item.hit.parts.iter().map(|(name, _, share)| (name.clone(), *share)).collect();
    let fragment = |place: FileLocation, depth: Depth, text: String| Fragment {
        place: Some(place),
        kind: item.kind,
        depth,
        tokens: counter.tokens(&text),
        text,
        score: item.score,
        hash: item.hash.unwrap_or_else(|| Hash::from_content(b"")),
        is_whole: false,
        why: why.clone(),
    };
    let is_listed = bought.pieces.iter().all(Option::is_none);
    let named = if is_listed { &item.listed } else { &item.header };
    let mut fragments = vec![fragment(item.place.clone(), Depth::Listing, named.text.clone())];
    let mut shown = item.pieces.iter().zip(&bought.pieces).peekable();
    while let Some((piece, showing)) = shown.next() {
        let Some(showing) = showing else { continue };
        let at = |from: u32, to: u32| FileLocation { span: Some((from, to)), ..item.place.clone() };
        if let Some(rung) = item.render_part(piece, *showing) {
            fragments.push(fragment(at(piece.from, piece.to), showing.depth(), rung));
        } else if *showing == PartDetail::Lines {
            let mut to = piece.to;
            while let Some((next, _)) =
                shown.next_if(|(next, showing)| **showing == Some(PartDetail::Lines) && next.from == to + 1)
            {
                to = next.to;
            }
            let whole = item.is_verbatim && piece.from == 1 && to as usize >= item.lines.len();
            let full = fragment(at(piece.from, to), Depth::Full, full_text(item, piece.from, to));
            fragments.push(Fragment { is_whole: whole, ..full });
        }
    }
    fragments
}

/// Lines in full. One line of several needs no line of numbers before it and no gap after it; blank lines
/// before a gap say nothing.
fn full_text(item: &ContextItem, from: u32, to: u32) -> String {
    let (first, all) = (from as usize, item.lines.len());
    let mut last = (to as usize).min(all);
    let goes_on = (to as usize) < all;
    let is_one_of_several = first == last && all > 1;
    let mut text = if is_one_of_several { format!("{from}: ") } else { numbers_line(from, to) };
    let is_blank = |line: usize| item.lines.get(line).is_some_and(|line| line.trim().is_empty());
    while !is_one_of_several && goes_on && last >= first && is_blank(last) {
        last -= 1;
    }
    text.push_str(item.lines.between(first, last));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if goes_on && !is_one_of_several {
        text.push_str(gap_line());
    }
    text
}
