//! The difference of two contents: by lines, in hunks that have addresses, and as a patch.
//!
//! # Not here
//! Numbers of hunks on a terminal, colours and JSON: the program.

pub(crate) mod hunks;
pub(crate) mod lines;
pub(crate) mod renames;
pub(crate) mod select_hunks;
pub(crate) mod unified;
pub(crate) mod words;

mod quote;

pub use hunks::{
    Hunk, HunkLine, HunkPart, LineTag, LinesChanged, apply_hunks, hunks, hunks_by_conflict,
    hunks_in_conflict, lines_changed, new_text, with_new_text,
};
pub use renames::{DetectedRename, SIMILARITY_MIN, find_renames};
pub use select_hunks::{NarrowedChange, narrow};
pub use unified::{PatchOptions, unified, unified_from, unified_with};
pub use words::{ChangedWords, changed_words};
