//! The tools that a node may call, by name.
//!
//! # Invariants
//! 1. A name names one tool; of two the first stays.
//! 2. Every tool here has schemas that compile.

use std::sync::Arc;

use async_trait::async_trait;
use domain::did_you_mean;
use serde_json::Value;

use super::builtin::builtin_tools;
use super::error::ToolError;
use super::schema::{Schema, SchemaError};
use crate::model::ToolSpec;

/// The groups by which an actor names tools.
pub const GROUPS: [&str; 3] = ["read", "write", "shell"];

/// How much of a name that names nothing is repeated.
const NAME_CHARS_MAX: usize = 64;

/// The names of the tools of a group; none when there is no such group.
pub fn group(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "read" => Some(&["read_file", "list_directory", "search_files"]),
        "write" => Some(&["write_file", "edit_file", "delete_file", "move_file"]),
        "shell" => Some(&["run_command"]),
        _ => None,
    }
}

/// A tool that is none of ours: a server's, an action's.
#[async_trait]
pub trait ForeignTool: Send + Sync {
    /// Does one call.
    ///
    /// # Errors
    /// What went wrong, in words.
    async fn call(&self, arguments: Value) -> Result<Value, String>;
}

/// A tool that can be called.
pub struct Tool {
    /// What it is.
    pub spec: ToolSpec,
    input: Schema,
    output: Schema,
    pub(super) foreign: Option<Arc<dyn ForeignTool>>,
}

impl Tool {
    fn new(spec: ToolSpec, foreign: Option<Arc<dyn ForeignTool>>) -> Result<Tool, SchemaError> {
        let (input, output) = (Schema::new(&spec.input)?, Schema::new(&spec.output)?);
        Ok(Tool { spec, input, output, foreign })
    }

    /// Whether the arguments fit.
    ///
    /// # Errors
    /// [`ToolError::InvalidArguments`] with all that is wrong.
    pub fn check_input(&self, arguments: &Value) -> Result<(), ToolError> {
        let problems = self.input.problems(arguments);
        let tool = self.spec.name.clone();
        if problems.is_empty() { Ok(()) } else { Err(ToolError::InvalidArguments { tool, problems }) }
    }

    /// Whether the result fits.
    ///
    /// # Errors
    /// [`ToolError::BadOutput`] with all that is wrong.
    pub fn check_output(&self, result: &Value) -> Result<(), ToolError> {
        let problems = self.output.problems(result);
        let tool = self.spec.name.clone();
        if problems.is_empty() { Ok(()) } else { Err(ToolError::BadOutput { tool, problems }) }
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("name", &self.spec.name).finish_non_exhaustive()
    }
}

/// The tools that can be called.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    tools: Vec<Arc<Tool>>,
}

impl Catalog {
    /// The tools of the program.
    ///
    /// # Errors
    /// A schema does not compile: a bug.
    pub fn builtin() -> Result<Catalog, SchemaError> {
        let mut catalog = Catalog::default();
        for spec in builtin_tools() {
            catalog.tools.push(Arc::new(Tool::new(spec, None)?));
        }
        Ok(catalog)
    }

    /// Adds a tool that is none of ours. One with its name stays.
    ///
    /// # Errors
    /// Its schemas cannot be used.
    pub fn add(&mut self, spec: ToolSpec, does: Arc<dyn ForeignTool>) -> Result<(), SchemaError> {
        let tool = Tool::new(spec, Some(does))?;
        if self.tools.iter().all(|known| known.spec.name != tool.spec.name) {
            self.tools.push(Arc::new(tool));
        }
        Ok(())
    }

    /// Only these: names of tools, and of groups.
    ///
    /// # Errors
    /// [`ToolError::UnknownTool`] for the first that names neither.
    pub fn only(&self, names: &[String]) -> Result<Catalog, ToolError> {
        let mut tools: Vec<Arc<Tool>> = Vec::new();
        for name in names {
            let members = group(name);
            let wanted = |tool: &&Arc<Tool>| match members {
                Some(members) => members.contains(&tool.spec.name.as_str()),
                None => tool.spec.name == *name,
            };
            let found: Vec<&Arc<Tool>> = self.tools.iter().filter(wanted).collect();
            if found.is_empty() {
                return Err(self.unknown(name));
            }
            for tool in found {
                if tools.iter().all(|known| known.spec.name != tool.spec.name) {
                    tools.push(Arc::clone(tool));
                }
            }
        }
        Ok(Catalog { tools })
    }

    /// The tool of this name.
    ///
    /// # Errors
    /// [`ToolError::UnknownTool`] with the name that was probably meant.
    pub fn find(&self, name: &str) -> Result<&Arc<Tool>, ToolError> {
        self.tools.iter().find(|tool| tool.spec.name == name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> ToolError {
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        let offered: Vec<String> = self.tools.iter().map(|tool| tool.spec.name.clone()).collect();
        let meant = did_you_mean(&name, offered.iter().map(String::as_str));
        ToolError::UnknownTool { name, meant, offered }
    }

    /// What a model is offered.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec.clone()).collect()
    }
}
