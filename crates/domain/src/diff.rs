//! The difference of two contents: by lines, in hunks that have addresses, and as a patch.
//!
//! # Not here
//! Numbers of hunks on a terminal, colours and JSON: the program.

pub(crate) mod lines;

mod hunks;
mod narrow;
mod quote;
mod unified;

pub use hunks::{
    Hunk, HunkPart, Line, LineTag, LinesChanged, apply_hunks, hunks, hunks_in_conflict, lines_changed,
};
pub use narrow::{Narrowed, narrow};
pub use unified::{unified, unified_from};
