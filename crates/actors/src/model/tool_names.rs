//! Names of tools on the wire: providers take letters, digits, `_` and `-` only, ours may have dots.
//!
//! # Invariants
//! 1. Two tools of one request never have the same name on the wire.
//! 2. A tool has the same wire name in each request that offers the same tools.

use std::collections::BTreeMap;

use super::request::ModelRequest;

/// The shortest bound among the providers.
const NAME_BYTES_MAX: usize = 64;

/// The names of one request's tools, both ways.
#[derive(Clone, Debug, Default)]
pub(super) struct ToolNames {
    ours: BTreeMap<String, String>,
    wire: BTreeMap<String, String>,
}

impl ToolNames {
    pub(super) fn of(request: &ModelRequest) -> ToolNames {
        ToolNames::new(request.tools.iter().map(|tool| tool.name.as_str()))
    }

    fn new<'a>(tools: impl Iterator<Item = &'a str>) -> ToolNames {
        let mut names = ToolNames::default();
        for tool in tools {
            let wire = names.unused(tool);
            names.ours.insert(wire.clone(), tool.to_owned());
            names.wire.insert(tool.to_owned(), wire);
        }
        names
    }

    /// The provider's name for `tool`. One that is no longer offered, but was called earlier, has a name too.
    pub(super) fn on_the_wire(&self, tool: &str) -> String {
        self.wire.get(tool).cloned().unwrap_or_else(|| plain(tool))
    }

    /// Our name for the tool that the model called `name`; a name that it made up stays as it is.
    pub(super) fn ours(&self, name: &str) -> String {
        self.ours.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    /// A name for something that is no tool of the request.
    pub(super) fn unused(&self, wish: &str) -> String {
        let base = plain(wish);
        let mut name = base.clone();
        let mut number = 2;
        while self.ours.contains_key(&name) {
            let suffix = format!("_{number}");
            name = format!("{}{suffix}", &base[..base.len().min(NAME_BYTES_MAX - suffix.len())]);
            number += 1;
        }
        name
    }
}

/// A name as every provider takes it. Two tools may come to the same: [`ToolNames`] distinguishes those that
/// are offered together.
pub(crate) fn plain(name: &str) -> String {
    let allowed = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let name: String = name.chars().map(allowed).take(NAME_BYTES_MAX).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways_and_never_meet() {
        let long = "x".repeat(80);
        let tools = ["read_file", "files.read", "files_read", "", &long, &format!("{long}y"), "日本"];
        let names = ToolNames::new(tools.into_iter());
        let wire: Vec<String> = tools.iter().map(|tool| names.on_the_wire(tool)).collect();
        assert_eq!(
            wire,
            [
                "read_file",
                "files_read",
                "files_read_2",
                "_",
                &"x".repeat(64),
                &format!("{}_2", "x".repeat(62)),
                "__"
            ]
        );
        for (tool, wire) in tools.iter().zip(&wire) {
            assert_eq!(names.ours(wire), *tool);
        }
        assert_eq!(names.ours("made.up"), "made.up");
        assert_eq!(names.on_the_wire("gone.tool"), "gone_tool");
        assert_eq!(names.unused("read_file"), "read_file_2");
    }
}
