//! A tool of an MCP server, as a definition names it: `SERVER.TOOL`, or `SERVER.*` for all.

use actors::tool::PLAN_DECIDE;

/// The separator between the name of a server and that of its tool.
const SEPARATOR: char = '.';
/// Represents all tools of a server.
const ALL: &str = "*";

/// A tool of a server, as a definition names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTool<'a> {
    /// The server.
    pub server: &'a str,
    /// The tool; `None` means all.
    pub tool: Option<&'a str>,
}

impl<'a> ServerTool<'a> {
    /// Parses a name; `None` if it is a tool or a group of ours.
    pub fn parse(name: &'a str) -> Option<ServerTool<'a>> {
        let (server, tool) = Some(name).filter(|name| *name != PLAN_DECIDE)?.split_once(SEPARATOR)?;
        Some(ServerTool { server, tool: Some(tool).filter(|tool| *tool != ALL) })
    }

    /// As a definition names it.
    pub fn shown(&self) -> String {
        format!("{}{SEPARATOR}{}", self.server, self.tool.unwrap_or(ALL))
    }
}
