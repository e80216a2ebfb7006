//! The effective entries of a plan: those that lead to its result.
//!
//! Two kinds of calls revert changes. A failed or interrupted try of a node has its entries until the next
//! try reverts them: a call of its own records their inverse. Both cancel out, and neither counts among the
//! changes of a plan. If another node changed the file in between, and that stays, all three are visible. A
//! rollback by the user returns to the state after an entry: the entries that led there are effective again,
//! and all others are not.
//!
//! # Invariants
//! 1. For each path, the effective entries are a chain: each entry begins with what the one before it left. A
//!    move is in the chains of both its paths.
//! 2. A node is finished when its end is valid ([`domain::PlanGraph::resumed`]). The results of its calls do
//!    not matter: a model that ran a failing command may have done its work well.
//! 3. Folding the effective entries gives the same as folding all of them. A plan is at rest when it is
//!    rolled back, so every entry has a call before the rollback or after it.

use std::collections::{BTreeMap, BTreeSet};

use domain::{CallNumber, CallState, ChangeEntry, ChangeOp, RelPath, RootIndex, ToolCall};
use serde_json::{Value, json};

/// The tool that takes the changes of an unfinished try back, or those after a checkpoint.
pub(crate) const TAKE_BACK: &str = "take_back";
/// The tool that records the changes of the last attempt as the beginning of a revision.
pub(crate) const CARRY_OVER: &str = "carry_over";
/// The tool that keeps the work of a node which a limit stopped: the node continues from there.
pub(crate) const KEEP_WORK: &str = "keep_work";

/// Returns the arguments of a call by which the user returns to the state after an entry; 0 is the beginning.
pub(crate) fn rolling_back(to: u64) -> Value {
    json!({ "to": to })
}

/// Returns the arguments of a call that reverts.
pub(crate) fn taking_back(nodes: &BTreeSet<String>) -> Value {
    json!({ "nodes": nodes })
}

/// Returns the calls whose entries need no revert: those of earlier attempts that a revision began with, those
/// of nodes that continue, the reverted ones, and those that reverted them.
/// If both are still visible, a later change of another node remained between them.
pub(crate) fn dealt_with(calls: &[ToolCall]) -> BTreeSet<CallNumber> {
    let RevertedCalls(taken_back) = RevertedCalls::from_calls(calls);
    let carried = calls.iter().filter(|call| call.new.tool == CARRY_OVER).map(|call| call.no);
    let kept = calls.iter().filter(|call| is_kept(call, calls)).map(|call| call.no);
    let taken_back = taken_back.into_iter().flat_map(|(by, what)| what.into_iter().chain([by]));
    taken_back.chain(carried).chain(kept).collect()
}

/// Returns the effective entries of an attempt, in order.
pub(crate) fn standing(entries: Vec<ChangeEntry>, calls: &[ToolCall]) -> Vec<ChangeEntry> {
    standing_at(entries, calls, u64::MAX)
}

/// Returns the entries of an attempt that were effective after the entry `last`, in order.
pub(crate) fn standing_at(mut entries: Vec<ChangeEntry>, calls: &[ToolCall], last: u64) -> Vec<ChangeEntry> {
    let spans = spans(&entries, &rollbacks(calls), last);
    entries.retain(|entry| spans.iter().any(|(after, last)| entry.call > *after && entry.no <= *last));
    let taken_back = RevertedCalls::from_calls(calls);
    if taken_back.0.is_empty() {
        return entries;
    }
    let mut moves: BTreeMap<u64, ChangeEntry> = BTreeMap::new();
    let mut by_path: BTreeMap<(RootIndex, RelPath), Vec<ChangeEntry>> = BTreeMap::new();
    for entry in entries {
        for half in halves(&entry) {
            let chain = by_path.entry((half.root, half.path.clone())).or_default();
            match taken_back.by(half.call) {
                Some(what) => revert_unfinished(chain, half, &|entry| taken_back.is_in(entry.call, what)),
                None => chain.push(half),
            }
        }
        if matches!(entry.op, ChangeOp::Rename { .. }) {
            moves.insert(entry.no, entry);
        }
    }
    let mut standing: Vec<ChangeEntry> = by_path.into_values().flatten().collect();
    standing.sort_by_key(|entry| entry.no);
    // A move whose two ends are effective is one entry again.
    let join = |of_one: &[ChangeEntry]| match (of_one, of_one.first().and_then(|half| moves.get(&half.no))) {
        ([_, _], Some(whole)) => vec![whole.clone()],
        (halves, _) => halves.to_vec(),
    };
    standing.chunk_by(|one, next| one.no == next.no).flat_map(join).collect()
}

/// Returns the rollbacks of an attempt, each with the entry that it returned to, in order.
pub(crate) fn rollbacks(calls: &[ToolCall]) -> Vec<(CallNumber, u64)> {
    let target = |call: &ToolCall| {
        let to = call.new.requested.get("to").and_then(Value::as_u64)?;
        (call.new.tool == TAKE_BACK && call.state() == CallState::Ok).then_some((call.no, to))
    };
    calls.iter().filter_map(target).collect()
}

/// Returns the spans of entries that led to the state after the entry `last`: those of calls after the first
/// number, up to the entry with the second.
fn spans(entries: &[ChangeEntry], rollbacks: &[(CallNumber, u64)], last: u64) -> Vec<(CallNumber, u64)> {
    let call_of = |no: u64| {
        let call = entries.iter().find(|entry| entry.no == no).map(|entry| entry.call);
        call.unwrap_or(CallNumber(if no == u64::MAX { u32::MAX } else { 0 }))
    };
    let (mut spans, mut last, mut until) = (Vec::new(), last, call_of(last));
    for (rollback, to) in rollbacks.iter().rev() {
        if *rollback <= until {
            spans.push((*rollback, last));
            (last, until) = (*to, call_of(*to));
        }
    }
    spans.push((CallNumber(0), last));
    spans
}

/// Returns a move as the removal of a file and the making of another, and any other entry as it is.
fn halves(entry: &ChangeEntry) -> Vec<ChangeEntry> {
    match &entry.op {
        ChangeOp::Rename { from } => {
            let gone = ChangeEntry { path: from.clone(), op: ChangeOp::Delete, after: None, ..entry.clone() };
            vec![gone, ChangeEntry { op: ChangeOp::Create, before: None, ..entry.clone() }]
        }
        ChangeOp::Create | ChangeOp::Modify | ChangeOp::Delete | ChangeOp::Mode => vec![entry.clone()],
    }
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

/// The calls that reverted unfinished tries, and the calls that each of them reverted.
struct RevertedCalls(BTreeMap<CallNumber, BTreeSet<CallNumber>>);

impl RevertedCalls {
    fn from_calls(calls: &[ToolCall]) -> Self {
        let is_rollback = |call: &ToolCall| call.new.requested.get("to").is_some();
        let took_back =
            calls.iter().filter(|call| call.new.tool == TAKE_BACK && call.state() == CallState::Ok);
        let took_back = took_back.filter(|call| !is_rollback(call));
        Self(took_back.map(|call| (call.no, taken_by(call, calls))).collect())
    }

    fn by(&self, call: CallNumber) -> Option<&BTreeSet<CallNumber>> {
        self.0.get(&call)
    }

    fn is_in(&self, call: CallNumber, what: &BTreeSet<CallNumber>) -> bool {
        what.contains(&call)
    }
}

/// Returns true if one of these calls keeps the work of this one.
fn is_kept(call: &ToolCall, by: &[ToolCall]) -> bool {
    by.iter().any(|keeps| {
        keeps.new.tool == KEEP_WORK && keeps.no > call.no && keeps.new.is_of(call.new.attempt, &call.new.node)
    })
}

/// Returns the calls that a call reverted. A call of an older version reverted every call that had not ended
/// well.
fn taken_by(call: &ToolCall, calls: &[ToolCall]) -> BTreeSet<CallNumber> {
    let nodes = call.new.requested.get("nodes").and_then(Value::as_array);
    let before = calls.iter().take_while(|earlier| earlier.no < call.no).count();
    let is_taken = |other: &&ToolCall| match nodes {
        Some(nodes) => {
            nodes.iter().any(|node| node == other.new.node.as_str()) && !is_kept(other, &calls[..before])
        }
        None => other.new.tool != TAKE_BACK && other.state() != CallState::Ok,
    };
    calls.iter().filter(|other| other.no < call.no).filter(is_taken).map(|other| other.no).collect()
}
