//! Reviewing a plan's changes by hand: which files and hunks are taken, and which are left.
//!
//! [`Review`] is a value that keys change; `draw` paints it, `screen` brings it to the terminal.
//!
//! # Invariants
//! 1. Everything is taken at first; what is left out is what the person left out.
//! 2. A filter hides files and changes no choice. The cursor is always on a file that is shown, if there is
//!    one.
//! 3. Nothing is applied but by the enter key, and only while something is taken. Who only reads takes
//!    nothing.
//!
//! # Not here
//! Applying: the answer is the list of addresses that are left out, which `apply` takes as `--reject`.

mod draw;
mod screen;

pub use draw::draw;
pub use screen::{go_through, on_screen};

use domain::LineTag;

pub use super::screen::KeyPress;

/// A file that the plan changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewFile {
    /// Its address, as `--reject` takes it.
    pub address: String,
    /// The address as it is shown: without secrets.
    pub name: String,
    /// The kind of the change, in a letter: A, M, D, R.
    pub letter: char,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Its parts.
    pub hunks: Vec<ReviewHunk>,
}

/// A part of a file's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewHunk {
    /// Its address, as `--reject` takes it.
    pub address: String,
    /// The title, in a few words.
    pub title: String,
    /// Its lines, without line ends.
    pub lines: Vec<(LineTag, String)>,
    /// True if it is taken.
    pub taken: bool,
}

/// The selected part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSelection {
    /// All of it.
    All,
    /// Some hunks.
    Some,
    /// Nothing.
    None,
}

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewStep {
    /// The review continues.
    Stay,
    /// The selected changes are to be applied.
    Apply,
    /// Nothing is to be applied.
    Quit,
    /// The same, and whatever else was to come is not to.
    Interrupt,
}

/// The end of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewEnding {
    /// The selected changes are to be applied: all but these addresses.
    Apply(Vec<String>),
    /// The person quit.
    Quit,
    /// The person or the system broke it off.
    Interrupted,
}

/// The present meaning of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewMode {
    /// Moving about.
    Browse,
    /// Typing a filter; the previous one applies until enter.
    Typing(String),
    /// Reading the help.
    Help,
}

/// A review in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    title: String,
    files: Vec<ReviewFile>,
    filter: String,
    /// Into `files`.
    file: usize,
    /// Into the file's hunks.
    hunk: usize,
    /// Lines of the right side that are scrolled away.
    scroll: usize,
    mode: ReviewMode,
    message: String,
    is_read_only: bool,
}

/// The number of lines a page key moves.
const PAGE_LINES: usize = 15;

impl Review {
    /// A review of these files, all taken.
    pub fn new(title: String, files: Vec<ReviewFile>) -> Review {
        let (filter, message) = (String::new(), String::new());
        let (mode, is_read_only) = (ReviewMode::Browse, false);
        Review { title, files, filter, file: 0, hunk: 0, scroll: 0, mode, message, is_read_only }
    }

    /// The same for who only looks at them.
    pub fn to_read(title: String, files: Vec<ReviewFile>) -> Review {
        Review { is_read_only: true, ..Review::new(title, files) }
    }

    /// Handles a key.
    pub fn press(&mut self, press: KeyPress) -> ReviewStep {
        self.message.clear();
        if press == KeyPress::Interrupt {
            return ReviewStep::Interrupt;
        }
        match std::mem::replace(&mut self.mode, ReviewMode::Browse) {
            ReviewMode::Help => ReviewStep::Stay,
            ReviewMode::Typing(text) => {
                self.type_filter(text, press);
                ReviewStep::Stay
            }
            ReviewMode::Browse => self.browse(press),
        }
    }

    fn type_filter(&mut self, mut text: String, press: KeyPress) {
        match press {
            KeyPress::Enter => {
                self.filter = text;
                self.settle();
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

    fn browse(&mut self, press: KeyPress) -> ReviewStep {
        match press {
            KeyPress::Char('j') | KeyPress::Down => self.move_hunk(Direction::On),
            KeyPress::Char('k') | KeyPress::Up => self.move_hunk(Direction::Back),
            KeyPress::Char('n') => self.move_file(Direction::On),
            KeyPress::Char('p') => self.move_file(Direction::Back),
            KeyPress::PageDown => self.scroll = self.scroll.saturating_add(PAGE_LINES),
            KeyPress::PageUp => self.scroll = self.scroll.saturating_sub(PAGE_LINES),
            KeyPress::Char('q') => return ReviewStep::Quit,
            KeyPress::Escape if self.is_read_only && self.filter.is_empty() => return ReviewStep::Quit,
            KeyPress::Char(' ' | 'a' | 'r') | KeyPress::Enter if self.is_read_only => {}
            KeyPress::Char(' ') => self.toggle_hunk(),
            KeyPress::Char('a') => self.set_file(true),
            KeyPress::Char('r') => self.set_file(false),
            KeyPress::Char('/') => self.mode = ReviewMode::Typing(String::new()),
            KeyPress::Char('?') => self.mode = ReviewMode::Help,
            KeyPress::Escape if !self.filter.is_empty() => {
                self.filter.clear();
                self.settle();
            }
            KeyPress::Enter if self.taken_files() == 0 => {
                self.message = "nothing is taken: take something, or quit with q".to_owned();
            }
            KeyPress::Enter => return ReviewStep::Apply,
            KeyPress::Escape | KeyPress::Char(_) | KeyPress::Backspace | KeyPress::Interrupt => {}
        }
        ReviewStep::Stay
    }

    fn move_hunk(&mut self, way: Direction) {
        let hunks = self.files.get(self.file).map_or(0, |file| file.hunks.len());
        match way {
            Direction::On if self.hunk + 1 < hunks => {
                self.hunk += 1;
                self.follow();
            }
            Direction::On => self.move_file(Direction::On),
            Direction::Back if self.hunk > 0 => {
                self.hunk -= 1;
                self.follow();
            }
            Direction::Back => {
                let before = self.file;
                self.move_file(Direction::Back);
                if self.file != before {
                    self.hunk = self.files[self.file].hunks.len().saturating_sub(1);
                    self.follow();
                }
            }
        }
    }

    fn move_file(&mut self, way: Direction) {
        let shown = self.shown();
        let place = shown.iter().position(|index| *index == self.file);
        let next = match (way, place) {
            (Direction::On, Some(place)) => shown.get(place + 1),
            (Direction::Back, Some(place)) => place.checked_sub(1).and_then(|place| shown.get(place)),
            (Direction::On | Direction::Back, None) => shown.first(),
        };
        if let Some(next) = next {
            (self.file, self.hunk, self.scroll) = (*next, 0, 0);
        }
    }

    /// Scrolls to the head of the present hunk.
    fn follow(&mut self) {
        let Some(file) = self.files.get(self.file) else { return };
        self.scroll = file.hunks.iter().take(self.hunk).map(|hunk| hunk.lines.len() + 2).sum();
    }

    /// Puts the cursor on a file that is shown.
    fn settle(&mut self) {
        let shown = self.shown();
        if !shown.contains(&self.file)
            && let Some(first) = shown.first()
        {
            (self.file, self.hunk, self.scroll) = (*first, 0, 0);
        }
    }

    fn toggle_hunk(&mut self) {
        if let Some(hunk) = self.shown_file_mut().and_then(|(file, at)| file.hunks.get_mut(at)) {
            hunk.taken = !hunk.taken;
        }
    }

    fn set_file(&mut self, taken: bool) {
        if let Some((file, _)) = self.shown_file_mut() {
            file.hunks.iter_mut().for_each(|hunk| hunk.taken = taken);
        }
    }

    /// The file under the cursor; none when the filter hides all.
    fn shown_file_mut(&mut self) -> Option<(&mut ReviewFile, usize)> {
        let (file, hunk) = (self.file, self.hunk);
        if !self.shown().contains(&file) {
            return None;
        }
        self.files.get_mut(file).map(|found| (found, hunk))
    }

    /// The files that the filter lets through, in order.
    pub fn shown(&self) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let fits = |file: &ReviewFile| file.name.to_lowercase().contains(&wanted);
        (0..self.files.len()).filter(|index| self.files.get(*index).is_some_and(fits)).collect()
    }

    /// Returns the number of files that have something that is taken.
    pub fn taken_files(&self) -> usize {
        self.files.iter().filter(|file| file.taken() != FileSelection::None).count()
    }

    /// The addresses of what is left out: whole files where all of it is.
    pub fn left_out(&self) -> Vec<String> {
        let mut left = Vec::new();
        for file in &self.files {
            match file.taken() {
                FileSelection::All => {}
                FileSelection::None => left.push(file.address.clone()),
                FileSelection::Some => {
                    let hunks = file.hunks.iter().filter(|hunk| !hunk.taken);
                    left.extend(hunks.map(|hunk| hunk.address.clone()));
                }
            }
        }
        left
    }
}

#[derive(Clone, Copy)]
enum Direction {
    On,
    Back,
}

impl ReviewFile {
    /// Returns the selected share of the file. A change without hunks counts as selected: there is nothing to
    /// leave.
    pub fn taken(&self) -> FileSelection {
        let taken = self.hunks.iter().filter(|hunk| hunk.taken).count();
        match taken {
            all if all == self.hunks.len() => FileSelection::All,
            0 => FileSelection::None,
            _ => FileSelection::Some,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn file(address: &str, hunks: usize) -> ReviewFile {
        let hunk = |number: usize| ReviewHunk {
            address: format!("{address}#{number}"),
            title: format!("lines {number}0"),
            lines: vec![
                (LineTag::Context, "same".to_owned()),
                (LineTag::Removed, format!("old {number}")),
                (LineTag::Added, format!("new {number}")),
            ],
            taken: true,
        };
        let address = address.to_owned();
        let hunks: Vec<_> = (1..=hunks).map(hunk).collect();
        ReviewFile { name: address.clone(), address, letter: 'M', insertions: 1, deletions: 1, hunks }
    }

    pub(super) fn review() -> Review {
        Review::new("plan 01JB".to_owned(), vec![file("src/a.rs", 2), file("src/b.rs", 1), file("doc.md", 3)])
    }

    fn type_in(review: &mut Review, keys: &str) -> ReviewStep {
        keys.chars().fold(ReviewStep::Stay, |_, key| match key {
            '\n' => review.press(KeyPress::Enter),
            other => review.press(KeyPress::Char(other)),
        })
    }

    #[test]
    fn everything_is_taken_at_first() {
        let mut review = review();
        assert_eq!(review.left_out(), Vec::<String>::new());
        assert_eq!(type_in(&mut review, "\n"), ReviewStep::Apply);
    }

    #[test]
    fn a_hunk_or_a_file_is_left_out() {
        let mut review = review();
        type_in(&mut review, "j ");
        assert_eq!(review.left_out(), ["src/a.rs#2"]);
        type_in(&mut review, "nr");
        assert_eq!(review.left_out(), ["src/a.rs#2", "src/b.rs"]);
        type_in(&mut review, "pa");
        assert_eq!(review.left_out(), ["src/b.rs"]);
        assert_eq!(review.taken_files(), 2);
    }

    #[test]
    fn hunks_that_are_all_left_out_are_the_file() {
        let mut review = review();
        type_in(&mut review, " j ");
        assert_eq!(review.left_out(), ["src/a.rs"]);
        assert_eq!(review.files[0].taken(), FileSelection::None);
    }

    #[test]
    fn the_cursor_goes_from_hunk_to_hunk_over_files_and_stops_at_both_ends() {
        let mut review = review();
        let mut seen = vec![(review.file, review.hunk)];
        for _ in 0..7 {
            review.press(KeyPress::Down);
            seen.push((review.file, review.hunk));
        }
        assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 2), (2, 2)]);
        for _ in 0..7 {
            review.press(KeyPress::Up);
        }
        assert_eq!((review.file, review.hunk, review.scroll), (0, 0, 0));
    }

    #[test]
    fn going_back_into_a_file_ends_at_its_last_hunk() {
        let mut review = review();
        type_in(&mut review, "nk");
        assert_eq!((review.file, review.hunk, review.scroll), (0, 1, 5));
    }

    #[test]
    fn a_filter_hides_files_and_changes_no_choice() {
        let mut review = review();
        type_in(&mut review, "r/DOC\n");
        assert_eq!((review.shown(), review.file), (vec![2], 2));
        type_in(&mut review, "nn ");
        assert_eq!(review.left_out(), ["src/a.rs", "doc.md#1"]);
        review.press(KeyPress::Escape);
        assert_eq!(review.shown(), [0, 1, 2]);
        type_in(&mut review, "/zzz\n ar");
        assert_eq!(review.shown(), Vec::<usize>::new());
        assert_eq!(review.left_out(), ["src/a.rs", "doc.md#1"]);
    }

    #[test]
    fn while_a_filter_is_typed_letters_are_letters() {
        let mut review = review();
        type_in(&mut review, "/qr a");
        assert_eq!(review.mode, ReviewMode::Typing("qr a".to_owned()));
        review.press(KeyPress::Backspace);
        review.press(KeyPress::Escape);
        assert_eq!(
            (review.mode.clone(), review.left_out().len(), review.shown().len()),
            (ReviewMode::Browse, 0, 3)
        );
    }

    #[test]
    fn nothing_is_applied_while_nothing_is_taken() {
        let mut review = Review::new(String::new(), vec![file("a", 1)]);
        assert_eq!(type_in(&mut review, "r\n"), ReviewStep::Stay);
        assert!(review.message.contains("nothing is taken"));
        assert_eq!(type_in(&mut review, "a\n"), ReviewStep::Apply);
    }

    #[test]
    fn who_only_reads_takes_nothing_and_leaves_nothing_out() {
        let mut review = Review::to_read("plan 01JB".to_owned(), vec![file("a", 2), file("b", 1)]);
        let before = review.clone();
        for key in [KeyPress::Char(' '), KeyPress::Char('a'), KeyPress::Char('r'), KeyPress::Enter] {
            assert_eq!(review.press(key), ReviewStep::Stay);
        }
        assert_eq!(review, before);
        type_in(&mut review, "/b");
        review.press(KeyPress::Enter);
        assert_eq!((review.shown(), review.press(KeyPress::Escape)), (vec![1], ReviewStep::Stay));
        assert_eq!(review.press(KeyPress::Escape), ReviewStep::Quit);
    }

    #[test]
    fn quitting_applies_nothing() {
        assert_eq!(type_in(&mut review(), "q"), ReviewStep::Quit);
        let mut typing = review();
        type_in(&mut typing, "/x");
        assert_eq!(typing.press(KeyPress::Interrupt), ReviewStep::Interrupt);
    }

    #[test]
    fn help_takes_the_next_key_for_itself() {
        let mut review = review();
        type_in(&mut review, "?");
        assert_eq!(review.mode, ReviewMode::Help);
        assert_eq!(type_in(&mut review, "q"), ReviewStep::Stay);
        assert_eq!(review.mode, ReviewMode::Browse);
    }

    #[test]
    fn a_review_of_nothing_takes_every_key() {
        let mut empty = Review::new(String::new(), Vec::new());
        for key in "jknp ar/?x".chars() {
            empty.press(KeyPress::Char(key));
        }
        for press in [
            KeyPress::Up,
            KeyPress::Down,
            KeyPress::PageUp,
            KeyPress::PageDown,
            KeyPress::Enter,
            KeyPress::Escape,
        ] {
            empty.press(press);
        }
        assert_eq!(empty.left_out(), Vec::<String>::new());
    }
}
