//! The tools that a plan may not call, whatever its definitions say: `policy.deny_tools`.
//!
//! A word of the list is the name of a tool, of a group of tools, `SERVER.TOOL`, or `SERVER.*` for all tools
//! of a server. A command and an agent program of a definition count as `run_command`, the recorded name of
//! their calls; checks are no tools.
//!
//! # Invariants
//! 1. A list only ever grows by joining others to it: nothing in it allows a tool.
//! 2. A word that names nothing is reported, since it would deny nothing.
//! 3. A call is denied by the name under which it is recorded, for every caller.

use actors::tool::{Catalog, ToolError, group};
use domain::{NodeKind, PlanStep};

/// The separator between the name of a server and the names of its tools.
const SEPARATOR: char = '.';
/// The word for all tools of a server.
const ALL: &str = "*";

/// The word of the list that denies the tool; none when it may be called.
fn denied<'a>(list: &'a [String], tool: &str) -> Option<&'a str> {
    let denies = |word: &&String| {
        let of_group = group(word).is_some_and(|members| members.contains(&tool));
        let of_server = match (word.split_once(SEPARATOR), tool.split_once(SEPARATOR)) {
            (Some((server, ALL)), Some((of, _))) => server == of,
            (Some(_) | None, _) => false,
        };
        word.as_str() == tool || of_group || of_server
    };
    list.iter().find(denies).map(String::as_str)
}

/// Why the tool may not be called, in words; none when it may.
pub(crate) fn why_denied(list: &[String], tool: &str) -> Option<String> {
    let word = denied(list, tool)?;
    Some(match word == tool {
        true => "`policy.deny_tools` names it".to_owned(),
        false => format!("`policy.deny_tools` names `{word}`"),
    })
}

/// Returns the reason why a step can never be done under this list; `None` if it can. A model gets a refusal
/// when it calls the tool.
pub(crate) fn step_denied(list: &[String], step: &PlanStep) -> Option<String> {
    let tool = match &step.does {
        NodeKind::Command(_) | NodeKind::External(_) => "run_command",
        NodeKind::Read { .. } => "read_file",
        NodeKind::Write { .. } => "write_file",
        NodeKind::Edit { .. } => "edit_file",
        NodeKind::Wait { .. } => "wait",
        NodeKind::Tool { name, .. } => name,
        NodeKind::Model(_) | NodeKind::Actor { .. } => return None,
    };
    let why = why_denied(list, tool)?;
    let error = ToolError::NotAllowed { tool: tool.to_owned(), why };
    Some(format!("step {}: {}", step.node, error.text_with_code()))
}

/// The words of the list that name no tool of ours and none of a server, each in a sentence.
pub(crate) fn unknown_words(list: &[String]) -> Vec<String> {
    let tools = Catalog::builtin();
    let is_ours = |word: &String| group(word).is_some() || word == "wait";
    let unknown = list.iter().filter(|word| !is_ours(word) && !word.contains(SEPARATOR));
    let errors = unknown.filter_map(|word| tools.find(word).err());
    errors.map(|error| format!("`policy.deny_tools` would deny nothing: {error}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_word_denies_a_tool_a_group_or_all_tools_of_a_server() {
        let denies = list(&["delete_file", "shell", "files.*", "web.fetch"]);
        let of = |tool: &str| denied(&denies, tool);
        assert_eq!(of("delete_file"), Some("delete_file"));
        assert_eq!(of("run_command"), Some("shell"));
        assert_eq!(of("files.read"), Some("files.*"));
        assert_eq!(of("web.fetch"), Some("web.fetch"));
        for tool in ["read_file", "write_file", "web.search", "filesystem.read", "files"] {
            assert_eq!(of(tool), None, "{tool}");
        }
    }

    #[test]
    fn a_word_that_denies_nothing_is_told_with_what_was_meant() {
        let problems = unknown_words(&list(&["run_comand", "shell", "wait", "box.any"]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("did you mean `run_command`?"), "{problems:?}");
    }
}
