//! An action, as it is written: a reusable piece of work with arguments.
//!
//! # Invariants
//! Of an action without findings: it has a description, its arguments' defaults fit their own rules, and its
//! templates name arguments alone.

use std::collections::{BTreeMap, BTreeSet};

use domain::template::RESERVED;
use domain::{
    Arg, ArgType, Automation, CHECKS_MAX, CommandLine, INVARIANTS_MAX, Invariant, InvariantRule,
    InvariantScope, RULE_PREFIX, TemplateScope, ValidationMode, arg,
};
use serde_json::Value;

use crate::actor::{self, Actor};
use crate::check;
use crate::error::SourcePosition;
use crate::freeze::RequestedLimits;
use crate::keys;
use crate::node::{self, PROMPT_BYTES_MAX};
use crate::reader::{DefinitionReader, MapFields};
use crate::search_path::is_name;
use crate::yaml::{Yaml, YamlTree};

/// The limit of a description.
const DESCRIPTION_CHARS_MAX: usize = 200;
/// The end of a check that names none, in seconds.
const CHECK_TIMEOUT_S: u64 = 600;
/// The word for no strategist.
const NONE: &str = "none";

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Its description in one line; a template.
    pub description: String,
    /// The task; a template.
    pub prompt: String,
    /// The conditions under which it counts as done.
    pub definition_of_done: Vec<String>,
    /// Its arguments.
    pub args: BTreeMap<String, Arg>,
    /// The actor that does it.
    pub actor: ActorRef,
    /// The actor that strategizes before.
    pub strategist: StrategistRef,
    /// The checks at its end.
    pub validations: Vec<Check>,
    /// The invariants that its changes must satisfy.
    pub invariants: Vec<Invariant>,
    /// The automation profile.
    pub automation: Option<Automation>,
    /// Its limits.
    pub limits: RequestedLimits,
    /// True if nothing is to be written.
    pub read_only: bool,
}

/// The actor of an action.
#[derive(Clone, Debug, PartialEq)]
pub enum ActorRef {
    /// The actor that the settings name.
    Default,
    /// The actor with this name.
    Named {
        /// Its name.
        name: String,
        /// The position of the name.
        at: SourcePosition,
    },
    /// An actor that the action defines itself.
    Inline(Box<Actor>),
}

/// The strategist of an action.
#[derive(Clone, Debug, PartialEq)]
pub enum StrategistRef {
    /// None: the strategy is the task itself.
    None,
    /// An actor.
    Actor(ActorRef),
}

impl ActorRef {
    /// Returns the actor that the action defines itself.
    pub fn inline(&self) -> Option<&Actor> {
        match self {
            ActorRef::Inline(actor) => Some(actor),
            ActorRef::Default | ActorRef::Named { .. } => None,
        }
    }
}

impl StrategistRef {
    /// Returns the strategist, if there is one.
    pub fn actor(&self) -> Option<&ActorRef> {
        match self {
            StrategistRef::Actor(actor) => Some(actor),
            StrategistRef::None => None,
        }
    }
}

/// A check at the end of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The command.
    pub run: CommandLine,
    /// Says if the check can block.
    pub mode: ValidationMode,
    /// Its end, in seconds.
    pub timeout_s: u64,
    /// Its working directory, if it names one.
    pub cwd: Option<String>,
}

/// Reads an action; `None` if too little of it is understood.
pub(crate) fn read(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Option<Action> {
    let fields = reader.fields(tree, "an action")?;
    fields.refuse_unknown_keys(reader, &[keys::ACTION]);
    let args = fields.get("args").map(|tree| read_args(reader, tree)).unwrap_or_default();
    let known =
        TemplateScope { args: args.keys().cloned().collect::<BTreeSet<_>>(), ..TemplateScope::default() };
    let description = description(reader, &fields);
    let prompt = fields.get("prompt").and_then(|tree| reader.text("prompt", tree));
    for (key, text) in [("description", &description), ("prompt", &prompt)] {
        if let (Some(tree), Some(text)) = (fields.get(key), text) {
            check::template(reader, &reader.spot(tree), key, text, &known);
        }
    }
    if let (Some(tree), Some(text)) = (fields.get("prompt"), &prompt)
        && text.len() > PROMPT_BYTES_MAX
    {
        reader.wrong(tree.at, format!("`prompt` has {} bytes, {PROMPT_BYTES_MAX} are allowed", text.len()));
    }
    let done =
        fields.get("definition_of_done").and_then(|tree| reader.texts("definition_of_done", tree, true));
    let automation =
        fields.get("automation").and_then(|tree| reader.one_of("automation", tree, &keys::AUTOMATIONS));
    let read_only =
        fields.get("read_only").and_then(|tree| reader.boolean("read_only", tree)).unwrap_or(false);
    let validations =
        fields.get("validations").map(|tree| read_checks(reader, tree, &known)).unwrap_or_default();
    let invariants = fields.get("invariants").map(|tree| read_invariants(reader, tree)).unwrap_or_default();
    let actor = fields.get("actor").map_or(Some(ActorRef::Default), |tree| actor_ref(reader, "actor", tree));
    let strategist = match fields.get("strategist") {
        None => Some(StrategistRef::Actor(ActorRef::Default)),
        Some(YamlTree { value: Yaml::Text(word), .. }) if word == NONE => Some(StrategistRef::None),
        Some(tree) => actor_ref(reader, "strategist", tree).map(StrategistRef::Actor),
    };
    let description = description?;
    Some(Action {
        prompt: prompt.unwrap_or_else(|| description.clone()),
        description,
        definition_of_done: done.unwrap_or_default().into_iter().map(|(_, text)| text).collect(),
        args,
        actor: actor?,
        strategist: strategist?,
        validations,
        invariants,
        automation: automation.and_then(Automation::built_in),
        limits: fields.get("limits").map(|tree| actor::limits(reader, tree)).unwrap_or_default(),
        read_only,
    })
}

fn description(reader: &DefinitionReader<'_>, fields: &MapFields<'_>) -> Option<String> {
    let Some(tree) = fields.get("description") else {
        reader.wrong(fields.at, "an action needs a `description`: what it does, in one line");
        return None;
    };
    let text = reader.text("description", tree)?;
    let text = text.trim_end().to_owned();
    let length = text.chars().count();
    if text.is_empty() || text.contains('\n') || length > DESCRIPTION_CHARS_MAX {
        let rule =
            format!("one line of 1 to {DESCRIPTION_CHARS_MAX} characters; longer text belongs in `prompt`");
        reader.wrong(tree.at, format!("`description` is {rule}"));
    }
    Some(text)
}

fn actor_ref(reader: &DefinitionReader<'_>, key: &str, tree: &YamlTree) -> Option<ActorRef> {
    if !actor::is_named(tree) {
        return actor::read(reader, tree).map(|actor| ActorRef::Inline(Box::new(actor)));
    }
    let name = reader.text(key, tree)?;
    actor::refuse_bad_name(reader, tree.at, &name);
    Some(ActorRef::Named { name, at: tree.at })
}

fn read_args(reader: &DefinitionReader<'_>, tree: &YamlTree) -> BTreeMap<String, Arg> {
    let mut args: BTreeMap<String, Arg> = BTreeMap::new();
    let Some(fields) = reader.fields(tree, "`args`") else { return args };
    for (key, tree) in fields.entries() {
        let name = &key.name;
        if !is_name(name) {
            reader.wrong(
                key.at,
                format!("`{name}` is not a valid name for an argument: use lower-case letters, digits, `-` and `_`"),
            );
        }
        if RESERVED.contains(&name.as_str()) {
            reader.wrong(
                key.at,
                format!("an argument cannot be named `{name}`: every plan has a value of that name"),
            );
        }
        if let Some(other) =
            args.keys().find(|other| *other != name && arg::variable(other) == arg::variable(name))
        {
            let variable = arg::variable(name);
            reader.wrong(key.at, format!("`{name}` and `{other}` would both be ${variable}"));
        }
        // An argument without a word is a string that has to be given.
        let read = match &tree.value {
            Yaml::Null => Some(Arg::default()),
            Yaml::Boolean(_) | Yaml::Number(_) | Yaml::Text(_) | Yaml::List(_) | Yaml::Map(_) => {
                read_arg(reader, tree)
            }
        };
        if let Some(read) = read {
            for flaw in read.flaws() {
                reader.wrong(tree.at, format!("argument `{name}`: {flaw}"));
            }
            args.entry(name.clone()).or_insert(read);
        }
    }
    args
}

fn read_arg(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Option<Arg> {
    let fields = reader.fields(tree, "an argument")?;
    fields.refuse_unknown_keys(reader, &[keys::ARG]);
    let text = |key: &str| fields.get(key).and_then(|tree| reader.text(key, tree));
    let number = |key: &str| fields.get(key).and_then(|tree| reader.number(key, tree));
    let kind = fields.get("type").and_then(|tree| reader.one_of("type", tree, &keys::ARG_TYPES));
    let choices = fields.get("choices").map(|tree| match tree.to_json() {
        Value::Array(choices) if !choices.is_empty() => choices,
        Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_) => {
            reader.wrong(tree.at, "`choices` takes a list that is not empty");
            Vec::new()
        }
    });
    Some(Arg {
        kind: kind.and_then(ArgType::parse).unwrap_or_default(),
        default: fields.get("default").map(YamlTree::to_json),
        description: text("description").unwrap_or_default(),
        pattern: text("pattern"),
        choices: choices.unwrap_or_default(),
        min: number("min"),
        max: number("max"),
    })
}

fn read_checks(reader: &DefinitionReader<'_>, tree: &YamlTree, known: &TemplateScope) -> Vec<Check> {
    let Yaml::List(items) = &tree.value else {
        reader.wrong(tree.at, format!("`validations` takes a list, this is {}", tree.kind()));
        return Vec::new();
    };
    if items.len() > CHECKS_MAX {
        reader.wrong(tree.at, format!("there are {} checks, at most {CHECKS_MAX} are allowed", items.len()));
        return Vec::new();
    }
    items.iter().filter_map(|item| read_check(reader, item, known)).collect()
}

fn read_check(reader: &DefinitionReader<'_>, tree: &YamlTree, known: &TemplateScope) -> Option<Check> {
    let whole = |run: CommandLine| Check {
        name: run.render(),
        run,
        mode: ValidationMode::Required,
        timeout_s: CHECK_TIMEOUT_S,
        cwd: None,
    };
    if let Yaml::Text(_) = tree.value {
        let check = node::command(reader, "run", tree).map(whole)?;
        refuse_name_of_rule(reader, tree.at, &check.name);
        return Some(check);
    }
    let fields = reader.fields(tree, "a validation")?;
    fields.refuse_unknown_keys(reader, &[keys::CHECK]);
    let Some(run_tree) = fields.get("run") else {
        reader.wrong(tree.at, "a validation needs `run`: the command that checks");
        return None;
    };
    let run = node::command(reader, "run", run_tree)?;
    if let CommandLine::Argv(argv) = &run {
        let items = run_tree.items();
        for (word, item) in argv.iter().zip(items) {
            check::template(reader, &reader.spot(item), "run", &word.to_string(), known);
        }
    }
    let mode = fields.get("mode").and_then(|tree| reader.one_of("mode", tree, &keys::MODES));
    let timeout =
        fields.get("timeout").and_then(|tree| reader.seconds("timeout", tree, 1, keys::TIMEOUT_MAX_S));
    let bare = whole(run);
    let name = fields.get("name").and_then(|tree| reader.text("name", tree)).unwrap_or(bare.name);
    refuse_name_of_rule(reader, fields.get("name").map_or(run_tree.at, |tree| tree.at), &name);
    Some(Check {
        name,
        mode: match mode {
            Some("informational") => ValidationMode::Informational,
            Some(_) | None => ValidationMode::Required,
        },
        timeout_s: timeout.unwrap_or(CHECK_TIMEOUT_S),
        cwd: fields.get("cwd").and_then(|tree| node::cwd(reader, tree)),
        run: bare.run,
    })
}

/// Refuses a check with the name of a rule: its result counts for its name, so it would count for the rule.
fn refuse_name_of_rule(reader: &DefinitionReader<'_>, at: SourcePosition, name: &str) {
    if name.starts_with(RULE_PREFIX) {
        reader.wrong(at, format!("the name of a check cannot begin with `{RULE_PREFIX}`: names of rules do"));
    }
}

fn read_invariants(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Vec<Invariant> {
    let Yaml::List(items) = &tree.value else {
        reader.wrong(tree.at, format!("`invariants` takes a list, this is {}", tree.kind()));
        return Vec::new();
    };
    if items.len() > INVARIANTS_MAX {
        reader.wrong(
            tree.at,
            format!("there are {} invariants, at most {INVARIANTS_MAX} are allowed", items.len()),
        );
    }
    items.iter().filter_map(|item| read_invariant(reader, item)).collect()
}

fn read_invariant(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Option<Invariant> {
    let scope = InvariantScope::Action;
    let told = |read: Result<Invariant, String>| read.map_err(|flaw| reader.wrong(tree.at, flaw)).ok();
    if let Yaml::Text(text) = &tree.value {
        return told(Invariant::parse(text, scope));
    }
    let fields = reader.fields(tree, "an invariant")?;
    fields.refuse_unknown_keys(reader, &[keys::INVARIANT]);
    let globs = |key: &str| {
        let texts = fields.get(key).and_then(|tree| reader.texts(key, tree, true))?;
        Some(texts.into_iter().map(|(_, text)| text).collect::<Vec<String>>())
    };
    let count = |key: &str| fields.get(key).and_then(|tree| reader.count(key, tree, 0, u64::MAX >> 1));
    let rules: Vec<InvariantRule> = [
        globs("never").map(InvariantRule::Never),
        globs("only").map(InvariantRule::Only),
        count("max_files").map(InvariantRule::MaxFiles),
        count("max_lines").map(InvariantRule::MaxLines),
    ]
    .into_iter()
    .flatten()
    .collect();
    let text = fields.get("text").and_then(|tree| reader.text("text", tree));
    match &rules[..] {
        [rule] => told(Invariant::of_rule(rule.clone(), text, scope)),
        [] => {
            reader.wrong(
                tree.at,
                "an invariant is a sentence, or has one of never, only, max_files, max_lines",
            );
            None
        }
        [_, _, ..] => {
            reader.wrong(
                tree.at,
                "an invariant has one rule: write one for each of never, only, max_files, max_lines",
            );
            None
        }
    }
}
