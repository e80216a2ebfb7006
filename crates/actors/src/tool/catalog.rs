//! The tools that a node may call, by name.
//!
//! # Invariants
//! 1. A name names one tool; of two the first stays.
//! 2. Every tool here has schemas that compile. Those of a tool that is none of ours are compiled when it is
//!    added. Ours are compiled when they are first held against a value, once in a process: a test holds that
//!    each of them compiles.

use std::sync::{Arc, LazyLock, OnceLock};

use async_trait::async_trait;
use domain::did_you_mean;
use serde_json::Value;

use super::builtin::builtin_tools;
use super::error::ToolError;
use super::schema::{Schema, SchemaError};
use crate::model::{ToolSpec, wire_name};

/// The groups by which an actor names tools.
pub const GROUPS: [&str; 4] = ["read", "write", "shell", "context"];

/// The limit of an unknown name that is repeated.
const NAME_CHARS_MAX: usize = 64;

/// The names of the tools of a group; `None` if there is no such group.
pub fn group(name: &str) -> Option<&'static [&'static str]> {
    match name {
        "read" => Some(&["read_file", "list_directory", "search_files"]),
        "write" => Some(&["write_file", "edit_file", "delete_file", "move_file"]),
        "shell" => Some(&["run_command"]),
        "context" => Some(&["request_context", "query_history", "get_context_budget"]),
        _ => None,
    }
}

/// A tool that is none of ours: a server's, an action's.
#[async_trait]
pub trait ForeignTool: Send + Sync {
    /// Does one call.
    ///
    /// # Errors
    /// Returns the reason of the failure, in words.
    async fn call(&self, arguments: Value) -> Result<Value, String>;
}

/// A tool that can be called.
pub struct Tool {
    /// Its specification.
    pub spec: ToolSpec,
    input: OnceLock<Result<Schema, SchemaError>>,
    output: OnceLock<Result<Schema, SchemaError>>,
    pub(super) foreign: Option<Arc<dyn ForeignTool>>,
}

impl Tool {
    fn new(spec: ToolSpec, foreign: Option<Arc<dyn ForeignTool>>) -> Tool {
        Tool { spec, input: OnceLock::new(), output: OnceLock::new(), foreign }
    }

    fn input(&self) -> Result<&Schema, SchemaError> {
        self.input.get_or_init(|| Schema::new(&self.spec.input)).as_ref().map_err(Clone::clone)
    }

    fn output(&self) -> Result<&Schema, SchemaError> {
        self.output.get_or_init(|| Schema::new(&self.spec.output)).as_ref().map_err(Clone::clone)
    }

    /// Checks that the arguments fit.
    ///
    /// # Errors
    /// Returns [`ToolError::InvalidArguments`] with all that is wrong.
    pub fn check_input(&self, arguments: &Value) -> Result<(), ToolError> {
        let problems = problems(self.input(), arguments);
        let tool = self.spec.name.clone();
        if problems.is_empty() { Ok(()) } else { Err(ToolError::InvalidArguments { tool, problems }) }
    }

    /// Checks that the result fits.
    ///
    /// # Errors
    /// Returns [`ToolError::BadOutput`] with all that is wrong.
    pub fn check_output(&self, result: &Value) -> Result<(), ToolError> {
        let problems = problems(self.output(), result);
        let tool = self.spec.name.clone();
        if problems.is_empty() { Ok(()) } else { Err(ToolError::BadOutput { tool, problems }) }
    }
}

/// The problems of the value; a schema that cannot be used fits nothing.
fn problems(schema: Result<&Schema, SchemaError>, value: &Value) -> Vec<String> {
    match schema {
        Ok(schema) => schema.problems(value),
        Err(error) => vec![error.to_string()],
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
    pub fn builtin() -> Catalog {
        static BUILTIN: LazyLock<Catalog> = LazyLock::new(|| Catalog {
            tools: builtin_tools().into_iter().map(|spec| Arc::new(Tool::new(spec, None))).collect(),
        });
        BUILTIN.clone()
    }

    /// Adds a tool that is none of ours. One with its name stays.
    ///
    /// # Errors
    /// Returns an error if its schemas cannot be used.
    pub fn add(&mut self, spec: ToolSpec, does: Arc<dyn ForeignTool>) -> Result<(), SchemaError> {
        let tool = Tool::new(spec, Some(does));
        tool.input()?;
        tool.output()?;
        if self.tools.iter().all(|known| known.spec.name != tool.spec.name) {
            self.tools.push(Arc::new(tool));
        }
        Ok(())
    }

    /// Only these: names of tools, and of groups.
    ///
    /// # Errors
    /// Returns [`ToolError::UnknownTool`] for the first that names neither.
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
    /// Returns [`ToolError::UnknownTool`] with the name that was probably meant.
    pub fn find(&self, name: &str) -> Result<&Arc<Tool>, ToolError> {
        self.tools.iter().find(|tool| tool.spec.name == name).ok_or_else(|| self.unknown(name))
    }

    /// Returns the tool that a model means: by its name, or by the name that providers have for it. A tool
    /// that was not offered is found by the same names, so that the error of a call names it.
    ///
    /// # Errors
    /// Returns [`ToolError::UnknownTool`], which names only what is `offered`.
    pub fn meant(&self, name: &str, offered: &dyn Fn(&ToolSpec) -> bool) -> Result<&Arc<Tool>, ToolError> {
        let by_wire = || self.tools.iter().find(|tool| wire_name(&tool.spec.name) == name);
        let found = self.tools.iter().find(|tool| tool.spec.name == name).or_else(by_wire);
        found.ok_or_else(|| self.unknown_of(name, offered))
    }

    fn unknown(&self, name: &str) -> ToolError {
        self.unknown_of(name, &|_| true)
    }

    fn unknown_of(&self, name: &str, offered: &dyn Fn(&ToolSpec) -> bool) -> ToolError {
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        let offered = self.tools.iter().filter(|tool| offered(&tool.spec));
        let offered: Vec<String> = offered.map(|tool| tool.spec.name.clone()).collect();
        let meant = did_you_mean(&name, offered.iter().map(String::as_str));
        ToolError::UnknownTool { name, meant, offered }
    }

    /// The specifications that a model is offered.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_of_ours_compiles() {
        for tool in Catalog::builtin().tools {
            assert!(tool.input().is_ok(), "the input of {}: {:?}", tool.spec.name, tool.input().err());
            assert!(tool.output().is_ok(), "the output of {}: {:?}", tool.spec.name, tool.output().err());
        }
    }

    #[test]
    fn ours_are_compiled_once_in_a_process() {
        let of = |catalog: &Catalog| Arc::clone(catalog.find("read_file").unwrap());
        assert!(Arc::ptr_eq(&of(&Catalog::builtin()), &of(&Catalog::builtin())));
    }
}
