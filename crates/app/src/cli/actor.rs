//! `agents actor list | show | check`.

use ::definitions::{Kind, actor_value, preview_actor};

use super::Invocation;
use crate::errors::CommandError;
use crate::output::CommandReport;
use crate::render::definitions::{Checked, PrintedDefinition, check_all, list, setting, show};
use crate::setup::default_actor;
use crate::setup::definitions;
use crate::setup::definitions::WithProviders;

#[derive(Debug, clap::Subcommand)]
pub(super) enum ActorCommand {
    /// List the actors of this project, of the user and the built-in ones, including hidden and invalid ones
    List,
    /// Print an actor as it is read, with the actors that it contains
    Show {
        /// The name of an actor, or a file
        #[arg(value_name = "NAME|FILE")]
        actor: String,
    },
    /// Check actors, and print all errors in them
    Check {
        /// Names of actors, or files [default: all that are listed]
        #[arg(value_name = "NAME|FILE")]
        actors: Vec<String>,
    },
}

impl ActorCommand {
    pub(super) fn name(&self) -> &'static str {
        match self {
            ActorCommand::List => "actor list",
            ActorCommand::Show { .. } => "actor show",
            ActorCommand::Check { .. } => "actor check",
        }
    }
}

pub(super) fn run(command: ActorCommand, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    // `show` prints a definition as it is written, independent of the available providers.
    let with_providers = match command {
        ActorCommand::List | ActorCommand::Check { .. } => WithProviders::Yes,
        ActorCommand::Show { .. } => WithProviders::No,
    };
    let (library, surroundings, settings) = setting(invocation, with_providers)?;
    match command {
        ActorCommand::List => {
            let model = surroundings.model_default.as_deref();
            let missing = |actor: &str| default_actor::missing(actor, &settings, model, &invocation.env);
            list(&library, Kind::Actor, &missing, invocation)
        }
        ActorCommand::Show { actor } => {
            let loaded = definitions::actor(&library, &actor, &invocation.here);
            let loaded = loaded.map_err(|error| definitions::failure(&error))?;
            let frozen = preview_actor(&library, &loaded, &surroundings);
            let frozen = frozen.map_err(|error| definitions::failure(&error))?;
            let mut value = actor_value(&frozen);
            value["description"] = loaded.definition.description.as_str().into();
            show(&PrintedDefinition::new(Kind::Actor, &loaded, value))
        }
        ActorCommand::Check { actors } => {
            let check = |word: &str| {
                let loaded = definitions::actor(&library, word, &invocation.here)?;
                preview_actor(&library, &loaded, &surroundings)?;
                Ok(Checked::new(&loaded))
            };
            check_all(&library, Kind::Actor, &actors, &check)
        }
    }
}
