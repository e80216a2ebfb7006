//! An actor, as it is written: nodes that need each other.
//!
//! # Invariants
//! Of an actor without findings: its nodes have names, what they need is there, none need each other in a circle, and
//! `fix` and `result` are nodes.

use std::collections::BTreeSet;

use domain::{Does, Graph, GraphFlaw, Step, did_you_mean};

use super::finding::Place;
use super::freeze::AskedLimits;
use super::keys;
use super::library::is_name;
use super::node::{self, BRIEF, Node, NodeDoes};
use super::reader::{Fields, Reader};
use super::yaml::{Tree, Yaml};

/// The node of an actor that is one.
pub(super) const ONLY_NODE: &str = "main";
/// How many nodes an actor has at most, those of nested actors included.
pub(super) const NODES_MAX: usize = 500;

/// An actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Actor {
    /// What it is good for.
    pub description: String,
    /// Its nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// The node that mends what checks found.
    pub fix: Option<String>,
    /// The node whose text is the answer.
    pub result: String,
    /// What it may use.
    pub limits: AskedLimits,
}

/// Reads an actor; none when too little of it is understood.
pub(super) fn read(reader: &Reader<'_>, tree: &Tree) -> Option<Actor> {
    let fields = reader.fields(tree, "an actor")?;
    let nodes = match fields.get("nodes") {
        Some(nodes) => {
            fields.refuse_others(reader, &[keys::ACTOR]);
            read_nodes(reader, nodes)
        }
        None => {
            if keys::NODE_KINDS.iter().all(|kind| fields.get(kind).is_none()) {
                let kinds = keys::NODE_KINDS.join("`, `");
                reader.wrong(tree.at, format!("an actor has `nodes`, or is one node: one of `{kinds}`"));
                fields.refuse_others(reader, &[keys::ACTOR, keys::NODE]);
                return None;
            }
            vec![node::read(reader, ONLY_NODE, &fields, &[keys::ACTOR])?]
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

fn read_nodes(reader: &Reader<'_>, tree: &Tree) -> Vec<Node> {
    let Some(fields) = reader.fields(tree, "`nodes`") else { return Vec::new() };
    let mut nodes: Vec<Node> = Vec::new();
    for (key, tree) in fields.entries() {
        let is_id = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if key.name.is_empty() || key.name.len() > 64 || !key.name.chars().all(is_id) {
            let rule = "letters, digits, `-` and `_`, at most 64";
            reader.wrong(key.at, format!("`{}` is no name for a node: {rule}", key.name));
        }
        let Some(fields) = reader.fields(tree, "a node") else { continue };
        let read = node::read(reader, &key.name, &fields, &[]);
        nodes.extend(
            read.map(|node| Node { at: key.at, ..node }).filter(|new| nodes.iter().all(|n| n.id != new.id)),
        );
    }
    if fields.entries().next().is_none() {
        reader.wrong(tree.at, "there is no node");
    }
    if nodes.len() > NODES_MAX {
        reader.wrong(tree.at, format!("{} nodes are more than {NODES_MAX}", nodes.len()));
    }
    nodes
}

/// The graph of the nodes, or what is wrong with it.
fn graph(reader: &Reader<'_>, nodes: &[Node]) -> Option<Graph> {
    let flaws = match Graph::new(&skeleton(nodes)) {
        Ok(graph) => return Some(graph),
        Err(flaws) => flaws,
    };
    for flaw in flaws {
        let name = match &flaw {
            GraphFlaw::Duplicate { node } | GraphFlaw::UnknownNeed { node, .. } => Some(node),
            GraphFlaw::Cycle { nodes } => nodes.first(),
        };
        let at = nodes.iter().find(|node| name.is_some_and(|name| *name == node.id));
        reader.wrong(at.map_or(Place::default(), |node| node.at), flaw.to_string());
    }
    None
}

/// The nodes as steps, for the rules of graphs alone.
pub(super) fn skeleton(nodes: &[Node]) -> Vec<Step> {
    let step = |node: &Node| Step {
        needs: Some(node.needs.clone()),
        on: node.on,
        ..Step::new(&node.id, Does::Wait { seconds: 0 })
    };
    nodes.iter().map(step).collect()
}

fn named_node(reader: &Reader<'_>, fields: &Fields<'_>, key: &str, nodes: &[Node]) -> Option<String> {
    let tree = fields.get(key)?;
    let name = reader.text(key, tree)?;
    if nodes.iter().any(|node| node.id == name) {
        return Some(name);
    }
    let meant = did_you_mean(&name, nodes.iter().map(|node| node.id.as_str()));
    reader.wrong(tree.at, format!("`{key}` names `{name}`, which is no node{meant}"));
    None
}

/// The node that mends: the one that is named, or the only one if it is told the brief.
fn fix(reader: &Reader<'_>, fields: &Fields<'_>, nodes: &[Node]) -> Option<String> {
    if let (Some(name), Some(tree)) = (named_node(reader, fields, "fix", nodes), fields.get("fix")) {
        let is_actor = |node: &&Node| node.id == name && matches!(node.does, NodeDoes::Actor { .. });
        if nodes.iter().any(|node| is_actor(&node)) {
            reader.wrong(
                tree.at,
                format!("`fix` names `{name}`, which stands for an actor: name a node that works"),
            );
        }
        return Some(name);
    }
    match nodes {
        [only] if fields.get("fix").is_none() && is_told_the_brief(only) => Some(only.id.clone()),
        _ => None,
    }
}

fn is_told_the_brief(node: &Node) -> bool {
    let has = |text: &str| text.contains(BRIEF);
    match &node.does {
        NodeDoes::Model { .. } | NodeDoes::External { .. } => true,
        NodeDoes::Run(program) => {
            let in_argv = match &program.run {
                domain::Run::Argv(argv) => argv.iter().any(|word| has(&word.to_string())),
                domain::Run::Shell(_) => false,
            };
            in_argv
                || program.stdin.as_deref().is_some_and(has)
                || program.env.iter().any(|(_, value)| has(value))
        }
        NodeDoes::Tool { .. } | NodeDoes::Actor { .. } => false,
    }
}

/// What may be used; a definition can only ask for less than the user allows.
pub(super) fn limits(reader: &Reader<'_>, tree: &Tree) -> AskedLimits {
    let Some(fields) = reader.fields(tree, "`limits`") else { return AskedLimits::default() };
    fields.refuse_others(reader, &[keys::LIMITS]);
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
    AskedLimits {
        time_s: fields.get("time").and_then(|tree| reader.seconds("time", tree, 1, 30 * 86_400)),
        steps: count("steps", 1_000_000_000),
        tool_calls: count("tool_calls", 1_000_000_000),
        tokens: count("tokens", 1_000_000_000_000),
        cost,
        parallel: parallel.and_then(|parallel| u32::try_from(parallel).ok()),
    }
}

pub(super) fn refuse_bad_name(reader: &Reader<'_>, at: Place, name: &str) {
    if !is_name(name) {
        reader.wrong(at, format!("`{name}` is no name of an actor: small letters, digits, `-` and `_`"));
    }
}

impl Actor {
    /// The names of the actors that it is made of.
    pub fn nested(&self) -> BTreeSet<&str> {
        self.nodes
            .iter()
            .filter_map(|node| match &node.does {
                NodeDoes::Actor { name, .. } => Some(name.as_str()),
                NodeDoes::Model { .. }
                | NodeDoes::Tool { .. }
                | NodeDoes::Run(_)
                | NodeDoes::External { .. } => None,
            })
            .collect()
    }
}

/// Whether a tree is the name of an actor, and not an actor.
pub(super) fn is_named(tree: &Tree) -> bool {
    matches!(tree.value, Yaml::Text(_))
}
