//! Checks at the end of execute, and the gate that they are for apply.
//!
//! # Invariants
//! 1. A required check lets apply through only if it passed for exactly the changes that are to be applied,
//!    told by their net hash. One that did not run, or ran for other changes, blocks.
//! 2. Informational checks never block. A plan without checks can be applied, and says so.

use serde::{Deserialize, Serialize};

use crate::file_state::Hash;
use crate::id::{CallNo, RootNo};
use crate::plan::{ByteText, Run};

/// Whether a check can block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidationMode {
    /// Has to pass before apply.
    Required,
    /// Told, and no more.
    Informational,
}

/// A check to be run in the sandbox; exit 0 passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// Its name, unique within a plan. That of a rule begins with [`crate::RULE_PREFIX`], and no other does.
    pub name: String,
    /// What is run.
    pub run: Run,
    /// Whether it can block.
    pub mode: ValidationMode,
    /// Its end, in seconds.
    pub timeout_s: u64,
    /// The project that it is run in.
    #[serde(default)]
    pub root: RootNo,
    /// Where below that project; its root when empty.
    #[serde(default)]
    pub cwd: ByteText,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Exit 0.
    Passed,
    /// Another exit.
    Failed,
    /// It did not start, was killed, or took too long.
    Errored,
}

/// What a check said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationResult {
    /// The check's name.
    pub validation: String,
    /// Whether it could block.
    pub mode: ValidationMode,
    /// How it ended.
    pub outcome: Outcome,
    /// The end of its output.
    pub message: String,
    /// How long it took.
    pub duration_ms: u64,
    /// The plan's attempt.
    pub attempt: u32,
    /// The call that ran it.
    pub call: CallNo,
    /// The changes that it was run upon, as 64 hexadecimal digits.
    pub net_hash: String,
}

/// All checks of a plan, summed up for the changes that it has now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ValidationSummary {
    /// `none`, `passed`, `failed`, `not_run`.
    pub verdict: &'static str,
    /// How many required ones passed.
    pub passed: usize,
    /// How many required ones there are.
    pub required: usize,
    /// Required ones that failed or errored.
    pub failed: Vec<String>,
    /// Required ones that did not run for these changes.
    pub not_run: Vec<String>,
    /// Informational ones that failed or errored.
    pub warned: Vec<String>,
}

/// Sums the latest result of each check up, for the changes with this hash.
pub fn sum_up(
    validations: &[Validation],
    results: &[ValidationResult],
    net_hash: &Hash,
) -> ValidationSummary {
    let present = net_hash.to_string();
    let mut summary = ValidationSummary::default();
    for validation in validations {
        let latest = results
            .iter()
            .rev()
            .find(|result| result.validation == validation.name && result.net_hash == present);
        let outcome = latest.map(|result| result.outcome);
        match (validation.mode, outcome) {
            (ValidationMode::Required, Some(Outcome::Passed)) => summary.passed += 1,
            (ValidationMode::Required, Some(Outcome::Failed | Outcome::Errored)) => {
                summary.failed.push(validation.name.clone());
            }
            (ValidationMode::Required, None) => summary.not_run.push(validation.name.clone()),
            (ValidationMode::Informational, Some(Outcome::Failed | Outcome::Errored)) => {
                summary.warned.push(validation.name.clone());
            }
            (ValidationMode::Informational, Some(Outcome::Passed) | None) => {}
        }
    }
    summary.required = summary.passed + summary.failed.len() + summary.not_run.len();
    summary.verdict = if validations.is_empty() {
        "none"
    } else if !summary.failed.is_empty() {
        "failed"
    } else if !summary.not_run.is_empty() {
        "not_run"
    } else {
        "passed"
    };
    summary
}

impl ValidationSummary {
    /// Whether the checks let apply through.
    pub fn lets_through(&self) -> bool {
        self.failed.is_empty() && self.not_run.is_empty()
    }
}
