//! Compares the golden files: the results of the scanner and the parser for a text, line by line.

use std::fmt::Write;

use context::index::{Facts, LineIndex, LineSpan, OutlineBy, SpanKind, outline, scan, spans};

use crate::index_support::path;

/// `line kind name [first-last]` of each definition.
fn defs(facts: &Facts) -> String {
    facts.defs().iter().fold(String::new(), |mut out, def| {
        let _ = writeln!(out, "{} {} {} [{}-{}]", def.line, def.kind.word(), def.name, def.start, def.end);
        out
    })
}

/// `line kind name [first-last] signature | doc` of each item.
fn items(text: &str, facts: &Facts) -> (OutlineBy, String) {
    let made = outline(text, facts);
    let lines = made.items.iter().fold(String::new(), |mut out, item| {
        let signature = item.signature.replace('\n', "⏎");
        let place = format!("{} {} {} [{}-{}]", item.line, item.kind.word(), item.name, item.from, item.to);
        let _ = writeln!(out, "{place} {signature} | {}", item.doc.as_deref().unwrap_or("-"));
        out
    });
    (made.by, lines)
}

fn is_partition(text: &str, found: &[LineSpan]) {
    let mut next = 1;
    for span in found {
        assert_eq!(span.from, next, "{found:?}");
        next = span.to + 1;
    }
    assert_eq!(next as usize, text.lines().count() + 1);
}

pub(crate) fn check(name: &str, text: &str, by: OutlineBy, expected_defs: &str, expected_items: &str) {
    let facts = scan(&path(name), text.as_bytes());
    assert_eq!(defs(&facts), expected_defs, "definitions of {name}");
    let (found_by, found) = items(text, &facts);
    assert_eq!(found, expected_items, "outline of {name}");
    assert_eq!(found_by, by, "{name}");
    let lines = LineIndex::new(text.to_owned());
    is_partition(text, &spans(&lines, &facts));
    let outline = outline(text, &facts);
    let along = outline.spans(&lines);
    is_partition(text, &along);
    let begun = along.iter().filter(|span| span.kind == SpanKind::Def).count();
    assert_eq!(begun, outline.items.len(), "each item begins one span");
}
