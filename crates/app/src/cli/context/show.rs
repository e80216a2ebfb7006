//! `agents context show`: the contexts that the nodes of a plan were given to read, as they were stored.
//!
//! # Invariants
//! The output for one context is its text and nothing else, as the model was given it.

use domain::context::ContextRecord;
use domain::text::first_chars;
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::errors::{CommandError, codes, from_engine};
use crate::output::{CommandReport, escape_control_chars};
use crate::time::stamp;

/// The number of characters of a question that a list shows.
const QUERY_CHARS_MAX: usize = 60;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ShowArgs {
    /// The plan
    #[arg(default_value = "@last")]
    plan: String,
    /// The context: its number in the list, or the beginning of its id [default: list all]
    #[arg(value_name = "CONTEXT")]
    which: Option<String>,
    /// Print the parts of the context, and the parts left out with the reasons, as JSON instead of the text
    #[arg(long, requires = "which")]
    receipt: bool,
}

pub(super) async fn run(args: ShowArgs, invocation: &Invocation) -> Result<CommandReport, CommandError> {
    let engine = invocation.engine().await?;
    let plan = invocation.plan(&engine, &args.plan).await?;
    let given = engine.given_contexts(plan.id).await;
    let given = given.map_err(|error| from_engine::plan(&error, &plan.short))?;
    let Some(word) = &args.which else {
        let text = match given.is_empty() {
            true => format!("no node of plan {} was given a context\n", plan.short),
            false => given.iter().zip(1..).map(|(one, no)| line(one, no)).collect(),
        };
        let contexts: Vec<Value> = given.iter().map(to_json).collect();
        return Ok(CommandReport::new(json!({ "plan": plan.id, "contexts": contexts }), text));
    };
    let one = chosen(&given, word).ok_or_else(|| {
        CommandError::new(&codes::CONTEXT_NOT_FOUND, format!("plan {} has no context `{word}`", plan.short))
            .plan(&plan.short)
    })?;
    let text = engine.given_text(one);
    let text = text.map_err(|error| CommandError::new(&codes::CONTEXT_NOT_FOUND, error.to_string()))?;
    let mut data = to_json(one);
    data["text"] = json!(text);
    data["receipt"] = one.receipt.clone();
    let printed = match args.receipt {
        true => format!("{:#}\n", one.receipt),
        false => text,
    };
    Ok(CommandReport::new(data, printed))
}

/// The one that a word names: a number counts from 1, and an id is as good as its beginning if no other has
/// that.
fn chosen<'a>(given: &'a [ContextRecord], word: &str) -> Option<&'a ContextRecord> {
    let number = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    if let Some(one) = number.and_then(|number| given.get(number)) {
        return Some(one);
    }
    let sought = word.to_uppercase();
    let mut named = given.iter().filter(|one| !sought.is_empty() && one.id.to_string().starts_with(&sought));
    named.next().filter(|_| named.next().is_none())
}

fn line(one: &ContextRecord, no: usize) -> String {
    let query = escape_control_chars(one.query()).replace(['\n', '\t'], " ");
    let cut = first_chars(&query, QUERY_CHARS_MAX);
    let more = if cut.len() < query.len() { "…" } else { "" };
    let (at, node, tokens) = (stamp(one.at), escape_control_chars(&one.node), one.tokens());
    format!("{no:>3}  {}  {at}  {tokens:>6} tokens  {node}  {cut}{more}\n", one.id)
}

fn to_json(one: &ContextRecord) -> Value {
    json!({
        "id": one.id, "node": one.node, "at": one.at, "tokens": one.tokens(), "query": one.query(),
        "text_hash": one.text.to_string(),
    })
}
