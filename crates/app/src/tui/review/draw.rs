//! Paints a review: files on the left, the hunks of one file on the right, the keys below.
//!
//! # Invariants
//! 1. Everything reads without colour: `>` is the cursor, `[x]` taken, `[-]` in part, `[ ]` left out, `!` in
//!    conflict, `+` and `-` lines; where a hunk is taken in part, `x` is before each line that is taken.
//! 2. Text of files cannot move the cursor: its control characters were escaped before it came here.
//! 3. The path of a file is cut in its middle, never at its end.

use std::ops::Range;

use domain::{LineTag, TakenShare, changed_words};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::file::{ReviewHunk, ReviewPart};
use super::footer::{HELP, READ_HELP, foot_line};
use super::layout::{FileLayout, ReviewRow, RowPlace, byte_at_column, columns, cut_middle};
use super::{Review, ReviewFile, ReviewMode};
use crate::render::diff::counted;

/// Below this many columns the list of files has no place.
const LIST_COLUMNS_MIN: u16 = 50;
/// The list of files has at least so many columns, and at most a third of the screen.
const LIST_COLUMNS_LEAST: u16 = 16;
/// Below this many rows frames have no place.
const FRAME_ROWS_MIN: u16 = 8;
/// Below this many columns of a pane there is one column of line numbers, not two.
const NUMBERS_COLUMNS_MIN: usize = 60;

/// The abilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewPalette {
    /// True if it shows colours.
    pub with_colour: bool,
    /// True if it may show nothing but ASCII.
    pub is_ascii: bool,
}

impl ReviewPalette {
    /// The abilities of this process's terminal.
    pub fn of_terminal(with_colour: bool) -> ReviewPalette {
        let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = named("LC_ALL").or_else(|| named("LC_CTYPE")).or_else(|| named("LANG"));
        let is_utf8 = |locale: &String| {
            let locale = locale.to_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        };
        // Without a locale most terminals show UTF-8.
        ReviewPalette { with_colour, is_ascii: locale.is_some_and(|locale| !is_utf8(&locale)) }
    }

    fn color(self, color: Color) -> Style {
        if self.with_colour { Style::new().fg(color) } else { Style::new() }
    }

    fn gap(self) -> &'static str {
        if self.is_ascii { ".." } else { "…" }
    }

    fn left_out(self) -> Style {
        self.color(Color::DarkGray).add_modifier(Modifier::DIM)
    }

    fn word(self) -> Modifier {
        if self.with_colour { Modifier::REVERSED } else { Modifier::UNDERLINED }
    }
}

/// Paints the whole screen.
pub fn draw(review: &mut Review, palette: ReviewPalette, frame: &mut Frame<'_>) {
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]);
    let [head, body, foot] = rows.areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(Line::styled(head_line(review, usize::from(head.width), palette), bold), head);
    let was = std::mem::take(&mut review.areas).hunks;
    let painter = Painter { palette, has_frames: frame.area().height >= FRAME_ROWS_MIN };
    match review.mode {
        ReviewMode::Help => {
            let help = if review.is_read_only { READ_HELP } else { HELP };
            frame.render_widget(Paragraph::new(help).block(painter.block("help")), body);
        }
        ReviewMode::Browse | ReviewMode::Lines | ReviewMode::Typing(_) | ReviewMode::Note(_) => {
            let list = list_columns(review, body.width);
            let panes = Layout::horizontal([Constraint::Length(list), Constraint::Min(1)]);
            let [left, right] = panes.areas(body);
            if list > 0 {
                painter.files(review, frame, left);
            }
            painter.hunks(review, frame, right, was);
        }
    }
    frame.render_widget(Line::raw(foot_line(review, usize::from(foot.width))), foot);
}

/// The counter is shown whole, and as much of the title as fits.
fn head_line(review: &Review, width: usize, palette: ReviewPalette) -> String {
    let (taken, all) = review.taken();
    let counter = match review.is_read_only {
        true => counted(review.files.len(), "file"),
        false => format!("{taken} of {} taken", counted(all, "hunk")),
    };
    let conflicts = review.open_conflicts();
    let counter = match conflicts {
        0 => counter,
        count => format!("{counter}, {}", counted(count, "conflict")),
    };
    let room = width.saturating_sub(columns(&counter) + 2);
    if room < 8 {
        return counter;
    }
    let title = match columns(&review.title) > room {
        true => {
            let room = room - columns(palette.gap());
            format!("{}{}", &review.title[..byte_at_column(&review.title, room)], palette.gap())
        }
        false => review.title.clone(),
    };
    format!("{title}: {counter}")
}

/// As many columns as the names need, but not more than a third.
fn list_columns(review: &Review, width: u16) -> u16 {
    if width < LIST_COLUMNS_MIN {
        return 0;
    }
    let most = width * 35 / 100;
    let longest =
        review.files.iter().map(|file| columns(&file.name) + columns(&counts(file))).max().unwrap_or(0);
    // Two frames, the cursor, a mark, a letter, and the blanks between.
    let needed = u16::try_from(longest + 11).unwrap_or(u16::MAX);
    needed.clamp(LIST_COLUMNS_LEAST, most.max(LIST_COLUMNS_LEAST))
}

fn counts(file: &ReviewFile) -> String {
    format!("+{} -{}", file.insertions, file.deletions)
}

fn mark(taken: TakenShare) -> &'static str {
    match taken {
        TakenShare::All => "[x]",
        TakenShare::Some => "[-]",
        TakenShare::None => "[ ]",
    }
}

#[derive(Clone, Copy)]
struct Painter {
    palette: ReviewPalette,
    has_frames: bool,
}

impl Painter {
    fn block(self, title: &str) -> Block<'_> {
        if !self.has_frames {
            return Block::new();
        }
        let block = Block::new().borders(Borders::ALL).title(title);
        if !self.palette.is_ascii {
            return block;
        }
        let corner = "+";
        block.border_set(border::Set {
            top_left: corner,
            top_right: corner,
            bottom_left: corner,
            bottom_right: corner,
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        })
    }

    fn files(self, review: &mut Review, frame: &mut Frame<'_>, area: Rect) {
        let title = match review.filter.is_empty() {
            true => "files".to_owned(),
            false => format!("files: {}", review.filter),
        };
        let block = self.block(&title);
        let inner = block.inner(area);
        let height = usize::from(inner.height).max(1);
        let place = review.shown.iter().position(|index| *index == review.cursor.file).unwrap_or(0);
        let first = place.saturating_sub(height / 2).min(review.shown.len().saturating_sub(height));
        let lines: Vec<Line<'_>> = review
            .shown
            .iter()
            .skip(first)
            .take(height)
            .filter_map(|index| review.files.get(*index).map(|file| (index, file)))
            .map(|(index, file)| {
                let is_here = *index == review.cursor.file;
                self.file_line(file, is_here, review.is_read_only, usize::from(inner.width))
            })
            .collect();
        let text =
            if lines.is_empty() { Text::raw("no file has this in its name") } else { Text::from(lines) };
        frame.render_widget(Paragraph::new(text).block(block), area);
        (review.areas.list, review.areas.first_file) = (inner, first);
    }

    fn file_line(self, file: &ReviewFile, is_here: bool, is_read_only: bool, width: usize) -> Line<'static> {
        let cursor = if is_here { '>' } else { ' ' };
        let is_open = file.conflicts.iter().any(|conflict| file.is_open(conflict));
        let share = file.choice.share();
        let start = match is_read_only {
            true => format!("{cursor}{} ", file.letter),
            false => {
                let conflict = if is_open { '!' } else { ' ' };
                format!("{cursor}{}{conflict}{} ", mark(share), file.letter)
            }
        };
        let counts = counts(file);
        let room = width.saturating_sub(columns(&start) + columns(&counts) + 1);
        let style = match share {
            _ if is_open => self.palette.color(Color::Red),
            TakenShare::All => self.palette.color(Color::Green),
            TakenShare::Some => self.palette.color(Color::Yellow),
            TakenShare::None => self.palette.left_out(),
        };
        let style = if is_here { style.add_modifier(Modifier::BOLD) } else { style };
        // Where there is little place, the name is worth more than the counts.
        let text = match room < 8 && columns(&file.name) > room {
            true => {
                start.clone()
                    + &cut_middle(&file.name, width.saturating_sub(columns(&start)), self.palette.gap())
            }
            false => format!("{start}{} {counts}", cut_middle(&file.name, room, self.palette.gap())),
        };
        Line::styled(text, style)
    }

    /// Paints the hunks of the file under the cursor. `was` is where they were painted last.
    fn hunks(self, review: &mut Review, frame: &mut Frame<'_>, area: Rect, was: Rect) {
        let Some(file) = review.file_here() else {
            frame.render_widget(Paragraph::new("").block(self.block("")), area);
            return;
        };
        let title = cut_middle(&file.name, usize::from(area.width.saturating_sub(2)), self.palette.gap());
        let block = self.block(&title);
        let inner = block.inner(area);
        let (width, height) = (usize::from(inner.width), usize::from(inner.height).max(1));
        let gutter = Gutter::new(file, width);
        let room = width.saturating_sub(gutter.columns()).max(1);
        let layout = FileLayout::new(file, review.wraps.then_some(room), room);
        // On a screen of another size the cursor may be out of sight.
        let follows = review.cursor.has_moved || (was != Rect::default() && was != inner);
        let scroll = scroll_to(review, &layout, height, follows);
        let rows = layout.rows(scroll, height);
        let places = rows.iter().map(|(part, _)| RowPlace { hunk: part.hunk, part: part.part }).collect();
        let pane = HunkPane { painter: self, review, file, gutter, room };
        let lines: Vec<Line<'_>> = rows.iter().map(|(part, row)| pane.row(part, row)).collect();
        let paragraph = Paragraph::new(lines).block(block);
        frame.render_widget(paragraph, area);
        (review.areas.hunks, review.areas.rows) = (inner, places);
        (review.scroll, review.cursor.has_moved) = (scroll, false);
    }
}

/// The first row in sight: it moves only if the cursor moved to a place that is out of sight.
fn scroll_to(review: &Review, layout: &FileLayout<'_>, height: usize, follows: bool) -> usize {
    let last = layout.height_of_all().saturating_sub(height);
    let scroll = review.scroll.min(last);
    if !follows {
        return scroll;
    }
    let place = RowPlace { hunk: review.cursor.hunk, part: review.cursor.part };
    let rows = match review.mode {
        _ if review.is_on_line() => layout.rows_of_line(place, review.cursor.line),
        ReviewMode::Browse
        | ReviewMode::Lines
        | ReviewMode::Typing(_)
        | ReviewMode::Note(_)
        | ReviewMode::Help => layout.rows_of(place),
    };
    let is_low = rows.end > scroll + height;
    if rows.start < scroll || (is_low && rows.len() >= height) {
        rows.start.min(last)
    } else if is_low {
        rows.end.saturating_sub(height).min(last)
    } else {
        scroll
    }
}

/// The columns of line numbers.
#[derive(Clone, Copy)]
struct Gutter {
    digits: usize,
    has_both: bool,
}

impl Gutter {
    fn new(file: &ReviewFile, width: usize) -> Gutter {
        let last = file.hunks.iter().filter_map(|hunk| hunk.lines.last());
        let most = last.map(|line| line.old.max(line.new)).max().unwrap_or(0);
        Gutter { digits: most.max(1).ilog10() as usize + 1, has_both: width >= NUMBERS_COLUMNS_MIN }
    }

    /// With the mark of a line that is taken, its sign, and the blanks.
    fn columns(self) -> usize {
        let numbers = if self.has_both { 2 * self.digits + 1 } else { self.digits };
        numbers + 3
    }

    fn numbers(self, old: u32, new: u32) -> String {
        let digits = self.digits;
        let number = |number: u32| if number > 0 { number.to_string() } else { String::new() };
        match self.has_both {
            true => format!("{:>digits$} {:>digits$}", number(old), number(new)),
            false => format!("{:>digits$}", number(if new > 0 { new } else { old })),
        }
    }

    fn blank(self) -> String {
        " ".repeat(self.columns() - 3)
    }
}

/// The pane of one file's hunks.
struct HunkPane<'a> {
    painter: Painter,
    review: &'a Review,
    file: &'a ReviewFile,
    gutter: Gutter,
    room: usize,
}

impl HunkPane<'_> {
    fn row(&self, part: &ReviewPart, row: &ReviewRow) -> Line<'static> {
        let palette = self.painter.palette;
        let Some(hunk) = self.file.hunks.get(part.hunk) else { return Line::raw("") };
        match row {
            ReviewRow::Head => self.head(hunk, part),
            ReviewRow::Conflict(text) => Line::styled(format!("  {text}"), palette.color(Color::Red)),
            ReviewRow::Yours(text) => Line::styled(format!("    | {text}"), palette.color(Color::Yellow)),
            ReviewRow::Plans(text) => Line::styled(format!("    | {text}"), palette.color(Color::Magenta)),
            ReviewRow::Line { line, bytes } => self.line(hunk, *line, bytes.clone()),
            ReviewRow::Note(text) => {
                let text = format!("{}   {text}", self.gutter.blank());
                Line::styled(text, palette.color(Color::LightBlue).add_modifier(Modifier::ITALIC))
            }
            ReviewRow::Blank => Line::raw(""),
        }
    }

    fn is_here(&self, part: &ReviewPart) -> bool {
        (part.hunk, part.part) == (self.review.cursor.hunk, self.review.cursor.part)
    }

    fn head(&self, hunk: &ReviewHunk, part: &ReviewPart) -> Line<'static> {
        let palette = self.painter.palette;
        let cursor = if self.is_here(part) { '>' } else { ' ' };
        let share = self.file.share(part);
        let mark = if self.review.is_read_only { String::new() } else { format!("{} ", mark(share)) };
        let number = match &part.chosen {
            Some(lines) if lines.start() == lines.end() => format!("#{}:{}", hunk.number, lines.start()),
            Some(lines) => format!("#{}:{}-{}", hunk.number, lines.start(), lines.end()),
            None => format!("#{}", hunk.number),
        };
        let has_conflict = self.file.conflicts_of(hunk.number).next().is_some();
        let state = match (self.file.is_hunk_open(hunk.number), has_conflict, share) {
            (true, _, _) => "! ",
            (false, true, TakenShare::All | TakenShare::Some) => "(the plan's side) ",
            (false, _, _) => "",
        };
        let folded = if hunk.is_folded {
            format!("  ({} hidden)", counted(hunk.lines.len(), "line"))
        } else {
            String::new()
        };
        let title = if part.part == 0 { hunk.title.as_str() } else { "" };
        let text = format!("{cursor}{mark}{state}{number}  {title}{folded}");
        let style = match share {
            _ if self.file.is_hunk_open(hunk.number) => palette.color(Color::Red),
            TakenShare::None if !self.review.is_read_only => palette.left_out(),
            TakenShare::All | TakenShare::Some | TakenShare::None => palette.color(Color::Cyan),
        };
        Line::styled(text.trim_end().to_owned(), style.add_modifier(Modifier::BOLD))
    }

    fn line(&self, hunk: &ReviewHunk, at: usize, bytes: Range<usize>) -> Line<'static> {
        let palette = self.painter.palette;
        let Some(line) = hunk.lines.get(at) else { return Line::raw("") };
        let is_first = bytes.start == 0;
        let is_taken =
            line.tag == LineTag::Context || self.file.takes_line(hunk, line) || self.review.is_read_only;
        let is_cursor = self.review.is_on_line()
            && self.file.hunks.get(self.review.cursor.hunk).map(|hunk| hunk.number) == Some(hunk.number)
            && self.review.cursor.line == at;
        let is_parted = self.file.choice.hunk(hunk.number) == TakenShare::Some;
        let cursor = if is_cursor && is_first { '>' } else { ' ' };
        let shows_mark = is_first && line.number > 0 && is_parted && is_taken;
        let taken_mark = if shows_mark { 'x' } else { ' ' };
        let (sign, color) = match line.tag {
            LineTag::Context => (' ', None),
            LineTag::Removed => ('-', Some(Color::Red)),
            LineTag::Added => ('+', Some(Color::Green)),
        };
        let style = match color {
            _ if !is_taken => palette.left_out(),
            Some(color) => palette.color(color),
            None => Style::new(),
        };
        let style = if is_cursor { style.add_modifier(Modifier::BOLD) } else { style };
        let numbers = if is_first { self.gutter.numbers(line.old, line.new) } else { self.gutter.blank() };
        let sign = if is_first { sign } else { ' ' };
        let shown = match self.review.wraps {
            true => bytes,
            false => {
                let from = byte_at_column(&line.text, self.review.sideways);
                from..line.text.len()
            }
        };
        let words = if is_taken { changed_in(hunk, at) } else { Vec::new() };
        let mut spans = vec![
            Span::styled(numbers, palette.color(Color::DarkGray)),
            Span::styled(format!("{cursor}{taken_mark}{sign}"), style),
        ];
        let is_cut = !self.review.wraps && columns(&line.text[shown.clone()]) > self.room;
        let shown = match is_cut {
            true => {
                let room = self.room.saturating_sub(columns(palette.gap()));
                shown.start..shown.start + byte_at_column(&line.text[shown.clone()], room)
            }
            false => shown,
        };
        push_spans(&mut spans, &line.text, &shown, &words, (style, style.add_modifier(palette.word())));
        if is_cut {
            spans.push(Span::styled(palette.gap(), style));
        }
        Line::from(spans)
    }
}

/// The text in pieces, of which those in `words` have the second style.
fn push_spans(
    spans: &mut Vec<Span<'static>>,
    text: &str,
    shown: &Range<usize>,
    words: &[Range<usize>],
    (plain, marked): (Style, Style),
) {
    let mut done = shown.start;
    for word in words {
        let (start, end) = (word.start.max(done), word.end.min(shown.end));
        if start >= end {
            continue;
        }
        spans.push(Span::styled(text[done..start].to_owned(), plain));
        spans.push(Span::styled(text[start..end].to_owned(), marked));
        done = end;
    }
    spans.push(Span::styled(text[done..shown.end.max(done)].to_owned(), plain));
}

/// The changed words of a line that replaces another, or is replaced by one.
fn changed_in(hunk: &ReviewHunk, at: usize) -> Vec<Range<usize>> {
    let Some(tag) = hunk.lines.get(at).map(|line| line.tag) else { return Vec::new() };
    let run =
        |from: usize, tag: LineTag| hunk.lines[from..].iter().take_while(|line| line.tag == tag).count();
    let back = |from: usize, tag: LineTag| {
        hunk.lines[..from].iter().rev().take_while(|line| line.tag == tag).count()
    };
    let (first_old, first_new) = match tag {
        LineTag::Context => return Vec::new(),
        LineTag::Removed => {
            let first = at - back(at, LineTag::Removed);
            (first, first + run(first, LineTag::Removed))
        }
        LineTag::Added => {
            let first = at - back(at, LineTag::Added);
            (first - back(first, LineTag::Removed), first)
        }
    };
    let (removed, added) = (first_new - first_old, run(first_new, LineTag::Added));
    if removed != added {
        return Vec::new();
    }
    let no = if tag == LineTag::Removed { at - first_old } else { at - first_new };
    let (Some(old), Some(new)) = (hunk.lines.get(first_old + no), hunk.lines.get(first_new + no)) else {
        return Vec::new();
    };
    let words = changed_words(&old.text, &new.text);
    words.map(|words| if tag == LineTag::Removed { words.old } else { words.new }).unwrap_or_default()
}
