//! Tracks the files that a node has seen: the hash that it last read or wrote.
//!
//! # Invariants
//! Only whole files are remembered as they were when the node last read or wrote them; changes by a command
//! are not followed, so that a file that it changed is stale.

use std::collections::BTreeMap;

use domain::Hash;

use super::resolve_path::ToolPath;

/// The node's knowledge of a file that is about to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKnowledge {
    /// The node has not seen it: it must not exist.
    Unread,
    /// The node has seen it with this content.
    As(Hash),
    /// The node need not have seen it: a person wrote the call.
    Whatever,
}

/// The files of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadTracker(BTreeMap<ToolPath, Hash>);

impl ReadTracker {
    pub(super) fn of(&self, place: &ToolPath) -> FileKnowledge {
        self.0.get(place).map_or(FileKnowledge::Unread, |hash| FileKnowledge::As(*hash))
    }

    pub(super) fn learn(&mut self, seen: Vec<(ToolPath, Option<Hash>)>) {
        for (place, hash) in seen {
            match hash {
                Some(hash) => self.0.insert(place, hash),
                None => self.0.remove(&place),
            };
        }
    }
}
