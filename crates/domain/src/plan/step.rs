//! What a phase does: steps that need each other, the nodes of an actor's graph.
//!
//! # Invariants
//! 1. Steps of a plan have different names; the name is the node of every call that the step makes. The steps of a nested
//!    actor are among those of the plan, named `ID/CHILD`.
//! 2. A plan of an older version names one command, its task: that is a plan of one step. Steps of an older version name
//!    no needs: each comes after the one before it.
//!
//! # Not here
//! When a step may begin ([`crate::graph`]); what its templates and conditions mean ([`crate::template`],
//! [`crate::expr`]).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::phase::Phase;
use super::spec::{ByteText, CommandTask};

/// The most steps that a plan has.
pub const STEPS_MAX: usize = 500;
/// How often a step is done at most because of its `repeat`.
pub const REPEAT_MAX: u8 = 20;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name.
    pub node: String,
    /// What it does.
    #[serde(flatten)]
    pub does: Does,
    /// The steps that have to be settled before it. None, in plans of an older version: the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Vec<String>>,
    /// How they have to have ended.
    #[serde(default, skip_serializing_if = "On::is_success")]
    pub on: On,
    /// A condition; when it does not hold the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
    /// Its end, in seconds. What a command says itself goes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// How often it is done again when it failed. None: when its failure was a passing one, as often as the settings
    /// say. Whoever names a number says that it may be done twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Files that it may change and that are no part of the result: globs as in .gitignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Until what it is done again, after it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
}

/// How the needs of a step have to have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// None failed and one succeeded, or there are none.
    #[default]
    Success,
    /// One failed.
    Failure,
    /// In any way.
    Always,
}

impl On {
    /// All of them.
    pub const ALL: [On; 3] = [On::Success, On::Failure, On::Always];

    /// Its name, as written and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            On::Success => "success",
            On::Failure => "failure",
            On::Always => "always",
        }
    }

    fn is_success(&self) -> bool {
        *self == On::Success
    }
}

/// A bounded loop around one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// A condition on what the step left; the loop ends when it holds.
    pub until: String,
    /// How often the step is done at most, 1 to [`REPEAT_MAX`].
    pub max: u8,
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
    /// Calls a tool.
    Tool {
        /// Which.
        name: String,
        /// Its arguments. Every text in them is a template.
        with: Value,
    },
    /// Lets a model work, with tools.
    Model(ModelTask),
    /// Lets an agent program work that speaks the Agent Client Protocol.
    External(ExternalTask),
    /// Stands for a nested actor, whose steps are `ID/CHILD`: it is settled when they are, and nobody runs it.
    Actor {
        /// Which.
        name: String,
        /// The step whose text and JSON are its own.
        result: String,
    },
}

/// What a model is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTask {
    /// `PROVIDER/NAME`.
    pub model: String,
    /// What it is told about its part; a template.
    #[serde(default)]
    pub system: String,
    /// What it is asked; a template.
    pub prompt: String,
    /// The tools, and groups of tools, that it may call.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How much context of the project stands before the prompt at most; 0: none.
    #[serde(default)]
    pub context_tokens: Option<u32>,
    /// How often it is asked at most.
    pub max_turns: u32,
    /// The JSON schema that its answer has to fit.
    #[serde(default)]
    pub output: Option<Value>,
}

/// What an agent program is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalTask {
    /// The program: it speaks the Agent Client Protocol on its standard input and output.
    pub command: CommandTask,
    /// What it is asked; a template.
    pub prompt: String,
}

impl Step {
    /// A step that says nothing but what it does; it comes after the one before it.
    pub fn new(node: impl Into<String>, does: Does) -> Step {
        Step {
            node: node.into(),
            does,
            needs: None,
            on: On::Success,
            only_if: None,
            timeout_s: None,
            retries: None,
            ignore: Vec::new(),
            repeat: None,
        }
    }

    /// The only step of a plan: its command.
    pub fn only(task: CommandTask) -> Step {
        Step::new(Phase::Execute.as_str(), Does::Command(task))
    }

    /// The command that it runs; none when it runs none.
    pub fn command(&self) -> Option<&CommandTask> {
        match &self.does {
            Does::Command(task) => Some(task),
            Does::External(task) => Some(&task.command),
            Does::Read { .. }
            | Does::Write { .. }
            | Does::Edit { .. }
            | Does::Wait { .. }
            | Does::Tool { .. }
            | Does::Model(_)
            | Does::Actor { .. } => None,
        }
    }

    /// The same, to be changed.
    pub fn command_mut(&mut self) -> Option<&mut CommandTask> {
        match &mut self.does {
            Does::Command(task) => Some(task),
            Does::External(task) => Some(&mut task.command),
            Does::Read { .. }
            | Does::Write { .. }
            | Does::Edit { .. }
            | Does::Wait { .. }
            | Does::Tool { .. }
            | Does::Model(_)
            | Does::Actor { .. } => None,
        }
    }

    /// Whether it may change files. A model may when it has a tool that does, which only the tools can say.
    pub fn writes(&self) -> bool {
        match &self.does {
            Does::Command(task) => task.writes,
            Does::External(task) => task.command.writes,
            Does::Write { .. } | Does::Edit { .. } | Does::Tool { .. } | Does::Model(_) => true,
            Does::Read { .. } | Does::Wait { .. } | Does::Actor { .. } => false,
        }
    }

    /// The file that it is about; none when it names none.
    pub fn path(&self) -> Option<&ByteText> {
        match &self.does {
            Does::Read { path } | Does::Write { path, .. } | Does::Edit { path, .. } => Some(path),
            Does::Command(_)
            | Does::Wait { .. }
            | Does::Tool { .. }
            | Does::Model(_)
            | Does::External(_)
            | Does::Actor { .. } => None,
        }
    }

    /// Its end, in seconds.
    pub fn ends_after_s(&self) -> Option<u64> {
        self.command().and_then(|command| command.timeout_s).or(self.timeout_s)
    }

    /// On one line, as a person would say it.
    pub fn shown(&self) -> String {
        match &self.does {
            Does::Command(task) => task.run.shown(),
            Does::Read { path } => format!("read {path}"),
            Does::Write { path, .. } => format!("write {path}"),
            Does::Edit { path, .. } => format!("edit {path}"),
            Does::Wait { seconds } => format!("wait {seconds} s"),
            Does::Tool { name, .. } => format!("tool {name}"),
            Does::Model(task) => format!("model {}", task.model),
            Does::External(task) => format!("agent {}", task.command.run.shown()),
            Does::Actor { name, .. } => format!("actor {name}"),
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
