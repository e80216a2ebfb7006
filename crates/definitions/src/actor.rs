//! An actor, as it is written: nodes that need each other.
//!
//! # Invariants
//! In an actor without findings, nodes have names, their needs exist, and no needs form a circle. `result` is
//! a node, and so is the first part of `fix`.

use std::collections::BTreeSet;

use domain::{GraphFlaw, MEMBER_SEPARATOR, NodeKind, PlanGraph, PlanStep, did_you_mean};

use crate::error::SourcePosition;
use crate::freeze::RequestedLimits;
use crate::keys;
use crate::node::{self, BRIEF, NodeDef, NodeKindDef};
use crate::reader::{DefinitionReader, MapFields};
use crate::search_path::is_reference;
use crate::yaml::{Yaml, YamlTree};

/// The node of an actor that is one.
pub(crate) const ONLY_NODE: &str = "main";
/// The number of nodes that an actor has at most, those of nested actors included.
pub(crate) const NODES_MAX: usize = 500;

/// An actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Actor {
    /// Its purpose.
    pub description: String,
    /// Its nodes, in the order of the file.
    pub nodes: Vec<NodeDef>,
    /// The node that repairs the findings of checks.
    pub fix: Option<RepairNode>,
    /// The node whose text is the answer.
    pub result: String,
    /// Its limits.
    pub limits: RequestedLimits,
}

/// The node that repairs the findings of checks, as it is written. `flatten` finds the step, because it has
/// the nested actors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairNode {
    /// A node, or `ID/CHILD` within a nested actor. One that represents an actor means the repair node of
    /// that actor.
    pub node: String,
    /// The position of the name; `None` if it is the only node.
    pub at: Option<SourcePosition>,
}

/// Reads an actor; `None` if too little of it is understood.
pub(crate) fn read(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Option<Actor> {
    let fields = reader.fields(tree, "an actor")?;
    let nodes = match fields.get("nodes") {
        Some(nodes) => {
            fields.refuse_unknown_keys(reader, &[keys::ACTOR]);
            read_nodes(reader, nodes)
        }
        None => {
            if keys::NODE_KINDS.iter().all(|kind| fields.get(kind).is_none()) {
                let kinds = keys::NODE_KINDS.join("`, `");
                reader.wrong(tree.at, format!("an actor has `nodes`, or is one node: one of `{kinds}`"));
                fields.refuse_unknown_keys(reader, &keys::ALL_OF_NODES);
                return None;
            }
            vec![node::read(reader, ONLY_NODE, &fields, &[keys::ACTOR])]
        }
    };
    if nodes.is_empty() {
        return None;
    }
    let graph = graph(reader, &nodes);
    let last = graph.and_then(|graph| graph.last_sink()).unwrap_or(nodes.len() - 1);
    let result = named_node(reader, &fields, "result", &nodes);
    Some(Actor {
        description: fields
            .get("description")
            .and_then(|tree| reader.text("description", tree))
            .unwrap_or_default(),
        fix: fix(reader, &fields, &nodes),
        result: result.unwrap_or_else(|| nodes[last].id.clone()),
        limits: fields.get("limits").map(|tree| limits(reader, tree)).unwrap_or_default(),
        nodes,
    })
}

fn read_nodes(reader: &DefinitionReader<'_>, tree: &YamlTree) -> Vec<NodeDef> {
    let Some(fields) = reader.fields(tree, "`nodes`") else { return Vec::new() };
    let mut nodes: Vec<NodeDef> = Vec::new();
    for (key, tree) in fields.entries() {
        let is_id = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if key.name.is_empty() || key.name.len() > 64 || !key.name.chars().all(is_id) {
            let rule = "letters, digits, `-` and `_`, at most 64";
            reader.wrong(key.at, format!("`{}` is not a valid name for a node: use {rule}", key.name));
        }
        let node = match reader.fields(tree, "a node") {
            Some(fields) => NodeDef { at: key.at, ..node::read(reader, &key.name, &fields, &[]) },
            None => NodeDef::unread(&key.name, key.at),
        };
        if nodes.iter().all(|earlier| earlier.id != node.id) {
            nodes.push(node);
        }
    }
    if fields.entries().next().is_none() {
        reader.wrong(tree.at, "an actor needs at least one node");
    }
    if nodes.len() > NODES_MAX {
        reader.wrong(tree.at, format!("there are {} nodes, at most {NODES_MAX} are allowed", nodes.len()));
    }
    nodes
}

/// The graph of the nodes, or what is wrong with it.
fn graph(reader: &DefinitionReader<'_>, nodes: &[NodeDef]) -> Option<PlanGraph> {
    let flaws = match PlanGraph::new(&skeleton(nodes)) {
        Ok(graph) => return Some(graph),
        Err(flaws) => flaws,
    };
    for flaw in flaws {
        let (name, need) = match &flaw {
            GraphFlaw::Duplicate { node } => (Some(node), None),
            GraphFlaw::UnknownNeed { node, need, .. } => (Some(node), Some(need)),
            GraphFlaw::Cycle { nodes } => (nodes.first(), None),
        };
        let node = nodes.iter().find(|node| name.is_some_and(|name| *name == node.id));
        let at = node.map(|node| {
            let wrong = node.needs.iter().position(|other| Some(other) == need);
            wrong.map_or(node.at, |wrong| node.place(&format!("needs.{wrong}")))
        });
        reader.wrong(at.unwrap_or_default(), flaw.to_string());
    }
    None
}

/// The nodes as steps, for the rules of graphs alone.
pub(crate) fn skeleton(nodes: &[NodeDef]) -> Vec<PlanStep> {
    let step = |node: &NodeDef| PlanStep {
        needs: Some(node.needs.clone()),
        on: node.on,
        ..PlanStep::new(&node.id, NodeKind::Wait { seconds: 0 })
    };
    nodes.iter().map(step).collect()
}

fn named_node(
    reader: &DefinitionReader<'_>,
    fields: &MapFields<'_>,
    key: &str,
    nodes: &[NodeDef],
) -> Option<String> {
    let tree = fields.get(key)?;
    let name = reader.text(key, tree)?;
    node_called(reader, (key, tree.at), &name, nodes).map(|_| name)
}

fn node_called<'n>(
    reader: &DefinitionReader<'_>,
    (key, at): (&str, SourcePosition),
    name: &str,
    nodes: &'n [NodeDef],
) -> Option<&'n NodeDef> {
    let found = nodes.iter().find(|node| node.id == name);
    if found.is_none() {
        let meant = did_you_mean(name, nodes.iter().map(|node| node.id.as_str()));
        reader.wrong(at, format!("`{key}` names `{name}`, which is not a node{meant}"));
    }
    found
}

/// Returns the repair node: the named one, or the only node if it reads the brief.
fn fix(reader: &DefinitionReader<'_>, fields: &MapFields<'_>, nodes: &[NodeDef]) -> Option<RepairNode> {
    let Some(tree) = fields.get("fix") else {
        return match nodes {
            [only] if may_mend(only) => Some(RepairNode { node: only.id.clone(), at: None }),
            _ => None,
        };
    };
    let name = reader.text("fix", tree)?;
    match name.split_once(MEMBER_SEPARATOR) {
        None => {
            node_called(reader, ("fix", tree.at), &name, nodes)?;
        }
        Some((outer, _)) => {
            let outer = node_called(reader, ("fix", tree.at), outer, nodes)?;
            if !matches!(outer.does, NodeKindDef::Actor { .. }) {
                let message =
                    format!("`fix` names `{name}`, but node `{}` has no nodes: it is not an actor", outer.id);
                reader.wrong(tree.at, message);
                return None;
            }
        }
    }
    Some(RepairNode { node: name, at: Some(tree.at) })
}

/// Returns true if the only node of an actor repairs: it reads the brief, or it is an actor, which names its
/// own repair node.
fn may_mend(node: &NodeDef) -> bool {
    matches!(node.does, NodeKindDef::Actor { .. }) || is_told_the_brief(node)
}

fn is_told_the_brief(node: &NodeDef) -> bool {
    let has = |text: &str| text.contains(BRIEF);
    match &node.does {
        NodeKindDef::Model { .. } | NodeKindDef::External { .. } => true,
        NodeKindDef::Run(program) => {
            let in_argv = match &program.run {
                domain::CommandLine::Argv(argv) => argv.iter().any(|word| has(&word.to_string())),
                domain::CommandLine::Shell(_) => false,
            };
            in_argv
                || program.stdin.as_deref().is_some_and(has)
                || program.env.iter().any(|(_, value)| has(value))
        }
        NodeKindDef::Tool { .. } | NodeKindDef::Actor { .. } => false,
    }
}

/// Reads the limits; a definition can only ask for less than the user allows.
pub(crate) fn limits(reader: &DefinitionReader<'_>, tree: &YamlTree) -> RequestedLimits {
    let Some(fields) = reader.fields(tree, "`limits`") else { return RequestedLimits::default() };
    fields.refuse_unknown_keys(reader, &[keys::LIMITS]);
    let count = |key: &str, max| fields.get(key).and_then(|tree| reader.count(key, tree, 0, max));
    let cost = fields.get("cost").and_then(|tree| {
        let dollars = reader.number("cost", tree)?;
        if (0.0..=1_000_000.0).contains(&dollars) {
            return Some((dollars * 1e6).round() as u64);
        }
        reader.wrong(tree.at, "`cost` takes dollars from 0 to 1000000");
        None
    });
    let parallel = fields
        .get("parallel")
        .and_then(|tree| reader.count("parallel", tree, 1, domain::PARALLEL_MAX.into()));
    RequestedLimits {
        time_s: fields.get("time").and_then(|tree| reader.seconds("time", tree, 1, 30 * 86_400)),
        steps: count("steps", 1_000_000_000),
        tool_calls: count("tool_calls", 1_000_000_000),
        tokens: count("tokens", 1_000_000_000_000),
        cost,
        parallel: parallel.and_then(|parallel| u32::try_from(parallel).ok()),
    }
}

pub(crate) fn refuse_bad_name(reader: &DefinitionReader<'_>, at: SourcePosition, name: &str) {
    if !is_reference(name) {
        reader.wrong(
            at,
            format!("`{name}` is not a valid name for an actor: use lower-case letters, digits, `-` and `_`"),
        );
    }
}

impl Actor {
    /// The names of the actors that it is made of.
    pub fn nested(&self) -> BTreeSet<&str> {
        self.nodes
            .iter()
            .filter_map(|node| match &node.does {
                NodeKindDef::Actor { name, .. } => Some(name.as_str()),
                NodeKindDef::Model { .. }
                | NodeKindDef::Tool { .. }
                | NodeKindDef::Run(_)
                | NodeKindDef::External { .. } => None,
            })
            .collect()
    }
}

/// Returns true if a tree is the name of an actor, and not an actor.
pub(crate) fn is_named(tree: &YamlTree) -> bool {
    matches!(tree.value, Yaml::Text(_))
}
