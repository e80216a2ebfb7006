//! Checks a definition: its templates and conditions against the values that exist at their place, and its
//! names against the things that exist.

use std::collections::{BTreeMap, BTreeSet};

use domain::template::RESERVED;
use domain::{CommandLine, Expr, Template, TemplatePath, TemplateScope, nearest};
use serde_json::Value;

use crate::actor::Actor;
use crate::error::{DiagnosticKind, SourcePosition};
use crate::node::{NodeDef, NodeKindDef};
use crate::node_references;
use crate::reader::DefinitionReader;
use crate::search_path::Library;
use crate::spans::ValueSpan;

/// The arguments that an actor is known to be given.
pub(crate) enum KnownArguments<'a> {
    /// These.
    These(&'a BTreeSet<String>),
    /// The user of the actor decides.
    Unknown,
}

/// Looks at all that an actor names outside itself, and at all its templates and conditions.
pub(crate) fn actor(
    reader: &DefinitionReader<'_>,
    library: &Library,
    actor: &Actor,
    given: &KnownArguments<'_>,
) {
    let all: BTreeSet<String> = actor.nodes.iter().map(|node| node.id.clone()).collect();
    for node in &actor.nodes {
        node_references::outside(reader, library, node);
        let before = before(actor, node);
        let later = all.difference(&before).cloned().collect();
        let args = match given {
            KnownArguments::These(args) => (*args).clone(),
            KnownArguments::Unknown => BTreeSet::new(),
        };
        let known = TemplateScope { args, nodes: before, later, in_run: true };
        let refuse = |path: &TemplatePath, known: &TemplateScope| unknown(path, known, given);
        for NodeTemplate { label, key, text } in templates(node) {
            checked_template(reader, &node.spot(&key), &label, &text, &|path| refuse(path, &known));
        }
        if let Some(condition) = &node.only_if {
            condition_holds(reader, node.place("if"), "if", condition, &|path| refuse(path, &known));
        }
        if let Some(repeat) = &node.repeat {
            let mut after = known.clone();
            after.nodes.insert(node.id.clone());
            let at = node.place("repeat.until");
            condition_holds(reader, at, "until", &repeat.until, &|path| refuse(path, &after));
        }
    }
}

/// The nodes that are settled before one begins. Also works if the needs make no sense, which is reported
/// elsewhere, so that all errors are reported together.
fn before(actor: &Actor, node: &NodeDef) -> BTreeSet<String> {
    let named: BTreeMap<&str, &NodeDef> = actor.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let mut found = BTreeSet::new();
    let mut left: Vec<&String> = node.needs.iter().collect();
    while let Some(need) = left.pop() {
        if let Some(node) = named.get(need.as_str())
            && found.insert(need.clone())
        {
            left.extend(&node.needs);
        }
    }
    found
}

/// Returns the reason why there is no value at a path. If the arguments are not known, a word may be one of
/// them, unless it is a misspelt value that every plan has.
fn unknown(path: &TemplatePath, known: &TemplateScope, given: &KnownArguments<'_>) -> Option<String> {
    let why = known.check(path).err()?;
    let is_open = match (given, path.segments()) {
        (KnownArguments::These(_), _) => false,
        (KnownArguments::Unknown, [args, _]) if args == "args" => true,
        (KnownArguments::Unknown, [word]) => nearest(word, RESERVED).is_none(),
        (KnownArguments::Unknown, _) => false,
    };
    (!is_open).then(|| why.to_string())
}

/// Looks at one template that sees what `known` says.
pub(crate) fn template(
    reader: &DefinitionReader<'_>,
    spot: &ValueSpan,
    key: &str,
    text: &str,
    known: &TemplateScope,
) {
    checked_template(reader, spot, key, text, &|path| known.check(path).err().map(|why| why.to_string()));
}

type PathCheck<'a> = &'a dyn Fn(&TemplatePath) -> Option<String>;

fn checked_template(
    reader: &DefinitionReader<'_>,
    spot: &ValueSpan,
    key: &str,
    text: &str,
    refuse: PathCheck<'_>,
) {
    match Template::parse(text) {
        Err(flaw) => reader.wrong(spot.of(text, flaw.at), format!("`{key}`: {flaw}")),
        Ok(template) => {
            for (path, at) in template.paths().zip(Template::places(text)) {
                if let Some(why) = refuse(path) {
                    let message = format!("`{key}`: {why}");
                    reader.report(DiagnosticKind::TemplateUnknown, spot.of(text, at), message);
                }
            }
        }
    }
}

fn condition_holds(
    reader: &DefinitionReader<'_>,
    at: SourcePosition,
    key: &str,
    text: &str,
    refuse: PathCheck<'_>,
) {
    match Expr::parse(text) {
        Err(flaw) => {
            let letter = text.get(..flaw.at).map_or(0, |before| before.chars().count()) + 1;
            reader.wrong(at, format!("`{key}: {text}`, at character {letter}: {flaw}"));
        }
        Ok(expr) => {
            for why in expr.paths().into_iter().filter_map(refuse) {
                reader.wrong(at, format!("`{key}`: {why}"));
            }
        }
    }
}

/// A template of a node.
struct NodeTemplate {
    /// Its name in a sentence.
    label: String,
    /// The key of its position, as of [`crate::NodeSpans`].
    key: String,
    text: String,
}

fn templates(node: &NodeDef) -> Vec<NodeTemplate> {
    let mut found: Vec<NodeTemplate> = Vec::new();
    let mut add = |label: &str, key: String, text: &str| {
        found.push(NodeTemplate { label: label.to_owned(), key, text: text.to_owned() });
    };
    match &node.does {
        NodeKindDef::Model { system, prompt, .. } => {
            add("system", "system".to_owned(), system);
            add("prompt", "prompt".to_owned(), prompt);
        }
        NodeKindDef::External { prompt, .. } => add("prompt", "prompt".to_owned(), prompt),
        NodeKindDef::Tool { with, .. } => leaves("with", with, &mut |key, text| add("with", key, text)),
        NodeKindDef::Actor { with, .. } => {
            for (name, value) in with {
                leaves(&format!("with.{name}"), value, &mut |key, text| add("with", key, text));
            }
        }
        NodeKindDef::Run(_) => {}
    }
    if let Some(program) = node.does.program() {
        let label = if matches!(node.does, NodeKindDef::Run(_)) { "run" } else { "external" };
        if let CommandLine::Argv(argv) = &program.run {
            for (at, word) in argv.iter().enumerate() {
                add(label, format!("{label}.{at}"), &word.to_string());
            }
        }
        program.stdin.iter().for_each(|text| add("stdin", "stdin".to_owned(), text));
        for (name, value) in &program.env {
            let key = format!("env.{name}");
            add(&key, key.clone(), value);
        }
    }
    found
}

/// Every text in a value, with its key.
fn leaves(key: &str, value: &Value, each: &mut dyn FnMut(String, &str)) {
    match value {
        Value::String(text) => each(key.to_owned(), text),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| leaves(&format!("{key}.{at}"), item, each));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| leaves(&format!("{key}.{name}"), field, each));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
