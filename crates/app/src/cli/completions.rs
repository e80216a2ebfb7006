//! `agents completions SHELL`.

use clap_complete::Shell;
use serde_json::json;

use crate::errors::CommandError;
use crate::output::CommandReport;

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<CommandReport, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "agents", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    Ok(CommandReport::new(json!({ "shell": args.shell.to_string(), "script": text }), script))
}
