//! An answer out of the events of Anthropic's messages.
//!
//! # Invariants
//! 1. Blocks are in the order in which they began, whatever the order of their pieces.
//! 2. A stream that ends before it said why it stopped is broken, never a short answer.

use serde_json::Value;

use crate::model::estimate::estimate;
use crate::model::http::{AnswerError, AnswerReader, Flow, json_of};
use crate::model::http_fault::ReportedFault;
use crate::model::price::Tokens;
use crate::model::request::{ModelRequest, StopReason, TextListener, ToolUse, read_arguments};
use crate::model::sse::SseEvent;
use crate::model::tool_names::ToolNames;

/// The answer so far.
#[derive(Debug, Default)]
pub(super) struct Reply {
    blocks: Vec<(u64, Block)>,
    reason: Option<String>,
    tokens: Option<Tokens>,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Call {
        id: String,
        name: String,
        begun_with: Value,
        pieces: String,
    },
    /// Thoughts, and what later versions bring.
    Other,
}

/// The whole answer.
#[derive(Debug, PartialEq)]
pub(super) struct AnthropicResponse {
    pub(super) text: String,
    pub(super) calls: Vec<ToolUse>,
    pub(super) stop: StopReason,
    pub(super) tokens: Tokens,
}

impl AnswerReader for Reply {
    fn event(&mut self, event: &SseEvent, heard: TextListener<'_>) -> Result<Flow, AnswerError> {
        if event.data.trim_ascii().is_empty() {
            return Ok(Flow::More);
        }
        let data = json_of(&event.data)?;
        let kind = data.get("type").and_then(Value::as_str).unwrap_or(&event.name);
        match kind {
            "message_start" => self.usage(data.get("message").and_then(|message| message.get("usage"))),
            "content_block_start" => self.begin(index_of(&data)?, data.get("content_block"), heard),
            "content_block_delta" => self.go_on(index_of(&data)?, &data, heard)?,
            "message_delta" => {
                self.usage(data.get("usage"));
                self.stopped(data.get("delta"));
            }
            "message_stop" => return Ok(Flow::Done),
            "error" => {
                return Err(AnswerError::Told(
                    ReportedFault::in_json(&data).unwrap_or_else(|| ReportedFault::in_body(&event.data)),
                ));
            }
            // `ping`, `content_block_stop`, and what later versions bring.
            _ => {}
        }
        Ok(Flow::More)
    }

    fn whole(&mut self, body: &[u8], heard: TextListener<'_>) -> Result<(), AnswerError> {
        let message = json_of(body)?;
        if message.get("content").is_none()
            && let Some(told) = ReportedFault::in_json(&message)
        {
            return Err(AnswerError::Told(told));
        }
        let blocks = message.get("content").and_then(Value::as_array);
        for (index, block) in (0..).zip(blocks.into_iter().flatten()) {
            self.begin(index, Some(block), heard);
        }
        self.usage(message.get("usage"));
        self.stopped(Some(&message));
        Ok(())
    }
}

impl Reply {
    fn begin(&mut self, index: u64, block: Option<&Value>, heard: TextListener<'_>) {
        let word = |key| block.and_then(|block| block.get(key)).and_then(Value::as_str).unwrap_or_default();
        let begun = match word("type") {
            "text" => {
                let text = word("text");
                if !text.is_empty() {
                    heard(text);
                }
                Block::Text(text.to_owned())
            }
            "tool_use" => Block::Call {
                id: word("id").to_owned(),
                name: word("name").to_owned(),
                begun_with: block.and_then(|block| block.get("input")).cloned().unwrap_or_default(),
                pieces: String::new(),
            },
            _ => Block::Other,
        };
        self.blocks.push((index, begun));
    }

    fn go_on(&mut self, index: u64, data: &Value, heard: TextListener<'_>) -> Result<(), AnswerError> {
        let Some((_, block)) = self.blocks.iter_mut().rfind(|(number, _)| *number == index) else {
            return Err(AnswerError::Garbage(format!("a piece of block {index}, which has not begun")));
        };
        let delta = data.get("delta");
        let word = |key| delta.and_then(|delta| delta.get(key)).and_then(Value::as_str).unwrap_or_default();
        match block {
            Block::Text(text) => {
                let piece = word("text");
                if !piece.is_empty() {
                    heard(piece);
                    text.push_str(piece);
                }
            }
            Block::Call { pieces, .. } => pieces.push_str(word("partial_json")),
            Block::Other => {}
        }
        Ok(())
    }

    fn stopped(&mut self, said: Option<&Value>) {
        if let Some(reason) = said.and_then(|said| said.get("stop_reason")).and_then(Value::as_str) {
            self.reason = Some(reason.to_owned());
        }
    }

    /// Reads counts, which are sent at the start and again at the end; the later ones hold.
    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        let known = self.tokens.unwrap_or_default();
        let count = |key, known| usage.get(key).and_then(Value::as_u64).unwrap_or(known);
        self.tokens = Some(Tokens {
            input: count("input_tokens", known.input),
            cache_read: count("cache_read_input_tokens", known.cache_read),
            cache_write: count("cache_creation_input_tokens", known.cache_write),
            output: count("output_tokens", known.output),
        });
    }

    /// The answer, if this is one; `answer_tool` is the tool whose call is the answer.
    ///
    /// # Errors
    /// Returns the fault of the server, in words that follow its name.
    pub(super) fn finish(
        self,
        request: &ModelRequest,
        names: &ToolNames,
        answer_tool: Option<&str>,
    ) -> Result<AnthropicResponse, String> {
        let Some(reason) = self.reason else {
            return Err("stopped in the middle of its answer".to_owned());
        };
        let (mut text, mut calls, mut bound) = (String::new(), Vec::new(), None);
        for (number, (_, block)) in self.blocks.into_iter().enumerate() {
            match block {
                Block::Text(piece) => text.push_str(&piece),
                Block::Call { id, name, begun_with, pieces } => {
                    let arguments = if pieces.is_empty() && begun_with.is_object() {
                        begun_with
                    } else {
                        read_arguments(&pieces)
                    };
                    if answer_tool == Some(name.as_str()) {
                        bound = Some(arguments);
                    } else {
                        let id = if id.is_empty() {
                            format!("call_{}_{number}", request.messages.len())
                        } else {
                            id
                        };
                        calls.push(ToolUse { id, name: names.ours(&name), arguments });
                    }
                }
                Block::Other => {}
            }
        }
        // An answer together with calls of tools came too early: the tools are called, and it is asked for
        // again.
        let is_answered = calls.is_empty() && bound.is_some();
        if let Some(answer) = bound.filter(|_| is_answered) {
            // Text that is no JSON is shown as it is, so that the model can be shown what is wrong with it.
            text = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
        }
        let stop = stop_of(&reason, !calls.is_empty());
        if text.trim().is_empty() && calls.is_empty() && stop != StopReason::Refused {
            return Err(match stop {
                StopReason::MaxTokens => "used all tokens of its answer before it wrote any text".to_owned(),
                StopReason::End | StopReason::ToolUse | StopReason::Refused => {
                    "gave an empty answer".to_owned()
                }
            });
        }
        let tokens = self.tokens.unwrap_or_else(|| {
            let estimated = estimate(request);
            Tokens { input: estimated.prompt, output: estimated.answer, ..Tokens::default() }
        });
        Ok(AnthropicResponse { text, calls, stop, tokens })
    }
}

fn stop_of(reason: &str, has_calls: bool) -> StopReason {
    match reason {
        "refusal" => StopReason::Refused,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        _ if has_calls => StopReason::ToolUse,
        _ => StopReason::End,
    }
}

fn index_of(data: &Value) -> Result<u64, AnswerError> {
    let missing = || AnswerError::Garbage("a block without an index".to_owned());
    data.get("index").and_then(Value::as_u64).ok_or_else(missing)
}
