//! The effective entries of a plan, apart from those of nodes that are not finished.
//!
//! A try of a node that failed, or was broken off, has its entries until the next try takes them back: a call
//! of its own records their inverse. Both cancel out, and neither is of interest to anybody who asks what a
//! plan changed. Where another node changed the file in between, and that stays, all three are seen.
//!
//! # Invariants
//! 1. What stands is, for each path, a chain: each entry begins with what the one before it left.
//! 2. A node is finished when its end stands ([`domain::PlanGraph::resumed`]); what its calls came to says
//!    nothing about it: a model that ran a failing command may have done its work well.

use std::collections::{BTreeMap, BTreeSet};

use domain::{CallNumber, CallState, ChangeEntry, RelPath, RootIndex, ToolCall};
use serde_json::{Value, json};

/// The tool that takes the changes of an unfinished try back.
pub(crate) const TAKE_BACK: &str = "take_back";

/// What a call that takes back was asked for.
pub(crate) fn taking_back(nodes: &BTreeSet<String>) -> Value {
    json!({ "nodes": nodes })
}

/// The calls whose entries nobody takes back any more: those that were, and those that did it. Where both are
/// still seen, a later change of another node was kept between them.
pub(crate) fn dealt_with(calls: &[ToolCall]) -> BTreeSet<CallNumber> {
    let RevertedCalls(taken_back) = RevertedCalls::from_calls(calls);
    taken_back.into_iter().flat_map(|(by, what)| what.into_iter().chain([by])).collect()
}

/// The entries of an attempt that are not taken back, in order.
pub(crate) fn standing(entries: Vec<ChangeEntry>, calls: &[ToolCall]) -> Vec<ChangeEntry> {
    let taken_back = RevertedCalls::from_calls(calls);
    if taken_back.0.is_empty() {
        return entries;
    }
    let mut by_path: BTreeMap<(RootIndex, RelPath), Vec<ChangeEntry>> = BTreeMap::new();
    for entry in entries {
        let chain = by_path.entry((entry.root, entry.path.clone())).or_default();
        match taken_back.by(entry.call) {
            Some(what) => revert_unfinished(chain, entry, &|entry| taken_back.is_in(entry.call, what)),
            None => chain.push(entry),
        }
    }
    let mut standing: Vec<ChangeEntry> = by_path.into_values().flatten().collect();
    standing.sort_by_key(|entry| entry.no);
    standing
}

/// Cancels an inverse entry with what it takes back. Where another node changed the file in between, both
/// stay.
fn revert_unfinished(
    chain: &mut Vec<ChangeEntry>,
    inverse: ChangeEntry,
    is_taken_back: &dyn Fn(&ChangeEntry) -> bool,
) {
    let rest: Vec<ChangeEntry> = chain.iter().filter(|entry| !is_taken_back(entry)).cloned().collect();
    let mut now = chain.first().map_or(inverse.before, |entry| entry.before);
    let is_chain = rest.iter().all(|entry| {
        let fits = entry.before == now;
        now = entry.after;
        fits
    });
    if is_chain && now == inverse.after {
        *chain = rest;
    } else {
        chain.push(inverse);
    }
}

/// The calls that took something back, and what: calls by their numbers.
struct RevertedCalls(BTreeMap<CallNumber, BTreeSet<CallNumber>>);

impl RevertedCalls {
    fn from_calls(calls: &[ToolCall]) -> Self {
        let took_back =
            calls.iter().filter(|call| call.new.tool == TAKE_BACK && call.state() == CallState::Ok);
        Self(took_back.map(|call| (call.no, taken_by(call, calls))).collect())
    }

    fn by(&self, call: CallNumber) -> Option<&BTreeSet<CallNumber>> {
        self.0.get(&call)
    }

    fn is_in(&self, call: CallNumber, what: &BTreeSet<CallNumber>) -> bool {
        what.contains(&call)
    }
}

/// What a call took back. One of an older version took back whatever had not ended well.
fn taken_by(call: &ToolCall, calls: &[ToolCall]) -> BTreeSet<CallNumber> {
    let nodes = call.new.requested.get("nodes").and_then(Value::as_array);
    let is_taken = |other: &&ToolCall| match nodes {
        Some(nodes) => nodes.iter().any(|node| node == other.new.node.as_str()),
        None => other.new.tool != TAKE_BACK && other.state() != CallState::Ok,
    };
    calls.iter().filter(|other| other.no < call.no).filter(is_taken).map(|other| other.no).collect()
}
