//! The rows of a file's hunks on the screen: how high each part is, and which rows are in sight.
//!
//! # Invariants
//! Only the rows in sight are made; the height of the others is computed. So the number of hunks hardly
//! matters.

use std::ops::Range;

use ratatui::layout::Rect;
use ratatui::text::Span;

use super::file::{ReviewConflict, ReviewFile, ReviewPart};
use super::notes::{NoteRows, note_rows};

/// The maximum number of lines of each side of a conflict that are shown.
const SIDE_LINES_MAX: usize = 20;

/// A place in the hunks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowPlace {
    pub(super) hunk: usize,
    pub(super) part: usize,
}

/// The content of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReviewRow {
    /// The head of a hunk or of a part.
    Head,
    /// A sentence about a conflict.
    Conflict(String),
    /// A line of the user's side of a conflict.
    Yours(String),
    /// A line of the plan's side of a conflict.
    Plans(String),
    /// A row of a note.
    Note(String),
    /// The bytes of a line of the hunk; the first row of the line has its number.
    Line { line: usize, bytes: Range<usize> },
    /// Nothing.
    Blank,
}

/// The rows of one file.
#[derive(Debug)]
pub(super) struct FileLayout<'a> {
    file: &'a ReviewFile,
    /// The columns for the text of a line; `None` if lines are not wrapped.
    wrap: Option<usize>,
    notes: NoteRows,
    parts: Vec<ReviewPart>,
    /// The first row of each part, and the end.
    starts: Vec<usize>,
}

impl<'a> FileLayout<'a> {
    /// Computes the heights. Notes are as wide as `room`.
    pub(super) fn new(file: &'a ReviewFile, wrap: Option<usize>, room: usize) -> FileLayout<'a> {
        let parts: Vec<ReviewPart> =
            file.hunks.iter().enumerate().flat_map(|(at, hunk)| hunk.parts(at)).collect();
        let mut layout =
            FileLayout { file, wrap, notes: note_rows(file, room), parts: Vec::new(), starts: vec![0] };
        let mut end = 0;
        for part in &parts {
            end += layout.height(part);
            layout.starts.push(end);
        }
        layout.parts = parts;
        layout
    }

    /// The number of rows.
    pub(super) fn height_of_all(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    fn height(&self, part: &ReviewPart) -> usize {
        let Some(hunk) = self.file.hunks.get(part.hunk) else { return 0 };
        let blank = usize::from(part.is_last);
        if hunk.is_folded {
            return 1 + blank;
        }
        let lines = hunk.lines.get(part.lines.clone()).unwrap_or_default();
        let lines: usize = lines.iter().map(|line| self.line_height(line.columns)).sum();
        1 + self.rows_under_head(part).len()
            + lines
            + self.notes_height(part.hunk, part.lines.clone())
            + blank
    }

    /// The rows of the notes under these lines of a hunk.
    fn notes_height(&self, hunk: usize, lines: Range<usize>) -> usize {
        let notes = self.notes.range((hunk, lines.start + 1)..(hunk, lines.end.max(lines.start) + 1));
        notes.map(|(_, rows)| rows.len()).sum()
    }

    fn notes_under(&self, hunk: usize, line: usize) -> impl Iterator<Item = ReviewRow> {
        let rows = self.notes.get(&(hunk, line)).map(Vec::as_slice).unwrap_or_default();
        rows.iter().cloned().map(ReviewRow::Note)
    }

    fn line_height(&self, columns: usize) -> usize {
        self.wrap.map_or(1, |width| columns.div_ceil(width.max(1)).max(1))
    }

    /// The rows about conflicts, and the notes on the whole hunk, under its head.
    fn rows_under_head(&self, part: &ReviewPart) -> Vec<ReviewRow> {
        let Some(hunk) = self.file.hunks.get(part.hunk).filter(|_| part.part == 0) else { return Vec::new() };
        let conflicts = self.file.conflicts_of(hunk.number).flat_map(conflict_rows);
        conflicts.chain(self.notes_under(part.hunk, 0)).collect()
    }

    /// The rows of a part, as a range.
    pub(super) fn rows_of(&self, place: RowPlace) -> Range<usize> {
        let is_it = |part: &ReviewPart| (part.hunk, part.part) == (place.hunk, place.part);
        match self.parts.iter().position(is_it) {
            Some(at) => self.starts[at]..self.starts[at + 1],
            None => 0..0,
        }
    }

    /// The rows of a line of a part.
    pub(super) fn rows_of_line(&self, place: RowPlace, line: usize) -> Range<usize> {
        let rows = self.rows_of(place);
        let is_it = |part: &&ReviewPart| (part.hunk, part.part) == (place.hunk, place.part);
        let Some(part) = self.parts.iter().find(is_it) else { return rows };
        let Some(hunk) = self.file.hunks.get(part.hunk) else { return rows };
        let before = hunk.lines.get(part.lines.start..line).unwrap_or_default();
        let above: usize = before.iter().map(|line| self.line_height(line.columns)).sum();
        let notes = self.notes_height(part.hunk, part.lines.start..line.max(part.lines.start));
        let first = rows.start + 1 + self.rows_under_head(part).len() + above + notes;
        let height = hunk.lines.get(line).map_or(1, |line| self.line_height(line.columns));
        first..first + height
    }

    /// The rows from `first` on, at most `count`.
    pub(super) fn rows(&self, first: usize, count: usize) -> Vec<(ReviewPart, ReviewRow)> {
        let at = self.starts.partition_point(|start| *start <= first).saturating_sub(1);
        let mut rows = Vec::with_capacity(count);
        let mut skip = first.saturating_sub(self.starts.get(at).copied().unwrap_or(0));
        for part in self.parts.get(at..).unwrap_or_default() {
            if rows.len() >= count {
                break;
            }
            self.push_rows(part, &mut skip, count, &mut rows);
        }
        rows
    }

    fn push_rows(
        &self,
        part: &ReviewPart,
        skip: &mut usize,
        count: usize,
        rows: &mut Vec<(ReviewPart, ReviewRow)>,
    ) {
        let Some(hunk) = self.file.hunks.get(part.hunk) else { return };
        let mut push = |content: ReviewRow| {
            if *skip > 0 {
                *skip -= 1;
            } else if rows.len() < count {
                rows.push((part.clone(), content));
            }
            rows.len() < count
        };
        push(ReviewRow::Head);
        if !hunk.is_folded {
            self.rows_under_head(part).into_iter().for_each(|row| {
                push(row);
            });
            for at in part.lines.clone() {
                let Some(line) = hunk.lines.get(at) else { break };
                let pieces = match self.wrap {
                    Some(width) => wrapped(&line.text, width.max(1)),
                    None => std::iter::once(0..line.text.len()).collect(),
                };
                let rows = pieces.into_iter().map(|bytes| ReviewRow::Line { line: at, bytes });
                if !rows.chain(self.notes_under(part.hunk, at + 1)).all(&mut push) {
                    return;
                }
            }
        }
        if part.is_last {
            push(ReviewRow::Blank);
        }
    }
}

fn conflict_rows(conflict: &ReviewConflict) -> Vec<ReviewRow> {
    let mut rows = vec![ReviewRow::Conflict(format!("conflict: {}", conflict.sentence))];
    if conflict.yours.is_empty() && conflict.plans.is_empty() {
        return rows;
    }
    let side = |lines: &[String], row: fn(String) -> ReviewRow| -> Vec<ReviewRow> {
        let more = lines.len().saturating_sub(SIDE_LINES_MAX);
        let shown = lines.iter().take(SIDE_LINES_MAX).cloned().map(row);
        let rest = (more > 0).then(|| row(format!("… and {more} more lines")));
        let none = lines.is_empty().then(|| row("(no lines)".to_owned()));
        shown.chain(rest).chain(none).collect()
    };
    rows.push(ReviewRow::Conflict("yours:".to_owned()));
    rows.extend(side(&conflict.yours, ReviewRow::Yours));
    rows.push(ReviewRow::Conflict("the plan's:".to_owned()));
    rows.extend(side(&conflict.plans, ReviewRow::Plans));
    rows
}

/// The pieces of a text that fit into so many columns.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut columns) = (0, 0);
    for (at, letter) in text.char_indices() {
        let wide = columns_of(text, at, letter);
        if columns + wide > width && at > start {
            pieces.push(start..at);
            (start, columns) = (at, 0);
        }
        columns += wide;
    }
    if start < text.len() || pieces.is_empty() {
        pieces.push(start..text.len());
    }
    pieces
}

fn columns_of(text: &str, at: usize, letter: char) -> usize {
    if letter.is_ascii() { 1 } else { Span::raw(&text[at..at + letter.len_utf8()]).width() }
}

/// The columns that a text needs.
pub(super) fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// The byte from which a text is shown that is scrolled sideways by so many columns.
pub(super) fn byte_at_column(text: &str, column: usize) -> usize {
    let mut columns = 0;
    for (at, letter) in text.char_indices() {
        if columns >= column {
            return at;
        }
        columns += columns_of(text, at, letter);
    }
    text.len()
}

/// A text cut in its middle, so that it needs at most so many columns: its end is worth most.
pub(super) fn cut_middle(text: &str, width: usize, gap: &str) -> String {
    let whole = columns(text);
    if whole <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(columns(gap));
    if room == 0 {
        return gap.chars().take(width).collect();
    }
    // The name of the file, behind the last slash, is shown whole if it fits.
    let name = text.rfind('/').map_or(0, |slash| columns(&text[slash..]));
    let tail = (room * 2 / 3).max(name).min(room);
    let head = &text[..byte_at_column(text, room - tail)];
    let mut from = byte_at_column(text, whole - tail);
    // A wide letter may be half over the edge.
    while columns(&text[from..]) > tail {
        from += text[from..].chars().next().map_or(1, char::len_utf8);
    }
    let head = if columns(head) + tail > room {
        &head[..head.char_indices().next_back().map_or(0, |(at, _)| at)]
    } else {
        head
    };
    format!("{head}{gap}{}", &text[from..])
}

/// The places of what was drawn, for the mouse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DrawnAreas {
    pub(super) list: Rect,
    /// The first file of the list that is shown.
    pub(super) first_file: usize,
    pub(super) hunks: Rect,
    /// The places of the rows that are shown.
    pub(super) rows: Vec<RowPlace>,
}

impl DrawnAreas {
    /// The rows of a page of hunks.
    pub(super) fn page(&self) -> usize {
        usize::from(self.hunks.height).saturating_sub(1).max(1)
    }

    pub(super) fn is_list(&self, column: u16) -> bool {
        self.list.width > 0 && column >= self.list.left() && column < self.list.right()
    }

    /// The file at a place, by its number among those that are shown.
    pub(super) fn file_at(&self, column: u16, row: u16) -> Option<usize> {
        let is_in = self.is_list(column) && row >= self.list.top() && row < self.list.bottom();
        is_in.then(|| self.first_file + usize::from(row - self.list.top()))
    }

    /// The hunk at a place.
    pub(super) fn row_at(&self, column: u16, row: u16) -> Option<RowPlace> {
        let is_in = column >= self.hunks.left() && column < self.hunks.right() && row >= self.hunks.top();
        if is_in { self.rows.get(usize::from(row - self.hunks.top())).copied() } else { None }
    }
}
