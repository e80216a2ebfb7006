//! The ladder of one file: what each part of it looks like, and costs, at each depth.
//!
//! # Invariants
//! 1. Every rung is whole lines, and its cost is the sum of theirs.

use std::sync::Arc;

use domain::context::FragmentKind;

use super::{Piece, Rung};
use crate::TokenCounter;
use crate::index::{Facts, FileKind, Item, Outline, Span, SpanKind};
use crate::render::{gap_line, numbers_line};

const NAME_CHARS_MAX: usize = 120;
/// Further lines of a signature are shown at first only within so many bytes.
const BRIEF_BYTES: usize = 100;

/// What a file of a language is shown as.
pub(super) fn kind(facts: &Facts) -> FragmentKind {
    match facts.language.kind() {
        FileKind::Code => FragmentKind::Code,
        FileKind::Doc => FragmentKind::Doc,
        FileKind::Config => FragmentKind::Config,
        FileKind::Text => FragmentKind::Text,
    }
}

/// The lines of a text, each with an end.
pub(super) fn lines_of(text: &str) -> Arc<[String]> {
    let ended = |line: &str| if line.ends_with('\n') { line.to_owned() } else { format!("{line}\n") };
    text.split_inclusive('\n').map(ended).collect()
}

/// What the parts of one file are made of.
pub(super) struct Ladder<'a> {
    lines: usize,
    line_costs: Vec<u64>,
    outline: &'a Outline,
    kind: FileKind,
    counter: &'a dyn TokenCounter,
}

impl<'a> Ladder<'a> {
    pub(super) fn new(
        lines: &[String],
        outline: &'a Outline,
        kind: FileKind,
        counter: &'a dyn TokenCounter,
    ) -> Self {
        let line_costs = lines.iter().map(|line| counter.hundredths(line)).collect();
        Self { lines: lines.len(), line_costs, outline, kind, counter }
    }

    /// A part and what it costs; it is weighed later.
    pub(super) fn piece(&self, span: &Span) -> Piece {
        let item = self.outline.item_of(span);
        let inside = span.from as usize - 1..(span.to as usize).min(self.lines);
        let body: u64 = self.line_costs.get(inside).map_or(0, |costs| costs.iter().sum());
        let round =
            self.counter.hundredths(&numbers_line(span.from, span.to)) + self.counter.hundredths(gap_line());
        Piece {
            from: span.from,
            to: span.to,
            is_head: span.kind == SpanKind::Head,
            is_pinned: false,
            score: 0.0,
            outline: item.map(|item| self.rung(item.line, &self.outline_text(item))),
            signature: item.map(|item| self.rung(item.line, &brief(item))),
            described: item.and_then(described).zip(item).map(|(text, item)| self.rung(item.line, &text)),
            full: body + round,
        }
    }

    fn rung(&self, line: u32, text: &str) -> Rung {
        let text = format!("{line}: {text}\n");
        let cost = text.split_inclusive('\n').map(|line| self.counter.hundredths(line)).sum();
        Rung { text, cost }
    }

    fn outline_text(&self, item: &Item) -> String {
        let name: String =
            item.name.chars().filter(|character| !character.is_control()).take(NAME_CHARS_MAX).collect();
        match self.kind {
            FileKind::Code => format!("{} {name}", item.kind.word()),
            FileKind::Doc | FileKind::Config | FileKind::Text => name,
        }
    }
}

/// The first lines of the signature: what tells it from others costs little, so more of them can be shown.
fn brief(item: &Item) -> String {
    let mut text = String::new();
    for line in item.signature.trim_end().lines() {
        if !text.is_empty() && text.len() + line.len() > BRIEF_BYTES {
            break;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
    }
    text
}

/// The whole signature and the first line of its documentation, if that is more than the beginning.
fn described(item: &Item) -> Option<String> {
    let signature = item.signature.trim_end();
    match item.doc.as_deref().map(str::trim) {
        Some(doc) if !doc.is_empty() => Some(format!("{signature}\n    {doc}")),
        Some(_) | None => (brief(item).len() < signature.len()).then(|| signature.to_owned()),
    }
}
