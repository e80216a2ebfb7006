//! A change cut down to some of its hunks.
//!
//! # Invariants
//! The hunks that are left out stay as they were before; those that are taken are as the plan made them.

use std::collections::BTreeSet;

use crate::change::file_state::FileState;
use crate::change::net::NetChange;

use super::hunks::{HunkPart, apply_hunks, hunks};

/// The rest of a change of which only some hunks are taken.
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

/// Cuts `change`, whose contents are `before` and `after`, down to the hunks with the `chosen` numbers.
pub fn narrow(
    change: &NetChange,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
    chosen: &BTreeSet<u32>,
) -> NarrowedChange {
    let hunks = hunks(before, after, change);
    let taken = hunks.iter().filter(|hunk| chosen.contains(&hunk.number)).count();
    if taken == 0 {
        return NarrowedChange::Nothing;
    }
    let (Some(old_state), Some(new_state), Some(before), Some(after)) =
        (change.before, change.after, before, after)
    else {
        return NarrowedChange::Whole;
    };
    if taken == hunks.len() {
        return NarrowedChange::Whole;
    }
    let content = apply_hunks(before, after, chosen);
    let mode_hunk = hunks.iter().find(|hunk| hunk.part == HunkPart::Mode);
    let mode = match mode_hunk {
        Some(hunk) if chosen.contains(&hunk.number) => new_state.mode,
        Some(_) | None => old_state.mode,
    };
    let state = FileState::file(&content, mode);
    NarrowedChange::Part { change: NetChange { after: Some(state), ..change.clone() }, content }
}
