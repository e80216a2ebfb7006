//! The request to a model and its answer, in terms that no provider owns.
//!
//! # Invariants
//! 1. A [`ToolUse`] whose arguments could not be read as JSON has them as a string. The tool's schema refuses
//!    it, and the model gets the error.
//! 2. An answer has text, or calls, or was refused: an empty one is an error of the provider.
//!
//! # Not here
//! The form on the wire: each provider's own files.

use async_trait::async_trait;
use domain::TokenUsage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sync::Observed;

use super::ModelError;
use super::tool_spec::ToolSpec;

/// One question to a model: all that it is to know, since it remembers nothing.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Its name at the provider.
    pub model: String,
    /// The instructions for all turns; empty: none.
    pub system: String,
    /// The messages so far, oldest first.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    pub tools: Vec<ToolSpec>,
    /// The limit of its answer.
    pub max_tokens: u32,
    /// The JSON schema that its last answer must fit.
    pub output: Option<Value>,
    /// The node that makes the request. Only recordings contain it; it is not sent to a provider.
    pub caller: String,
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// To the model.
    User(String),
    /// By the model.
    Assistant {
        /// Its message.
        text: String,
        /// The tools that it called.
        calls: Vec<ToolUse>,
    },
    /// The answers of the tools.
    Results(Vec<ToolResult>),
}

/// A model's call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The id that its result names.
    pub id: String,
    /// The tool.
    pub name: String,
    /// An object; a string if the model's JSON could not be read.
    pub arguments: Value,
}

/// The answer of a tool to a [`ToolUse`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub id: String,
    /// The text for the model.
    pub text: String,
    /// True if it failed.
    pub is_error: bool,
}

/// The answer of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// Its message.
    pub text: String,
    /// The tools that it wants called.
    pub calls: Vec<ToolUse>,
    /// The reason why it stopped.
    pub stop: StopReason,
    /// The tokens that it used. The cost is 0 if the price is not known.
    pub usage: TokenUsage,
}

/// The reason why a model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It has said all.
    End,
    /// It waits for the results of its calls.
    ToolUse,
    /// It was cut off: its answer, or the conversation, became too long.
    MaxTokens,
    /// It, or its provider, will not answer this.
    Refused,
}

/// Hears the text of an answer as it comes.
pub type TextListener<'a> = &'a mut (dyn FnMut(&str) + Send);

/// Answers for a model.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Asks once. `heard` gets the text as it comes; the answer has all of it again.
    ///
    /// # Errors
    /// Returns [`ModelError`]; also if `scope` was cancelled, which its `cause` says.
    async fn answer(
        &self,
        request: &ModelRequest,
        heard: TextListener<'_>,
        scope: &Observed,
    ) -> Result<ModelAnswer, ModelError>;
}

/// A call's arguments out of what the model wrote: nothing is an empty object, what is no JSON stays a
/// string.
pub(super) fn read_arguments(text: &str) -> Value {
    match text.trim() {
        "" => Value::Object(serde_json::Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}

/// Arguments as a provider takes them back: always an object, whatever the model wrote.
pub(super) fn sendable(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            serde_json::json!({"unreadable": arguments})
        }
    }
}
