//! Templates and conditions of a definition, held against the values that there are where they stand.

use std::collections::BTreeSet;

use domain::template::RESERVED;
use domain::{Expr, Graph, Known, Run, Template, TemplatePath, nearest};
use serde_json::Value;

use super::actor::{Actor, skeleton};
use super::finding::{FindingKind, Place};
use super::node::{Node, NodeDoes};
use super::reader::Reader;

/// Which arguments an actor is known to be given.
pub(super) enum Given<'a> {
    /// These.
    These(&'a BTreeSet<String>),
    /// Whoever uses it decides.
    Unknown,
}

/// Looks at all templates and conditions of an actor.
pub(super) fn actor(reader: &Reader<'_>, actor: &Actor, given: &Given<'_>) {
    // An actor whose needs make no sense was told of already.
    let Ok(graph) = Graph::new(&skeleton(&actor.nodes)) else { return };
    let all: BTreeSet<String> = actor.nodes.iter().map(|node| node.id.clone()).collect();
    for (at, node) in actor.nodes.iter().enumerate() {
        let before: BTreeSet<String> =
            graph.ancestors(at).into_iter().map(|at| actor.nodes[at].id.clone()).collect();
        let later = all.difference(&before).cloned().collect();
        let args = match given {
            Given::These(args) => (*args).clone(),
            Given::Unknown => BTreeSet::new(),
        };
        let known = Known { args, nodes: before, later, in_run: true };
        let refuse = |path: &TemplatePath, known: &Known| unknown(path, known, given);
        for (label, text) in templates(node) {
            checked_template(reader, node.at, &label, &text, &|path| refuse(path, &known));
        }
        if let Some(condition) = &node.only_if {
            condition_holds(reader, node.at, "if", condition, &|path| refuse(path, &known));
        }
        if let Some(repeat) = &node.repeat {
            let mut after = known.clone();
            after.nodes.insert(node.id.clone());
            condition_holds(reader, node.at, "until", &repeat.until, &|path| refuse(path, &after));
        }
    }
}

/// Why there is no value at a path. Where the arguments are not known, a word may be one, unless it is a slip for a value
/// that every plan has.
fn unknown(path: &TemplatePath, known: &Known, given: &Given<'_>) -> Option<String> {
    let why = known.check(path).err()?;
    let is_open = match (given, path.segments()) {
        (Given::These(_), _) => false,
        (Given::Unknown, [args, _]) if args == "args" => true,
        (Given::Unknown, [word]) => nearest(word, RESERVED).is_none(),
        (Given::Unknown, _) => false,
    };
    (!is_open).then(|| why.to_string())
}

/// Looks at one template that sees what `known` says.
pub(super) fn template(reader: &Reader<'_>, at: Place, key: &str, text: &str, known: &Known) {
    checked_template(reader, at, key, text, &|path| known.check(path).err().map(|why| why.to_string()));
}

type Refuse<'a> = &'a dyn Fn(&TemplatePath) -> Option<String>;

fn checked_template(reader: &Reader<'_>, at: Place, key: &str, text: &str, refuse: Refuse<'_>) {
    match Template::parse(text) {
        Err(flaw) => reader.wrong(at, format!("`{key}`: {flaw}")),
        Ok(template) => {
            for why in template.paths().filter_map(refuse) {
                reader.tell(FindingKind::TemplateUnknown, at, format!("`{key}`: {why}"));
            }
        }
    }
}

fn condition_holds(reader: &Reader<'_>, at: Place, key: &str, text: &str, refuse: Refuse<'_>) {
    match Expr::parse(text) {
        Err(flaw) => {
            let letter = text.get(..flaw.at).map_or(0, |before| before.chars().count()) + 1;
            reader.wrong(at, format!("`{key}: {text}`, at letter {letter}: {flaw}"));
        }
        Ok(expr) => {
            for why in expr.paths().into_iter().filter_map(refuse) {
                reader.wrong(at, format!("`{key}`: {why}"));
            }
        }
    }
}

/// All templates of a node, with the keys that they stand under.
pub(super) fn templates(node: &Node) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut add = |key: &str, text: &str| found.push((key.to_owned(), text.to_owned()));
    match &node.does {
        NodeDoes::Model { system, prompt, .. } => {
            add("system", system);
            add("prompt", prompt);
        }
        NodeDoes::External { prompt, .. } => add("prompt", prompt),
        NodeDoes::Tool { with, .. } => leaves(with, &mut |text| add("with", text)),
        NodeDoes::Actor { with, .. } => {
            with.values().for_each(|value| leaves(value, &mut |text| add("with", text)))
        }
        NodeDoes::Run(_) => {}
    }
    if let Some(program) = node.does.program() {
        let key = if matches!(node.does, NodeDoes::Run(_)) { "run" } else { "external" };
        if let Run::Argv(argv) = &program.run {
            argv.iter().for_each(|word| add(key, &word.to_string()));
        }
        program.stdin.iter().for_each(|text| add("stdin", text));
        program.env.iter().for_each(|(name, value)| add(&format!("env.{name}"), value));
    }
    found
}

/// Every text in a value.
fn leaves(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, each)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
