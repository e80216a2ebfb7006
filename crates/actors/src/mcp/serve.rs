//! A server of our own: what we offer to other agents over the Model Context Protocol.
//!
//! # Invariants
//! 1. Every request is answered, also one that is not understood. Arguments that do not fit a tool's schema
//!    never reach [`ToolService::call`]; the caller gets all problems.
//! 2. An answer has at most [`ANSWER_BYTES_MAX`] bytes; a longer one becomes an error that says so.
//! 3. At most [`CALLS_MAX`] calls are under way; one more is refused.
//! 4. It ends when its input ends, and all calls that were under way have ended.
//!
//! # Not here
//! Resources, prompts and notices: tools are all that is offered.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::program::{LineReader, StdinWriter};
use crate::tool::{Schema, SchemaError};

/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// So many calls may be under way.
pub const CALLS_MAX: usize = 16;

/// The versions of the protocol that are spoken, the newest last. They are the same in all that is offered
/// here.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// A tool that we offer.
#[derive(Clone, Debug)]
pub struct ServedTool {
    /// Its name.
    pub name: &'static str,
    /// Its description, for a model.
    pub description: &'static str,
    /// Its arguments: a JSON schema of an object.
    pub input: Value,
    /// True if it only reads.
    pub reads_only: bool,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedResult {
    /// The answer, an object.
    pub answer: Value,
    /// True if it went wrong.
    pub is_error: bool,
}

/// Serves the calls.
#[async_trait]
pub trait ToolService: Send + Sync + 'static {
    /// The tools that are offered.
    fn offers(&self) -> Vec<ServedTool>;

    /// The instructions for clients before they use it.
    fn instructions(&self) -> &str;

    /// Does a call whose arguments fit.
    async fn call(&self, name: &str, arguments: Value) -> ServedResult;
}

/// The error of a server that cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum McpServeError {
    /// A schema of ours does not compile: a bug.
    #[error("{tool}: {source}")]
    Schema {
        /// The tool.
        tool: &'static str,
        /// The problem.
        #[source]
        source: SchemaError,
    },
    /// The other side left without a first word.
    #[error("the client does not speak the Model Context Protocol")]
    NoHandshake,
}

/// A failure of the protocol, with its code.
type RpcFailure = (i32, String);

struct StdioServer<O> {
    offers: O,
    tools: Vec<(ServedTool, Schema)>,
}

/// Serves until the input ends.
///
/// # Errors
/// Returns [`McpServeError`] if it cannot serve.
pub async fn serve<O: ToolService>(
    offers: O,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), McpServeError> {
    let compiled = |offer: ServedTool| match Schema::new(&offer.input) {
        Ok(schema) => Ok((offer, schema)),
        Err(source) => Err(McpServeError::Schema { tool: offer.name, source }),
    };
    let tools = offers.offers().into_iter().map(compiled).collect::<Result<_, _>>()?;
    let server = Arc::new(StdioServer { offers, tools });
    let (writing, written) = StdinWriter::with_task(Box::new(output));
    let mut lines = LineReader::new(input);
    let mut calls = JoinSet::new();
    let mut is_greeted = false;
    // A line that is too long or cannot be read ends it as the end of the input does: no request can be
    // answered.
    while let Ok(Some(line)) = lines.next().await {
        while calls.try_join_next().is_some() {}
        let (id, method, params) = match parse_line(&line) {
            RpcLine::Nothing => continue,
            RpcLine::Garbled(code, why) => {
                let _ = writing.send(answer(&Value::Null, Err((code, why)))).await;
                continue;
            }
            RpcLine::Request { id, method, params } => (id, method, params),
        };
        is_greeted |= method == "initialize";
        if method != "tools/call" {
            let _ = writing.send(answer(&id, server.answer_request(&method, &params))).await;
        } else if calls.len() >= CALLS_MAX {
            let busy = refusal_result(&format!("{CALLS_MAX} calls are under way: wait for one of them"));
            let _ = writing.send(answer(&id, Ok(busy))).await;
        } else {
            let (server, writing) = (Arc::clone(&server), writing.clone());
            calls.spawn(async move {
                let given = server.call_tool(params).await;
                let _ = writing.send(answer(&id, given)).await;
            });
        }
    }
    calls.join_all().await;
    drop(writing);
    let _ = written.await;
    if is_greeted { Ok(()) } else { Err(McpServeError::NoHandshake) }
}

/// A parsed line.
enum RpcLine {
    /// Nothing that wants an answer: a notice, or an answer to nothing that we asked.
    Nothing,
    /// No message, and the code that says so.
    Garbled(i32, String),
    /// A question.
    Request { id: Value, method: String, params: Value },
}

fn parse_line(line: &[u8]) -> RpcLine {
    if line.iter().all(u8::is_ascii_whitespace) {
        return RpcLine::Nothing;
    }
    let mut message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => return RpcLine::Garbled(PARSE_ERROR, error.to_string()),
    };
    let method = message["method"].as_str().map(str::to_owned);
    let mut field = |name: &str| message.get_mut(name).map(Value::take);
    match (field("id"), method) {
        (Some(id), Some(method)) => {
            RpcLine::Request { id, method, params: field("params").unwrap_or_default() }
        }
        (Some(_), None) | (None, Some(_)) => RpcLine::Nothing,
        (None, None) => RpcLine::Garbled(INVALID_REQUEST, "it is not a message".to_owned()),
    }
}

impl<O: ToolService> StdioServer<O> {
    /// The answer to everything but a call.
    fn answer_request(&self, method: &str, params: &Value) -> Result<Value, RpcFailure> {
        match method {
            "initialize" => {
                let asked = params["protocolVersion"].as_str().unwrap_or_default();
                let known = VERSIONS.iter().find(|version| **version == asked).or(VERSIONS.last());
                Ok(json!({
                    "protocolVersion": known,
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "agents", "version": env!("CARGO_PKG_VERSION") },
                    "instructions": self.offers.instructions(),
                }))
            }
            "ping" => Ok(json!({})),
            "tools/list" => {
                let tool = |(offer, _): &(ServedTool, Schema)| {
                    json!({
                        "name": offer.name, "description": offer.description, "inputSchema": offer.input,
                        "annotations": { "readOnlyHint": offer.reads_only, "openWorldHint": false },
                    })
                };
                Ok(json!({ "tools": self.tools.iter().map(tool).collect::<Vec<_>>() }))
            }
            other => {
                let other: String = other.chars().take(100).collect();
                Err((METHOD_NOT_FOUND, format!("there is no method `{other}` here")))
            }
        }
    }

    async fn call_tool(&self, mut params: Value) -> Result<Value, RpcFailure> {
        let name = params["name"].as_str().unwrap_or_default();
        let Some((offer, schema)) = self.tools.iter().find(|(offer, _)| offer.name == name) else {
            let name: String = name.chars().take(100).collect();
            let offered: Vec<&str> = self.tools.iter().map(|(offer, _)| offer.name).collect();
            let what = format!("there is no tool `{name}`; the tools are {}", offered.join(", "));
            return Err((INVALID_PARAMS, what));
        };
        let arguments = match params.get_mut("arguments").map(Value::take) {
            None | Some(Value::Null) => json!({}),
            Some(arguments) => arguments,
        };
        let problems = schema.problems(&arguments);
        if !problems.is_empty() {
            let what = format!("the arguments of {} are not valid: {}", offer.name, problems.join("; "));
            return Ok(refusal_result(&what));
        }
        let ServedResult { answer, is_error } = self.offers.call(offer.name, arguments).await;
        let text = answer.to_string();
        if text.len() > ANSWER_BYTES_MAX {
            let bytes = text.len();
            return Ok(refusal_result(&format!(
                "the answer has {bytes} bytes, {ANSWER_BYTES_MAX} are allowed: ask for less of it"
            )));
        }
        let content = json!([{ "type": "text", "text": text }]);
        Ok(json!({ "content": content, "structuredContent": answer, "isError": is_error }))
    }
}

fn refusal_result(what: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": what }], "isError": true })
}

fn answer(id: &Value, given: Result<Value, RpcFailure>) -> Vec<u8> {
    let answer = match given {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    };
    answer.to_string().into_bytes()
}
