//! A node's run: the end of one node of an actor's graph, and its output for the nodes that need it.
//!
//! # Invariants
//! 1. Of one plan there is at most one run for an attempt, a phase and a path. It is written when the node
//!    has settled, in the step that ends its last call.
//! 2. A run that succeeded or was skipped stays as it is. A plan that is resumed does the others again, and
//!    their new run takes the place of the old one.
//! 3. `text` has at most [`NODE_TEXT_BYTES_MAX`] bytes: its head and its tail.
//!
//! # Not here
//! The moment at which a node may begin ([`crate::plan::graph`]), and the bounding of its text.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::phase::Phase;
use crate::time::WallMs;

/// The limit of the stored text of a node.
pub const NODE_TEXT_BYTES_MAX: usize = 64 * 1024;

/// A wait of a node that runs: nothing is done, and nothing counts as a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWait {
    /// The node.
    pub path: String,
    /// The reason, redacted.
    pub why: String,
    /// The length of the wait; `None` if it is unknown.
    pub time: Option<Duration>,
}

/// The outcome of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeOutcome {
    /// It did what it was asked.
    Succeeded,
    /// It did not, after its last try.
    Failed,
    /// It was not its turn: its condition did not hold, or what it waits for did not happen.
    Skipped,
    /// It was stopped, or never begun, because another one failed or the plan was cancelled.
    Cancelled,
}

impl NodeOutcome {
    /// All of them.
    pub const ALL: [NodeOutcome; 4] =
        [NodeOutcome::Succeeded, NodeOutcome::Failed, NodeOutcome::Skipped, NodeOutcome::Cancelled];

    /// Its name, as stored, shown and compared in conditions.
    pub const fn as_str(self) -> &'static str {
        match self {
            NodeOutcome::Succeeded => "succeeded",
            NodeOutcome::Failed => "failed",
            NodeOutcome::Skipped => "skipped",
            NodeOutcome::Cancelled => "cancelled",
        }
    }

    /// The outcome with this name.
    pub fn parse(word: &str) -> Option<NodeOutcome> {
        NodeOutcome::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

/// The usage of model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens that were read.
    pub tokens_in: u64,
    /// Tokens that were written.
    pub tokens_out: u64,
    /// Millionths of a dollar.
    pub cost_micros: u64,
}

impl TokenUsage {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            tokens_in: self.tokens_in.saturating_add(other.tokens_in),
            tokens_out: self.tokens_out.saturating_add(other.tokens_out),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }

    /// All tokens, read and written.
    pub fn tokens(self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }
}

/// One node, settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRun {
    /// The plan's attempt.
    pub attempt: u32,
    /// The phase that its actor does.
    pub phase: Phase,
    /// Its name in the plan: `ID`, `ID/CHILD` in a nested actor, `ID.fix1` if it repaired the findings of a
    /// check.
    pub path: String,
    /// The number of tries that began; 0 if none did.
    pub tries: u32,
    /// The outcome.
    pub outcome: NodeOutcome,
    /// The exit status of its command; `None` if it ran none.
    #[serde(default)]
    pub exit: Option<i32>,
    /// Its text.
    #[serde(default)]
    pub text: String,
    /// Its output for programs; null if it has none.
    #[serde(default)]
    pub json: Value,
    /// The number of files that it changed.
    #[serde(default)]
    pub changed: u32,
    /// The tokens that its model calls used.
    #[serde(default)]
    pub usage: TokenUsage,
    /// The number of the last guidance that it received; 0 if it received none.
    #[serde(default)]
    pub guidance_seen: u32,
    /// The time when it first began, or was settled without a beginning.
    pub started: WallMs,
    /// The time when it was settled.
    pub finished: WallMs,
}

impl NodeRun {
    /// Returns whether both are of one node in one attempt and phase, so that the later one takes the place
    /// of the earlier.
    pub fn is_of_the_same(&self, other: &NodeRun) -> bool {
        self.attempt == other.attempt && self.phase == other.phase && self.path == other.path
    }

    /// Sorts by attempt and phase, and within them by the time of settlement. Runs that were settled in one
    /// moment retain their order, in which they were first stored.
    pub fn sort(runs: &mut [NodeRun]) {
        runs.sort_by_key(|run| (run.attempt, run.phase, run.finished));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_has_one_name_everywhere() {
        for outcome in NodeOutcome::ALL {
            assert_eq!(NodeOutcome::parse(outcome.as_str()), Some(outcome));
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
        assert_eq!(NodeOutcome::parse("Succeeded"), None);
    }

    #[test]
    fn usage_adds_up_and_never_wraps() {
        let one = TokenUsage { tokens_in: 1, tokens_out: 2, cost_micros: 3 };
        let most = TokenUsage { tokens_in: u64::MAX, tokens_out: u64::MAX - 1, cost_micros: 4 };
        let both = TokenUsage { tokens_in: u64::MAX, tokens_out: u64::MAX, cost_micros: 7 };
        assert_eq!(one.plus(most), both);
        assert_eq!((one.tokens(), both.tokens()), (3, u64::MAX));
    }
}
