//! One op of a journal: a single change of a single path, and how it is made.
//!
//! # Invariants
//! 1. An op changes one thing: content, mode, or whether something is there. So each can be looked at on its own and
//!    found done, not done, half done, or overtaken by somebody else.
//! 2. `parked` is a name that nobody else uses: it carries the journal's id. What an op stages or moves aside lies
//!    there, until the final mark is on disk.

use domain::{FileState, RelPath, RootNo};

use super::change::{Attributes, Place};
use super::frame::Span;
use crate::git::refs::RefMove;

/// How an op is made, from what to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// New content for a file that is there, its mode left alone. `apart`: a new file takes its place, so that other names
    /// of the old one keep what they have.
    Write { pre: Saved, post: Saved, apart: bool },
    /// A file where nothing is.
    Create { post: Saved },
    /// A file or link is moved aside, and unlinked in the end.
    Remove { pre: Saved },
    /// A directory where nothing is.
    MakeDir { post: Saved },
    /// An empty directory goes.
    RemoveDir { pre: Saved },
    /// A symbolic link where nothing is, or another target for one that is there.
    Link { pre: Option<Saved>, post: Saved },
    /// Other permission bits, the content left alone.
    Mode { pre: Saved, post: Saved },
    /// A git ref, and what goes with it in the index.
    Ref(RefMove),
}

impl How {
    /// What was there.
    pub(super) fn pre(&self) -> Option<&Saved> {
        match self {
            How::Write { pre, .. } | How::Remove { pre } | How::RemoveDir { pre } | How::Mode { pre, .. } => {
                Some(pre)
            }
            How::Link { pre, .. } => pre.as_ref(),
            How::Create { .. } | How::MakeDir { .. } | How::Ref(_) => None,
        }
    }

    /// What shall be there.
    pub(super) fn post(&self) -> Option<&Saved> {
        match self {
            How::Write { post, .. }
            | How::Create { post }
            | How::MakeDir { post }
            | How::Link { post, .. }
            | How::Mode { post, .. } => Some(post),
            How::Remove { .. } | How::RemoveDir { .. } | How::Ref(_) => None,
        }
    }
}

/// Where the journal has the bytes of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteSource {
    /// In its own frames.
    Inline(Span),
    /// In a file that is linked under the state's hash, see [`super::content_links`].
    Linked,
}

/// A state with the place of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    /// What it is.
    pub(super) state: FileState,
    /// Its bytes; none when the op does not need them.
    pub(super) bytes: Option<ByteSource>,
    /// Owner and attributes, where they are to be restored.
    pub(super) attributes: Option<Attributes>,
}

/// One op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Op {
    /// Its place in the order.
    pub(super) n: u32,
    /// The project.
    pub(super) root: RootNo,
    /// The path; of a ref, its name.
    pub(super) path: RelPath,
    /// Where it was moved from, for those who read.
    pub(super) from: Option<RelPath>,
    /// How it is made.
    pub(super) how: How,
    /// Where things are staged and moved aside.
    pub(super) parked: RelPath,
    /// Whether a later op makes something at this very path, or below which this one clears the way.
    pub(super) in_the_way: bool,
    /// The op that clears the way for this one.
    pub(super) cleared_by: Option<u32>,
}

impl Op {
    /// Where it happens.
    pub(super) fn place(&self) -> Place {
        Place { root: self.root, path: self.path.clone() }
    }
}
