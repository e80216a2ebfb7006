//! The source positions of a node's values, and of the placeholders within its texts.
//!
//! # How
//! A placeholder is spelt in the file as it is in the text, in any style of the text, and in the same order.
//! So the n-th `{{` of a text is the n-th in the file after the beginning of the text. If something else is
//! found there (an escape, an alias), the position of the text is reported.

use std::collections::BTreeMap;

use crate::error::SourcePosition;
use crate::reader::MapFields;
use crate::yaml::{Yaml, YamlTree};

const OPEN: &str = "{{";
/// The limit of placeholders of a text whose places are looked for; for others the place of the text is
/// reported.
const PLACED_MAX: usize = 1_000;

/// A text of a file, by the lines that it has.
#[derive(Debug, Default)]
pub(crate) struct LineOffsets<'f> {
    text: &'f str,
    /// The byte at which each line begins.
    begins: Vec<usize>,
}

impl<'f> LineOffsets<'f> {
    pub(crate) fn new(text: &'f str) -> LineOffsets<'f> {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        LineOffsets { text, begins: [0].into_iter().chain(ends).collect() }
    }

    fn byte(&self, place: SourcePosition) -> Option<usize> {
        let line = usize::try_from(place.line.checked_sub(1)?).ok()?;
        let begin = *self.begins.get(line)?;
        let letters = usize::try_from(place.column.checked_sub(1)?).ok()?;
        let (at, _) = self.text[begin..].char_indices().nth(letters)?;
        Some(begin + at)
    }

    fn place(&self, byte: usize) -> SourcePosition {
        let line = self.begins.partition_point(|begin| *begin <= byte).max(1);
        let before = &self.text[self.begins[line - 1]..byte];
        SourcePosition { line: line as u64, column: before.chars().count() as u64 + 1 }
    }

    /// Returns the span of a text that begins at a place.
    pub(crate) fn spot(&self, at: SourcePosition, text: &str) -> ValueSpan {
        let Some(begin) = self.byte(at).filter(|_| text.contains(OPEN)) else {
            return ValueSpan { at, opens: Vec::new() };
        };
        let in_file = self.text[begin..].match_indices(OPEN).map(|(found, _)| begin + found);
        let opens = text.match_indices(OPEN).zip(in_file).take(PLACED_MAX).map(|((in_text, _), in_file)| {
            let placeholder = text[in_text..].split_inclusive("}}").next().unwrap_or_default();
            let line = placeholder.lines().next().unwrap_or_default();
            if self.text[in_file..].starts_with(line) { self.place(in_file) } else { at }
        });
        ValueSpan { at, opens: opens.collect() }
    }
}

/// The position of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueSpan {
    pub(crate) at: SourcePosition,
    /// Of a text: the position of each `{{`.
    opens: Vec<SourcePosition>,
}

impl ValueSpan {
    pub(crate) fn only(at: SourcePosition) -> ValueSpan {
        ValueSpan { at, opens: Vec::new() }
    }

    /// Returns the position of the placeholder that begins at this byte of the text.
    pub(crate) fn of(&self, text: &str, byte: usize) -> SourcePosition {
        let before = text.get(..byte).map_or(0, |before| before.matches(OPEN).count());
        self.opens.get(before).copied().unwrap_or(self.at)
    }
}

/// The positions of the values of a node, by their keys: `prompt`, `tools.0`, `with.path`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSpans {
    spots: BTreeMap<String, ValueSpan>,
}

impl NodeSpans {
    pub(crate) fn from_fields(fields: &MapFields<'_>, lines: &LineOffsets<'_>) -> NodeSpans {
        let mut places = NodeSpans::default();
        for (key, tree) in fields.entries() {
            places.add(key.name.clone(), tree, lines);
        }
        places
    }

    fn add(&mut self, key: String, tree: &YamlTree, lines: &LineOffsets<'_>) {
        let spot = match &tree.value {
            Yaml::Text(text) => lines.spot(tree.at, text),
            Yaml::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.add(format!("{key}.{at}"), item, lines);
                }
                ValueSpan::only(tree.at)
            }
            Yaml::Map(entries) => {
                for (inner, item) in entries {
                    self.add(format!("{key}.{}", inner.name), item, lines);
                }
                ValueSpan::only(tree.at)
            }
            Yaml::Null | Yaml::Boolean(_) | Yaml::Number(_) => ValueSpan::only(tree.at),
        };
        // If a key occurs twice, the first is read.
        self.spots.entry(key).or_insert(spot);
    }

    pub(crate) fn spot(&self, key: &str) -> Option<&ValueSpan> {
        self.spots.get(key)
    }
}
