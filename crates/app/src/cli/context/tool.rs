//! The tool `request_context` for other programs: `context assemble` in its words, answered as a plan's
//! models are.

use domain::context::FileLocation;
use engine::context_answer;

use super::ContextCommand;
use crate::cli::Invocation;
use crate::errors::{CommandError, codes};
use crate::output::CommandReport;

/// Answers the call that `command` represents.
pub(in crate::cli) async fn request(
    command: ContextCommand,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let asked = match command {
        ContextCommand::Assemble(args) => args.ask.build_query(invocation).await?,
        ContextCommand::Simulate(_)
        | ContextCommand::Inspect(_)
        | ContextCommand::Index(_)
        | ContextCommand::Show(_)
        | ContextCommand::Breakers(_) => {
            return Err(CommandError::new(&codes::INTERNAL, "it is not a request for a context"));
        }
    };
    let context = asked.assemble_unheard().await?;
    let aliases: Vec<&str> = asked.ground.projects.iter().map(|project| project.alias.as_str()).collect();
    let shown = |place: &FileLocation| match aliases.get(usize::from(place.project.0)) {
        Some(alias) if aliases.len() > 1 => format!("{alias}:{}", place.path),
        Some(_) | None => place.path.to_string(),
    };
    Ok(CommandReport::new(context_answer(&context, &shown), Vec::new()))
}
