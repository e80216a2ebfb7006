//! The MCP servers whose tools models may call: their settings, and the servers that a plan needs.
//!
//! A tool of a server is called `SERVER.TOOL`; `SERVER.*` means all of them.
//!
//! # Invariants
//! 1. A server that no settings name is found before anything runs.
//! 2. A server may change the projects only where the settings, the phase and the plan all let it.
//!
//! # Not here
//! Starting them (`run::call::mcp_server`), and the protocol (`actors::mcp`).

use std::collections::{BTreeMap, BTreeSet};

use definitions::ServerTool;
use domain::{NodeKind, PlanSpec, PlanStep, did_you_mean};

pub use actors::mcp::McpSettings;

use crate::engine::EngineInner;

/// The maximum number of characters of the name of a server's tool.
const TOOL_CHARS_MAX: usize = 128;

/// The settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Its program, and how its tools are taken.
    pub program: McpSettings,
    /// True if it may change files at all; one that may not sees the projects read-only, and its tools only
    /// read.
    pub writes: bool,
}

/// The servers that there are, by name.
pub type Servers = BTreeMap<String, ServerSettings>;

/// Returns whether the settings of a tool's server let the tool only read.
pub(crate) fn only_reads(tool: &ServerTool<'_>, settings: &ServerSettings) -> bool {
    let listed = |tool| settings.program.read_only.iter().any(|reading| reading == tool);
    !settings.writes || tool.tool.is_some_and(listed)
}

/// Returns the tools of servers that a step names.
pub(crate) fn named(step: &PlanStep) -> Vec<ServerTool<'_>> {
    let names: Vec<&str> = match &step.does {
        NodeKind::Model(task) => task.tools.iter().map(String::as_str).collect(),
        NodeKind::Tool { name, .. } => vec![name.as_str()],
        NodeKind::Command(_)
        | NodeKind::External(_)
        | NodeKind::Read { .. }
        | NodeKind::Write { .. }
        | NodeKind::Edit { .. }
        | NodeKind::Wait { .. }
        | NodeKind::Actor { .. } => Vec::new(),
    };
    names.into_iter().filter_map(ServerTool::parse).collect()
}

/// Why there is no server of this name.
pub(crate) fn unknown(servers: &Servers, name: &str) -> String {
    let meant = did_you_mean(name, servers.keys().map(String::as_str));
    format!("your settings define no server `{name}` ([mcp.{name}]){meant}")
}

/// Returns the problems of the servers that a plan needs. None is started for it.
pub(crate) fn preflight(engine: &EngineInner, spec: &PlanSpec) -> Vec<String> {
    let servers = &engine.options.models.servers;
    let of_strategist = spec.strategist.iter().flat_map(|strategist| &strategist.steps);
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for step in spec.steps.iter().chain(of_strategist) {
        for named in named(step) {
            let ServerTool { server, tool } = named;
            let is_call = matches!(step.does, NodeKind::Tool { .. });
            findings.extend(no_tool(server, tool, is_call).map(|why| format!("node {}: {why}", step.node)));
            if seen.insert(server) {
                let why = match servers.get(server) {
                    None => Some(unknown(servers, server)),
                    Some(settings) => not_there(server, settings),
                };
                findings.extend(why.map(|why| format!("node {}: {why}", step.node)));
            }
        }
    }
    findings
}

/// A name that can mean no tool, whatever the server offers: what that is, is known when it is asked.
fn no_tool(server: &str, tool: Option<&str>, is_call: bool) -> Option<String> {
    let is_word = |tool: &str| {
        (1..=TOOL_CHARS_MAX).contains(&tool.chars().count())
            && tool.chars().all(|letter| letter.is_alphanumeric() || "_-./".contains(letter))
    };
    match tool {
        None if is_call => {
            Some(format!("`{server}.*` means all tools of `{server}`, but a node calls one tool: name it"))
        }
        Some(tool) if !is_word(tool) => Some(format!("`{server}.{tool}` is not a valid name for a tool")),
        None | Some(_) => None,
    }
}

/// A program without a slash is looked up on PATH; with one it may lie in the project.
fn not_there(server: &str, settings: &ServerSettings) -> Option<String> {
    let program = settings.program.command.first()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        program.contains('/') || std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    (!is_there).then(|| format!("the program `{program}` of the server `{server}` was not found on PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(writes: bool, read_only: &[&str]) -> ServerSettings {
        let program = McpSettings {
            command: vec!["server".to_owned()],
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            network: false,
            read_only: read_only.iter().map(|name| (*name).to_owned()).collect(),
            start_s: 1,
            call_s: 1,
        };
        ServerSettings { program, writes }
    }

    #[test]
    fn a_name_with_a_dot_is_a_servers_and_a_star_means_all_of_it() {
        assert_eq!(ServerTool::parse("read_file"), None);
        assert_eq!(ServerTool::parse("plan.decide"), None, "it is ours");
        assert_eq!(ServerTool::parse("files.read"), Some(ServerTool { server: "files", tool: Some("read") }));
        assert_eq!(ServerTool::parse("files.*"), Some(ServerTool { server: "files", tool: None }));
        assert_eq!(ServerTool::parse("files.a.b"), Some(ServerTool { server: "files", tool: Some("a.b") }));
    }

    #[test]
    fn a_name_that_no_server_can_have_is_found_before_anything_runs() {
        assert_eq!(no_tool("files", Some("read_file"), true), None);
        assert_eq!(no_tool("files", None, false), None);
        assert!(no_tool("files", None, true).unwrap().contains("a node calls one"));
        for wrong in ["", "read file", "a,b"] {
            assert!(no_tool("files", Some(wrong), false).is_some(), "{wrong:?}");
        }
    }

    #[test]
    fn a_tool_only_reads_when_the_settings_say_so() {
        let (read, all) = (ServerTool::parse("files.read").unwrap(), ServerTool::parse("files.*").unwrap());
        assert!(
            only_reads(&read, &settings(true, &["read"])) && !only_reads(&all, &settings(true, &["read"]))
        );
        assert!(!only_reads(&read, &settings(true, &[])));
        assert!(only_reads(&read, &settings(false, &[])) && only_reads(&all, &settings(false, &[])));
    }
}
