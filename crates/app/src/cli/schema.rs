//! `agents schema`: prints the JSON Schemas that this program follows.

use crate::errors::{CommandError, codes};
use crate::output::{CommandReport, envelope};

/// A thing that has a schema.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum SchemaName {
    /// The file of an action, .cleveragents/actions/NAME.yaml
    Action,
    /// The file of an actor, .cleveragents/actors/NAME.yaml
    Actor,
    /// The answer of every command with --format json
    Envelope,
}

#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {
    /// The schema to print
    #[arg(value_enum)]
    name: SchemaName,
}

pub(super) fn run(args: &SchemaArgs) -> Result<CommandReport, CommandError> {
    let schema = match args.name {
        SchemaName::Action => ::definitions::action_schema(),
        SchemaName::Actor => ::definitions::actor_schema(),
        SchemaName::Envelope => envelope::schema(),
    };
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| CommandError::new(&codes::INTERNAL, error.to_string()))?;
    Ok(CommandReport::new(schema, format!("{text}\n")))
}
