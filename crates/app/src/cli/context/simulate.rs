//! `agents context simulate`: the receipt of a context, without its text.

use serde_json::{Value, json};

use super::ask::{AskArgs, tokens};
use super::table;
use crate::cli::Invocation;
use crate::errors::{CommandError, codes};
use crate::output::{CommandReport, OutputNote};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SimulateArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// Several numbers of tokens; each is simulated
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = tokens, conflicts_with = "budget")]
    budgets: Vec<u32>,
}

pub(super) async fn run(args: SimulateArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let asked = args.ask.build_query(invocation).await?;
    let budgets: Vec<Option<u32>> = match args.budgets.is_empty() {
        true => vec![None],
        false => args.budgets.iter().copied().map(Some).collect(),
    };
    let aliases: Vec<String> = asked.ground.projects.iter().map(|project| project.alias.clone()).collect();
    let (mut receipts, mut text, mut notes) = (Vec::new(), String::new(), Vec::new());
    for tokens in budgets {
        let receipt = asked.assemble(tokens).await?.receipt;
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table::render_receipt(&receipt, &aliases, &invocation.style));
        let value: Value = serde_json::to_value(&receipt).map_err(|error| {
            CommandError::new(&codes::INTERNAL, format!("the receipt cannot be printed: {error}"))
        })?;
        receipts.push(value);
        for note in receipt.notes {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    let report = CommandReport::new(json!({ "receipts": receipts }), text);
    Ok(notes.iter().fold(report, |report, note| report.note(OutputNote::info(note))))
}
