//! The way back: what takes a change back again.

use super::net::NetChange;
use super::{Base, Draft};
use crate::id::RootNo;

/// The drafts that lead from the state after `change` to the one before it.
pub fn inverse(change: &NetChange) -> Vec<Draft> {
    match &change.from {
        Some(from) => {
            let gone = Draft::between(change.path.clone(), change.after, None);
            let back = Draft::between(from.clone(), None, change.before);
            gone.into_iter().chain(back).collect()
        }
        None => Draft::between(change.path.clone(), change.after, change.before).into_iter().collect(),
    }
}

/// The net change that takes `draft`, found in the project `root`, back.
pub fn undoing(root: RootNo, draft: &Draft) -> NetChange {
    let (path, from) = match draft.op() {
        crate::Op::Rename { from } => (from.clone(), Some(draft.path().clone())),
        crate::Op::Create | crate::Op::Modify | crate::Op::Delete | crate::Op::Mode => {
            (draft.path().clone(), None)
        }
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
