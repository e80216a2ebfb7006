//! The configuration of a server: `[mcp.NAME]`.
//!
//! # Invariants
//! Every limit is within its bounds, whatever the file says.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::program::ProgramSpec;

/// The longest time limit; the shortest is a second.
const LIMIT_S_MAX: u32 = 60 * 60;

/// The configuration of a server.
///
/// ```
/// let text = "command = ['uvx', 'mcp-server-git']\nread_only = ['git_log']\nenv = { LANG = 'C' }";
/// let settings: actors::mcp::McpSettings = toml::from_str(text).unwrap();
/// assert_eq!(settings.command, ["uvx", "mcp-server-git"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables that it gets.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables of ours that it gets.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// True if it reaches beyond this machine.
    #[serde(default)]
    pub network: bool,
    /// Those of its tools that only read; all others are taken to write.
    #[serde(default)]
    pub read_only: Vec<String>,
    /// Seconds that it has to start.
    #[serde(default = "start_s")]
    pub start_s: u32,
    /// Seconds that a call may take.
    #[serde(default = "call_s")]
    pub call_s: u32,
}

const fn start_s() -> u32 {
    30
}

const fn call_s() -> u32 {
    60
}

impl McpSettings {
    /// The program to start; `variable` looks up our variables.
    pub fn program(&self, variable: &dyn Fn(&str) -> Option<String>) -> ProgramSpec {
        let passed = self.pass_env.iter().filter_map(|name| Some((name.clone(), variable(name)?)));
        let own = self.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        ProgramSpec { argv: self.command.clone(), env: passed.chain(own).collect() }
    }

    /// The time limit of its start, and of the list of its tools.
    pub fn start_limit(&self) -> Duration {
        Duration::from_secs(u64::from(self.start_s.clamp(1, LIMIT_S_MAX)))
    }

    /// Returns the number of seconds a call may take.
    pub fn call_limit_s(&self) -> u32 {
        self.call_s.clamp(1, LIMIT_S_MAX)
    }
}
