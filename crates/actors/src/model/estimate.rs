//! Estimates the tokens of a call before it is made, so that they can be reserved.
//!
//! A token of ordinary text (prose and program text in the tokenizers of today) has three bytes or more on
//! average. So a third of the bytes, rounded up, is not below the true count. It is a bound for ordinary
//! text, not for any: long runs of digits, base64 or rare scripts can have fewer bytes to a token. The actual
//! usage of a call is settled after it, so an estimate that was too low shows in the next reservation.
//!
//! # Invariants
//! 1. More text never makes a smaller estimate.
//! 2. The answer counts with the whole of `max_tokens`.

use serde_json::Value;

use super::request::{Message, ModelRequest};

const BYTES_PER_TOKEN: usize = 3;
/// The overhead that providers add to each message: its role and separators.
const BYTES_PER_MESSAGE: usize = 24;
/// The overhead that providers add to each tool.
const BYTES_PER_TOOL: usize = 48;
/// The general text about tools that providers add once any is offered.
const BYTES_FOR_TOOLS: usize = 1536;

/// The most tokens that a call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenEstimate {
    /// Tokens of what is sent.
    pub prompt: u64,
    /// Tokens of the longest answer.
    pub answer: u64,
}

impl TokenEstimate {
    /// Both together: what is reserved.
    pub fn total(self) -> u64 {
        self.prompt.saturating_add(self.answer)
    }
}

/// Returns the most that `request` may use; the head of this file says how sure that is.
pub fn estimate(request: &ModelRequest) -> TokenEstimate {
    let ModelRequest { model: _, system, messages, tools, max_tokens, output, caller: _ } = request;
    let messages_bytes: usize =
        messages.iter().map(|message| BYTES_PER_MESSAGE + bytes_of_message(message)).sum();
    let tools_bytes: usize = tools
        .iter()
        .map(|tool| BYTES_PER_TOOL + tool.name.len() + tool.description.len() + bytes_of_json(&tool.input))
        .sum();
    let fixed = BYTES_PER_MESSAGE + if tools.is_empty() && output.is_none() { 0 } else { BYTES_FOR_TOOLS };
    let output_bytes = output.as_ref().map_or(0, |schema| BYTES_PER_TOOL + bytes_of_json(schema));
    let bytes = system.len() + messages_bytes + tools_bytes + output_bytes + fixed;
    TokenEstimate { prompt: tokens_of_bytes(bytes), answer: u64::from(*max_tokens) }
}

/// A third, rounded up.
pub(super) fn tokens_of_bytes(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

fn bytes_of_message(message: &Message) -> usize {
    match message {
        Message::User(text) => text.len(),
        Message::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| {
                BYTES_PER_TOOL + call.id.len() + call.name.len() + bytes_of_json(&call.arguments)
            });
            text.len() + calls.sum::<usize>()
        }
        Message::Results(results) => {
            results.iter().map(|result| BYTES_PER_MESSAGE + result.id.len() + result.text.len()).sum()
        }
    }
}

fn bytes_of_json(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ToolResult, ToolUse};

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            model: "m".to_owned(),
            system: String::new(),
            messages,
            tools: Vec::new(),
            max_tokens: 100,
            output: None,
            caller: String::new(),
        }
    }

    #[test]
    fn every_part_of_a_request_counts() {
        let long = "x".repeat(300);
        let empty = estimate(&request(Vec::new())).prompt;
        let call = ToolUse { id: String::new(), name: String::new(), arguments: Value::String(long.clone()) };
        let result = ToolResult { id: String::new(), text: long.clone(), is_error: false };
        for message in [
            Message::User(long.clone()),
            Message::Assistant { text: long.clone(), calls: Vec::new() },
            Message::Assistant { text: String::new(), calls: vec![call] },
            Message::Results(vec![result]),
        ] {
            assert!(estimate(&request(vec![message.clone()])).prompt >= empty + 100, "{message:?}");
        }
        let system = ModelRequest { system: long.clone(), ..request(Vec::new()) };
        assert_eq!(estimate(&system).prompt, empty + 100);
        let output = ModelRequest { output: Some(Value::String(long)), ..request(Vec::new()) };
        assert!(estimate(&output).prompt >= empty + 100);
    }

    #[test]
    fn the_whole_answer_counts_and_parts_of_a_token_count_as_one() {
        let estimated = estimate(&request(Vec::new()));
        assert_eq!((estimated.answer, estimated.total()), (100, estimated.prompt + 100));
        assert_eq!([0, 1, 3, 4].map(tokens_of_bytes), [0, 1, 1, 2]);
    }
}
