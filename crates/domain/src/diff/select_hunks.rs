//! A change cut down to some of its hunks and lines.
//!
//! # Invariants
//! The parts that are left out stay as they were before. The parts that are taken are as the plan made them.

use crate::change::file_state::FileState;
use crate::change::net::NetChange;
use crate::change::selection::{ChangeChoice, TakenShare};

use super::hunks::{HunkPart, apply_hunks, hunks, in_lines};

/// The rest of a change of which only some hunks or lines are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NarrowedChange {
    /// None was taken.
    Nothing,
    /// All were taken, or it is one that cannot be parted: the change as it is.
    Whole,
    /// Some were: the change with another result, and that result's content.
    Part {
        /// The change; its state after is that of `content`.
        change: NetChange,
        /// The new content of the file.
        content: Vec<u8>,
    },
}

/// Cuts `change`, whose contents are `before` and `after`, down to what is taken of it.
pub fn narrow(
    change: &NetChange,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
    choice: &ChangeChoice,
) -> NarrowedChange {
    match choice.share() {
        TakenShare::None => return NarrowedChange::Nothing,
        TakenShare::All => return NarrowedChange::Whole,
        TakenShare::Some => {}
    }
    let (content, mode) = match (change.before, change.after, before, after) {
        (Some(old_state), Some(new_state), Some(before), Some(after)) => {
            let hunks = hunks(Some(before), Some(after), change);
            let mode_hunk = hunks.iter().find(|hunk| hunk.part == HunkPart::Mode);
            let mode = match mode_hunk {
                Some(hunk) if choice.hunk(hunk.number) == TakenShare::All => new_state.mode,
                Some(_) | None => old_state.mode,
            };
            (apply_hunks(before, after, choice), mode)
        }
        (None, Some(new_state), _, Some(after)) if in_lines(&new_state) => {
            (apply_hunks(&[], after, choice), new_state.mode)
        }
        (_, _, _, _) => return NarrowedChange::Whole,
    };
    let state = FileState::file(&content, mode);
    NarrowedChange::Part { change: NetChange { after: Some(state), ..change.clone() }, content }
}
