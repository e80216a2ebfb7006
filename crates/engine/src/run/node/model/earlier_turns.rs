//! The earlier turns of a model that continues, rebuilt from the recorded calls: those of the attempt that a
//! revision continues, and those before a limit stopped the node.
//!
//! # Invariants
//! 1. A call of a tool is followed by its result, as providers demand.
//! 2. A try that began from nothing hides all tries before it.
//! 3. Only what was recorded is used: redacted, and bounded like every result.

use std::collections::BTreeSet;

use actors::model::{Message, ToolResult, ToolUse};
use actors::tool::{first_and_last_lines, result_text};
use domain::{CallState, ToolCall};
use serde_json::{Value, json};

use super::call_record::TURN_KEY;
use crate::query::details::{ASK_MODEL, RUN_COMMAND};
use crate::query::effective_changes::KEEP_WORK;

/// The number of bytes of an earlier result that the model sees again.
const EARLIER_BYTES_MAX: usize = 8 * 1024;
/// The number of turns that are shown again, the last ones.
const TURNS_MAX: usize = 100;
/// In place of the middle of a long result.
const LEFT_OUT: &str = "make the call again if you need it";

/// Returns the turns of a node in one attempt, oldest first. Calls of tools that are not offered any more are
/// left out.
pub(super) fn earlier_turns(
    calls: &[ToolCall],
    node: &str,
    attempt: u32,
    offered: &BTreeSet<String>,
) -> Vec<Message> {
    let own: Vec<&ToolCall> = calls.iter().filter(|call| call.new.is_of(attempt, node)).collect();
    let is_first = |call: &&ToolCall| turn(call) == Some(1);
    let begin = own.iter().rposition(is_first).unwrap_or(0);
    let mut turns: Vec<(String, Vec<ToolUse>, Vec<ToolResult>)> = Vec::new();
    for call in own.into_iter().skip(begin) {
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
            results.push(ToolResult {
                id,
                text: recorded_text(call),
                is_error: call.state() != CallState::Ok,
            });
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

/// The turns of a node before the last limit that stopped it in this attempt.
pub(super) struct StoppedTurns {
    pub(super) messages: Vec<Message>,
    /// The number of the last one.
    pub(super) last: u32,
}

/// Returns the turns of a node before the last limit that stopped it; `None` if none did.
pub(super) fn stopped_turns(
    calls: &[ToolCall],
    node: &str,
    attempt: u32,
    offered: &BTreeSet<String>,
) -> Option<StoppedTurns> {
    let keeps = |call: &ToolCall| call.new.is_of(attempt, node) && call.new.tool == KEEP_WORK;
    let stopped = calls.iter().rposition(keeps)?;
    let before = &calls[..stopped];
    let last = before.iter().filter(|call| call.new.is_of(attempt, node)).rev().find_map(turn);
    Some(StoppedTurns { messages: earlier_turns(before, node, attempt, offered), last: last.unwrap_or(1) })
}

/// Returns the number of the turn that a question began.
fn turn(call: &ToolCall) -> Option<u32> {
    let asked = Some(call).filter(|call| call.new.tool == ASK_MODEL)?;
    asked.new.requested.get(TURN_KEY).and_then(Value::as_u64).and_then(|turn| u32::try_from(turn).ok())
}

fn answer_text(call: &ToolCall) -> String {
    let result = call.end.as_ref().map(|end| &end.result);
    result.and_then(|result| result.get("text")).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn recorded_text(call: &ToolCall) -> String {
    let Some(end) = call.end.as_ref() else { return "it was interrupted".to_owned() };
    let text = match (end.result.get("last_words"), &end.error) {
        // The outputs of a command are stored apart; its record has its last words.
        (Some(last), _) if call.new.tool == RUN_COMMAND => {
            let timed_out = call.state() == CallState::TimedOut;
            result_text(RUN_COMMAND, &json!({ "exit": end.exit, "timed_out": timed_out, "last_words": last }))
        }
        (_, Some(error)) => error.clone(),
        (_, None) => result_text(&call.new.tool, &end.result),
    };
    first_and_last_lines(&text, EARLIER_BYTES_MAX, LEFT_OUT)
}
