//! The levels of detail of one file: the text of each part, and its cost, at each depth.
//!
//! # Invariants
//! 1. Every level of detail is whole lines, and its cost is the sum of theirs.

use domain::context::FragmentKind;
use domain::path::is_unseen;

use super::{ContextItem, ItemPart, PartDetail};
use crate::TokenCounter;
use crate::index::{Facts, FileKind, OutlineItem};
use crate::render::{gap_line, numbers_line};

const NAME_CHARS_MAX: usize = 120;
/// Further lines of a signature are shown at first only within so many bytes.
const BRIEF_BYTES: usize = 100;
/// A token has about three and a half bytes.
const HUNDREDTHS_PER_BYTE: u64 = 29;
/// The bytes next to a part: the number of its line, or of its lines.
const BESIDE_BYTES: usize = 6;

/// Returns the fragment kind of a file's language.
pub(super) fn kind(facts: &Facts) -> FragmentKind {
    match facts.language.kind() {
        FileKind::Code => FragmentKind::Code,
        FileKind::Doc => FragmentKind::Doc,
        FileKind::Config => FragmentKind::Config,
        FileKind::Text => FragmentKind::Text,
    }
}

impl ContextItem {
    /// Returns whether the request names the file explicitly, and no lines of it.
    pub(crate) fn is_named_whole(&self) -> bool {
        self.is_pinned && !self.pieces.iter().any(|piece| piece.is_pinned)
    }

    /// Returns true if a part can be shown so.
    pub(crate) fn has_detail(&self, piece: &ItemPart, showing: PartDetail) -> bool {
        match (showing, self.defined(piece)) {
            (PartDetail::Lines, _) => true,
            (PartDetail::Name | PartDetail::Signature, defined) => defined.is_some(),
            (PartDetail::Described, defined) => defined.is_some_and(|defined| described(defined).is_some()),
        }
    }

    /// A part as whole lines of ours; none if it cannot be shown so. Its own lines are in the file.
    pub(crate) fn render_part(&self, piece: &ItemPart, showing: PartDetail) -> Option<String> {
        let defined = self.defined(piece)?;
        let text = match showing {
            PartDetail::Name => self.name(defined),
            PartDetail::Signature => brief(defined),
            PartDetail::Described => described(defined)?,
            PartDetail::Lines => return None,
        };
        Some(format!("{}: {text}\n", defined.line))
    }

    /// Returns the cost of showing a part at this detail, from nothing. The cost of lines includes the line
    /// of their numbers before them and the one after them. All callers of one assembly pass the same
    /// counter.
    pub(crate) fn part_cost(&self, piece: &ItemPart, showing: PartDetail, counter: &dyn TokenCounter) -> u64 {
        *piece.costs[showing as usize].get_or_init(|| match showing {
            PartDetail::Lines => self.lines_cost(piece, counter),
            PartDetail::Name | PartDetail::Signature | PartDetail::Described => {
                let text = self.render_part(piece, showing).unwrap_or_default();
                text.split_inclusive('\n').map(|line| counter.hundredths(line)).sum()
            }
        })
    }

    /// About what a part costs so, by its bytes.
    pub(crate) fn guess_cost(&self, piece: &ItemPart, showing: PartDetail) -> u64 {
        let lines = || self.lines.between(piece.from as usize, piece.to as usize).len();
        let of_defined = |defined: &OutlineItem| match showing {
            PartDetail::Name => defined.name.len(),
            PartDetail::Signature => beginning(defined).len(),
            PartDetail::Described => defined.signature.len() + defined.doc.as_ref().map_or(0, String::len),
            PartDetail::Lines => lines(),
        };
        let bytes = self.defined(piece).map_or_else(lines, of_defined);
        (bytes + BESIDE_BYTES) as u64 * HUNDREDTHS_PER_BYTE
    }

    /// The same without the blanks at the front of its lines, of which many are one token.
    pub(crate) fn guess_cost_unindented(&self, piece: &ItemPart, showing: PartDetail) -> u64 {
        if showing != PartDetail::Lines {
            return self.guess_cost(piece, showing);
        }
        let lines = self.lines.between(piece.from as usize, piece.to as usize).lines();
        lines.map(|line| line.trim_start().len() as u64 * HUNDREDTHS_PER_BYTE).sum()
    }

    fn lines_cost(&self, piece: &ItemPart, counter: &dyn TokenCounter) -> u64 {
        let cost = |line: &str| match line.ends_with('\n') {
            true => counter.hundredths(line),
            false => counter.hundredths(&format!("{line}\n")),
        };
        let lines = self.lines.between(piece.from as usize, piece.to as usize);
        let body: u64 = lines.split_inclusive('\n').map(cost).sum();
        body + counter.hundredths(&numbers_line(piece.from, piece.to)) + counter.hundredths(gap_line())
    }

    fn defined(&self, piece: &ItemPart) -> Option<&OutlineItem> {
        piece.defines.and_then(|defined| self.outline.items.get(defined))
    }

    fn name(&self, defined: &OutlineItem) -> String {
        let name: String =
            defined.name.chars().filter(|character| !is_unseen(*character)).take(NAME_CHARS_MAX).collect();
        match self.kind {
            FragmentKind::Code => format!("{} {name}", defined.kind.word()),
            FragmentKind::Doc | FragmentKind::Config | FragmentKind::Text | FragmentKind::Decision => name,
        }
    }
}

/// The mark after the first lines of a signature that has more.
const MORE: &str = " …";

/// Returns the first lines of the signature: they distinguish it at little cost, so more signatures can be
/// shown.
fn brief(item: &OutlineItem) -> String {
    let (signature, beginning) = (item.signature.trim_end(), beginning(item));
    if beginning.len() < signature.len() {
        format!("{}{MORE}", beginning.trim_end())
    } else {
        beginning.to_owned()
    }
}

/// The first line of the signature, and further ones within their bytes.
fn beginning(item: &OutlineItem) -> &str {
    let signature = item.signature.trim_end();
    let mut end = 0;
    for line in signature.split_inclusive('\n') {
        if end > 0 && end + line.trim_end().len() > BRIEF_BYTES + 1 {
            break;
        }
        end += line.len();
    }
    &signature[..end]
}

/// The whole signature and the first line of its documentation, if that is more than the beginning.
fn described(item: &OutlineItem) -> Option<String> {
    let signature = item.signature.trim_end();
    match item.doc.as_deref().map(str::trim) {
        Some(doc) if !doc.is_empty() => Some(format!("{signature}\n    {doc}")),
        Some(_) | None => (beginning(item).len() < signature.len()).then(|| signature.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::DefKind;

    #[test]
    fn a_signature_of_which_lines_are_not_shown_says_so() {
        let item = |signature: &str| OutlineItem {
            kind: DefKind::Function,
            name: "f".to_owned(),
            line: 1,
            from: 1,
            to: 1,
            signature: signature.to_owned(),
            doc: None,
        };
        let long = format!("fn f(\n    {}: u32,\n)", "a".repeat(BRIEF_BYTES));
        assert_eq!(brief(&item(&long)), "fn f( …");
        assert_eq!(described(&item(&long)), Some(long));
        for whole in ["fn f()", "fn f(\n    a: u32,\n)"] {
            assert_eq!((brief(&item(whole)), described(&item(whole))), (whole.to_owned(), None));
        }
    }
}
