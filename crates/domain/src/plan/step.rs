//! The steps of a phase: steps that need each other, the nodes of an actor's graph.
//!
//! # Invariants
//! 1. Steps of a plan have different names; the name is the node of every call that the step makes. The steps
//!    of a nested actor are among those of the plan, named `ID/CHILD`.
//! 2. A plan of an older version names one command, its task: that is a plan of one step. Steps of an older
//!    version name no needs: each comes after the one before it.
//!
//! # Not here
//! The moment at which a step may begin ([`crate::plan::graph`]); the meaning of its templates and conditions
//! ([`crate::template`], [`crate::expr`]).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::phase::Phase;
use super::spec::{ByteText, CommandTask};

/// The most steps that a plan has.
pub const PLAN_STEPS_MAX: usize = 500;
/// Limits how often a step is done at most because of its `repeat`.
pub const REPEAT_MAX: u8 = 20;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Its name.
    pub node: String,
    /// The work of the step.
    #[serde(flatten)]
    pub does: NodeKind,
    /// The steps that have to be settled before it. None, in plans of an older version: the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Vec<String>>,
    /// The required outcome of these steps.
    #[serde(default, skip_serializing_if = "NeedsCondition::is_success")]
    pub on: NeedsCondition,
    /// A condition; when it does not hold the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<String>,
    /// Its time limit, in seconds. A limit that the command itself has takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// The limit of retries after a failure. `None`: a transient failure is retried as often as the settings
    /// say. A number says that the step may be done twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Files that it may change and that are no part of the result: globs as in .gitignore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Until what it is done again, after it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
}

/// The condition on the ends of the needs of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedsCondition {
    /// None failed and one succeeded, or there are none.
    #[default]
    Success,
    /// One failed.
    Failure,
    /// In any way.
    Always,
}

impl NeedsCondition {
    /// All of them.
    pub const ALL: [NeedsCondition; 3] =
        [NeedsCondition::Success, NeedsCondition::Failure, NeedsCondition::Always];

    /// Its name, as written and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            NeedsCondition::Success => "success",
            NeedsCondition::Failure => "failure",
            NeedsCondition::Always => "always",
        }
    }

    fn is_success(&self) -> bool {
        *self == NeedsCondition::Success
    }
}

/// A bounded loop around one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// A condition on what the step left; the loop ends when it holds.
    pub until: String,
    /// The limit of runs of the step, 1 to [`REPEAT_MAX`].
    pub max: u8,
}

/// The kind of a node: the work that a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Runs a command in the sandbox.
    Command(CommandTask),
    /// Reads a file of the first project.
    Read {
        /// The path below the project's root.
        path: ByteText,
    },
    /// Writes a whole file of the first project's sandbox.
    Write {
        /// The path below the project's root.
        path: ByteText,
        /// The new content.
        text: String,
    },
    /// Replaces a piece of text that a file of the first project's sandbox has exactly once.
    Edit {
        /// The path below the project's root.
        path: ByteText,
        /// The piece.
        old: String,
        /// The replacement.
        new: String,
    },
    /// Lets time pass.
    Wait {
        /// The time.
        seconds: u64,
    },
    /// Calls a tool.
    Tool {
        /// The name of the tool.
        name: String,
        /// Its arguments. Every text in them is a template.
        with: Value,
    },
    /// Lets a model work, with tools.
    Model(ModelTask),
    /// Lets an agent program work that speaks the Agent Client Protocol.
    External(ExternalTask),
    /// Represents a nested actor, whose steps are `ID/CHILD`: it is settled when they are, and is not run
    /// itself.
    Actor {
        /// The name of the actor.
        name: String,
        /// The step whose text and JSON are its own.
        result: String,
    },
}

/// The task of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTask {
    /// `PROVIDER/NAME`.
    pub model: String,
    /// The description of its part for the model; a template.
    #[serde(default)]
    pub system: String,
    /// The prompt; a template.
    pub prompt: String,
    /// The tools, and groups of tools, that it may call.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The limit of the project context before the prompt; 0: none.
    #[serde(default)]
    pub context_tokens: Option<u32>,
    /// The limit of turns.
    pub max_turns: u32,
    /// True if it is asked once more when it ends without a change.
    #[serde(default)]
    pub nudge: bool,
    /// The JSON schema that its answer has to fit.
    #[serde(default)]
    pub output: Option<Value>,
}

/// The task of an agent program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalTask {
    /// The program: it speaks the Agent Client Protocol on its standard input and output.
    pub command: CommandTask,
    /// The prompt; a template.
    pub prompt: String,
}

impl PlanStep {
    /// A step that says nothing but what it does; it comes after the one before it.
    pub fn new(node: impl Into<String>, does: NodeKind) -> PlanStep {
        PlanStep {
            node: node.into(),
            does,
            needs: None,
            on: NeedsCondition::Success,
            only_if: None,
            timeout_s: None,
            retries: None,
            ignore: Vec::new(),
            repeat: None,
        }
    }

    /// The only step of a plan: its command.
    pub fn only(task: CommandTask) -> PlanStep {
        PlanStep::new(Phase::Execute.as_str(), NodeKind::Command(task))
    }

    /// The command that it runs; `None` if it runs none.
    pub fn command(&self) -> Option<&CommandTask> {
        match &self.does {
            NodeKind::Command(task) => Some(task),
            NodeKind::External(task) => Some(&task.command),
            NodeKind::Read { .. }
            | NodeKind::Write { .. }
            | NodeKind::Edit { .. }
            | NodeKind::Wait { .. }
            | NodeKind::Tool { .. }
            | NodeKind::Model(_)
            | NodeKind::Actor { .. } => None,
        }
    }

    /// The same, to be changed.
    pub fn command_mut(&mut self) -> Option<&mut CommandTask> {
        match &mut self.does {
            NodeKind::Command(task) => Some(task),
            NodeKind::External(task) => Some(&mut task.command),
            NodeKind::Read { .. }
            | NodeKind::Write { .. }
            | NodeKind::Edit { .. }
            | NodeKind::Wait { .. }
            | NodeKind::Tool { .. }
            | NodeKind::Model(_)
            | NodeKind::Actor { .. } => None,
        }
    }

    /// Returns whether it may change files. A model may when it has a tool that does, which only the tools
    /// can say.
    pub fn writes(&self) -> bool {
        match &self.does {
            NodeKind::Command(task) => task.writes,
            NodeKind::External(task) => task.command.writes,
            NodeKind::Write { .. } | NodeKind::Edit { .. } | NodeKind::Tool { .. } | NodeKind::Model(_) => {
                true
            }
            NodeKind::Read { .. } | NodeKind::Wait { .. } | NodeKind::Actor { .. } => false,
        }
    }

    /// The file that it is about; `None` if it names none.
    pub fn path(&self) -> Option<&ByteText> {
        match &self.does {
            NodeKind::Read { path } | NodeKind::Write { path, .. } | NodeKind::Edit { path, .. } => {
                Some(path)
            }
            NodeKind::Command(_)
            | NodeKind::Wait { .. }
            | NodeKind::Tool { .. }
            | NodeKind::Model(_)
            | NodeKind::External(_)
            | NodeKind::Actor { .. } => None,
        }
    }

    /// Its end, in seconds.
    pub fn ends_after_s(&self) -> Option<u64> {
        self.command().and_then(|command| command.timeout_s).or(self.timeout_s)
    }

    /// On one line, as a person would say it.
    pub fn render(&self) -> String {
        match &self.does {
            NodeKind::Command(task) => task.run.render(),
            NodeKind::Read { path } => format!("read {path}"),
            NodeKind::Write { path, .. } => format!("write {path}"),
            NodeKind::Edit { path, .. } => format!("edit {path}"),
            NodeKind::Wait { seconds } => format!("wait {seconds} s"),
            NodeKind::Tool { name, .. } => format!("tool {name}"),
            NodeKind::Model(task) => format!("model {}", task.model),
            NodeKind::External(task) => format!("agent {}", task.command.run.render()),
            NodeKind::Actor { name, .. } => format!("actor {name}"),
        }
    }
}

/// The steps of a plan as they are stored: a list, or the one task of an older version.
pub(super) fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PlanStep>, D::Error> {
    let read = |step: Value| {
        let node = step.get("node").and_then(Value::as_str).unwrap_or_default().to_owned();
        serde_json::from_value(step).map_err(|error| D::Error::custom(format!("step `{node}`: {error}")))
    };
    let stored = Value::deserialize(deserializer)?;
    if let Value::Array(steps) = stored {
        return steps.into_iter().map(read).collect();
    }
    serde_json::from_value(stored).map(|task| vec![PlanStep::only(task)]).map_err(D::Error::custom)
}
