//! The outline of a file that is about to be shown: its definitions with their signatures.
//!
//! # How it is made
//! For eight languages, by tree-sitter and a query of ours (`parse`). For all others, and if parsing gives
//! up, from the scanner's definitions (`scanned`). A reader of an outline sees no difference but in quality.
//!
//! # Invariants
//! 1. An outline depends on the language and the text only. So the parser is bounded by its steps, not by
//!    time.
//! 2. Items are sorted by line; a signature has at most [`SIGNATURE_LINES_MAX`] lines and
//!    [`SIGNATURE_BYTES_MAX`] bytes.
//!
//! # Not here
//! The cost of showing one: the stages count tokens.

mod parse;
mod scan;
mod signature;

use super::spans::{LineSpan, partition_lines};
use super::{DefKind, Facts, LineIndex};

/// The number of lines a signature has at most.
pub const SIGNATURE_LINES_MAX: usize = 4;

/// The number of bytes a signature has at most.
pub const SIGNATURE_BYTES_MAX: usize = 320;

/// The number of bytes of the first line of a comment that are stored.
pub const DOC_BYTES_MAX: usize = 120;

/// The number of bytes of the first sentence of a section that are stored.
pub const SENTENCE_BYTES_MAX: usize = 160;

/// The version of outlines: stored ones of another are not used.
pub(crate) const OUTLINE_VERSION: u32 = 2;

/// The definitions of a file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Outline {
    /// By line.
    pub items: Vec<OutlineItem>,
    /// The method that found the items.
    pub by: OutlineBy,
}

/// The method that made an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OutlineBy {
    /// From the scanner's definitions: there is no grammar, or the text is too long, too odd or too broken
    /// for it.
    #[default]
    Scan,
    /// By a parser.
    Parser,
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineItem {
    /// The kind of the definition.
    pub kind: DefKind,
    /// Its name.
    pub name: String,
    /// The line of its name, from 1.
    pub line: u32,
    /// The first line of the comments and attributes before it.
    pub from: u32,
    /// Its last line.
    pub to: u32,
    /// The lines that a user of the definition needs, one to four.
    pub signature: String,
    /// The first line of what its comment says.
    pub doc: Option<String>,
}

/// The outline of a text whose facts these are.
pub fn outline(text: &str, facts: &Facts) -> Outline {
    let parsed = parse::parse(facts.language, text).map(|items| Outline { items, by: OutlineBy::Parser });
    parsed.unwrap_or_else(|| scanned_outline(&LineIndex::new(text.to_owned()), facts))
}

/// The outline by the scanner's definitions alone, for files that are not worth parsing.
pub fn scanned_outline(lines: &LineIndex, facts: &Facts) -> Outline {
    Outline { items: scan::items(lines, facts), by: OutlineBy::Scan }
}

impl Outline {
    /// The text cut along the items, as [`super::spans()`] cuts it along the scanner's definitions.
    pub fn spans(&self, lines: &LineIndex) -> Vec<LineSpan> {
        let starts: Vec<(u32, u32)> = self.items.iter().map(|item| (item.from, item.line)).collect();
        partition_lines(lines, &starts)
    }
}
