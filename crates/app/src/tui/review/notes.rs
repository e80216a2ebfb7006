//! Notes in a review: shown at their lines, and written with a key.
//!
//! # Invariants
//! 1. A note is shown at the line on which it was written. One whose lines are gone is shown under the head
//!    of a hunk, as outdated.
//! 2. Text that is typed or pasted into a note does nothing else, whatever keys it consists of.

use std::collections::BTreeMap;

use engine::{NoteLines, NotePlace};

use super::layout::{columns, cut_middle, wrapped};
use super::{KeyPress, Review, ReviewEnding, ReviewFile, ReviewMode, ReviewStep};
use crate::tui::screen::{MoveKey, TerminalInput};

/// The maximum number of rows of a note; a longer one is shown in whole by `agents plan notes`.
const NOTE_ROWS_MAX: usize = 6;
/// The word before a note.
const LABEL: &str = "note: ";

/// An open note on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewNote {
    /// Its place.
    pub place: NotePlace,
    /// True if the lines on which it was written are gone.
    pub is_outdated: bool,
    /// Its text, without control characters.
    pub text: String,
}

/// A note that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteDraft {
    /// Its place.
    pub place: NotePlace,
    /// The place as it is shown: without secrets.
    pub(super) shown: String,
    /// The text so far.
    pub text: String,
    /// True if lines were being chosen when it was begun.
    pub(super) is_line: bool,
}

/// The rows of notes, by hunk and by line: 0 is the head of the hunk, 1 its first line.
pub(super) type NoteRows = BTreeMap<(usize, usize), Vec<String>>;

/// Returns the rows of the notes of a file, at most so many columns wide.
pub(super) fn note_rows(file: &ReviewFile, width: usize) -> NoteRows {
    let mut rows = NoteRows::new();
    for note in &file.notes {
        rows.entry(spot(file, note)).or_default().extend(rows_of(file, note, width));
    }
    rows
}

/// Returns the hunk and the line under which a note is shown.
fn spot(file: &ReviewFile, note: &ReviewNote) -> (usize, usize) {
    let last = file.hunks.len().saturating_sub(1);
    let head = match note.place.lines {
        NoteLines::Hunk(number) => return (number.saturating_sub(1).min(last), 0),
        _ if note.is_outdated => return (0, 0),
        NoteLines::New(_, line) | NoteLines::Old(_, line) => line,
    };
    let is_old = matches!(note.place.lines, NoteLines::Old(..));
    for (no, hunk) in file.hunks.iter().enumerate() {
        let number = |at: usize| hunk.lines.get(at).map(|line| if is_old { line.old } else { line.new });
        if let Some(at) = (0..hunk.lines.len()).find(|at| number(*at) == Some(head)) {
            return (no, at + 1);
        }
        // A line between two hunks is shown before the next one.
        if (0..hunk.lines.len()).any(|at| number(at).is_some_and(|number| number > head)) {
            return (no, 0);
        }
    }
    (last, 0)
}

fn rows_of(file: &ReviewFile, note: &ReviewNote, width: usize) -> Vec<String> {
    let place = NotePlace { file: file.name.clone(), lines: note.place.lines };
    let text = match note.is_outdated {
        true => format!("outdated, on {place}: {}", note.text),
        false => note.text.clone(),
    };
    let room = width.saturating_sub(LABEL.len()).max(1);
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        lines.extend(wrapped(line, room).into_iter().map(|bytes| line[bytes].to_owned()));
    }
    if lines.len() > NOTE_ROWS_MAX {
        lines.truncate(NOTE_ROWS_MAX - 1);
        lines.push("(more: `agents plan notes`)".to_owned());
    }
    let prefix = |no: usize| if no == 0 { LABEL } else { "      " };
    lines.into_iter().enumerate().map(|(no, line)| format!("{}{line}", prefix(no))).collect()
}

impl Review {
    /// Replaces the notes: those of each file, by its address.
    pub fn set_notes(&mut self, mut notes: impl FnMut(&str) -> Vec<ReviewNote>) {
        for file in &mut self.files {
            file.notes = notes(&file.address);
        }
    }

    /// Begins a note on the line under the cursor while lines are chosen, else on the hunk.
    pub(super) fn begin_note(&mut self) {
        let Some((file, hunk)) = self.hunk_here() else { return };
        let is_line = self.mode == ReviewMode::Lines;
        let line = hunk.lines.get(self.cursor.line).filter(|_| is_line);
        let lines = match line {
            Some(line) if line.new > 0 => NoteLines::New(line.new, line.new),
            Some(line) => NoteLines::Old(line.old, line.old),
            None => NoteLines::Hunk(usize::try_from(hunk.number).unwrap_or(usize::MAX)),
        };
        let shown = NotePlace { file: file.name.clone(), lines }.to_string();
        let place = NotePlace { file: file.address.clone(), lines };
        self.mode = ReviewMode::Note(NoteDraft { place, shown, text: String::new(), is_line });
    }

    /// Continues a note that could not be recorded.
    pub fn continue_note(&mut self, draft: NoteDraft) {
        self.mode = ReviewMode::Note(draft);
    }

    /// Handles a key while a note is written.
    pub(super) fn write_note(&mut self, mut draft: NoteDraft, input: TerminalInput) -> ReviewStep {
        let rests = if draft.is_line { ReviewMode::Lines } else { ReviewMode::Browse };
        match input {
            TerminalInput::Key(KeyPress::Enter) if draft.text.trim().is_empty() => {
                self.mode = rests;
                self.say("an empty note is not written");
                return ReviewStep::Stay;
            }
            TerminalInput::Key(KeyPress::Enter) => {
                self.mode = rests;
                return ReviewStep::End(ReviewEnding::Comment(draft));
            }
            TerminalInput::Move(MoveKey::Tab) => {
                self.mode = rests;
                return ReviewStep::End(ReviewEnding::CommentInEditor(draft));
            }
            TerminalInput::Key(KeyPress::Escape) => {
                self.mode = rests;
                return ReviewStep::Stay;
            }
            TerminalInput::Key(KeyPress::Char(letter)) => draft.text.push(letter),
            TerminalInput::Key(KeyPress::Backspace) => {
                draft.text.pop();
            }
            TerminalInput::Paste(text) => draft.text.push_str(&text.replace('\r', "\n")),
            TerminalInput::Key(
                KeyPress::Up | KeyPress::Down | KeyPress::PageUp | KeyPress::PageDown | KeyPress::Interrupt,
            )
            | TerminalInput::Move(
                MoveKey::Left | MoveKey::Right | MoveKey::Home | MoveKey::End | MoveKey::BackTab,
            )
            | TerminalInput::Mouse(_) => {}
        }
        self.mode = ReviewMode::Note(draft);
        ReviewStep::Stay
    }
}

/// The input line of a note: the end of the text is always in sight.
pub(super) fn draft_line(draft: &NoteDraft, width: usize) -> String {
    const KEYS: &str = "  (enter saves, tab: editor, escape drops)";
    let place = cut_middle(&draft.shown, (width / 3).max(8), "..");
    let label = format!("note on {place}: ");
    let text = draft.text.replace('\n', " ");
    let whole = format!("{label}{text}_");
    if columns(&whole) + columns(KEYS) <= width {
        return whole + KEYS;
    }
    let room = width.saturating_sub(columns(&label) + 1);
    let letters: Vec<char> = text.chars().collect();
    let first = (0..letters.len()).find(|from| {
        let tail: String = letters[*from..].iter().collect();
        columns(&tail) <= room
    });
    let tail: String = letters[first.unwrap_or(letters.len())..].iter().collect();
    format!("{label}{tail}_")
}
