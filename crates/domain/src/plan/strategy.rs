//! The result of strategize: a summary and steps.
//!
//! # Invariants
//! A strategy has at most [`STRATEGY_STEPS_MAX`] steps, and each of its texts is bounded: what a model writes
//! beyond that is cut.

use std::fmt;

use serde_json::Value;

use crate::text::truncate_chars;

/// Limits how many steps a strategy has at most.
pub const STRATEGY_STEPS_MAX: usize = 100;
/// Limits how long a summary may be.
pub const SUMMARY_CHARS_MAX: usize = 4000;
/// Limits how long a title may be.
pub const TITLE_CHARS_MAX: usize = 200;
/// Limits how long the detail of a step may be.
pub const DETAIL_CHARS_MAX: usize = 2000;
/// Limits how many paths a step names at most.
pub const PATHS_MAX: usize = 50;

/// The key of the output of a strategist that gave no usable answer; its value says why.
pub const NO_STRATEGY_KEY: &str = "$no_strategy";

/// The strategy of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanStrategy {
    /// In a few sentences.
    pub summary: String,
    /// One after the other.
    pub steps: Vec<StrategyStep>,
}

/// One step of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrategyStep {
    /// On one line.
    pub title: String,
    /// The work of the step.
    pub detail: String,
    /// The paths that it is about.
    pub paths: Vec<String>,
}

impl PlanStrategy {
    /// Reads the output of a strategist: `{summary, steps: [{title, detail, paths}]}`, or a text, which is
    /// the summary then.
    pub fn from_output(json: &Value, text: &str) -> PlanStrategy {
        let word = |value: &Value, key: &str, max: usize| {
            value.get(key).and_then(Value::as_str).map(|text| truncate_chars(text, max)).unwrap_or_default()
        };
        let list =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let steps = list(json, "steps")
            .iter()
            .take(STRATEGY_STEPS_MAX)
            .map(|step| StrategyStep {
                title: step.as_str().map_or_else(
                    || word(step, "title", TITLE_CHARS_MAX),
                    |title| truncate_chars(title, TITLE_CHARS_MAX),
                ),
                detail: word(step, "detail", DETAIL_CHARS_MAX),
                paths: list(step, "paths")
                    .iter()
                    .filter_map(Value::as_str)
                    .take(PATHS_MAX)
                    .map(str::to_owned)
                    .collect(),
            })
            .collect();
        let summary = match word(json, "summary", SUMMARY_CHARS_MAX) {
            summary if summary.is_empty() => truncate_chars(text, SUMMARY_CHARS_MAX),
            summary => summary,
        };
        PlanStrategy { summary, steps }
    }
}

/// Prints it as actors see it: the summary, then the steps with their numbers.
impl fmt::Display for PlanStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.summary.trim())?;
        for (step, no) in self.steps.iter().zip(1..) {
            let between = if no == 1 && self.summary.trim().is_empty() { "" } else { "\n" };
            write!(f, "{between}{no}. {}", step.title)?;
            if !step.detail.is_empty() {
                write!(f, ": {}", step.detail.replace('\n', "\n   "))?;
            }
            if !step.paths.is_empty() {
                write!(f, " ({})", step.paths.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_strategist_said_is_told_with_numbers() {
        let said = json!({
            "summary": "Mend the parser.",
            "steps": [{"title": "Read it", "detail": "all of it", "paths": ["src/parse.rs"]}, "Mend it"],
        });
        let strategy = PlanStrategy::from_output(&said, "ignored");
        assert_eq!(
            strategy.to_string(),
            "Mend the parser.\n1. Read it: all of it (src/parse.rs)\n2. Mend it"
        );
        assert_eq!(PlanStrategy::from_output(&Value::Null, "Just do it.").to_string(), "Just do it.");
        let only_steps = json!({"steps": ["Do it"]});
        assert_eq!(PlanStrategy::from_output(&only_steps, "").to_string(), "1. Do it");
    }

    #[test]
    fn what_is_too_much_is_cut() {
        let many: Vec<Value> =
            (0..200).map(|at| json!({"title": "t".repeat(500), "paths": vec![at.to_string(); 99]})).collect();
        let strategy = PlanStrategy::from_output(&json!({"summary": "s".repeat(9000), "steps": many}), "");
        assert_eq!(strategy.steps.len(), STRATEGY_STEPS_MAX);
        assert_eq!(strategy.summary.chars().count(), SUMMARY_CHARS_MAX);
        assert!(strategy.summary.ends_with('…'));
        assert_eq!(strategy.steps[0].paths.len(), PATHS_MAX);
        assert_eq!(strategy.steps[0].title.chars().count(), TITLE_CHARS_MAX);
    }
}
