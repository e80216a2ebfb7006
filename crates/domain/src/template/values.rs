//! The values that templates and conditions see, and which of them exist.
//!
//! # Invariants
//! 1. A path that [`TemplateScope::check`] accepts has a value in every run; one that it refuses has none.
//! 2. A field of a node's JSON that is not there is null: what a model leaves out is not known before it ran.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::path::TemplatePath;
use crate::record::node_run::NodeRun;
use crate::suggest::{did_you_mean, nearest};

/// The words that are values by themselves; no argument has such a name.
pub const RESERVED: [&str; 9] =
    ["prompt", "task", "strategy", "findings", "definition_of_done", "plan_id", "attempt", "args", "nodes"];

/// The fields of a settled node.
pub const NODE_FIELDS: [&str; 5] = ["text", "exit_code", "outcome", "changed", "json"];

/// The values that templates and conditions see in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// The whole brief: task, strategy, definition of done, invariants, guidance, and findings in a fix or a
    /// retry.
    pub prompt: String,
    /// The task, in the words of the person or the action.
    pub task: String,
    /// The strategy, as strategize found it.
    pub strategy: String,
    /// The findings of checks.
    pub findings: String,
    /// The conditions under which the task counts as done.
    pub definition_of_done: String,
    /// The plan.
    pub plan_id: String,
    /// The plan's attempt.
    pub attempt: u32,
    /// The arguments of the action.
    pub args: BTreeMap<String, Value>,
    /// The results of nodes, as [`node_value`] makes them, by their paths. Shared, because many nodes see the
    /// same.
    pub nodes: BTreeMap<String, Arc<Value>>,
}

/// A path that names no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no value `{path}`{why}")]
pub struct UnknownPath {
    /// The unknown path.
    pub path: String,
    /// The probable intention, or the reason why it is none.
    pub why: String,
}

/// Returns what of a node's end others can use.
pub fn node_value(run: &NodeRun) -> Value {
    json!({
        "text": run.text,
        "exit_code": run.exit,
        "outcome": run.outcome.as_str(),
        "changed": run.changed,
        "json": run.json,
    })
}

/// A value as text: null is nothing, the texts of a list are lines, an object is JSON.
pub fn value_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Cow::Owned(value.to_string()),
        Value::Array(items) => Cow::Owned(items.iter().map(value_text).collect::<Vec<_>>().join("\n")),
    }
}

impl Values {
    /// The value at a path; `None` if there is none.
    pub fn get(&self, path: &TemplatePath) -> Option<Value> {
        let text = |text: &str| Some(Value::from(text));
        let [first, rest @ ..] = path.segments() else { return None };
        match (first.as_str(), rest) {
            ("prompt", []) => text(&self.prompt),
            ("task", []) => text(&self.task),
            ("strategy", []) => text(&self.strategy),
            ("findings", []) => text(&self.findings),
            ("definition_of_done", []) => text(&self.definition_of_done),
            ("plan_id", []) => text(&self.plan_id),
            ("attempt", []) => Some(Value::from(self.attempt)),
            ("args", [name]) => self.args.get(name).cloned(),
            ("nodes", [node, field, rest @ ..]) => {
                let value = self.nodes.get(node)?.get(field)?;
                match (field.as_str(), rest) {
                    (_, []) => Some(value.clone()),
                    ("json", rest) => Some(within(value, rest)),
                    (_, [_, ..]) => None,
                }
            }
            (name, []) => self.args.get(name).cloned(),
            (_, [_, ..]) => None,
        }
    }

    /// Adds the result of a settled node.
    pub fn add(&mut self, run: &NodeRun) {
        self.nodes.insert(run.path.clone(), Arc::new(node_value(run)));
    }
}

/// A list is entered by number from 0, an object by key; what is not there is null.
fn within(value: &Value, way: &[String]) -> Value {
    let found = way.iter().try_fold(value, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    });
    found.cloned().unwrap_or(Value::Null)
}

/// The line of `--for-each` is an argument like any other.
fn undeclared(name: &str) -> String {
    match name {
        "item" => "; an action declares it with `args: {item: {}}`, and `--for-each` gives it".to_owned(),
        _ => String::new(),
    }
}

/// The values that exist at a template or a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateScope {
    /// The names of arguments.
    pub args: BTreeSet<String>,
    /// Nodes that are settled by then.
    pub nodes: BTreeSet<String>,
    /// All other nodes.
    pub later: BTreeSet<String>,
    /// True if the values of a run are known, and not only the arguments.
    pub in_run: bool,
}

impl TemplateScope {
    /// Checks whether there is a value at this path.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub fn check(&self, path: &TemplatePath) -> Result<(), UnknownPath> {
        let unknown = |why: String| Err(UnknownPath { path: path.to_string(), why });
        let [first, rest @ ..] = path.segments() else { return unknown(String::new()) };
        let args = || self.args.iter().map(String::as_str);
        match (first.as_str(), rest) {
            ("args", [name]) if self.args.contains(name) => Ok(()),
            ("args", [name]) => unknown(match nearest(name, args()) {
                Some(meant) => format!("; did you mean `args.{meant}`?"),
                None => undeclared(name),
            }),
            ("args", _) => unknown("; an argument is `args.NAME`".to_owned()),
            (word, _) if RESERVED.contains(&word) && !self.in_run => {
                unknown(": here only the arguments are known".to_owned())
            }
            ("nodes", [node, rest @ ..]) => self.check_node(path, node, rest),
            ("nodes", []) => unknown("; what a node left is `nodes.ID.text`".to_owned()),
            (word, []) if RESERVED.contains(&word) || self.args.contains(word) => Ok(()),
            (word, []) => unknown(match did_you_mean(word, RESERVED.into_iter().chain(args())) {
                meant if meant.is_empty() => undeclared(word),
                meant => meant,
            }),
            (word, [_, ..]) if RESERVED.contains(&word) => unknown(format!(": `{word}` has no parts")),
            (_, [_, ..]) => unknown("; arguments are `args.NAME`, nodes `nodes.ID.FIELD`".to_owned()),
        }
    }

    fn check_node(&self, path: &TemplatePath, node: &str, rest: &[String]) -> Result<(), UnknownPath> {
        let unknown = |why: String| Err(UnknownPath { path: path.to_string(), why });
        if !self.nodes.contains(node) {
            return unknown(match self.later.contains(node) {
                true => format!(": node `{node}` is not settled by then; name it in `needs`"),
                false => match nearest(node, self.nodes.iter().map(String::as_str)) {
                    Some(meant) => format!("; did you mean `{}`?", TemplatePath::of_node(meant, rest)),
                    None => String::new(),
                },
            });
        }
        match rest {
            [field] if NODE_FIELDS.contains(&field.as_str()) => Ok(()),
            [json, _, ..] if json == "json" => Ok(()),
            [field, ..] if !NODE_FIELDS.contains(&field.as_str()) => unknown(format!(
                "; of a node there are {}{}",
                NODE_FIELDS.join(", "),
                did_you_mean(field, NODE_FIELDS)
            )),
            [field, ..] => unknown(format!(": `{field}` has no parts")),
            [] => unknown(format!("; of a node there are {}", NODE_FIELDS.join(", "))),
        }
    }
}
