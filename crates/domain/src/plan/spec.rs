//! What a plan was asked to do, frozen when it was made: later edits of files and settings do not touch it.
//!
//! It is stored as JSON. A field that a newer version adds has a default, so that an older plan still reads.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::step::{self, Step};
use crate::ledger::Limits;
use crate::recovery::Gate;
use crate::validation::Validation;

/// Bytes that are mostly text: an argument or a path of the system, which need not be UTF-8.
///
/// In JSON a string where it is UTF-8, else a list of numbers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteText(pub Vec<u8>);

impl ByteText {
    /// The exact bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for ByteText {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Vec<u8>> for ByteText {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for ByteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for ByteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for ByteText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ByteText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Text(text) => ByteText(text.into_bytes()),
            Either::Bytes(bytes) => ByteText(bytes),
        })
    }
}

/// A command: a list is an argv, one argument for each element; a string is run by `sh -ec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Run {
    /// For the shell.
    Shell(String),
    /// Program and arguments.
    Argv(Vec<ByteText>),
}

impl Run {
    /// The argv that is started.
    pub fn argv(&self) -> Vec<ByteText> {
        match self {
            Run::Shell(text) => ["sh", "-ec", text].map(ByteText::from).to_vec(),
            Run::Argv(argv) => argv.clone(),
        }
    }

    /// The command on one line, as a person would type it.
    pub fn shown(&self) -> String {
        match self {
            Run::Shell(text) => text.clone(),
            Run::Argv(argv) => {
                argv.iter().map(|word| quoted(&word.to_string())).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A command that a step runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandTask {
    /// What is run.
    pub run: Run,
    /// Where below the first project; the project's root when empty.
    #[serde(default)]
    pub cwd: ByteText,
    /// Its end, in seconds; none waits for ever (the plan's limit holds all the same).
    #[serde(default)]
    pub timeout_s: Option<u64>,
    /// Whether it may use the network.
    #[serde(default)]
    pub network: bool,
    /// Variables set for it.
    #[serde(default)]
    pub env: Vec<(ByteText, ByteText)>,
    /// Names of variables that it gets from the caller's environment. Their values are never stored.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Paths outside the projects that it may write.
    #[serde(default)]
    pub writable: Vec<ByteText>,
}

/// How far a plan goes without asking, as it was said when the plan was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Automation {
    /// A person starts every phase.
    Manual,
    /// A person is asked before the user's files are touched.
    #[default]
    Review,
    /// What passed its checks is applied.
    Auto,
}

impl Automation {
    /// All of them, the strictest first.
    pub const ALL: [Automation; 3] = [Automation::Manual, Automation::Review, Automation::Auto];

    /// Its name, as typed, stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Automation::Manual => "manual",
            Automation::Review => "review",
            Automation::Auto => "auto",
        }
    }

    /// The level with this name.
    pub fn parse(word: &str) -> Option<Automation> {
        Automation::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// Everything that a plan was asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanSpec {
    /// What execute does, in this order.
    #[serde(alias = "task", deserialize_with = "step::stored")]
    pub steps: Vec<Step>,
    /// What is checked at the end of execute.
    #[serde(default)]
    pub validations: Vec<Validation>,
    /// Whether apply waits for a person: `run --apply` is their yes.
    #[serde(default = "ask")]
    pub apply: Gate,
    /// The level that held when it was made.
    #[serde(default)]
    pub automation: Automation,
    /// What capture leaves out: globs, or `@gitignored`.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// Directories that are never written, beside the built-in ones.
    #[serde(default)]
    pub protected: Vec<String>,
    /// Above this a file has no content in the changeset, and apply refuses.
    pub max_file_bytes: u64,
    /// `auto`, or the name of the one rung that may be used.
    pub sandbox: String,
    /// Whether commands may run without isolation where the machine offers none.
    pub isolation_required: bool,
    /// Paths covered from commands.
    #[serde(default)]
    pub hide: Vec<ByteText>,
    /// Paths of which commands get a throw-away copy.
    #[serde(default)]
    pub scratch: Vec<ByteText>,
    /// How long the plan may process all in all, in seconds.
    pub time_limit_s: u64,
    /// What else it may use all in all.
    #[serde(default)]
    pub limits: Limits,
}

impl PlanSpec {
    /// The commands of its steps.
    pub fn commands(&self) -> impl Iterator<Item = &CommandTask> {
        self.steps.iter().filter_map(Step::command)
    }

    /// Whether a command of it may use the network.
    pub fn uses_network(&self) -> bool {
        self.commands().any(|command| command.network)
    }

    /// Its steps on one line, as a person would type them.
    pub fn shown(&self) -> String {
        self.steps.iter().map(Step::shown).collect::<Vec<_>>().join("; ")
    }
}

fn ask() -> Gate {
    Gate::Ask
}

/// A project that a plan works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectLink {
    /// Its short name, unique within the plan.
    pub alias: String,
    /// Its root directory, absolute.
    pub root: ByteText,
    /// Whether it is only read.
    #[serde(default)]
    pub read_only: bool,
}
