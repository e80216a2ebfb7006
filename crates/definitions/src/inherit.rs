//! What a node that stands for an actor gives to the nodes of that actor.
//!
//! An actor's node does nothing itself, so what would bound a node that works bounds each of its nodes.
//!
//! # Invariants
//! A node never gets a later end than it names; what it says of retries stands.

use crate::node::Node;

/// What the nodes of an actor inherit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited {
    timeout_s: Option<u64>,
    retries: Option<u32>,
    ignore: Vec<String>,
}

impl Inherited {
    /// What this node, which stands for an actor and has inherited itself, hands on.
    pub(crate) fn from(node: &Node) -> Inherited {
        Inherited { timeout_s: node.timeout_s, retries: node.retries, ignore: node.ignore.clone() }
    }

    /// The node with what it inherits.
    pub(crate) fn put_into(&self, node: &Node) -> Node {
        let own = node.timeout_s.into_iter();
        Node {
            timeout_s: own.chain(self.timeout_s).min(),
            retries: node.retries.or(self.retries),
            ignore: node.ignore.iter().chain(&self.ignore).cloned().collect(),
            ..node.clone()
        }
    }
}
