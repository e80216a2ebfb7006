//! One op of a journal: a single change of a single path, and how it is made.
//!
//! # Invariants
//! 1. An op changes one thing: content, mode, or whether something is there. So each can be looked at on its
//!    own and found done, not done, half done, or overtaken by another edit.
//! 2. `parked` is a name that nothing else uses: it carries the journal's id. Content that an op stages or
//!    moves aside is there, until the final mark is on disk.

use domain::{FileState, RelPath, RootIndex};

use super::frame::FrameSpan;
use super::request::{Attributes, JournalPath};
use crate::git::refs::RefMove;

/// The action of an op, with the state before and the state after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OpAction {
    /// New content for a file that is there, its mode left alone. `apart`: a new file takes its place, so
    /// that other names of the old one keep what they have.
    Write { pre: SavedState, post: SavedState, apart: bool },
    /// A file where nothing is.
    Create { post: SavedState },
    /// A file or link is moved aside, and unlinked in the end.
    Remove { pre: SavedState },
    /// A directory where nothing is.
    MakeDir { post: SavedState },
    /// An empty directory goes.
    RemoveDir { pre: SavedState },
    /// A symbolic link where nothing is, or another target for one that is there.
    Link { pre: Option<SavedState>, post: SavedState },
    /// Other permission bits, the content left alone.
    Mode { pre: SavedState, post: SavedState },
    /// A git ref, and what goes with it in the index.
    Ref(RefMove),
}

impl OpAction {
    /// Returns the state before the op.
    pub(super) fn pre(&self) -> Option<&SavedState> {
        match self {
            OpAction::Write { pre, .. }
            | OpAction::Remove { pre }
            | OpAction::RemoveDir { pre }
            | OpAction::Mode { pre, .. } => Some(pre),
            OpAction::Link { pre, .. } => pre.as_ref(),
            OpAction::Create { .. } | OpAction::MakeDir { .. } | OpAction::Ref(_) => None,
        }
    }

    /// Returns the state after the op.
    pub(super) fn post(&self) -> Option<&SavedState> {
        match self {
            OpAction::Write { post, .. }
            | OpAction::Create { post }
            | OpAction::MakeDir { post }
            | OpAction::Link { post, .. }
            | OpAction::Mode { post, .. } => Some(post),
            OpAction::Remove { .. } | OpAction::RemoveDir { .. } | OpAction::Ref(_) => None,
        }
    }
}

/// The place in the journal of the bytes of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteSource {
    /// In its own frames.
    Inline(FrameSpan),
    /// In a file that is linked under the state's hash, see [`super::content_links`].
    Linked,
}

/// A state with the place of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedState {
    /// The state of the file.
    pub(super) state: FileState,
    /// Its bytes; none when the op does not need them.
    pub(super) bytes: Option<ByteSource>,
    /// Owner and attributes, where they are to be restored.
    pub(super) attributes: Option<Attributes>,
}

/// One op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JournalOp {
    /// Its place in the order.
    pub(super) n: u32,
    /// The project.
    pub(super) root: RootIndex,
    /// The path; of a ref, its name.
    pub(super) path: RelPath,
    /// The path that it was moved from, for readers of the journal.
    pub(super) from: Option<RelPath>,
    /// The action.
    pub(super) how: OpAction,
    /// The path at which content is staged and moved aside.
    pub(super) parked: RelPath,
    /// True if a later op makes something at this very path, or below which this one clears the way.
    pub(super) in_the_way: bool,
    /// The op that clears the way for this one.
    pub(super) cleared_by: Option<u32>,
}

impl JournalOp {
    /// Returns the root and path of the op.
    pub(super) fn place(&self) -> JournalPath {
        JournalPath { root: self.root, path: self.path.clone() }
    }
}
