//! The turns of a model in the attempt that a revision continues, rebuilt from the recorded calls.
//!
//! # Invariants
//! 1. A call of a tool is followed by its result, as providers demand.
//! 2. Only what was recorded is used: redacted, and bounded like every result.

use std::collections::BTreeSet;

use actors::model::{Message, ToolResult, ToolUse};
use actors::tool::head_and_tail;
use domain::{CallState, ToolCall};
use serde_json::Value;

use crate::query::details::ASK_MODEL;

/// The number of bytes of an earlier result that the model sees again.
const RESULT_BYTES_MAX: usize = 4 * 1024;
/// The number of turns that are shown again, the last ones.
const TURNS_MAX: usize = 40;

/// Returns the turns of a node in one attempt, oldest first. Calls of tools that are not offered any more are
/// left out.
pub(super) fn earlier_turns(
    calls: &[ToolCall],
    node: &str,
    attempt: u32,
    offered: &BTreeSet<String>,
) -> Vec<Message> {
    let mut turns: Vec<(String, Vec<ToolUse>, Vec<ToolResult>)> = Vec::new();
    for call in calls.iter().filter(|call| call.new.is_of(attempt, node)) {
        if call.new.tool == ASK_MODEL {
            if call.state() == CallState::Ok {
                turns.push((answer_text(call), Vec::new(), Vec::new()));
            }
        } else if let Some((_, uses, results)) = turns.last_mut()
            && offered.contains(&call.new.tool)
        {
            let id = format!("earlier_{attempt}_{}", call.no.0);
            let (name, arguments) = (call.new.tool.clone(), call.new.requested.clone());
            uses.push(ToolUse { id: id.clone(), name, arguments });
            results.push(ToolResult { id, text: result_text(call), is_error: call.state() != CallState::Ok });
        }
    }
    let left_out = turns.len().saturating_sub(TURNS_MAX);
    let messages = turns.into_iter().skip(left_out).flat_map(|(text, calls, results)| {
        let text = if text.trim().is_empty() && calls.is_empty() { "(nothing)".to_owned() } else { text };
        let results = (!results.is_empty()).then_some(Message::Results(results));
        std::iter::once(Message::Assistant { text, calls }).chain(results)
    });
    messages.collect()
}

fn answer_text(call: &ToolCall) -> String {
    let result = call.end.as_ref().map(|end| &end.result);
    result.and_then(|result| result.get("text")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn result_text(call: &ToolCall) -> String {
    let text = match call.end.as_ref() {
        Some(end) => end.error.clone().unwrap_or_else(|| match &end.result {
            Value::String(text) => text.clone(),
            result @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => result.to_string(),
        }),
        None => "it was interrupted".to_owned(),
    };
    match text.len() > RESULT_BYTES_MAX {
        true => head_and_tail(&text, RESULT_BYTES_MAX / 2, RESULT_BYTES_MAX / 4),
        false => text,
    }
}
