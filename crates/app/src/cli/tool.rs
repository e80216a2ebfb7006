//! `agents tool list | show | check`.

use engine::tools::{Catalog, GROUPS, ToolError, ToolSpec, group};
use serde_json::{Value, json};

use super::Invocation;
use crate::errors::{CommandError, codes};
use crate::output::{CommandReport, TextTable, escape_control_chars};

#[derive(Debug, clap::Subcommand)]
pub(super) enum ToolCommand {
    /// List the tools that a model can use
    List,
    /// Print the arguments and the result of a tool, as JSON schemas
    Show {
        /// The name of a tool
        #[arg(value_name = "NAME")]
        tool: String,
    },
    /// Check the arguments of a call, and print all errors in them
    Check {
        /// The name of a tool
        #[arg(value_name = "NAME")]
        tool: String,
        /// The arguments, a JSON object
        #[arg(value_name = "JSON")]
        arguments: String,
    },
}

impl ToolCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ToolCommand::List => "tool list",
            ToolCommand::Show { .. } => "tool show",
            ToolCommand::Check { .. } => "tool check",
        }
    }
}

pub(super) fn run(command: ToolCommand, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let catalog = Catalog::builtin();
    match command {
        ToolCommand::List => Ok(list(&catalog, invocation)),
        ToolCommand::Show { tool } => show(&catalog.find(&tool).map_err(|error| failure(&error))?.spec),
        ToolCommand::Check { tool, arguments } => {
            let found = catalog.find(&tool).map_err(|error| failure(&error))?;
            // Arguments that are no JSON get the same error that a model would get.
            let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
            found.check_input(&arguments).map_err(|error| failure(&error))?;
            Ok(CommandReport::new(
                json!({ "tool": tool, "sound": true }),
                escape_control_chars(&format!("{tool}: ok\n")),
            ))
        }
    }
}

/// The names of the built-in tools, each with its description.
pub(super) fn names() -> Vec<(String, String)> {
    Catalog::builtin().specs().iter().map(|spec| (spec.name.clone(), spec.description.clone())).collect()
}

fn list(catalog: &Catalog, invocation: &Invocation) -> CommandReport {
    let specs = catalog.specs();
    let mut table = TextTable::new(&["tool", "group", "description"]);
    for spec in &specs {
        table.row(vec![spec.name.clone(), group_of(&spec.name).to_owned(), spec.description.clone()]);
    }
    let all: Vec<Value> = specs
        .iter()
        .map(|spec| {
            json!({
                "name": spec.name, "group": group_of(&spec.name), "description": spec.description,
                "reads": spec.reads, "writes": spec.writes, "network": spec.network,
                "timeout_s": spec.timeout_s, "source": spec.source,
            })
        })
        .collect();
    CommandReport::new(json!({ "tools": all }), table.render(&invocation.style))
}

fn group_of(tool: &str) -> &'static str {
    let has = |name: &&str| group(name).is_some_and(|tools| tools.contains(&tool));
    GROUPS.into_iter().find(has).unwrap_or("")
}

fn show(spec: &ToolSpec) -> Result<CommandReport, CommandError> {
    let value = serde_json::to_value(spec)
        .map_err(|error| CommandError::new(&codes::INTERNAL, format!("it cannot be printed: {error}")))?;
    let yaml = serde_saphyr::to_string(&value)
        .map_err(|error| CommandError::new(&codes::INTERNAL, format!("it cannot be printed: {error}")))?;
    Ok(CommandReport::new(value, escape_control_chars(&format!("{}\n", yaml.trim_end()))))
}

fn failure(error: &ToolError) -> CommandError {
    match error {
        ToolError::UnknownTool { name, meant, .. } => {
            CommandError::new(&codes::TOOL_NOT_FOUND, format!("there is no tool `{name}`{meant}"))
        }
        ToolError::InvalidArguments { tool, problems } => {
            let failure =
                CommandError::new(&codes::TOOL_ARGUMENTS, format!("the arguments of {tool} are not valid"));
            let failure = problems.iter().fold(failure, |failure, problem| failure.line(problem.as_str()));
            failure.field("tool", tool)
        }
        other @ (ToolError::NotAllowed { .. }
        | ToolError::PathEscapes { .. }
        | ToolError::ProtectedPath { .. }
        | ToolError::NotFound { .. }
        | ToolError::InTheWay { .. }
        | ToolError::UnreadFile { .. }
        | ToolError::StaleFile { .. }
        | ToolError::NoMatch { .. }
        | ToolError::NotUnique { .. }
        | ToolError::NotText { .. }
        | ToolError::RedactedContent { .. }
        | ToolError::DecisionInvalid { .. }
        | ToolError::TimedOut { .. }
        | ToolError::BadOutput { .. }
        | ToolError::Repeated { .. }
        | ToolError::NoContext { .. }
        | ToolError::Failed { .. }) => CommandError::new(&codes::INTERNAL, other.to_string()),
    }
}
