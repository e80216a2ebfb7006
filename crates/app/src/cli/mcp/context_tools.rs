//! The tools by which other agents ask what to read, outside of any plan.
//!
//! # Invariants
//! 1. They only read, and take and give what the tools of a plan's models do.
//! 2. Outside a plan the budget is the request's, and there is no history but the commits.

use actors::mcp::ServedTool;
use actors::tool::{CONTEXT_TOKENS, CONTEXT_TOKENS_MAX, HistoryQuestion, builtin_tools};
use serde_json::{Value, json};

use crate::cli::Invocation;
use crate::cli::invocation::path_of;
use crate::errors::{CommandError, codes};
use crate::output::CommandReport;
use crate::setup::project;

/// Returns the offered tools with their schemas.
pub(super) fn offers() -> Vec<ServedTool> {
    let what = [
        (
            "request_context",
            "Finds the pieces of this project that matter for a question, within a number of tokens",
        ),
        ("query_history", "Looks through the commits of this project, newest first"),
        ("get_context_budget", "Returns the number of tokens that a request for context may fill"),
    ];
    let specs = builtin_tools();
    let offer = |(name, description): (&'static str, &'static str)| {
        let spec = specs.iter().find(|spec| spec.name == name);
        let input = spec.map(|spec| spec.input.clone()).unwrap_or_default();
        ServedTool { name, description, input, reads_only: true }
    };
    what.map(offer).into()
}

/// The words of `context assemble` that a call of `request_context` means.
pub(super) fn words(arguments: &Value) -> Vec<String> {
    let tokens = arguments["tokens"].as_u64().unwrap_or(CONTEXT_TOKENS.into());
    let mut words = ["context", "assemble"].map(str::to_owned).to_vec();
    words.push(format!("--budget={tokens}"));
    words.extend(arguments["depth"].as_str().map(|depth| format!("--depth={depth}")));
    let focus = arguments["focus"].as_array().into_iter().flatten().filter_map(Value::as_str);
    words.extend(focus.map(|focus| format!("--focus={focus}")));
    // A bare dash would mean the standard input, which is the caller's.
    let query = arguments["query"].as_str().unwrap_or_default();
    words.extend(["--".to_owned(), if query == "-" { "- ".to_owned() } else { query.to_owned() }]);
    words
}

/// `query_history`.
pub(super) async fn history(
    arguments: &Value,
    invocation: &Invocation,
) -> Result<CommandReport, CommandError> {
    let question: HistoryQuestion = serde_json::from_value(arguments.clone())
        .map_err(|error| CommandError::new(&codes::TOOL_ARGUMENTS, error.to_string()))?;
    let links = project::find_all(&[], &invocation.here)?;
    let settings = invocation.settings(Vec::new(), &links)?;
    invocation.admit(&links, &settings)?;
    let roots = links.iter().map(|link| path_of(link.root.as_bytes())).collect();
    let engine = invocation.engine().await?;
    let found = engine.project_history(roots, question).await;
    found.map(|found| CommandReport::new(found, Vec::new())).map_err(|error| {
        let why = std::error::Error::source(&error).map(|why| format!(": {why}")).unwrap_or_default();
        CommandError::new(&codes::IO_FAILED, format!("{error}{why}"))
    })
}

/// `get_context_budget`.
pub(super) fn budget() -> CommandReport {
    let all = CONTEXT_TOKENS_MAX;
    let data = json!({
        "window": all, "response": 0, "system": 0, "tools": 0, "used": 0, "reserved": 0, "available": all,
    });
    CommandReport::new(data, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_says_never_becomes_an_option_nor_reads_its_own_stream() {
        let hostile =
            json!({ "query": "--plan=@last", "focus": ["--receipt=x"], "tokens": 300, "depth": "outline" });
        let expected = [
            "context",
            "assemble",
            "--budget=300",
            "--depth=outline",
            "--focus=--receipt=x",
            "--",
            "--plan=@last",
        ];
        assert_eq!(words(&hostile), expected);
        assert_eq!(words(&json!({ "query": "-" })).last().map(String::as_str), Some("- "));
        assert!(offers().iter().all(|offer| offer.input["type"] == "object" && offer.reads_only));
    }
}
