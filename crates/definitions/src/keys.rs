//! Every key that a definition can have: what it takes, and what it means.
//!
//! # Invariants
//! A key that is not here is refused by the reader and not offered to editors: both go by these tables.

/// A key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyDoc {
    pub(crate) name: &'static str,
    pub(crate) takes: KeyType,
    pub(crate) doc: &'static str,
}

/// The type of the value of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyType {
    Text,
    /// A text that is a condition, or `true` or `false`.
    Condition,
    Boolean,
    Number,
    Count {
        min: u64,
        max: u64,
    },
    Span,
    Texts,
    /// A list of whole numbers.
    Counts {
        min: u64,
        max: u64,
    },
    TextOrTexts,
    OneOf(&'static [&'static str]),
    Anything,
    /// A map from names to texts.
    TextMap,
    /// A map from names to anything.
    Map,
    /// A map with these keys.
    Keys(&'static [KeyDoc]),
    /// A map from names to maps with these keys.
    MapOf(&'static [KeyDoc]),
    /// A text, or a map with these keys, in a list.
    ListOf(&'static [KeyDoc]),
    /// The name of an actor, or an actor.
    Actor,
    /// Nodes by their names.
    Nodes,
}

const fn key(name: &'static str, takes: KeyType, doc: &'static str) -> KeyDoc {
    KeyDoc { name, takes, doc }
}

pub(crate) const TIMEOUT_MAX_S: u64 = 86_400;
pub(crate) const RETRIES_MAX: u64 = domain::RETRIES_PER_STEP_MAX as u64;
pub(crate) const TURNS_MAX: u64 = 1_000;
pub(crate) const CONTEXT_TOKENS_MAX: u64 = 1_000_000;
pub(crate) const ON: [&str; 3] = ["success", "failure", "always"];
pub(crate) const MODES: [&str; 2] = ["required", "informational"];
pub(crate) const AUTOMATIONS: [&str; 3] = domain::Automation::NAMES;
pub(crate) const ARG_TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "list"];

pub(crate) const ACTION: &[KeyDoc] = &[
    key(
        "description",
        KeyType::Text,
        "What it does, in one line of at most 200 letters; a template of the arguments. Required.",
    ),
    key(
        "prompt",
        KeyType::Text,
        "The task as actors are told it; a template of the arguments. The description when it is left out.",
    ),
    key(
        "definition_of_done",
        KeyType::TextOrTexts,
        "When it is done: told to actors and shown at review. What can be checked belongs under `validations`.",
    ),
    key(
        "args",
        KeyType::MapOf(ARG),
        "Arguments, given by `--arg NAME=VALUE`. Commands of the shell find them in $ARG_NAME.",
    ),
    key(
        "actor",
        KeyType::Actor,
        "Who does it: the name of an actor, or an actor. `actor.default` when it is left out.",
    ),
    key(
        "strategist",
        KeyType::Actor,
        "Who thinks about it before, without writing: the name of an actor, an actor, or `none`.",
    ),
    key(
        "validations",
        KeyType::ListOf(CHECK),
        "Commands that have to exit with 0 before the result can be applied.",
    ),
    key(
        "invariants",
        KeyType::ListOf(INVARIANT),
        "What must hold of the changes: sentences for models, and rules that are checked.",
    ),
    key(
        "automation",
        KeyType::OneOf(&AUTOMATIONS),
        "What goes on without asking; it can only be stricter than what the user allows.",
    ),
    key(
        "limits",
        KeyType::Keys(LIMITS),
        "What it may use all in all; it can only be less than what the user allows.",
    ),
    key("read_only", KeyType::Boolean, "Whether nothing is to be written: it ends with its answer."),
];

pub(crate) const ARG: &[KeyDoc] = &[
    key(
        "type",
        KeyType::OneOf(&ARG_TYPES),
        "What it is; `string` when it is left out. A list is given by repeating `--arg`.",
    ),
    key("default", KeyType::Anything, "What it is when it is not given. Without one it has to be given."),
    key("description", KeyType::Text, "What it means, in one line."),
    key(
        "pattern",
        KeyType::Text,
        "A regular expression that a string, or every string of a list, has to match.",
    ),
    key("choices", KeyType::Anything, "A list of all that it can be."),
    key(
        "min",
        KeyType::Number,
        "The smallest number, the fewest letters of a string, the fewest strings of a list.",
    ),
    key(
        "max",
        KeyType::Number,
        "The largest number, the most letters of a string, the most strings of a list.",
    ),
];

pub(crate) const CHECK: &[KeyDoc] = &[
    key("name", KeyType::Text, "Its name; the command when it is left out."),
    key(
        "run",
        KeyType::TextOrTexts,
        "The command: a list is program and arguments, a text is for the shell (`sh -ec`). Exit 0 passes.",
    ),
    key("mode", KeyType::OneOf(&MODES), "Whether it can block the apply; `required` when it is left out."),
    key("timeout", KeyType::Span, "When it is ended; 10m when it is left out."),
    key("cwd", KeyType::Text, "Where it runs, below the project's root."),
];

pub(crate) const INVARIANT: &[KeyDoc] = &[
    key("text", KeyType::Text, "What must hold, in words."),
    key("never", KeyType::TextOrTexts, "Globs of files that must not be touched."),
    key("only", KeyType::TextOrTexts, "Globs of the only files that may be touched."),
    key("max_files", KeyType::Count { min: 0, max: u64::MAX >> 1 }, "How many files may be touched."),
    key(
        "max_lines",
        KeyType::Count { min: 0, max: u64::MAX >> 1 },
        "How many lines may be added and removed.",
    ),
];

pub(crate) const LIMITS: &[KeyDoc] = &[
    key("time", KeyType::Span, "How long it may work."),
    key(
        "steps",
        KeyType::Count { min: 0, max: 1_000_000_000 },
        "How many nodes may be run; to try one again is none.",
    ),
    key(
        "tool_calls",
        KeyType::Count { min: 0, max: 1_000_000_000 },
        "How many tools may be called, commands and checks too.",
    ),
    key(
        "tokens",
        KeyType::Count { min: 0, max: 1_000_000_000_000 },
        "How many tokens models may read and write.",
    ),
    key("cost", KeyType::Number, "How many dollars models may cost."),
    key(
        "parallel",
        KeyType::Count { min: 1, max: domain::PARALLEL_MAX as u64 },
        "How many nodes run beside each other.",
    ),
];

pub(crate) const ACTOR: &[KeyDoc] = &[
    key("description", KeyType::Text, "What it is good for, in one line."),
    key(
        "nodes",
        KeyType::Nodes,
        "Its nodes by their names. An actor of one node has the keys of the node instead.",
    ),
    key(
        "fix",
        KeyType::Text,
        "The node that is run again, with what was found, when a required validation failed; `ID/CHILD` within an actor.",
    ),
    key(
        "result",
        KeyType::Text,
        "The node whose text is the answer; the last that nobody needs when it is left out.",
    ),
    key(
        "limits",
        KeyType::Keys(LIMITS),
        "What it may use all in all; it can only be less than what the user allows.",
    ),
];

pub(crate) const NODE: &[KeyDoc] = &[
    key("needs", KeyType::Texts, "The nodes that have to be settled before it."),
    key("if", KeyType::Condition, "A condition; when it does not hold the node is skipped."),
    key("on", KeyType::OneOf(&ON), "How its needs have to have ended; `success` when it is left out."),
    key(
        "timeout",
        KeyType::Span,
        "When it is ended; 10m for a model or a tool, 30m for others when it is left out. Of an actor: each of its nodes.",
    ),
    key(
        "retries",
        KeyType::Count { min: 0, max: RETRIES_MAX },
        "How often it is done again when it failed; its changes are taken back first.",
    ),
    key("ignore", KeyType::Texts, "Globs of files that it may change and that are no part of the result."),
    key("repeat", KeyType::Keys(REPEAT), "A bounded loop around the node."),
];

pub(crate) const REPEAT: &[KeyDoc] = &[
    key("until", KeyType::Condition, "A condition on what the node left; the loop ends when it holds."),
    key(
        "max",
        KeyType::Count { min: 1, max: domain::REPEAT_MAX as u64 },
        "How often the node is done at most.",
    ),
];

pub(crate) const MODEL: &[KeyDoc] = &[
    key("model", KeyType::Text, "The model, as PROVIDER/NAME; `default` is the setting `model.default`."),
    key("system", KeyType::Text, "What the model is told about its part; a template."),
    key(
        "prompt",
        KeyType::Text,
        "What the model is asked; a template. `{{prompt}}`, the whole brief, when it is left out.",
    ),
    key(
        "tools",
        KeyType::Texts,
        "Tools and groups of tools that it may call: read, write, shell are the groups and the default.",
    ),
    key("context", KeyType::Keys(CONTEXT), "How much of the project is put before the prompt."),
    key(
        "max_turns",
        KeyType::Count { min: 1, max: TURNS_MAX },
        "How often the model is asked at most; 50 when it is left out.",
    ),
    key(
        "output",
        KeyType::Map,
        "The fields that its answer has to have, with their types: string, integer, number, boolean, list.",
    ),
];

pub(crate) const CONTEXT: &[KeyDoc] =
    &[key("tokens", KeyType::Count { min: 0, max: CONTEXT_TOKENS_MAX }, "How many tokens of it at most.")];

pub(crate) const TOOL: &[KeyDoc] = &[
    key("tool", KeyType::Text, "The name of a tool."),
    key("with", KeyType::Map, "Its arguments; texts are templates."),
];

pub(crate) const RUN: &[KeyDoc] = &[key(
    "run",
    KeyType::TextOrTexts,
    "A command: a list is program and arguments, a text is for the shell (`sh -ec`).",
)];

pub(crate) const EXTERNAL: &[KeyDoc] = &[
    key(
        "external",
        KeyType::Texts,
        "An agent program that speaks the Agent Client Protocol on its standard input and output.",
    ),
    key(
        "prompt",
        KeyType::Text,
        "What it is asked; a template. `{{prompt}}`, the whole brief, when it is left out.",
    ),
];

/// Keys of both kinds of programs.
pub(crate) const PROGRAM: &[KeyDoc] = &[
    key("stdin", KeyType::Text, "What it reads on its standard input; a template."),
    key("cwd", KeyType::Text, "Where it runs, below the project's root."),
    key("env", KeyType::TextMap, "Variables set for it; their values are templates."),
    key("pass_env", KeyType::Texts, "Names of variables that it gets from your environment."),
    key("network", KeyType::Boolean, "Whether it may use the network; not when it is left out."),
    key(
        "allow_loopback",
        KeyType::Counts { min: 1, max: 65_535 },
        "Ports of this machine that it may reach at its own loopback, where its network is one of its own.",
    ),
    key("writable", KeyType::Texts, "Paths outside the project that it may write."),
    key(
        "writes",
        KeyType::Boolean,
        "Whether it may change files of the project; it may when it is left out.",
    ),
];

pub(crate) const NESTED: &[KeyDoc] = &[
    key("actor", KeyType::Text, "The name of another actor, whose nodes are run in this one's place."),
    key("with", KeyType::Map, "Its arguments; texts are templates."),
];

/// The keys of which a node has exactly one.
pub(crate) const NODE_KINDS: [&str; 5] = ["model", "tool", "run", "external", "actor"];

/// All keys that a node of any kind has, or an actor that is one node.
pub(crate) const ALL_OF_NODES: [&[KeyDoc]; 8] = [ACTOR, NODE, MODEL, TOOL, RUN, EXTERNAL, PROGRAM, NESTED];
