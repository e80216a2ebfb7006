//! Merges a plan's change with one file: the table of merges as one function.
//!
//! | now \ plan | modify | delete | create | move a→b |
//! |---|---|---|---|---|
//! | as base | write | remove | | move |
//! | changed | merge lines | `changed_deleted` | `both_created` | merge lines into b, a removed |
//! | absent | `deleted_changed` | already there | write | `deleted_changed` |
//!
//! Mode and content are merged separately, each as a value first. A change that only one side made is taken,
//! and one that both made alike is taken once. Only a content that both changed differently needs its lines.
//!
//! # Invariants
//! 1. Nothing is written over a file that is neither as the plan found it nor merged with what it is now.
//! 2. If the base is not known, nothing is merged.
//!
//! # Not here
//! [`ConflictKind::Linked`] and [`ConflictKind::Lines`]: the first depends on all changes together, the
//! second on contents.

use crate::change::Base;
use crate::change::file_state::{FileState, Hash, Kind};
use crate::change::net::{NetChange, is_usual_dir};

use super::conflict::ConflictKind;

/// A plan's change and what it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeSides {
    /// The state that the plan's change was made upon.
    pub base: Option<FileState>,
    /// The state in the user's tree now; for a move, at the path it moves from.
    pub now: Option<FileState>,
    /// The state after the plan's change.
    pub plan: Option<FileState>,
    /// Says if `base` can be trusted.
    pub trust: Base,
    /// Says if the plan moves the file, and the state at the target.
    pub place: MergePlacement,
}

/// The place of the plan's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergePlacement {
    /// At the path where the file was.
    Stays,
    /// To another path.
    Moves {
        /// The state at that path now.
        there: Option<FileState>,
    },
}

impl MergeSides {
    /// The sides of `change`. `now` is the state at the path that it was made upon. `there`, which counts for
    /// a move only, is the state at the path that it moves to.
    pub fn from_change(change: &NetChange, now: Option<FileState>, there: Option<FileState>) -> MergeSides {
        let place =
            if change.from.is_some() { MergePlacement::Moves { there } } else { MergePlacement::Stays };
        MergeSides { base: change.before, now, plan: change.after, trust: change.base, place }
    }
}

/// The merge of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileMerge {
    /// Nothing: it is as the plan wants it.
    AlreadyThere,
    /// Make it this. The hash says whose content: the plan's, or what is there when only the mode changes.
    Write(FileState),
    /// Delete it.
    Remove,
    /// Make the new path this, and delete the old one. The hash says whose content.
    Move(FileState),
    /// Merge the three contents by lines, give the result this mode, at the new path if the plan moves it.
    MergeLines {
        /// The merged permission bits.
        mode: u16,
    },
    /// Nothing can be done without losing something.
    Conflict(ConflictKind),
}

/// Decides what happens to a file, from the states alone.
///
/// ```
/// use domain::{Base, ConflictKind, FileMerge, FileState, MergePlacement, MergeSides, merge_file};
///
/// let state = |text: &str| Some(FileState::file(text.as_bytes(), 0o644));
/// let sides = MergeSides { base: state("a"), now: state("a"), plan: state("b"), trust: Base::Known, place: MergePlacement::Stays };
/// assert_eq!(merge_file(&sides), FileMerge::Write(FileState::file(b"b", 0o644)));
/// assert_eq!(merge_file(&MergeSides { now: state("c"), ..sides }), FileMerge::MergeLines { mode: 0o644 });
/// let deleted = MergeSides { now: None, ..sides };
/// assert_eq!(merge_file(&deleted), FileMerge::Conflict(ConflictKind::DeletedChanged));
/// ```
pub fn merge_file(sides: &MergeSides) -> FileMerge {
    match sides.place {
        MergePlacement::Stays => merge_in_place(sides),
        MergePlacement::Moves { there } => merge_move(sides, there),
    }
}

fn merge_in_place(sides: &MergeSides) -> FileMerge {
    let MergeSides { base, now, plan, trust, place: _ } = *sides;
    if agree(now, plan) {
        return FileMerge::AlreadyThere;
    }
    match trust {
        Base::Known => {}
        Base::Moved => return FileMerge::Conflict(ConflictKind::BaseMoved),
    }
    match (base, now, plan) {
        (None, _, None) => FileMerge::AlreadyThere,
        (None, None, Some(plan)) => FileMerge::Write(plan),
        (None, Some(now), Some(plan)) => both_created(now, plan),
        (Some(_), None, None) => FileMerge::AlreadyThere,
        (Some(_), None, Some(_)) => FileMerge::Conflict(ConflictKind::DeletedChanged),
        (Some(base), Some(now), None) if agree(Some(base), Some(now)) || both_dirs(base, now) => {
            FileMerge::Remove
        }
        (Some(_), Some(_), None) => FileMerge::Conflict(ConflictKind::ChangedDeleted),
        (Some(base), Some(now), Some(plan)) => match join(base, now, plan) {
            JoinedState::State(state) if state == now => FileMerge::AlreadyThere,
            JoinedState::State(state) => FileMerge::Write(state),
            JoinedState::Lines { mode } => FileMerge::MergeLines { mode },
            JoinedState::Conflict(kind) => FileMerge::Conflict(kind),
        },
    }
}

fn merge_move(sides: &MergeSides, there: Option<FileState>) -> FileMerge {
    let MergeSides { base, now, plan, trust, place: _ } = *sides;
    if now.is_none() && agree(there, plan) {
        return FileMerge::AlreadyThere;
    }
    match trust {
        Base::Known => {}
        Base::Moved => return FileMerge::Conflict(ConflictKind::BaseMoved),
    }
    if there.is_some() {
        return FileMerge::Conflict(ConflictKind::Occupied);
    }
    match (base, now, plan) {
        (Some(base), Some(now), Some(plan)) => match join(base, now, plan) {
            JoinedState::State(state) => FileMerge::Move(state),
            JoinedState::Lines { mode } => FileMerge::MergeLines { mode },
            JoinedState::Conflict(kind) => FileMerge::Conflict(kind),
        },
        (Some(_), None, Some(_)) => FileMerge::Conflict(ConflictKind::DeletedChanged),
        // A change without a state before or after is not moved. Nothing makes such a change; it is not
        // carried out.
        (None, _, _) | (Some(_), _, None) => FileMerge::Conflict(ConflictKind::Kind),
    }
}

/// Returns whether both are the same: `text` follows from the content, so it is not looked at.
fn agree(one: Option<FileState>, other: Option<FileState>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => content(&one) == content(&other) && one.mode == other.mode,
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn both_created(now: FileState, plan: FileState) -> FileMerge {
    // A directory that both made needs the plan's mode only if the plan gave it one of its own.
    if both_dirs(now, plan) && (now.mode == plan.mode || is_usual_dir(&plan)) {
        FileMerge::AlreadyThere
    } else if content(&now) == content(&plan) {
        FileMerge::Conflict(ConflictKind::Mode)
    } else {
        FileMerge::Conflict(ConflictKind::BothCreated)
    }
}

/// Returns whether both are directories. The mode of one that is made or removed is no work of a person: it
/// never conflicts.
fn both_dirs(one: FileState, other: FileState) -> bool {
    one.kind == Kind::Dir && other.kind == Kind::Dir
}

enum JoinedState {
    State(FileState),
    Lines { mode: u16 },
    Conflict(ConflictKind),
}

/// Both sides' changes of one file together.
fn join(base: FileState, now: FileState, plan: FileState) -> JoinedState {
    if agree(Some(base), Some(now)) || agree(Some(now), Some(plan)) {
        return JoinedState::State(plan);
    }
    if agree(Some(base), Some(plan)) {
        return JoinedState::State(now);
    }
    if base.kind != now.kind || base.kind != plan.kind {
        return JoinedState::Conflict(ConflictKind::Kind);
    }
    let Some(mode) = merge_value(base.mode, now.mode, plan.mode) else {
        return JoinedState::Conflict(ConflictKind::Mode);
    };
    match merge_value(content(&base), content(&now), content(&plan)) {
        Some(kept) if kept == content(&now) => JoinedState::State(FileState { mode, ..now }),
        Some(_) => JoinedState::State(FileState { mode, ..plan }),
        None if base.text && now.text && plan.text => JoinedState::Lines { mode },
        None => JoinedState::Conflict(ConflictKind::Binary),
    }
}

fn content(state: &FileState) -> (Kind, u64, Hash) {
    (state.kind, state.size, state.hash)
}

fn merge_value<T: PartialEq>(base: T, now: T, plan: T) -> Option<T> {
    if now == plan || base == plan {
        Some(now)
    } else if base == now {
        Some(plan)
    } else {
        None
    }
}
