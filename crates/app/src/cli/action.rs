//! `agents action list | show | check`.

use ::definitions::DefinitionError;
use ::definitions::{Action, FreezeOptions, Kind, Library, LoadedDefinition, action_value, preview_action};

use super::Invocation;
use crate::errors::CommandError;
use crate::output::CommandReport;
use crate::render::definitions::{Checked, PrintedDefinition, check_all, list, setting, show};
use crate::setup::definitions;
use crate::setup::definitions::WithProviders;

#[derive(Debug, clap::Subcommand)]
pub(super) enum ActionCommand {
    /// List the actions of this project and of the user, including hidden and invalid ones
    List,
    /// Print an action as it is read, with the actors that it names
    Show {
        /// The name of an action, or a file
        #[arg(value_name = "NAME|FILE")]
        action: String,
    },
    /// Check actions, and print all errors in them
    Check {
        /// Names of actions, or files [default: all that are listed]
        #[arg(value_name = "NAME|FILE")]
        actions: Vec<String>,
    },
}

impl ActionCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ActionCommand::List => "action list",
            ActionCommand::Show { .. } => "action show",
            ActionCommand::Check { .. } => "action check",
        }
    }
}

pub(super) fn run(command: ActionCommand, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    // `show` prints a definition as it is written, independent of the available providers.
    let with_providers = match command {
        ActionCommand::List | ActionCommand::Check { .. } => WithProviders::Yes,
        ActionCommand::Show { .. } => WithProviders::No,
    };
    let (library, surroundings, _) = setting(invocation, with_providers)?;
    match command {
        ActionCommand::List => list(&library, Kind::Action, &|_| None, invocation),
        ActionCommand::Show { action } => {
            let loaded = definitions::action(&library, &action, &invocation.here);
            let loaded = loaded.map_err(|error| definitions::failure(&error))?;
            let frozen =
                preview(&library, &loaded, &surroundings).map_err(|error| definitions::failure(&error))?;
            let value = action_value(&loaded.definition, frozen.as_ref());
            show(&PrintedDefinition::new(Kind::Action, &loaded, value))
        }
        ActionCommand::Check { actions } => {
            let check = |word: &str| {
                let loaded = definitions::action(&library, word, &invocation.here)?;
                preview(&library, &loaded, &surroundings)?;
                Ok(Checked::new(&loaded))
            };
            check_all(&library, Kind::Action, &actions, &check)
        }
    }
}

/// The action with its actors; none when no actor is named anywhere, which is no fault of the action.
fn preview(
    library: &Library,
    loaded: &LoadedDefinition<Action>,
    surroundings: &FreezeOptions,
) -> Result<Option<::definitions::FrozenDefinition>, DefinitionError> {
    match preview_action(library, loaded, surroundings) {
        Ok(frozen) => Ok(Some(frozen)),
        Err(DefinitionError::NoActor) => Ok(None),
        Err(error) => Err(error),
    }
}
