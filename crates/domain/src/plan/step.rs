//! What execute does, one step after the other.
//!
//! # Invariants
//! 1. Steps of a plan have different names; the name is the node of every call that the step makes.
//! 2. A plan of an older version names one command, its task: that is a plan of one step.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::spec::{ByteText, CommandTask};
use crate::phase::Phase;

/// The most steps that a plan has.
pub const STEPS_MAX: usize = 200;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name.
    pub node: String,
    /// What it does.
    #[serde(flatten)]
    pub does: Does,
    /// How often it is done again when it failed. None: when its failure was a passing one, as often as the settings
    /// say. Whoever names a number says that it may be done twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Runs a command in the sandbox.
    Command(CommandTask),
    /// Reads a file of the first project.
    Read {
        /// Where, below the project's root.
        path: ByteText,
    },
    /// Writes a whole file of the first project's sandbox.
    Write {
        /// Where, below the project's root.
        path: ByteText,
        /// What is in it then.
        text: String,
    },
    /// Replaces a piece of text that a file of the first project's sandbox has exactly once.
    Edit {
        /// Where, below the project's root.
        path: ByteText,
        /// The piece.
        old: String,
        /// What takes its place.
        new: String,
    },
    /// Lets time pass.
    Wait {
        /// How much.
        seconds: u64,
    },
}

impl Step {
    /// The only step of a plan: its command.
    pub fn only(task: CommandTask) -> Step {
        Step { node: Phase::Execute.as_str().to_owned(), does: Does::Command(task), retries: None }
    }

    /// The command that it runs; none when it runs none.
    pub fn command(&self) -> Option<&CommandTask> {
        match &self.does {
            Does::Command(task) => Some(task),
            Does::Read { .. } | Does::Write { .. } | Does::Edit { .. } | Does::Wait { .. } => None,
        }
    }

    /// Whether it may change files.
    pub fn writes(&self) -> bool {
        match &self.does {
            Does::Command(_) | Does::Write { .. } | Does::Edit { .. } => true,
            Does::Read { .. } | Does::Wait { .. } => false,
        }
    }

    /// The file that it is about; none when it names none.
    pub fn path(&self) -> Option<&ByteText> {
        match &self.does {
            Does::Read { path } | Does::Write { path, .. } | Does::Edit { path, .. } => Some(path),
            Does::Command(_) | Does::Wait { .. } => None,
        }
    }

    /// On one line, as a person would say it.
    pub fn shown(&self) -> String {
        match &self.does {
            Does::Command(task) => task.run.shown(),
            Does::Read { path } => format!("read {path}"),
            Does::Write { path, .. } => format!("write {path}"),
            Does::Edit { path, .. } => format!("edit {path}"),
            Does::Wait { seconds } => format!("wait {seconds} s"),
        }
    }
}

/// The steps of a plan as they are stored: a list, or the one task of an older version.
pub(super) fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let read = |step: Value| {
        let node = step.get("node").and_then(Value::as_str).unwrap_or_default().to_owned();
        serde_json::from_value(step).map_err(|error| D::Error::custom(format!("step `{node}`: {error}")))
    };
    let stored = Value::deserialize(deserializer)?;
    if let Value::Array(steps) = stored {
        return steps.into_iter().map(read).collect();
    }
    serde_json::from_value(stored).map(|task| vec![Step::only(task)]).map_err(D::Error::custom)
}
