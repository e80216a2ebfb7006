//! The pieces that a file is shown in: a definition with its comments, what comes before the first, or
//! windows.
//!
//! # Invariants
//! 1. The spans of a file are a partition of its lines, in order.
//! 2. A nested definition ends its parent's own span, as it ends the parent's [`Def`](super::Def).
//! 3. A span of more than [`SPAN_LINES_MAX`] lines is cut at the blank lines nearest to each multiple of it.

use super::{Def, Facts, LineIndex};

/// A longer span is cut.
pub const SPAN_LINES_MAX: u32 = 80;

/// The number of lines of a piece of a file without definitions.
pub const WINDOW_LINES: u32 = 40;

/// Lines that are shown together, from 1, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSpan {
    /// The first line.
    pub from: u32,
    /// The last line.
    pub to: u32,
    /// The index of the definition that the span belongs to.
    pub def: Option<usize>,
    /// The kind of the span.
    pub kind: SpanKind,
}

impl LineSpan {
    /// The definition that it begins with.
    pub fn begins(&self) -> Option<usize> {
        self.def.filter(|_| self.kind == SpanKind::Def)
    }
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanKind {
    /// The lines before the first definition.
    Head,
    /// The beginning of a definition, its name in it.
    Def,
    /// A piece of a file without definitions, or a further piece of a long definition.
    Window,
}

/// The spans of a text whose facts these are. Lines that the text no longer has are not in them.
pub fn spans(lines: &LineIndex, facts: &Facts) -> Vec<LineSpan> {
    let starts: Vec<(u32, u32)> = facts.defs().iter().map(starts).collect();
    partition_lines(lines, &starts)
}

/// Returns the first line of a definition and the line of its name.
pub(super) fn starts(def: &Def) -> (u32, u32) {
    (def.start, def.line)
}

/// Cuts a text along definitions.
pub(super) fn partition_lines(lines: &LineIndex, defs: &[(u32, u32)]) -> Vec<LineSpan> {
    let last = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    partition(last, &|line| lines.get(line as usize).is_some_and(|text| text.trim().is_empty()), defs)
}

/// Cuts so many lines along definitions, given by where they begin and the line of their name, in order.
pub(super) fn partition(last: u32, is_blank: &dyn Fn(u32) -> bool, defs: &[(u32, u32)]) -> Vec<LineSpan> {
    let there = defs.iter().take_while(|(_, line)| *line <= last).count();
    let defs = &defs[..there];
    let mut spans = Vec::with_capacity(defs.len() + 1);
    match defs.first() {
        None => windows(last, &mut spans),
        Some((first, _)) if *first > 1 => {
            let head = LineSpan { from: 1, to: first - 1, def: None, kind: SpanKind::Head };
            cut(head, SpanKind::Head, is_blank, &mut spans);
        }
        Some(_) => {}
    }
    for (number, (from, _)) in defs.iter().enumerate() {
        let to = defs.get(number + 1).map_or(last, |(next, _)| next - 1);
        let own = LineSpan { from: *from, to, def: Some(number), kind: SpanKind::Def };
        cut(own, SpanKind::Window, is_blank, &mut spans);
    }
    spans
}

fn windows(last: u32, spans: &mut Vec<LineSpan>) {
    let starts = (1..=last).step_by(WINDOW_LINES as usize);
    spans.extend(starts.map(|from| LineSpan {
        from,
        to: (from + WINDOW_LINES - 1).min(last),
        def: None,
        kind: SpanKind::Window,
    }));
}

/// Pushes a span, or its pieces if it is too long; the later ones are of the kind `further`.
fn cut(span: LineSpan, further: SpanKind, is_blank: &dyn Fn(u32) -> bool, spans: &mut Vec<LineSpan>) {
    let mut rest = span;
    while rest.to - rest.from + 1 > SPAN_LINES_MAX {
        let at = blank_near(rest.from + SPAN_LINES_MAX - 1, rest.from, rest.to, is_blank);
        spans.push(LineSpan { to: at, ..rest });
        rest = LineSpan { from: at + 1, kind: further, ..rest };
    }
    spans.push(rest);
}

/// The blank line nearest to `wanted` between `from` and `to`, both excluded; `wanted` itself if there is
/// none.
fn blank_near(wanted: u32, from: u32, to: u32, is_blank: &dyn Fn(u32) -> bool) -> u32 {
    let reach = SPAN_LINES_MAX / 2;
    let near = (0..reach).flat_map(|away| [wanted - away, wanted + away]);
    let mut inside = near.filter(|line| *line > from && *line < to);
    inside.find(|line| is_blank(*line)).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::super::scan;
    use super::*;
    use domain::RelPath;

    fn of(path: &str, text: &str) -> Vec<(u32, u32, Option<usize>, SpanKind)> {
        let facts = scan(&RelPath::new(path).unwrap(), text.as_bytes());
        let found = spans(&LineIndex::new(text.to_owned()), &facts);
        let mut next = 1;
        for span in &found {
            assert_eq!(span.from, next, "a partition: {found:?}");
            assert!(span.to >= span.from);
            next = span.to + 1;
        }
        assert_eq!(next, facts.lines + 1, "to the last line: {found:?}");
        found.into_iter().map(|span| (span.from, span.to, span.def, span.kind)).collect()
    }

    #[test]
    fn a_definition_takes_its_comments_and_ends_before_the_next() {
        let text =
            "use a;\n\n/// Doc.\n#[inline]\nfn one() {\n}\n\nstruct Two;\nimpl Two {\n    fn three() {}\n}\n";
        assert_eq!(
            of("a.rs", text),
            [
                (1, 2, None, SpanKind::Head),
                (3, 7, Some(0), SpanKind::Def),
                (8, 9, Some(1), SpanKind::Def),
                (10, 11, Some(2), SpanKind::Def),
            ]
        );
    }

    #[test]
    fn a_file_without_definitions_is_cut_into_windows() {
        assert_eq!(
            of("a.txt", &"x\n".repeat(41)),
            [(1, 40, None, SpanKind::Window), (41, 41, None, SpanKind::Window)]
        );
        assert_eq!(of("a.txt", ""), []);
    }

    #[test]
    fn a_long_definition_is_cut_at_blank_lines() {
        let body = |from: usize, to: usize| "    x();\n".repeat(to - from + 1);
        let text = format!("fn long() {{\n{}\n{}\n{}}}\n", body(2, 69), body(71, 199), body(201, 209));
        let pieces = of("a.rs", &text);
        assert_eq!(
            pieces,
            [
                (1, 70, Some(0), SpanKind::Def),
                (71, 150, Some(0), SpanKind::Window),
                (151, 210, Some(0), SpanKind::Window),
            ]
        );
    }

    #[test]
    fn facts_of_a_longer_text_give_no_lines_that_are_gone() {
        let facts = scan(&RelPath::new("a.rs").unwrap(), b"use a;\nfn one() {}\nfn two() {}\n");
        let found = spans(&LineIndex::new("use a;\nfn one() {}\n".to_owned()), &facts);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].to, 2);
    }
}
