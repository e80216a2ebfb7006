//! The request that a plan fulfils, frozen when it was made: later edits of files and settings do not touch
//! it.
//!
//! It is stored as JSON. A field that a newer version adds has a default, so that an older plan still reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::automation::Automation;
use super::builtin_paths;
use super::invariant::Invariant;
use super::step::{self, PlanStep};
use super::validation::{Validation, ValidationMode};
use crate::failure::retry::GateDecision;
use crate::id::{PlanId, RootIndex};
use crate::ledger::Limits;
use crate::template::Template;

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
        enum ByteTextForm {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match ByteTextForm::deserialize(deserializer)? {
            ByteTextForm::Text(text) => ByteText(text.into_bytes()),
            ByteTextForm::Bytes(bytes) => ByteText(bytes),
        })
    }
}

/// A command: a list is an argv, one argument for each element; a string is run by `sh -ec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CommandLine {
    /// For the shell.
    Shell(String),
    /// Program and arguments.
    Argv(Vec<ByteText>),
}

impl CommandLine {
    /// The argv that is started.
    pub fn argv(&self) -> Vec<ByteText> {
        match self {
            CommandLine::Shell(text) => ["sh", "-ec", text].map(ByteText::from).to_vec(),
            CommandLine::Argv(argv) => argv.clone(),
        }
    }

    /// The command on one line, as a person would type it.
    pub fn render(&self) -> String {
        match self {
            CommandLine::Shell(text) => text.clone(),
            CommandLine::Argv(argv) => {
                argv.iter().map(|word| quote_word(&word.to_string())).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

fn quote_word(word: &str) -> String {
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
    /// The command line.
    pub run: CommandLine,
    /// The working directory below the first project; the project's root if empty.
    #[serde(default)]
    pub cwd: ByteText,
    /// Its end, in seconds; `None` waits for ever (the plan's limit holds all the same).
    #[serde(default)]
    pub timeout_s: Option<u64>,
    /// True if the command may use the network.
    #[serde(default)]
    pub network: bool,
    /// Ports of this machine's loopback that it may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_loopback: Vec<u16>,
    /// Variables set for it.
    #[serde(default)]
    pub env: Vec<(ByteText, ByteText)>,
    /// Names of variables that it gets from the caller's environment. Their values are never stored.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Paths outside the projects that it may write.
    #[serde(default)]
    pub writable: Vec<ByteText>,
    /// Its standard input; a template if `expand` is set and it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<ByteText>,
    /// The exit statuses that count as success; only 0 if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ok_exit: Vec<u8>,
    /// True if the command may change files of the projects.
    #[serde(default = "yes")]
    pub writes: bool,
    /// True if the words of its argv, the values of `env` and `stdin` are templates. Those of definitions are
    /// templates; those that a person typed behind `--` are taken literally.
    #[serde(default)]
    pub expand: bool,
}

impl CommandTask {
    /// A command that says nothing but what is run.
    pub fn new(run: CommandLine) -> CommandTask {
        CommandTask {
            run,
            cwd: ByteText::default(),
            timeout_s: None,
            network: false,
            allow_loopback: Vec::new(),
            env: Vec::new(),
            pass_env: Vec::new(),
            writable: Vec::new(),
            stdin: None,
            ok_exit: Vec::new(),
            writes: true,
            expand: false,
        }
    }

    /// Returns true if a command that exits with this status has succeeded.
    pub fn is_ok_exit(&self, status: i32) -> bool {
        match &self.ok_exit[..] {
            [] => status == 0,
            named => named.iter().any(|named| i32::from(*named) == status),
        }
    }

    /// Sets a variable to exactly this value, also where values are templates: one that is no text never is
    /// one.
    pub fn set_variable(&mut self, name: &str, value: &ByteText) {
        let text = std::str::from_utf8(value.as_bytes()).ok().filter(|_| self.expand);
        let literal = text.map(|text| ByteText::from(Template::literal(text).to_string().as_str()));
        self.env.push((ByteText::from(name), literal.unwrap_or_else(|| value.clone())));
    }
}

/// The isolation of a plan's commands: the restrictions that were lifted for it, and the limits of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IsolationOptions {
    /// Landlock alone is isolation enough, where namespaces do not work.
    pub landlock: bool,
    /// Commands may speak to sockets of programs outside, by their path.
    pub unix_sockets: bool,
    /// Commands may use `io_uring`.
    pub io_uring: bool,
    /// The limit of processes and threads of a command; 0 for no limit.
    pub processes_max: u64,
    /// The limit of its memory, in MB; 0 for three quarters of the machine's.
    pub memory_mb_max: u64,
    /// The space that has to stay free on the disks that it writes to, in MB.
    pub disk_free_mb_min: u64,
}

impl Default for IsolationOptions {
    fn default() -> IsolationOptions {
        IsolationOptions {
            landlock: false,
            unix_sockets: false,
            io_uring: false,
            processes_max: 8192,
            memory_mb_max: 0,
            disk_free_mb_min: 256,
        }
    }
}

impl IsolationOptions {
    fn is_default(&self) -> bool {
        *self == IsolationOptions::default()
    }
}

/// Everything that a plan was asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanSpec {
    /// The steps of execute, in this order.
    #[serde(alias = "task", deserialize_with = "step::stored")]
    pub steps: Vec<PlanStep>,
    /// The checks at the end of execute.
    #[serde(default)]
    pub validations: Vec<Validation>,
    /// The gate before apply: says if apply waits for a person. `run --apply` is their yes.
    #[serde(default = "ask")]
    pub apply: GateDecision,
    /// The automation profile, as it was when the plan was made.
    #[serde(default)]
    pub automation: Automation,
    /// The paths that capture leaves out: globs, or `@gitignored`.
    #[serde(default)]
    pub ignore: Vec<String>,
    /// The paths that are never written, in addition to the built-in directories: patterns as in a
    /// `.gitignore`.
    #[serde(default)]
    pub protected: Vec<String>,
    /// Tools that nothing of it may call: names, groups, `SERVER.*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_tools: Vec<String>,
    /// Above this a file has no content in the changeset, and apply refuses.
    pub max_file_bytes: u64,
    /// `auto`, or the name of the one rung that may be used.
    pub sandbox: String,
    /// False if commands may run without isolation where the machine offers none.
    pub isolation_required: bool,
    /// The walls around its commands, where they differ from those of every plan.
    #[serde(default, skip_serializing_if = "IsolationOptions::is_default")]
    pub walls: IsolationOptions,
    /// The home that the built-in lists in `hide` and `show` are relative to.
    #[serde(default, skip_serializing_if = "is_empty_text")]
    pub home: ByteText,
    /// Paths covered from commands, and words for built-in lists of them: [`PlanSpec::hidden_paths`].
    #[serde(default)]
    pub hide: Vec<ByteText>,
    /// Paths of the home that commands see, and words for built-in lists of them; `None` shows it whole:
    /// [`PlanSpec::shown_paths`].
    #[serde(default)]
    pub show: Option<Vec<ByteText>>,
    /// Ports of this machine's loopback that every command with the network may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_loopback: Vec<u16>,
    /// Paths of which commands get a throw-away copy.
    #[serde(default)]
    pub scratch: Vec<ByteText>,
    /// Variables that every command gets, with their values: those of toolchains, which are no secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub toolchain_env: Vec<(ByteText, ByteText)>,
    /// The total time for which the plan may process, in seconds.
    pub time_limit_s: u64,
    /// The other limits of the whole plan.
    #[serde(default)]
    pub limits: Limits,
    /// The limit of steps that run concurrently.
    #[serde(default = "parallel")]
    pub parallel: u32,
    /// The action that it was made from; `None` if it was typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The task, in words; empty if the steps say it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// The values of the action's arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, Value>,
    /// The conditions under which it counts as done, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definition_of_done: Vec<String>,
    /// The invariants that its changes must satisfy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invariants: Vec<Invariant>,
    /// The instructions of the projects to those that work on them, as they were when the plan was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Instructions>,
    /// The step that is done again, with what was found, when a required check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The limit of these attempts.
    #[serde(default = "fix_attempts")]
    pub fix_attempts: u32,
    /// The step whose text is the plan's answer. `None` in plans of an older version: the last step that no
    /// other step needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// True if nothing is to be written: such a plan ends with execute.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// The actor of strategize; `None` if the strategy is the task itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategist: Option<Strategist>,
    /// The definitions that it was made from, as they were then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<DefinitionSource>,
    /// The variables of the environment that keys for its models came from when it was made; never their
    /// values.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub keys: BTreeSet<String>,
    /// The name of the batch that it was made with; `None` if it was made alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// The applied plan that it continues; `None` if it continues none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<PlanId>,
}

/// The instructions of a project for its agents: its `AGENTS.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// The project's short name.
    pub alias: String,
    /// The text; one that was too long ends in a line that says so.
    pub text: String,
}

/// The actor that does strategize: it only reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strategist {
    /// Its name; `inline` if the action itself defines it.
    pub name: String,
    /// Its steps.
    pub steps: Vec<PlanStep>,
    /// The step whose text and JSON are the strategy.
    pub result: String,
}

/// A definition that a plan was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionSource {
    /// `action` or `actor`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The file, or `built in`.
    pub place: String,
    /// The BLAKE3 hash of its text.
    pub digest: String,
}

impl PlanSpec {
    /// Returns the paths that nothing of the plan sees, each written out.
    pub fn hidden_paths(&self) -> Vec<ByteText> {
        builtin_paths::expand(&self.hide, &self.home)
    }

    /// Returns the paths of the home that commands see, each written out; `None` if they see all of it.
    pub fn shown_paths(&self) -> Option<Vec<ByteText>> {
        Some(builtin_paths::expand(self.show.as_ref()?, &self.home))
    }

    /// The step whose text is the plan's answer.
    pub fn result_step(&self) -> Option<&PlanStep> {
        let is_needed = |step: &PlanStep| {
            let mut needs = self.steps.iter().flat_map(|other| other.needs.iter().flatten());
            needs.any(|need| *need == step.node)
        };
        match self.result.as_deref() {
            Some(name) => self.steps.iter().find(|step| step.node == name),
            None => self.steps.iter().rfind(|step| !is_needed(step)),
        }
    }

    /// The commands of its steps.
    pub fn commands(&self) -> impl Iterator<Item = &CommandTask> {
        self.steps.iter().filter_map(PlanStep::command)
    }

    /// Returns whether a command of it may use the network.
    pub fn uses_network(&self) -> bool {
        self.commands().any(|command| command.network)
    }

    /// Returns the gate before a repair of the findings of checks.
    pub fn gate_of_fix(&self) -> GateDecision {
        self.automation.fix
    }

    /// The rules among its invariants as checks, which run without a process. Rules in the same words are one
    /// check.
    pub fn invariant_checks(&self) -> Vec<Validation> {
        let mut seen = BTreeSet::new();
        let rules = self.invariants.iter().filter(|invariant| invariant.rule.is_some());
        let rules = rules.filter(|invariant| seen.insert(invariant.text.as_str()));
        let check = |invariant: &Invariant| Validation {
            name: invariant_check_name(&invariant.text),
            run: CommandLine::Argv(Vec::new()),
            mode: ValidationMode::Required,
            timeout_s: 0,
            root: RootIndex(0),
            cwd: ByteText::default(),
            needs_trust: false,
        };
        rules.map(check).collect()
    }

    /// Everything that is checked at the end of execute.
    pub fn all_checks(&self) -> Vec<Validation> {
        let mut all = self.invariant_checks();
        all.extend(self.validations.iter().cloned());
        all
    }

    /// Its steps on one line, as a person would type them.
    pub fn render(&self) -> String {
        self.steps.iter().map(PlanStep::render).collect::<Vec<_>>().join("; ")
    }
}

/// The prefix of the name of a rule's check; no other check has it.
pub const RULE_PREFIX: &str = "invariant: ";

/// Returns what the check of an invariant is called.
pub fn invariant_check_name(text: &str) -> String {
    format!("{RULE_PREFIX}{text}")
}

/// The default limit of attempts to repair the findings of checks.
pub const FIX_ATTEMPTS: u32 = 3;

fn fix_attempts() -> u32 {
    FIX_ATTEMPTS
}

/// The default limit of steps that run concurrently.
pub const PARALLEL: u32 = 4;
/// The highest limit of concurrent steps that can be set.
pub const PARALLEL_MAX: u32 = 32;

fn parallel() -> u32 {
    PARALLEL
}

fn is_empty_text(text: &ByteText) -> bool {
    text.as_bytes().is_empty()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn yes() -> bool {
    true
}

fn ask() -> GateDecision {
    GateDecision::Ask
}

/// A project that a plan works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectLink {
    /// Its short name, unique within the plan.
    pub alias: String,
    /// Its root directory, absolute.
    pub root: ByteText,
    /// True if the project is only read.
    #[serde(default)]
    pub read_only: bool,
}
