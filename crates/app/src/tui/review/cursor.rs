//! Moving about in a review: from hunk to hunk, from file to file, by lines, sideways and by the mouse.
//!
//! # Invariants
//! The cursor moves the view only if what it comes to is not in sight: see [`Review::wants_sight`].

use super::file::ReviewPart;
use super::layout::RowPlace;
use super::{Review, ReviewMode};
use crate::tui::screen::MouseInput;

/// The columns of one step sideways.
const SIDEWAYS_COLUMNS: usize = 8;
/// The rows of one turn of the wheel.
const WHEEL_ROWS: usize = 3;

/// The place of the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReviewCursor {
    /// Into the files.
    pub(super) file: usize,
    /// Into the file's hunks.
    pub(super) hunk: usize,
    /// The part of a split hunk.
    pub(super) part: usize,
    /// The line, while lines are chosen: into those of the hunk.
    pub(super) line: usize,
    /// True if it moved since it was last drawn.
    pub(super) has_moved: bool,
}

impl Review {
    pub(super) fn go_to(&mut self, hunk: usize, part: usize) {
        if self.mode == ReviewMode::Lines {
            self.mode = ReviewMode::Browse;
        }
        let file = self.cursor.file;
        self.cursor = ReviewCursor { file, hunk, part, line: 0, has_moved: true };
    }

    pub(super) fn go_to_file(&mut self, file: usize) {
        self.cursor.file = file;
        (self.scroll, self.sideways) = (0, 0);
        self.go_to(0, 0);
    }

    pub(super) fn next_part(&mut self) {
        let Some(file) = self.file_here() else { return };
        let stops = file.hunks.get(self.cursor.hunk).map_or(0, super::ReviewHunk::stops);
        if self.cursor.part + 1 < stops {
            self.go_to(self.cursor.hunk, self.cursor.part + 1);
        } else if self.cursor.hunk + 1 < file.hunks.len() {
            self.go_to(self.cursor.hunk + 1, 0);
        } else {
            self.next_file();
        }
    }

    pub(super) fn previous_part(&mut self) {
        if self.cursor.part > 0 {
            self.go_to(self.cursor.hunk, self.cursor.part - 1);
        } else if self.cursor.hunk > 0 {
            self.go_to_end_of(self.cursor.hunk - 1);
        } else {
            let before = self.cursor.file;
            self.previous_file();
            if self.cursor.file != before {
                let hunks = self.file_here().map_or(0, |file| file.hunks.len());
                self.go_to_end_of(hunks.saturating_sub(1));
            }
        }
    }

    fn go_to_end_of(&mut self, hunk: usize) {
        let stops =
            self.file_here().and_then(|file| file.hunks.get(hunk)).map_or(1, super::ReviewHunk::stops);
        self.go_to(hunk, stops - 1);
    }

    pub(super) fn next_file(&mut self) {
        let next = match self.shown.binary_search(&self.cursor.file) {
            Ok(place) => self.shown.get(place + 1),
            Err(_) => self.shown.first(),
        };
        if let Some(next) = next.copied() {
            self.go_to_file(next);
        }
    }

    pub(super) fn previous_file(&mut self) {
        let next = match self.shown.binary_search(&self.cursor.file) {
            Ok(place) => place.checked_sub(1).and_then(|place| self.shown.get(place)),
            Err(_) => self.shown.first(),
        };
        if let Some(next) = next.copied() {
            self.go_to_file(next);
        }
    }

    pub(super) fn go_first(&mut self) {
        if let Some(first) = self.shown.first().copied() {
            self.go_to_file(first);
        }
    }

    pub(super) fn go_last(&mut self) {
        if let Some(last) = self.shown.last().copied() {
            self.go_to_file(last);
            let hunks = self.file_here().map_or(0, |file| file.hunks.len());
            self.go_to_end_of(hunks.saturating_sub(1));
        }
    }

    pub(super) fn go_sideways(&mut self, on: bool) {
        if self.wraps {
            self.say("long lines are wrapped: w shows them in one row each");
            return;
        }
        let longest = self.file_here().map_or(0, |file| {
            let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
            lines.map(|line| line.columns).max().unwrap_or(0)
        });
        self.sideways = match on {
            true => (self.sideways + SIDEWAYS_COLUMNS).min(longest.saturating_sub(1)),
            false => self.sideways.saturating_sub(SIDEWAYS_COLUMNS),
        };
    }

    /// Scrolls, without moving the cursor. The end is found when it is drawn.
    pub(super) fn scroll_by(&mut self, rows: usize, on: bool) {
        self.cursor.has_moved = false;
        self.scroll = if on { self.scroll.saturating_add(rows) } else { self.scroll.saturating_sub(rows) };
    }

    pub(super) fn toggle_wrap(&mut self) {
        self.wraps = !self.wraps;
        (self.sideways, self.cursor.has_moved) = (0, true);
    }

    /// The part under the cursor.
    pub(super) fn part_here(&self) -> Option<ReviewPart> {
        let (_, hunk) = self.hunk_here()?;
        hunk.parts(self.cursor.hunk).into_iter().nth(self.cursor.part)
    }

    /// The next or previous changed line of the part under the cursor.
    fn changed_line(&self, on: bool) -> Option<usize> {
        let (part, (_, hunk)) = (self.part_here()?, self.hunk_here()?);
        let is_changed = |at: &usize| hunk.lines.get(*at).is_some_and(|line| line.number > 0);
        match on {
            true => (self.cursor.line + 1..part.lines.end).find(is_changed),
            false => (part.lines.start..self.cursor.line).rev().find(is_changed),
        }
    }

    pub(super) fn next_line(&mut self) {
        if let Some(line) = self.changed_line(true) {
            (self.cursor.line, self.cursor.has_moved) = (line, true);
        }
    }

    pub(super) fn previous_line(&mut self) {
        if let Some(line) = self.changed_line(false) {
            (self.cursor.line, self.cursor.has_moved) = (line, true);
        }
    }

    /// Begins to choose lines of the part under the cursor.
    pub(super) fn enter_lines(&mut self) {
        let Some((_, hunk)) = self.hunk_here() else { return };
        if !hunk.has_choice {
            self.say("this change is taken or left as a whole");
            return;
        }
        let Some(part) = self.part_here() else { return };
        let changed = |at: &usize| hunk.lines.get(*at).is_some_and(|line| line.number > 0);
        let first = part.lines.clone().find(changed).unwrap_or(part.lines.start);
        self.unfold_here();
        (self.cursor.line, self.cursor.has_moved) = (first, true);
        self.mode = ReviewMode::Lines;
    }

    /// Returns whether the cursor is on a line, and not on a whole part.
    pub(super) fn is_on_line(&self) -> bool {
        match &self.mode {
            ReviewMode::Lines => true,
            ReviewMode::Note(draft) => draft.is_line,
            ReviewMode::Browse | ReviewMode::Typing(_) | ReviewMode::Help => false,
        }
    }

    pub(super) fn leave_lines(&mut self) {
        self.mode = ReviewMode::Browse;
    }

    fn unfold_here(&mut self) {
        let (file, hunk) = (self.cursor.file, self.cursor.hunk);
        if let Some(hunk) = self.files.get_mut(file).and_then(|file| file.hunks.get_mut(hunk)) {
            hunk.is_folded = false;
        }
    }

    pub(super) fn press_mouse(&mut self, mouse: MouseInput) {
        match mouse {
            MouseInput::WheelUp(column, _) => self.turn_wheel(column, false),
            MouseInput::WheelDown(column, _) => self.turn_wheel(column, true),
            MouseInput::Click(column, row) => {
                if let Some(no) = self.areas.file_at(column, row) {
                    if let Some(file) = self.shown.get(no).copied() {
                        self.go_to_file(file);
                    }
                } else if let Some(RowPlace { hunk, part, .. }) = self.areas.row_at(column, row) {
                    self.go_to(hunk, part);
                }
            }
        }
    }

    fn turn_wheel(&mut self, column: u16, on: bool) {
        match (self.areas.is_list(column), on) {
            (true, true) => self.next_file(),
            (true, false) => self.previous_file(),
            (false, _) => self.scroll_by(WHEEL_ROWS, on),
        }
    }
}
