//! `agents context assemble`.

use std::path::PathBuf;

use serde_json::json;

use super::ask::AskArgs;
use crate::cli::Invocation;
use crate::errors::{CommandError, codes};
use crate::output::{CommandReport, OutputNote};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct AssembleArgs {
    #[command(flatten)]
    pub(super) ask: AskArgs,
    /// Write the parts of the text, and the parts left out with the reasons, to this file as JSON
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
}

pub(super) async fn run(args: AssembleArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let asked = args.ask.build_query(invocation).await?;
    let context = asked.assemble(None).await?;
    let receipt = serde_json::to_value(&context.receipt).map_err(|error| {
        CommandError::new(&codes::INTERNAL, format!("the receipt cannot be printed: {error}"))
    })?;
    if let Some(file) = &args.receipt {
        let written = std::fs::write(invocation.here.join(file), format!("{receipt:#}\n"));
        written.map_err(|error| {
            let message = format!("the receipt cannot be written to {}: {error}", file.display());
            CommandError::new(&codes::IO_FAILED, message)
        })?;
    }
    let data = json!({ "text": context.text, "receipt": receipt });
    let report = CommandReport::new(data, context.text.clone());
    Ok(context.receipt.notes.iter().fold(report, |report, note| report.note(OutputNote::info(note))))
}
