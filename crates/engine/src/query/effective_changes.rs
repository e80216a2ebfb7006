//! The effective entries of a plan, apart from those of nodes that are not finished.
//!
//! A failed or interrupted try of a node has its entries until the next try reverts them: a call of its own
//! records their inverse. Both cancel out, and neither counts among the changes of a plan. If another node
//! changed the file in between, and that stays, all three are visible.
//!
//! # Invariants
//! 1. For each path, the effective entries are a chain: each entry begins with what the one before it left.
//! 2. A node is finished when its end is valid ([`domain::PlanGraph::resumed`]). The results of its calls do
//!    not matter: a model that ran a failing command may have done its work well.

use std::collections::{BTreeMap, BTreeSet};

use domain::{CallNumber, CallState, ChangeEntry, RelPath, RootIndex, ToolCall};
use serde_json::{Value, json};

/// The tool that takes the changes of an unfinished try back, or of calls that a person names.
pub(crate) const TAKE_BACK: &str = "take_back";
/// The tool that records the changes of the last attempt as the beginning of a revision.
pub(crate) const CARRY_OVER: &str = "carry_over";

/// Returns the arguments of a call by which a person reverts calls.
pub(crate) fn rolling_back(calls: &BTreeSet<CallNumber>) -> Value {
    let calls: Vec<u32> = calls.iter().map(|call| call.0).collect();
    json!({ "calls": calls })
}

/// Returns the arguments of a call that reverts.
pub(crate) fn taking_back(nodes: &BTreeSet<String>) -> Value {
    json!({ "nodes": nodes })
}

/// Returns the calls whose entries need no revert: those of earlier attempts that a revision began with, the
/// reverted ones, and those that reverted them.
/// If both are still visible, a later change of another node remained between them.
pub(crate) fn dealt_with(calls: &[ToolCall]) -> BTreeSet<CallNumber> {
    let RevertedCalls(taken_back) = RevertedCalls::from_calls(calls);
    let carried = calls.iter().filter(|call| call.new.tool == CARRY_OVER).map(|call| call.no);
    taken_back.into_iter().flat_map(|(by, what)| what.into_iter().chain([by])).chain(carried).collect()
}

/// Returns the entries of an attempt that are not reverted, in order.
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

/// Cancels an inverse entry with the entry that it rolls back. If another node changed the file in between,
/// both stay.
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

/// Returns the calls that a call reverted. A call of an older version reverted every call that had not ended
/// well.
fn taken_by(call: &ToolCall, calls: &[ToolCall]) -> BTreeSet<CallNumber> {
    let listed = |name: &str| call.new.requested.get(name).and_then(Value::as_array);
    let (nodes, named) = (listed("nodes"), listed("calls"));
    let is_taken = |other: &&ToolCall| match (nodes, named) {
        (_, Some(named)) => named.iter().any(|no| no.as_u64() == Some(u64::from(other.no.0))),
        (Some(nodes), None) => nodes.iter().any(|node| node == other.new.node.as_str()),
        (None, None) => other.new.tool != TAKE_BACK && other.state() != CallState::Ok,
    };
    calls.iter().filter(|other| other.no < call.no).filter(is_taken).map(|other| other.no).collect()
}
