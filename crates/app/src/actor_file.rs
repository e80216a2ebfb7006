//! An actor file: the steps of a plan, as nodes that need each other.
//!
//! ```yaml
//! nodes:
//!   look:  { tool: read, with: { path: README.md } }
//!   fix:   { run: sh fix.sh, needs: [look], retries: 2, timeout: 5m }
//!   pause: { tool: wait, with: { seconds: 5 }, needs: [fix] }
//! ```
//!
//! # Invariants
//! 1. A node comes after all that it needs; among those that could come next, the first in the file does.
//! 2. What is not understood is an error that names its place; nothing is guessed or left out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use domain::{ByteText, CommandTask, Does, RETRIES_PER_STEP_MAX, Run, STEPS_MAX, Step};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::text_file;
use crate::time::parse_duration;

/// How large a file may be: steps are few and short.
const BYTES_MAX: u64 = 256 * 1024;
/// The bounds of a step's end, in seconds.
const TIMEOUT_MAX_S: u64 = 86_400;

/// Why a file is no actor.
#[derive(Debug, thiserror::Error)]
pub enum ActorFileError {
    /// It cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is not what an actor looks like.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// Its nodes make no sense together.
    #[error("{}: {why}", path.display())]
    Senseless {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Actor {
    #[serde(default)]
    #[allow(dead_code, reason = "for people who read the file")]
    description: Option<String>,
    nodes: Nodes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    run: Option<Run>,
    tool: Option<Tool>,
    #[serde(default)]
    with: With,
    #[serde(default)]
    needs: Vec<String>,
    timeout: Option<String>,
    retries: Option<u32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tool {
    Read,
    Write,
    Edit,
    Wait,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct With {
    path: Option<String>,
    text: Option<String>,
    old: Option<String>,
    new: Option<String>,
    seconds: Option<u64>,
}

impl With {
    fn is_empty(&self) -> bool {
        let With { path, text, old, new, seconds } = self;
        [path, text, old, new].iter().all(|word| word.is_none()) && seconds.is_none()
    }
}

/// Nodes in the order of the file.
struct Nodes(Vec<(String, Node)>);

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Nodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from the name of a node to the node")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Nodes, M::Error> {
                let mut nodes = Vec::new();
                while let Some(node) = map.next_entry()? {
                    nodes.push(node);
                }
                Ok(Nodes(nodes))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// The steps that a file asks for; what it does not say of a command is taken from `like`.
///
/// # Errors
/// It cannot be read, or it is no actor.
pub fn read(path: &Path, like: &CommandTask) -> Result<Vec<Step>, ActorFileError> {
    let unreadable = |source| ActorFileError::Unreadable { path: path.to_owned(), source };
    let bytes = text_file::read(path, BYTES_MAX).map_err(unreadable)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| unreadable(std::io::Error::new(std::io::ErrorKind::InvalidData, error)))?;
    let actor: Actor = serde_saphyr::from_str(&text).map_err(|error| ActorFileError::Malformed {
        path: path.to_owned(),
        why: error.to_string().lines().next().unwrap_or_default().to_owned(),
    })?;
    steps(actor.nodes.0, like).map_err(|why| ActorFileError::Senseless { path: path.to_owned(), why })
}

fn steps(nodes: Vec<(String, Node)>, like: &CommandTask) -> Result<Vec<Step>, String> {
    match nodes.len() {
        0 => return Err("there is no node".to_owned()),
        1..=STEPS_MAX => {}
        many => return Err(format!("{many} nodes are more than {STEPS_MAX}")),
    }
    let mut waiting = BTreeMap::new();
    for (at, (name, node)) in nodes.iter().enumerate() {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(format!("`{name}` is no name: letters, digits, `-` and `_`"));
        }
        if let Some(unknown) = node.needs.iter().find(|need| !nodes.iter().any(|(name, _)| name == *need)) {
            return Err(format!("node {name} needs `{unknown}`, which is no node"));
        }
        waiting.insert(at, node.needs.clone());
    }
    let mut done: Vec<usize> = Vec::new();
    while !waiting.is_empty() {
        let is_done = |need: &String| done.iter().any(|at| nodes[*at].0 == *need);
        let next = waiting.iter().find(|(_, needs)| needs.iter().all(is_done)).map(|(at, _)| *at);
        let Some(next) = next else {
            let names: Vec<&str> = waiting.keys().map(|at| nodes[*at].0.as_str()).collect();
            return Err(format!("these nodes need each other in a circle: {}", names.join(", ")));
        };
        waiting.remove(&next);
        done.push(next);
    }
    done.into_iter()
        .map(|at| {
            let (name, node) = &nodes[at];
            step(name, node, like).map_err(|why| format!("node {name}: {why}"))
        })
        .collect()
}

fn step(name: &str, node: &Node, like: &CommandTask) -> Result<Step, String> {
    let timeout = node.timeout.as_deref().map(parse_duration).transpose().map_err(|why| why.to_string())?;
    if timeout.is_some_and(|timeout| !(1..=TIMEOUT_MAX_S).contains(&timeout.as_secs())) {
        return Err("a timeout is from 1s to 24h".to_owned());
    }
    let words = node.run.as_ref().map(Run::argv).unwrap_or_default();
    if words.iter().any(|word| word.as_bytes().contains(&0)) {
        return Err("a command cannot hold a NUL".to_owned());
    }
    let With { path, text, old, new, seconds } = &node.with;
    let path = path.as_deref().map(ByteText::from);
    let does = match (&node.run, node.tool) {
        (Some(run), None) if node.with.is_empty() => Does::Command(CommandTask {
            run: run.clone(),
            timeout_s: timeout.map_or(like.timeout_s, |timeout| Some(timeout.as_secs())),
            ..like.clone()
        }),
        (None, Some(Tool::Read)) => match path {
            Some(path) => Does::Read { path },
            None => return Err("read needs `with: { path: … }`".to_owned()),
        },
        (None, Some(Tool::Write)) => match (path, text.clone()) {
            (Some(path), Some(text)) => Does::Write { path, text },
            (_, _) => return Err("write needs `with: { path: …, text: … }`".to_owned()),
        },
        (None, Some(Tool::Edit)) => match (path, old.clone(), new.clone()) {
            (_, Some(old), _) if old.is_empty() => {
                return Err("edit needs an `old` that is not empty".to_owned());
            }
            (Some(path), Some(old), Some(new)) => Does::Edit { path, old, new },
            (_, _, _) => return Err("edit needs `with: { path: …, old: …, new: … }`".to_owned()),
        },
        (None, Some(Tool::Wait)) => match seconds {
            Some(seconds) => Does::Wait { seconds: *seconds },
            None => return Err("wait needs `with: { seconds: … }`".to_owned()),
        },
        (Some(_), None) => return Err("`with` is for a `tool`".to_owned()),
        (Some(_), Some(_)) => return Err("it has both `run` and `tool`; it can be one of them".to_owned()),
        (None, None) => return Err("it has neither `run` nor `tool`".to_owned()),
    };
    if node.retries.is_some_and(|retries| retries > RETRIES_PER_STEP_MAX) {
        return Err(format!("retries are at most {RETRIES_PER_STEP_MAX}"));
    }
    Ok(Step { node: name.to_owned(), does, retries: node.retries })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like() -> CommandTask {
        CommandTask {
            run: Run::Argv(Vec::new()),
            cwd: ByteText::default(),
            timeout_s: Some(60),
            network: false,
            env: Vec::new(),
            pass_env: Vec::new(),
            writable: Vec::new(),
        }
    }

    fn read_text(text: &str) -> Result<Vec<Step>, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("actor.yaml");
        std::fs::write(&file, text).unwrap();
        read(&file, &like()).map_err(|error| error.to_string().replace(&file.display().to_string(), "FILE"))
    }

    #[test]
    fn nodes_come_after_what_they_need_and_else_in_the_order_of_the_file() {
        let text = "nodes:\n  z: { run: a, needs: [b] }\n  y: { tool: wait, with: { seconds: 2 } }\n  \
                    b: { run: [b, c], retries: 2, timeout: 5m }\n";
        let steps = read_text(text).unwrap();
        let names: Vec<&str> = steps.iter().map(|step| step.node.as_str()).collect();
        assert_eq!(names, ["y", "b", "z"]);
        assert_eq!((steps[1].retries, steps[1].command().unwrap().timeout_s), (Some(2), Some(300)));
        assert_eq!((steps[2].retries, steps[2].command().unwrap().timeout_s), (None, Some(60)));
        assert_eq!(steps[2].shown(), "a");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let text = format!("nodes: {{ a: {{ run: x }} }}\n#{}\n", "x".repeat(300 * 1024));
        let said = read_text(&text).unwrap_err();
        assert!(said.contains("larger than 256 KiB"), "{said}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (text, why) in [
            ("nodes: {}", "there is no node"),
            ("nodes: { a: { run: x, needs: [b] }, b: { run: x, needs: [a] } }", "in a circle: a, b"),
            ("nodes: { a: { run: x, needs: [c] } }", "node a needs `c`, which is no node"),
            ("nodes: { a: {} }", "node a: it has neither"),
            ("nodes: { a: { run: x, tool: read } }", "node a: it has both"),
            ("nodes: { a: { run: x, with: { path: b } } }", "node a: `with` is for a `tool`"),
            ("nodes: { a: { tool: read } }", "node a: read needs"),
            ("nodes: { a: { tool: wait } }", "node a: wait needs"),
            ("nodes: { a: { tool: write, with: { path: b } } }", "node a: write needs"),
            (
                "nodes: { a: { tool: edit, with: { path: b, old: '', new: c } } }",
                "node a: edit needs an `old`",
            ),
            ("nodes: { a: { run: x, retries: 101 } }", "node a: retries are at most 100"),
            ("nodes: { 'a b': { run: x } }", "`a b` is no name"),
            ("nodes: { a: { run: x, colour: red } }", "colour"),
            ("nodes: { a: { run: x, timeout: soon } }", "node a: "),
            ("nodes: { a: { run: x, timeout: 0s } }", "node a: a timeout is from 1s"),
            ("nodes: { a: { run: x, timeout: 25h } }", "node a: a timeout is from 1s"),
            ("nodes: { a: { run: \"x\\0y\" } }", "node a: a command cannot hold a NUL"),
            ("nodes: { a: { run: [x, \"y\\0\"] } }", "node a: a command cannot hold a NUL"),
            ("steps: []", "steps"),
            ("nodes: [", "FILE: "),
        ] {
            let said = read_text(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
