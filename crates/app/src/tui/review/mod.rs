//! Reviewing a plan's changes by hand: which files, hunks and lines are taken, and which are left.
//!
//! [`Review`] is a value that keys change; `draw` paints it, `screen` brings it to the terminal. The choice
//! itself is a [`domain::ChangeChoice`] for each file, the same that the flags of `plan apply` make.
//!
//! # Invariants
//! 1. Everything is taken at first; what is left out is what the person left out.
//! 2. A filter hides files and changes no choice. The cursor is always on a file that is shown, if there is
//!    one.
//! 3. Nothing is applied but by the enter key, only while something is taken, and not while something that is
//!    taken is in conflict. Who only reads takes nothing.
//!
//! # Not here
//! Applying: the answer is a [`ReviewChoice`], which `apply` takes as `--reject` and `--take`. Editing, notes
//! and sending back: the review ends with the wish, and the caller may show it again.

mod choices;
mod cursor;
mod draw;
mod file;
mod footer;
mod layout;
mod notes;
mod screen;
#[cfg(test)]
mod tests;

pub use draw::{ReviewPalette, draw};
pub use file::{ReviewConflict, ReviewFile, ReviewHunk, ReviewLine, without_tabs};
pub use notes::{NoteDraft, ReviewNote};
pub use screen::go_through;

use domain::HunkAddress;

pub use super::screen::KeyPress;
use super::screen::{MoveKey, TerminalInput};
use choices::ChoiceHistory;
use cursor::ReviewCursor;
use layout::DrawnAreas;

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewStep {
    /// The review continues.
    Stay,
    /// It ends.
    End(ReviewEnding),
}

/// The end of a review, or a wish that the review cannot fulfil itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewEnding {
    /// The selected changes are to be applied.
    Apply(ReviewChoice),
    /// The new text of this hunk is to be edited, and the review continues.
    Edit(HunkAddress),
    /// This note is to be recorded, and the review continues.
    Comment(NoteDraft),
    /// This note is to be written in the user's editor, and the review continues.
    CommentInEditor(NoteDraft),
    /// The plan is to be revised with the open notes.
    SendBack,
    /// The person quit.
    Quit,
    /// The person or the system broke it off.
    Interrupted,
}

/// The choice that a person made, in the words of the flags of `plan apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewChoice {
    /// The parts that are left out: `--reject`.
    pub reject: Vec<String>,
    /// The parts that win over a conflict: `--take`.
    pub take: Vec<String>,
}

/// The present meaning of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewMode {
    /// Moving about.
    Browse,
    /// Choosing lines of the hunk under the cursor.
    Lines,
    /// Typing a filter; the previous one applies until enter.
    Typing(String),
    /// Writing a note.
    Note(NoteDraft),
    /// Reading the help.
    Help,
}

/// A review in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    title: String,
    files: Vec<ReviewFile>,
    filter: String,
    /// The files that the filter lets through.
    shown: Vec<usize>,
    cursor: ReviewCursor,
    /// The first row that is shown.
    scroll: usize,
    /// The first column that is shown.
    sideways: usize,
    wraps: bool,
    mode: ReviewMode,
    message: String,
    is_read_only: bool,
    history: ChoiceHistory,
    areas: DrawnAreas,
}

impl Review {
    /// A review in which everything is taken.
    pub fn new(title: String, files: Vec<ReviewFile>) -> Review {
        let shown = (0..files.len()).collect();
        Review {
            title,
            files,
            filter: String::new(),
            shown,
            cursor: ReviewCursor::default(),
            scroll: 0,
            sideways: 0,
            wraps: false,
            mode: ReviewMode::Browse,
            message: String::new(),
            is_read_only: false,
            history: ChoiceHistory::default(),
            areas: DrawnAreas::default(),
        }
    }

    /// The same for who only looks at them.
    pub fn to_read(title: String, files: Vec<ReviewFile>) -> Review {
        Review { is_read_only: true, ..Review::new(title, files) }
    }

    /// Shows a message in place of the keys, until the next key.
    pub fn say(&mut self, message: impl Into<String>) {
        self.message = message.into();
    }

    /// Handles a key, or the mouse.
    pub fn press(&mut self, input: impl Into<TerminalInput>) -> ReviewStep {
        self.message.clear();
        let input = input.into();
        if input == TerminalInput::Key(KeyPress::Interrupt) {
            return ReviewStep::End(ReviewEnding::Interrupted);
        }
        match (std::mem::replace(&mut self.mode, ReviewMode::Browse), input) {
            (ReviewMode::Help, _) => ReviewStep::Stay,
            (ReviewMode::Typing(text), TerminalInput::Key(press)) => {
                self.type_filter(text, press);
                ReviewStep::Stay
            }
            (ReviewMode::Note(draft), input) => self.write_note(draft, input),
            // A text that is pasted where none is written does nothing: its letters are keys.
            (mode, TerminalInput::Paste(_)) => {
                self.mode = mode;
                ReviewStep::Stay
            }
            (ReviewMode::Typing(text), TerminalInput::Move(_) | TerminalInput::Mouse(_)) => {
                self.mode = ReviewMode::Typing(text);
                ReviewStep::Stay
            }
            (mode @ (ReviewMode::Browse | ReviewMode::Lines), TerminalInput::Key(press)) => {
                let is_lines = mode == ReviewMode::Lines;
                self.mode = mode;
                if is_lines && self.press_in_lines(press) { ReviewStep::Stay } else { self.browse(press) }
            }
            (mode @ (ReviewMode::Browse | ReviewMode::Lines), TerminalInput::Move(key)) => {
                self.mode = mode;
                self.press_move(key);
                ReviewStep::Stay
            }
            (ReviewMode::Browse | ReviewMode::Lines, TerminalInput::Mouse(mouse)) => {
                self.press_mouse(mouse);
                ReviewStep::Stay
            }
        }
    }

    fn type_filter(&mut self, mut text: String, press: KeyPress) {
        match press {
            KeyPress::Enter => {
                self.filter = text;
                self.refilter();
                return;
            }
            KeyPress::Escape => return,
            KeyPress::Char(letter) => text.push(letter),
            KeyPress::Backspace => {
                text.pop();
            }
            KeyPress::Up | KeyPress::Down | KeyPress::PageUp | KeyPress::PageDown | KeyPress::Interrupt => {}
        }
        self.mode = ReviewMode::Typing(text);
    }

    fn press_move(&mut self, key: MoveKey) {
        match key {
            MoveKey::Left => self.go_sideways(false),
            MoveKey::Right => self.go_sideways(true),
            MoveKey::Home => self.go_first(),
            MoveKey::End => self.go_last(),
            MoveKey::Tab => self.next_file(),
            MoveKey::BackTab => self.previous_file(),
        }
    }

    /// Handles a key while lines are chosen; false if it is a key of the review.
    fn press_in_lines(&mut self, press: KeyPress) -> bool {
        match press {
            KeyPress::Char('j') | KeyPress::Down => self.next_line(),
            KeyPress::Char('k') | KeyPress::Up => self.previous_line(),
            KeyPress::Char(' ') => {
                self.toggle_line();
                self.next_line();
            }
            KeyPress::Char('v') | KeyPress::Escape => self.leave_lines(),
            KeyPress::Char('q') => self.leave_lines(),
            KeyPress::Char(_)
            | KeyPress::Enter
            | KeyPress::PageUp
            | KeyPress::PageDown
            | KeyPress::Backspace
            | KeyPress::Interrupt => return false,
        }
        true
    }

    fn browse(&mut self, press: KeyPress) -> ReviewStep {
        match press {
            KeyPress::Char('j') | KeyPress::Down => self.next_part(),
            KeyPress::Char('k') | KeyPress::Up => self.previous_part(),
            KeyPress::Char('n' | 'J') => self.next_file(),
            KeyPress::Char('p' | 'K') => self.previous_file(),
            KeyPress::Char('h') => self.go_sideways(false),
            KeyPress::Char('l') => self.go_sideways(true),
            KeyPress::Char('g') => self.go_first(),
            KeyPress::Char('G') => self.go_last(),
            KeyPress::PageDown => self.scroll_by(self.areas.page(), true),
            KeyPress::PageUp => self.scroll_by(self.areas.page(), false),
            KeyPress::Char('w') => self.toggle_wrap(),
            KeyPress::Char('z') => self.toggle_fold(),
            KeyPress::Char('/') => self.mode = ReviewMode::Typing(String::new()),
            KeyPress::Char('?') => self.mode = ReviewMode::Help,
            KeyPress::Char('q') => return ReviewStep::End(ReviewEnding::Quit),
            KeyPress::Escape if !self.filter.is_empty() => {
                self.filter.clear();
                self.refilter();
            }
            KeyPress::Escape if self.is_read_only => return ReviewStep::End(ReviewEnding::Quit),
            KeyPress::Char(_) | KeyPress::Enter if !self.is_read_only => return self.choose(press),
            KeyPress::Char(_)
            | KeyPress::Enter
            | KeyPress::Escape
            | KeyPress::Backspace
            | KeyPress::Interrupt => {}
        }
        ReviewStep::Stay
    }

    /// Handles a key of a person who may choose.
    fn choose(&mut self, press: KeyPress) -> ReviewStep {
        match press {
            KeyPress::Char(' ') => self.toggle_part(),
            KeyPress::Char('a') => self.set_file(true),
            KeyPress::Char('r') => self.set_file(false),
            KeyPress::Char('A') => self.set_all(true),
            KeyPress::Char('N') => self.set_all(false),
            KeyPress::Char('u') => self.undo_choice(),
            KeyPress::Char('s') => self.toggle_split(),
            KeyPress::Char('v') => self.enter_lines(),
            KeyPress::Char('t') => self.toggle_take(),
            KeyPress::Char('!') => self.next_conflict(),
            KeyPress::Char('e') => return self.edit_hunk(),
            KeyPress::Char('c') => self.begin_note(),
            KeyPress::Char('R') => return ReviewStep::End(ReviewEnding::SendBack),
            KeyPress::Enter => return self.finish(),
            KeyPress::Char(_)
            | KeyPress::Up
            | KeyPress::Down
            | KeyPress::PageUp
            | KeyPress::PageDown
            | KeyPress::Escape
            | KeyPress::Backspace
            | KeyPress::Interrupt => {}
        }
        ReviewStep::Stay
    }

    /// Ends with the wish to edit the hunk under the cursor.
    fn edit_hunk(&mut self) -> ReviewStep {
        let Some((file, hunk)) = self.hunk_here() else { return ReviewStep::Stay };
        if !hunk.can_edit {
            self.say("this hunk has no text to edit");
            return ReviewStep::Stay;
        }
        ReviewStep::End(ReviewEnding::Edit(HunkAddress::new(&file.address, hunk.number)))
    }

    fn finish(&mut self) -> ReviewStep {
        if self.taken().0 == 0 {
            self.say("nothing is taken: take something with space, or quit with q");
            return ReviewStep::Stay;
        }
        if self.open_conflicts() > 0 {
            self.say_conflicts();
            return ReviewStep::Stay;
        }
        ReviewStep::End(ReviewEnding::Apply(self.choice()))
    }

    /// Finds the files that the filter lets through, and puts the cursor on one of them.
    fn refilter(&mut self) {
        let wanted = self.filter.to_lowercase();
        let fits = |index: &usize| {
            self.files.get(*index).is_some_and(|file| file.name.to_lowercase().contains(&wanted))
        };
        self.shown = (0..self.files.len()).filter(fits).collect();
        if !self.shown.contains(&self.cursor.file)
            && let Some(first) = self.shown.first()
        {
            self.go_to_file(*first);
        }
    }

    /// The file under the cursor; none when the filter hides all.
    fn file_here(&self) -> Option<&ReviewFile> {
        self.files.get(self.cursor.file).filter(|_| self.shown.binary_search(&self.cursor.file).is_ok())
    }

    /// The hunk under the cursor, and its file.
    fn hunk_here(&self) -> Option<(&ReviewFile, &ReviewHunk)> {
        let file = self.file_here()?;
        Some((file, file.hunks.get(self.cursor.hunk)?))
    }
}
