//! Which of a plan's entries stand, and which belong to a try that is not finished.
//!
//! A try of a step that failed, or was broken off, has its entries until the next try takes them back: a call of its own
//! records the inverse of them all. Both cancel out, and neither is of interest to anybody who asks what a plan changed.
//!
//! # Invariants
//! Steps come one after the other: what is not finished is the last thing that was recorded.

use domain::{CallState, ChangeEntry, ToolCall};

/// The tool that takes the changes of an unfinished try back.
pub(super) const TAKE_BACK: &str = "take_back";

/// The entries of an attempt that stand.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Of steps that ended well.
    pub(super) finished: Vec<ChangeEntry>,
    /// Of the try that is not finished.
    pub(super) unfinished: Vec<ChangeEntry>,
}

impl Standing {
    /// Of all entries of an attempt, by its calls.
    pub(super) fn of(entries: Vec<ChangeEntry>, calls: &[ToolCall]) -> Standing {
        let is_take_back = |call: &&ToolCall| call.new.tool == TAKE_BACK && call.end.is_some();
        let taken_back = calls.iter().filter(is_take_back).map(|call| call.no).max();
        let ended_well = |call: &&ToolCall| call.new.tool != TAKE_BACK && call.state() == CallState::Ok;
        let good: std::collections::BTreeSet<_> =
            calls.iter().filter(ended_well).map(|call| call.no).collect();
        let mut standing = Standing::default();
        for entry in entries {
            if good.contains(&entry.call) {
                standing.finished.push(entry);
            } else if taken_back.is_none_or(|taken_back| entry.call > taken_back) {
                standing.unfinished.push(entry);
            }
        }
        standing
    }

    /// All of them, in order.
    pub(super) fn all(self) -> Vec<ChangeEntry> {
        let Standing { mut finished, unfinished } = self;
        finished.extend(unfinished);
        finished
    }
}
