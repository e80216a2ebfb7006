//! The limits that a plan got when it was made.

use serde::{Deserialize, Serialize};

use super::SpendKind;
use crate::plan::PlanSpec;

/// The limits of a whole plan; `None` is no limit. A plan that was made before there were limits has the
/// usual ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The limit of steps that it runs; a retry is not counted.
    pub steps: Option<u64>,
    /// The limit of tool calls.
    pub tool_calls: Option<u64>,
    /// The limit of tokens.
    pub tokens: Option<u64>,
    /// The limit of its cost, in millionths of a dollar.
    pub cost: Option<u64>,
}

impl Limits {
    /// The usual limit of steps.
    pub const STEPS: u64 = 200;
    /// The usual limit of tool calls.
    pub const TOOL_CALLS: u64 = 1_000;
    /// The usual limit of tokens.
    pub const TOKENS: u64 = 5_000_000;
    /// The usual limit of cost, in millionths of a dollar.
    pub const COST: u64 = 10_000_000;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps: Some(Limits::STEPS),
            tool_calls: Some(Limits::TOOL_CALLS),
            tokens: Some(Limits::TOKENS),
            cost: Some(Limits::COST),
        }
    }
}

impl PlanSpec {
    /// Returns what the plan was allowed of this when it was made.
    pub fn limit(&self, kind: SpendKind) -> Option<u64> {
        match kind {
            SpendKind::Time => Some(self.time_limit_s.saturating_mul(1_000)),
            SpendKind::Steps => self.limits.steps,
            SpendKind::ToolCalls => self.limits.tool_calls,
            SpendKind::Tokens => self.limits.tokens,
            SpendKind::Cost => self.limits.cost,
        }
    }
}
