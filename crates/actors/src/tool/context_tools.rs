//! The tools by which a model asks for context: what they are, and what they take.
//!
//! # Invariants
//! 1. All of them only read.
//! 2. The defaults and bounds that the schemas state are those that are used.
//!
//! # Not here
//! The results: the workplace asks the pipeline and the store.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::builtin::{ToolEffect, count, object, tool, whole};
use crate::model::ToolSpec;

/// The number of tokens that are given unless more are asked for.
pub const CONTEXT_TOKENS: u32 = 2_048;
/// The fewest tokens that can be asked for.
pub const CONTEXT_TOKENS_MIN: u32 = 256;
/// The most tokens that can be asked for at once.
pub const CONTEXT_TOKENS_MAX: u32 = 16_384;
/// The limit of a query.
const QUERY_CHARS_MAX: usize = 16_384;
/// The number of things a request may be about for sure.
const FOCUS_MAX: usize = 64;
/// The number of matches of the history that are given unless more are asked for.
pub const HISTORY_MATCHES: u32 = 20;
/// The number of matches of the history that are given at most.
pub const HISTORY_MATCHES_MAX: u32 = 100;
/// The limit of the text of a match, in characters.
pub const HISTORY_TEXT_CHARS_MAX: usize = 300;

/// The greatest depths at which a thing is shown, as a model names them.
pub const DEPTHS: [&str; 4] = ["listing", "outline", "signatures", "full"];

/// The kind of an entry in a plan's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryKind {
    /// A choice that was taken.
    Decision,
    /// Something that failed.
    Error,
    /// The context of a node.
    Context,
    /// A commit of a project.
    Commit,
}

impl HistoryKind {
    /// All of them.
    pub const ALL: [HistoryKind; 4] = [Self::Decision, Self::Error, Self::Context, Self::Commit];

    /// Its name, as typed and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Error => "error",
            Self::Context => "context",
            Self::Commit => "commit",
        }
    }
}

/// A model's request for context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextQuestion {
    /// In its words.
    pub query: String,
    /// Paths, `PATH:FROM-TO` and names of definitions.
    #[serde(default)]
    pub focus: Vec<String>,
    /// The number of tokens it may fill.
    #[serde(default = "some_tokens")]
    pub tokens: u32,
    /// The greatest depth at which a thing is shown; one of [`DEPTHS`].
    #[serde(default = "all_of_it")]
    pub depth: String,
}

fn some_tokens() -> u32 {
    CONTEXT_TOKENS
}

fn all_of_it() -> String {
    "full".to_owned()
}

/// A model's question about the past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryQuestion {
    /// A part of what is looked for, in any case; empty: the newest.
    #[serde(default)]
    pub text: String,
    /// Only these kinds; empty: all.
    #[serde(default)]
    pub kinds: Vec<HistoryKind>,
    /// The number of matches.
    #[serde(default = "some_matches")]
    pub limit: u32,
}

fn some_matches() -> u32 {
    HISTORY_MATCHES
}

impl HistoryQuestion {
    /// Returns true if this kind is wanted.
    pub fn wants(&self, kind: HistoryKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

/// All of them, in the order in which they are offered.
pub(super) fn context_tools() -> Vec<ToolSpec> {
    vec![request_context(), query_history(), get_context_budget()]
}

fn request_context() -> ToolSpec {
    let focus = json!({ "type": "string", "minLength": 1, "maxLength": 4096 });
    let input = object(
        &["query"],
        json!({
            "query": { "type": "string", "maxLength": QUERY_CHARS_MAX,
                "description": "What you want to know, in words and names that the project uses." },
            "focus": { "type": "array", "items": focus, "maxItems": FOCUS_MAX,
                "description": "What it is about for sure: a path, `PATH:FROM-TO`, or the name of a definition." },
            "tokens": count(CONTEXT_TOKENS_MIN.into(), CONTEXT_TOKENS_MAX.into(), CONTEXT_TOKENS.into(),
                "How many tokens it may fill."),
            "depth": { "enum": DEPTHS, "default": "full", "description": "How much of a thing may be shown." },
        }),
    );
    let line = json!({ "type": ["integer", "null"] });
    let included = object(
        &["path", "from", "to", "depth"],
        json!({ "path": { "type": "string" }, "from": line, "to": line, "depth": { "enum": DEPTHS } }),
    );
    let output = object(
        &["text", "tokens", "included", "left_out", "notes"],
        json!({
            "text": { "type": "string" }, "tokens": whole(),
            "included": { "type": "array", "items": included }, "left_out": whole(),
            "notes": { "type": "array", "items": { "type": "string" } },
        }),
    );
    let what = "Finds the pieces of the project that matter for a question, within a number of tokens. What you were given \
                before is not given again.";
    tool("request_context", ToolEffect::Reads, what, input, output)
}

fn query_history() -> ToolSpec {
    let kinds = HistoryKind::ALL.map(HistoryKind::as_str);
    let input = object(
        &[],
        json!({
            "text": { "type": "string", "maxLength": 1000, "default": "",
                "description": "A part of what you look for, in any case; empty: the newest." },
            "kinds": { "type": "array", "items": { "enum": kinds },
                "description": "Only these: decisions and errors of this plan, contexts that its nodes were given, commits of the project." },
            "limit": count(1, HISTORY_MATCHES_MAX.into(), HISTORY_MATCHES.into(), "How many matches to give."),
        }),
    );
    let found = object(
        &["kind", "id", "at", "text"],
        json!({
            "kind": { "enum": kinds }, "id": { "type": "string" },
            "at": { "type": "string", "description": "When, in UTC." }, "text": { "type": "string" },
        }),
    );
    let output = object(
        &["matches", "truncated"],
        json!({
            "matches": { "type": "array", "items": found, "maxItems": HISTORY_MATCHES_MAX },
            "truncated": { "type": "boolean" },
        }),
    );
    let what =
        "Looks through what was decided, what failed, what was shown and what was committed, newest first.";
    tool("query_history", ToolEffect::Reads, what, input, output)
}

fn get_context_budget() -> ToolSpec {
    let fields = ["window", "response", "system", "tools", "used", "reserved", "available"];
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), whole())).collect();
    let output = object(&fields, Value::Object(properties));
    let what = "Tells how many tokens of context you can still ask for, and where the others went.";
    tool("get_context_budget", ToolEffect::Reads, what, object(&[], json!({})), output)
}
