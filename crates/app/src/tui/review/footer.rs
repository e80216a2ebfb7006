//! The line of keys below a review, and the help.

use super::layout::columns;
use super::notes::draft_line;
use super::{Review, ReviewMode};

/// The keys of a person who chooses, those that one needs first first.
const KEYS: &[&str] = &[
    "enter apply",
    "q quit",
    "? help",
    "space take",
    "j/k hunk",
    "n/p file",
    "e edit",
    "c note",
    "s split",
    "v lines",
    "R send notes",
    "u undo",
    "a/r file",
    "A/N all",
    "w wrap",
    "/ filter",
    "z fold",
];

const CONFLICT_KEYS: &[&str] = &[
    "enter apply",
    "q quit",
    "? help",
    "space leave out",
    "t take the plan's",
    "! next conflict",
    "j/k hunk",
];

const LINE_KEYS: &[&str] =
    &["space take line", "v back", "j/k line", "c note", "enter apply", "u undo", "? help"];

const READ_KEYS: &[&str] = &[
    "q back",
    "? help",
    "j/k hunk",
    "n/p file",
    "page up/down scroll",
    "w wrap",
    "h/l sideways",
    "/ filter",
    "z fold",
];

pub(super) const HELP: &str = "\
enter     apply what is taken        q         quit, apply nothing
space     take or leave the hunk     u         undo the last choice
a  r      take, leave the file       A  N      take, leave all files
j  k      next, previous hunk        n  p      next, previous file
s         split the hunk             v         choose single lines
e         edit the hunk's new text
c         write a note here          R         revise with the notes
t         conflict: the plan's side  !         next conflict
w         wrap long lines            h  l      scroll sideways
z         fold the hunk              page keys scroll
/         show only files whose name has what you type; escape: all
g  G      first, last                the mouse: click, wheel

[x] taken   [-] in part   [ ] left out   ! in conflict with your file

any key goes back to the review";

pub(super) const READ_HELP: &str = "\
j  k      next, previous hunk        n  p      next, previous file
w         wrap long lines            h  l      scroll sideways
z         fold the hunk              page keys scroll
/         show only files whose name has what you type; escape: all
g  G      first, last                the mouse: click, wheel
q         back

any key goes back to the changes";

/// The line below the review.
pub(super) fn foot_line(review: &Review, width: usize) -> String {
    let keys = match &review.mode {
        ReviewMode::Typing(text) => return format!("filter: {text}_   (enter to use it, escape to drop it)"),
        // A message about the note is shown until the next key, which continues it.
        ReviewMode::Note(draft) if review.message.is_empty() => return draft_line(draft, width),
        _ if !review.message.is_empty() => return review.message.clone(),
        ReviewMode::Lines => LINE_KEYS,
        ReviewMode::Note(draft) => return draft_line(draft, width),
        ReviewMode::Help => return "any key goes back".to_owned(),
        ReviewMode::Browse if review.is_read_only => READ_KEYS,
        ReviewMode::Browse => {
            let is_open = review.hunk_here().is_some_and(|(file, hunk)| file.is_hunk_open(hunk.number));
            if is_open { CONFLICT_KEYS } else { KEYS }
        }
    };
    fitting(keys, width)
}

/// As many keys as fit, from the first on.
fn fitting(keys: &[&str], width: usize) -> String {
    let mut line = String::new();
    for key in keys {
        let gap = if line.is_empty() { "" } else { "  " };
        if columns(&line) + gap.len() + columns(key) > width {
            break;
        }
        line.push_str(gap);
        line.push_str(key);
    }
    line
}
