//! Paints a review: files on the left, the hunks of one file on the right, the keys below.
//!
//! # Invariants
//! 1. Everything reads without colour: `>` is the cursor, `[x]` taken, `[-]` in part, `[ ]` left out, `+` and
//!    `-` lines.
//! 2. Text of files cannot move the cursor: its control characters were escaped before it came here.

use domain::LineTag;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::{FileSelection, Review, ReviewFile, ReviewMode};
use crate::render::diff::counted;

const KEYS: &str = "j/k hunk  n/p file  space take or leave  a take file  r leave file  / filter  ? help  enter apply  q quit";

const READ_KEYS: &str = "j/k hunk  n/p file  page up/down scroll  / filter  ? help  q back";

const HELP: &str = "\
j, down      next hunk               k, up     previous hunk
n            next file               p         previous file
page down    scroll the hunks down   page up   scroll them up
space        take the hunk, or leave it out
a            take the whole file     r         leave the whole file out
/            show only files whose name contains what you type
escape       show all files again
enter        apply what is taken     q         quit, apply nothing

[x] taken    [-] taken in part       [ ] left out

any key goes back to the review";

const READ_HELP: &str = "\
j, down      next hunk               k, up     previous hunk
n            next file               p         previous file
page down    scroll the hunks down   page up   scroll them up
/            show only files whose name contains what you type
escape       show all files again
q            back

any key goes back to the changes";

/// Paints the whole screen.
pub fn draw(review: &Review, with_colour: bool, frame: &mut Frame<'_>) {
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]);
    let [head, body, foot] = rows.areas(frame.area());
    let taken = match review.is_read_only {
        true => format!("{}: {}", review.title, counted(review.files.len(), "file")),
        false => format!("{}: {} of {} files taken", review.title, review.taken_files(), review.files.len()),
    };
    frame.render_widget(Line::styled(taken, Style::new().add_modifier(Modifier::BOLD)), head);
    let palette = ReviewPalette { with_colour };
    match review.mode {
        ReviewMode::Help => {
            let help = if review.is_read_only { READ_HELP } else { HELP };
            frame.render_widget(Paragraph::new(help).block(block("help")), body);
        }
        ReviewMode::Browse | ReviewMode::Typing(_) => {
            let columns = Layout::horizontal([Constraint::Percentage(35), Constraint::Percentage(65)]);
            let [left, right] = columns.areas(body);
            draw_files(review, palette, frame, left);
            draw_hunks(review, palette, frame, right);
        }
    }
    frame.render_widget(Line::raw(foot_line(review)), foot);
}

fn foot_line(review: &Review) -> String {
    match &review.mode {
        ReviewMode::Typing(text) => format!("filter: {text}_   (enter to use it, escape to drop it)"),
        ReviewMode::Browse | ReviewMode::Help if !review.message.is_empty() => review.message.clone(),
        ReviewMode::Browse | ReviewMode::Help if review.is_read_only => READ_KEYS.to_owned(),
        ReviewMode::Browse | ReviewMode::Help => KEYS.to_owned(),
    }
}

fn block(title: &str) -> Block<'_> {
    Block::new().borders(Borders::ALL).title(title)
}

#[derive(Clone, Copy)]
struct ReviewPalette {
    with_colour: bool,
}

impl ReviewPalette {
    fn of(self, color: Color) -> Style {
        if self.with_colour { Style::new().fg(color) } else { Style::new() }
    }
}

fn draw_files(review: &Review, palette: ReviewPalette, frame: &mut Frame<'_>, area: Rect) {
    let shown = review.shown();
    let height = usize::from(area.height.saturating_sub(2)).max(1);
    let place = shown.iter().position(|index| *index == review.file).unwrap_or(0);
    let first = place.saturating_sub(height.saturating_sub(1));
    let lines: Vec<Line<'_>> = shown
        .iter()
        .skip(first)
        .take(height)
        .filter_map(|index| review.files.get(*index).map(|file| (index, file)))
        .map(|(index, file)| file_line(file, *index == review.file, review.is_read_only, palette))
        .collect();
    let title =
        if review.filter.is_empty() { "files".to_owned() } else { format!("files: {}", review.filter) };
    let text = if lines.is_empty() { Text::raw("no file has this in its name") } else { Text::from(lines) };
    frame.render_widget(Paragraph::new(text).block(block(&title)), area);
}

fn file_line(file: &ReviewFile, is_here: bool, is_read_only: bool, palette: ReviewPalette) -> Line<'_> {
    let cursor = if is_here { '>' } else { ' ' };
    let ReviewFile { letter, name, insertions, deletions, .. } = file;
    let mark = if is_read_only { String::new() } else { format!("{} ", mark(file.taken())) };
    let text = format!("{cursor}{mark}{letter} {name} +{insertions} -{deletions}");
    let style = match file.taken() {
        FileSelection::All => palette.of(Color::Green),
        FileSelection::Some => palette.of(Color::Yellow),
        FileSelection::None => palette.of(Color::DarkGray),
    };
    Line::styled(text, if is_here { style.add_modifier(Modifier::BOLD) } else { style })
}

fn mark(taken: FileSelection) -> &'static str {
    match taken {
        FileSelection::All => "[x]",
        FileSelection::Some => "[-]",
        FileSelection::None => "[ ]",
    }
}

fn draw_hunks(review: &Review, palette: ReviewPalette, frame: &mut Frame<'_>, area: Rect) {
    let file = review.files.get(review.file).filter(|_| review.shown().contains(&review.file));
    let Some(file) = file else {
        frame.render_widget(Paragraph::new("").block(block("")), area);
        return;
    };
    let mut lines = Vec::new();
    for (index, hunk) in file.hunks.iter().enumerate() {
        let cursor = if index == review.hunk { '>' } else { ' ' };
        let taken = if hunk.taken { FileSelection::All } else { FileSelection::None };
        let mark = if review.is_read_only { String::new() } else { format!("{} ", mark(taken)) };
        let head = format!("{cursor}{mark}{}", hunk.title);
        lines.push(Line::styled(head, palette.of(Color::Cyan).add_modifier(Modifier::BOLD)));
        for (tag, text) in &hunk.lines {
            let (sign, color) = match tag {
                LineTag::Context => (' ', None),
                LineTag::Removed => ('-', Some(Color::Red)),
                LineTag::Added => ('+', Some(Color::Green)),
            };
            let style = color.map_or_else(Style::new, |color| palette.of(color));
            lines.push(Line::styled(format!("  {sign}{}", text.replace('\t', "    ")), style));
        }
        lines.push(Line::raw(""));
    }
    let last = u16::try_from(lines.len().saturating_sub(1)).unwrap_or(u16::MAX);
    let scroll = u16::try_from(review.scroll).unwrap_or(u16::MAX).min(last);
    let paragraph = Paragraph::new(lines).scroll((scroll, 0));
    frame.render_widget(paragraph.block(block(&file.name)), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::tui::review::tests::review;
    use crate::tui::review::{KeyPress, Review};

    fn painted(review: &Review, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(review, true, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| {
            let cells: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            cells.trim_end().to_owned() + "\n"
        };
        (0..height).map(row).collect()
    }

    #[test]
    fn a_review_reads_without_colour() {
        let mut review = review();
        review.press(KeyPress::Char('j'));
        review.press(KeyPress::Char(' '));
        review.press(KeyPress::Char('k'));
        let expected = "\
plan 01JB: 3 of 3 files taken
┌files──────────────────┐┌src/a.rs─────────────────────────────────────┐
│>[-] M src/a.rs +1 -1  ││>[x] lines 10                                │
│ [x] M src/b.rs +1 -1  ││   same                                      │
│ [x] M doc.md +1 -1    ││  -old 1                                     │
│                       ││  +new 1                                     │
│                       ││                                             │
│                       ││ [ ] lines 20                                │
└───────────────────────┘└─────────────────────────────────────────────┘
j/k hunk  n/p file  space take or leave  a take file  r leave file  / fi
";
        assert_eq!(painted(&review, 72, 10), expected);
    }

    #[test]
    fn the_cursors_file_is_in_sight_however_long_the_list() {
        let files = (0..50).map(|n| crate::tui::review::tests::file(&format!("f{n}"), 1)).collect();
        let mut review = Review::new(String::new(), files);
        for _ in 0..40 {
            review.press(KeyPress::Char('n'));
        }
        assert!(painted(&review, 60, 10).contains(">[x] M f40"));
    }

    #[test]
    fn who_only_reads_sees_no_marks() {
        let review =
            Review::to_read("plan 01JB".to_owned(), vec![crate::tui::review::tests::file("src/a.rs", 1)]);
        let shown = painted(&review, 70, 8);
        assert!(shown.starts_with("plan 01JB: 1 file\n") && shown.contains("│>M src/a.rs +1 -1"), "{shown}");
        assert!(!shown.contains("[x]") && shown.contains("q back"), "{shown}");
    }

    #[test]
    fn help_tells_every_key() {
        let mut review = review();
        review.press(KeyPress::Char('?'));
        let shown = painted(&review, 80, 20);
        for key in ["space", "enter", "page down", "/ ", "q  "] {
            assert!(shown.contains(key), "{key}: {shown}");
        }
    }

    #[test]
    fn a_tiny_screen_is_no_trouble() {
        for (width, height) in [(1, 1), (3, 2), (10, 3)] {
            painted(&review(), width, height);
        }
    }
}
