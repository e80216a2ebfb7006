//! Every key that a definition can have, with the type of its value and its meaning.
//!
//! # Invariants
//! A key that is not here is refused by the reader and not offered to editors: both read these tables.

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
        "The purpose, in one line of at most 200 characters; a template of the arguments. Required.",
    ),
    key(
        "prompt",
        KeyType::Text,
        "The task as actors receive it; a template of the arguments. Default: the description.",
    ),
    key(
        "definition_of_done",
        KeyType::TextOrTexts,
        "The definition of done, for actors and for review. Put conditions that a command can check under \
         `validations`.",
    ),
    key(
        "args",
        KeyType::MapOf(ARG),
        "Arguments, given by `--arg NAME=VALUE`. Shell commands read them from $ARG_NAME.",
    ),
    key(
        "actor",
        KeyType::Actor,
        "The actor that executes it: a name or a definition. Default: `actor.default`.",
    ),
    key(
        "strategist",
        KeyType::Actor,
        "The actor that plans it without writing: a name, a definition, or `none`.",
    ),
    key(
        "validations",
        KeyType::ListOf(CHECK),
        "Commands that must exit with 0 before the result can be applied.",
    ),
    key(
        "invariants",
        KeyType::ListOf(INVARIANT),
        "Conditions on the changes: sentences for models, and rules that are checked.",
    ),
    key(
        "automation",
        KeyType::OneOf(&AUTOMATIONS),
        "The steps that need no confirmation; it can only be stricter than the user's setting.",
    ),
    key("limits", KeyType::Keys(LIMITS), "The limits in total; they can only be lower than the user's."),
    key("read_only", KeyType::Boolean, "If true, nothing is written: the result is the answer."),
];

pub(crate) const ARG: &[KeyDoc] = &[
    key(
        "type",
        KeyType::OneOf(&ARG_TYPES),
        "The type; default: `string`. A list is given by repeating `--arg`.",
    ),
    key("default", KeyType::Anything, "The value if none is given. Without a default, a value is required."),
    key("description", KeyType::Text, "The meaning, in one line."),
    key(
        "pattern",
        KeyType::Text,
        "A regular expression that a string, or every string of a list, must match.",
    ),
    key("choices", KeyType::Anything, "The list of allowed values."),
    key(
        "min",
        KeyType::Number,
        "The smallest number, the shortest string in characters, or the shortest list.",
    ),
    key("max", KeyType::Number, "The largest number, the longest string in characters, or the longest list."),
];

pub(crate) const CHECK: &[KeyDoc] = &[
    key("name", KeyType::Text, "The name; default: the command."),
    key(
        "run",
        KeyType::TextOrTexts,
        "The command: a list is program and arguments, a text is for the shell (`sh -ec`). Exit 0 passes.",
    ),
    key(
        "mode",
        KeyType::OneOf(&MODES),
        "`required` blocks the apply if the check fails, `informational` does not; default: `required`.",
    ),
    key("timeout", KeyType::Span, "The time limit; default: 10m."),
    key("cwd", KeyType::Text, "The working directory, below the project's root."),
];

pub(crate) const INVARIANT: &[KeyDoc] = &[
    key("text", KeyType::Text, "The condition, in words."),
    key("never", KeyType::TextOrTexts, "Globs of files that must not be touched."),
    key("only", KeyType::TextOrTexts, "Globs of the only files that may be touched."),
    key(
        "max_files",
        KeyType::Count { min: 0, max: u64::MAX >> 1 },
        "The maximum number of files that may be touched.",
    ),
    key(
        "max_lines",
        KeyType::Count { min: 0, max: u64::MAX >> 1 },
        "The maximum number of lines that may be added and removed.",
    ),
];

pub(crate) const LIMITS: &[KeyDoc] = &[
    key("time", KeyType::Span, "The maximum working time."),
    key(
        "steps",
        KeyType::Count { min: 0, max: 1_000_000_000 },
        "The maximum number of nodes that run; retries do not count.",
    ),
    key(
        "tool_calls",
        KeyType::Count { min: 0, max: 1_000_000_000 },
        "The maximum number of tool calls, including commands and checks.",
    ),
    key(
        "tokens",
        KeyType::Count { min: 0, max: 1_000_000_000_000 },
        "The maximum number of tokens that models read and write.",
    ),
    key("cost", KeyType::Number, "The maximum cost of models, in dollars."),
    key(
        "parallel",
        KeyType::Count { min: 1, max: domain::PARALLEL_MAX as u64 },
        "The maximum number of nodes that run concurrently.",
    ),
];

pub(crate) const ACTOR: &[KeyDoc] = &[
    key("description", KeyType::Text, "The purpose, in one line."),
    key("nodes", KeyType::Nodes, "The nodes by name. An actor of one node has the keys of the node instead."),
    key(
        "fix",
        KeyType::Text,
        "The node that runs again, with the findings, if a required validation failed; `ID/CHILD` within an actor.",
    ),
    key(
        "result",
        KeyType::Text,
        "The node whose text is the answer; default: the last node that no other node needs.",
    ),
    key("limits", KeyType::Keys(LIMITS), "The limits in total; they can only be lower than the user's."),
];

pub(crate) const NODE: &[KeyDoc] = &[
    key("needs", KeyType::Texts, "The nodes that must end before it starts."),
    key("if", KeyType::Condition, "A condition; if it is false, the node is skipped."),
    key("on", KeyType::OneOf(&ON), "The required outcome of its needs; default: `success`."),
    key(
        "timeout",
        KeyType::Span,
        "The time limit; default: 10m for a model or a tool, 30m for others. For an actor: of each of its nodes.",
    ),
    key(
        "retries",
        KeyType::Count { min: 0, max: RETRIES_MAX },
        "The number of retries after a failure; its changes are rolled back first.",
    ),
    key("ignore", KeyType::Texts, "Globs of files that it may change and that are not part of the result."),
    key("repeat", KeyType::Keys(REPEAT), "A bounded loop around the node."),
];

pub(crate) const REPEAT: &[KeyDoc] = &[
    key("until", KeyType::Condition, "A condition on the result of the node; the loop ends when it is true."),
    key(
        "max",
        KeyType::Count { min: 1, max: domain::REPEAT_MAX as u64 },
        "The maximum number of times that the node runs.",
    ),
];

pub(crate) const MODEL: &[KeyDoc] = &[
    key("model", KeyType::Text, "The model, as PROVIDER/NAME; `default` is the setting `model.default`."),
    key("system", KeyType::Text, "The system prompt of the model; a template."),
    key(
        "prompt",
        KeyType::Text,
        "The prompt of the model; a template. Default: `{{prompt}}`, the whole brief.",
    ),
    key(
        "tools",
        KeyType::Texts,
        "Tools and groups of tools that it may call: read, write, shell are the groups and the default.",
    ),
    key("context", KeyType::Keys(CONTEXT), "The amount of project context that is put before the prompt."),
    key(
        "max_turns",
        KeyType::Count { min: 1, max: TURNS_MAX },
        "The maximum number of turns of the model; default: 50. Its work is kept when they are used up.",
    ),
    key(
        "nudge",
        KeyType::Boolean,
        "Ask it once more when it ends without a change: for models whose task is to change files.",
    ),
    key(
        "output",
        KeyType::Map,
        "The required fields of its answer, with their types: string, integer, number, boolean, list.",
    ),
];

pub(crate) const CONTEXT: &[KeyDoc] =
    &[key("tokens", KeyType::Count { min: 0, max: CONTEXT_TOKENS_MAX }, "The maximum number of tokens.")];

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
    key("prompt", KeyType::Text, "The prompt; a template. Default: `{{prompt}}`, the whole brief."),
];

/// Keys of both kinds of programs.
pub(crate) const PROGRAM: &[KeyDoc] = &[
    key("stdin", KeyType::Text, "The standard input; a template."),
    key("cwd", KeyType::Text, "The working directory, below the project's root."),
    key("env", KeyType::TextMap, "Environment variables of the command; their values are templates."),
    key("pass_env", KeyType::Texts, "Names of variables that are passed from your environment."),
    key("network", KeyType::Boolean, "True if it may use the network; default: false."),
    key(
        "allow_loopback",
        KeyType::Counts { min: 1, max: 65_535 },
        "Ports of this machine that it may reach at its own loopback, if it has a network of its own.",
    ),
    key("writable", KeyType::Texts, "Paths outside the project that it may write."),
    key(
        "ok_exit",
        KeyType::Counts { min: 0, max: 255 },
        "The exit statuses of a command that count as success; default: 0.",
    ),
    key("writes", KeyType::Boolean, "True if it may change files of the project; default: true."),
];

pub(crate) const NESTED: &[KeyDoc] = &[
    key("actor", KeyType::Text, "The name of another actor, whose nodes run in place of this one."),
    key("with", KeyType::Map, "Its arguments; texts are templates."),
];

/// The keys of which a node has exactly one.
pub(crate) const NODE_KINDS: [&str; 5] = ["model", "tool", "run", "external", "actor"];

/// All keys that a node of any kind has, or an actor that is one node.
pub(crate) const ALL_OF_NODES: [&[KeyDoc]; 8] = [ACTOR, NODE, MODEL, TOOL, RUN, EXTERNAL, PROGRAM, NESTED];
