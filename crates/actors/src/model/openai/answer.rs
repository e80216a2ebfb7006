//! An answer out of the chunks of a chat completion, from servers that each do it a little differently.
//!
//! These deviations are accepted. Calls come in pieces or whole, with or without index and id, and with their
//! arguments as an object. A message comes in the place of a delta. There is no usage, no `[DONE]`, or no
//! `finish_reason` before it; or the word for `finish_reason` is that of another server.
//!
//! # Invariants
//! 1. The answer depends on the chunks alone.
//! 2. A stream that stops before its end is announced is broken, never a short answer.

use serde_json::Value;

use crate::model::estimate::{estimate, tokens_of_bytes};
use crate::model::http::{AnswerError, AnswerReader, Flow, json_of};
use crate::model::http_fault::ReportedFault;
use crate::model::price::Tokens;
use crate::model::request::{ModelRequest, StopReason, TextListener, ToolUse, read_arguments};
use crate::model::sse::SseEvent;
use crate::model::tool_names::ToolNames;

const DONE: &[u8] = b"[DONE]";

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Completion {
    text: String,
    refusal: String,
    calls: Vec<PartialToolCall>,
    reason: Option<String>,
    tokens: Option<Tokens>,
    is_done: bool,
}

#[derive(Debug, Default)]
struct PartialToolCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// The whole answer.
#[derive(Debug, PartialEq)]
pub(super) struct OpenAiResponse {
    pub(super) text: String,
    pub(super) calls: Vec<ToolUse>,
    pub(super) stop: StopReason,
    pub(super) tokens: Tokens,
}

impl AnswerReader for Completion {
    fn event(&mut self, event: &SseEvent, heard: TextListener<'_>) -> Result<Flow, AnswerError> {
        if event.data.trim_ascii() == DONE {
            self.is_done = true;
            return Ok(Flow::Done);
        }
        if event.data.trim_ascii().is_empty() {
            return Ok(Flow::More);
        }
        let chunk = json_of(&event.data)?;
        if event.name == "error" {
            return Err(AnswerError::Told(
                ReportedFault::in_json(&chunk).unwrap_or_else(|| ReportedFault::in_body(&event.data)),
            ));
        }
        self.chunk(&chunk, heard)?;
        Ok(Flow::More)
    }

    fn whole(&mut self, body: &[u8], heard: TextListener<'_>) -> Result<(), AnswerError> {
        self.chunk(&json_of(body)?, heard)?;
        self.is_done = true;
        Ok(())
    }
}

impl Completion {
    fn chunk(&mut self, chunk: &Value, heard: TextListener<'_>) -> Result<(), AnswerError> {
        let choices = chunk.get("choices").and_then(Value::as_array);
        if choices.is_none_or(Vec::is_empty)
            && let Some(told) = ReportedFault::in_json(chunk)
        {
            return Err(AnswerError::Told(told));
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.tokens = tokens_of(usage).or(self.tokens);
        }
        // One choice is asked for; a server that sends more is heard with its first.
        let Some(choice) = choices.and_then(|choices| choices.first()) else { return Ok(()) };
        if let Some(told) =
            choice.get("error").filter(|error| !error.is_null()).and_then(|_| ReportedFault::in_json(choice))
        {
            return Err(AnswerError::Told(told));
        }
        if let Some(said) = choice.get("delta").or_else(|| choice.get("message")) {
            self.said(said, heard);
        }
        if let Some(reason) =
            choice.get("finish_reason").and_then(Value::as_str).filter(|word| !word.is_empty())
        {
            self.reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn said(&mut self, said: &Value, heard: TextListener<'_>) {
        let text = text_of(said.get("content"));
        if !text.is_empty() {
            heard(&text);
            self.text.push_str(&text);
        }
        if let Some(refusal) = said.get("refusal").and_then(Value::as_str) {
            self.refusal.push_str(refusal);
        }
        for call in said.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call);
        }
        // The older form, of one function.
        if let Some(function) = said.get("function_call").filter(|call| call.is_object()) {
            self.call(&serde_json::json!({"index": 0, "function": function}));
        }
    }

    /// A piece of a call, or a whole one.
    fn call(&mut self, piece: &Value) {
        let index = piece.get("index").and_then(Value::as_u64);
        let id = piece.get("id").and_then(Value::as_str).unwrap_or_default();
        let function = piece.get("function").unwrap_or(piece);
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let at = self.calls.iter().rposition(|call| call.goes_on(index, id, name));
        let call = match at.and_then(|at| self.calls.get_mut(at)) {
            Some(call) => call,
            None => {
                self.calls.push(PartialToolCall { index, ..PartialToolCall::default() });
                let last = self.calls.len() - 1;
                &mut self.calls[last]
            }
        };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name != name {
            call.name.push_str(name);
        }
        match function.get("arguments") {
            Some(Value::String(piece)) => call.arguments.push_str(piece),
            Some(Value::Null) | None => {}
            Some(whole @ (Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_))) => {
                call.arguments = whole.to_string();
            }
        }
    }

    /// The answer, if this is one.
    ///
    /// # Errors
    /// Returns the fault of the server, in words that follow its name.
    pub(super) fn finish(self, request: &ModelRequest, names: &ToolNames) -> Result<OpenAiResponse, String> {
        if !self.is_done && self.reason.is_none() {
            return Err("stopped in the middle of its answer".to_owned());
        }
        let turn = request.messages.len();
        let calls: Vec<ToolUse> = self
            .calls
            .into_iter()
            .enumerate()
            .map(|(number, call)| ToolUse {
                id: if call.id.is_empty() { format!("call_{turn}_{number}") } else { call.id },
                name: names.ours(&call.name),
                arguments: read_arguments(&call.arguments),
            })
            .collect();
        let stop = match self.reason.as_deref() {
            Some("content_filter" | "refusal" | "safety") => StopReason::Refused,
            Some("error") => return Err("ended its answer with an error that it did not explain".to_owned()),
            _ if !self.refusal.is_empty() => StopReason::Refused,
            Some("length" | "max_tokens" | "model_length") => StopReason::MaxTokens,
            _ if !calls.is_empty() => StopReason::ToolUse,
            _ => StopReason::End,
        };
        let text = if self.text.is_empty() { self.refusal } else { self.text };
        if text.trim().is_empty() && calls.is_empty() && stop != StopReason::Refused {
            return Err(match stop {
                StopReason::MaxTokens => "used all tokens of its answer before it wrote any text".to_owned(),
                StopReason::End | StopReason::ToolUse | StopReason::Refused => {
                    "gave an empty answer".to_owned()
                }
            });
        }
        let tokens = self.tokens.unwrap_or_else(|| counted(request, &text, &calls));
        Ok(OpenAiResponse { text, calls, stop, tokens })
    }
}

impl PartialToolCall {
    /// Returns whether a piece belongs to this call; if not, it begins another one.
    fn goes_on(&self, index: Option<u64>, id: &str, name: &str) -> bool {
        if !id.is_empty() && !self.id.is_empty() && id != self.id {
            return false;
        }
        if index.is_some() && self.index.is_some() && index != self.index {
            return false;
        }
        let is_same_id = !id.is_empty() && id == self.id;
        // Servers without ids send a call whole: a name after arguments begins the next one.
        name.is_empty() || self.arguments.is_empty() || is_same_id
    }
}

/// Text, also where it comes as a list of parts.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    }
}

fn tokens_of(usage: &Value) -> Option<Tokens> {
    let count = |value: &Value, key| value.get(key).and_then(Value::as_u64);
    let read = count(usage, "prompt_tokens")?;
    let details = usage.get("prompt_tokens_details");
    let cache_read = details.and_then(|details| count(details, "cached_tokens")).unwrap_or(0).min(read);
    let output = count(usage, "completion_tokens")
        .or_else(|| count(usage, "total_tokens").map(|total| total.saturating_sub(read)))?;
    Some(Tokens { input: read - cache_read, cache_read, cache_write: 0, output })
}

/// Returns the usage of an answer whose server does not report it: not less than the truth, for ordinary
/// text.
fn counted(request: &ModelRequest, text: &str, calls: &[ToolUse]) -> Tokens {
    let said: usize =
        calls.iter().map(|call| call.name.len() + call.arguments.to_string().len()).sum::<usize>()
            + text.len();
    let output = tokens_of_bytes(said).min(u64::from(request.max_tokens));
    Tokens { input: estimate(request).prompt, output, ..Tokens::default() }
}
