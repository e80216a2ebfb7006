//! The way back: what takes a change back again.

use super::net::NetChange;
use super::{Base, ChangeDraft};
use crate::id::RootIndex;

/// The drafts that lead from the state after `change` to the one before it.
pub fn inverse(change: &NetChange) -> Vec<ChangeDraft> {
    match &change.from {
        Some(from) => {
            let gone = ChangeDraft::between(change.path.clone(), change.after, None);
            let back = ChangeDraft::between(from.clone(), None, change.before);
            gone.into_iter().chain(back).collect()
        }
        None => ChangeDraft::between(change.path.clone(), change.after, change.before).into_iter().collect(),
    }
}

/// The net change that takes `draft`, found in the project `root`, back.
pub fn undoing(root: RootIndex, draft: &ChangeDraft) -> NetChange {
    let (path, from) = match draft.op() {
        crate::ChangeOp::Rename { from } => (from.clone(), Some(draft.path().clone())),
        crate::ChangeOp::Create
        | crate::ChangeOp::Modify
        | crate::ChangeOp::Delete
        | crate::ChangeOp::Mode => (draft.path().clone(), None),
    };
    NetChange {
        root,
        path,
        from,
        before: draft.after().copied(),
        after: draft.before().copied(),
        base: Base::Known,
        calls: Vec::new(),
    }
}
