//! Checks at the end of execute, and the gate that they are for apply.
//!
//! # Invariants
//! 1. A required check lets apply through only if it passed for exactly the changes that are to be applied,
//!    identified by their net hash. One that did not run, or ran for other changes, blocks.
//! 2. Informational checks never block. A plan without checks can be applied, and says so.
//! 3. A check that came with a project is run only if the user trusts its content there. Trust is looked up
//!    by what the plan has frozen, so an edit of the project's file changes nothing for a plan that exists.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ByteText, CommandLine};
use crate::change::file_state::Hash;
use crate::id::{CallNumber, RootIndex};

/// Limits how many checks a plan may have at most.
pub const CHECKS_MAX: usize = 500;

/// The mode of a check: blocking or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidationMode {
    /// Has to pass before apply.
    Required,
    /// Reported, and no more.
    Informational,
}

/// A check to be run in the sandbox; exit 0 passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// Its name, unique within a plan. That of a rule begins with [`crate::RULE_PREFIX`], and no other does.
    pub name: String,
    /// The command line.
    pub run: CommandLine,
    /// Says if the check can block.
    pub mode: ValidationMode,
    /// Its end, in seconds.
    pub timeout_s: u64,
    /// The project that it is run in.
    #[serde(default)]
    pub root: RootIndex,
    /// The working directory below that project; its root if empty.
    #[serde(default)]
    pub cwd: ByteText,
    /// True if it came with a project, so that the user has to trust it before it is run. Checks of plans
    /// from before there was trust are run as they were.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_trust: bool,
}

impl Validation {
    /// Returns the digest of what it runs, by which the user's trust is stored and found.
    pub fn content_digest(&self) -> String {
        let content = serde_json::to_string(&(&self.run, &self.cwd)).unwrap_or_default();
        trust_digest(&["check", &content])
    }
}

/// Returns the digest of a content that can run commands. No two lists of parts have one digest.
pub fn trust_digest(parts: &[&str]) -> String {
    let text = serde_json::to_string(parts).unwrap_or_default();
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidationOutcome {
    /// Exit 0.
    Passed,
    /// Another exit.
    Failed,
    /// It did not start, was killed, or took too long.
    Errored,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationResult {
    /// The check's name.
    pub validation: String,
    /// Says if the check could block.
    pub mode: ValidationMode,
    /// The outcome.
    pub outcome: ValidationOutcome,
    /// The end of its output.
    pub message: String,
    /// The duration of the check.
    pub duration_ms: u64,
    /// The plan's attempt.
    pub attempt: u32,
    /// The call that ran it.
    pub call: CallNumber,
    /// The changes that it was run upon, as 64 hexadecimal digits.
    pub net_hash: String,
    /// The user's tree that the changes were in, as the sandbox stamps it; null where nothing is known of it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub base_stamp: Value,
}

/// All checks of a plan, summed up for the changes that it has now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ValidationSummary {
    /// `none`, `passed`, `failed`, `not_run`.
    pub verdict: &'static str,
    /// The number of required checks that passed.
    pub passed: usize,
    /// The number of required checks.
    pub required: usize,
    /// Required ones that failed or errored.
    pub failed: Vec<String>,
    /// Required ones that did not run for these changes.
    pub not_run: Vec<String>,
    /// Informational ones that failed or errored.
    pub warned: Vec<String>,
    /// Those of a project, required or not, that did not run because the user does not trust them.
    pub untrusted: Vec<String>,
    /// Those of a project that did not run because the user did not trust them, and does now. An apply runs
    /// them.
    pub trusted_since: Vec<String>,
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
            (ValidationMode::Required, Some(ValidationOutcome::Passed)) => summary.passed += 1,
            (ValidationMode::Required, Some(ValidationOutcome::Failed | ValidationOutcome::Errored)) => {
                summary.failed.push(validation.name.clone());
            }
            (ValidationMode::Required, None) => summary.not_run.push(validation.name.clone()),
            (ValidationMode::Informational, Some(ValidationOutcome::Failed | ValidationOutcome::Errored)) => {
                summary.warned.push(validation.name.clone());
            }
            (ValidationMode::Informational, Some(ValidationOutcome::Passed) | None) => {}
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

/// The reason why the required checks do not let a plan be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckObstacle {
    /// One of them failed.
    Failed,
    /// One has no result for the present changes.
    NotRun,
}

impl ValidationSummary {
    /// Returns the reason why the plan is not applied; `None` if it may be, or if only trust is missing.
    pub fn obstacle(&self) -> Option<CheckObstacle> {
        match (self.failed.is_empty(), self.may_be_applied() || self.waits_for_trust()) {
            (false, _) => Some(CheckObstacle::Failed),
            (true, false) => Some(CheckObstacle::NotRun),
            (true, true) => None,
        }
    }

    /// Returns whether the checks let apply through.
    pub fn lets_through(&self) -> bool {
        self.failed.is_empty() && self.not_run.is_empty()
    }

    /// Returns the required checks that an apply runs first: those that did not run on these changes, because they
    /// were not trusted then, or because the changes were edited or rolled back since.
    pub fn run_by_apply(&self) -> Vec<String> {
        self.not_run.iter().filter(|name| !self.untrusted.contains(name)).cloned().collect()
    }

    /// Returns whether apply may begin: no required check failed, and it can run those that have not run.
    pub fn may_be_applied(&self) -> bool {
        self.failed.is_empty() && self.run_by_apply().len() == self.not_run.len()
    }

    /// Returns whether missing trust is the only obstacle to apply.
    pub fn waits_for_trust(&self) -> bool {
        self.failed.is_empty() && self.not_run.iter().any(|name| self.untrusted.contains(name))
    }
}
