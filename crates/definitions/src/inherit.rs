//! The settings that the nodes of an actor inherit from the node that represents it.
//!
//! An actor's node does nothing itself, so its limits apply to each node of the actor.
//!
//! # Invariants
//! A node's own time limit is never extended, and its own retries remain.

use crate::node::NodeDef;

/// The settings that the nodes of an actor inherit.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeDefaults {
    timeout_s: Option<u64>,
    retries: Option<u32>,
    ignore: Vec<String>,
}

impl NodeDefaults {
    /// The settings that this node, which represents an actor and has inherited itself, hands on.
    pub(crate) fn from(node: &NodeDef) -> NodeDefaults {
        NodeDefaults { timeout_s: node.timeout_s, retries: node.retries, ignore: node.ignore.clone() }
    }

    /// The node with what it inherits.
    pub(crate) fn put_into(&self, node: &NodeDef) -> NodeDef {
        let own = node.timeout_s.into_iter();
        NodeDef {
            timeout_s: own.chain(self.timeout_s).min(),
            retries: node.retries.or(self.retries),
            ignore: node.ignore.iter().chain(&self.ignore).cloned().collect(),
            ..node.clone()
        }
    }
}
