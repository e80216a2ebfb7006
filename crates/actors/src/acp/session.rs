//! Questions and answers on the wire: ours to the agent, and the agent's to us.
//!
//! # Invariants
//! 1. Every request of the agent is answered, also one that is not understood.
//! 2. A cancel and a limit are looked at wherever the agent is waited for, and nowhere else. Work for the
//!    agent in between is ended by the scope of the code that does it.
//! 3. Once cancelled, the agent gets a notice, and nothing is done for it any more.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sync::{CancelReason, Observed};
use tokio::io::AsyncRead;
use tokio::time::{Instant, sleep_until};

use super::error::AcpError;
use super::host::{AcpHost, AcpUpdate, Permission};
use super::last_message::MessageCollector;
use super::wire::{
    ContentBlock, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, READ_TEXT_FILE, REQUEST_CANCELLED,
    REQUEST_PERMISSION, ReadTextFile, RequestPermission, SessionNotification, SessionUpdate, UPDATE,
    WRITE_TEXT_FILE, WriteTextFile,
};
use crate::program::{LineReader, STRAY_LINES_MAX, StdinWriter, shown};
use crate::tool::head_and_tail;

/// The time that an agent may take to stop after a cancel: less than the process that started it waits before
/// it is killed.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);
/// The limit of an agent's message about a failure that is repeated.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// The limit of calls of its own tools that are counted and reported.
const TOOL_CALLS_MAX: usize = 10_000;

/// An error of the agent's.
#[derive(Debug)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
}

/// A conversation with an agent.
pub(super) struct AcpSession<'a> {
    pub(super) agent: &'a str,
    pub(super) offers_files: bool,
    pub(super) host: &'a dyn AcpHost,
    pub(super) scope: &'a Observed,
    pub(super) lines: LineReader<Box<dyn AsyncRead + Send + Unpin>>,
    pub(super) writing: StdinWriter,
    /// The session whose updates are handled, once there is one.
    pub(super) session: Option<String>,
    pub(super) said: MessageCollector,
    /// The calls of its own tools that it reported.
    pub(super) tool_calls: BTreeSet<String>,
    pub(super) next_id: u64,
    pub(super) stray: Option<String>,
    pub(super) stray_lines: u32,
    pub(super) cancelled: Option<CancelReason>,
}

/// The awaited response, and the deadline for it.
#[derive(Clone, Copy)]
struct ResponseWait {
    doing: &'static str,
    limit: Option<Duration>,
    until: Option<Instant>,
}

impl AcpSession<'_> {
    /// Asks the agent, and deals with all that comes before its answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &mut self,
        doing: &'static str,
        params: &Value,
        limit: Option<Duration>,
    ) -> Result<Result<T, RpcError>, AcpError> {
        let id = self.next_id;
        self.next_id += 1;
        let mut wait = ResponseWait { doing, limit, until: limit.map(|limit| Instant::now() + limit) };
        self.send(&wait, &json!({ "jsonrpc": "2.0", "id": id, "method": doing, "params": params })).await?;
        loop {
            let Some(line) = self.next_line(&mut wait).await? else { continue };
            let Some(message) = self.message(doing, &line)? else { continue };
            if message.get("method").is_some() {
                self.deal_with(&wait, &message).await?;
            } else if message.get("id") == Some(&json!(id)) {
                return self.answer(doing, message);
            }
            // An answer to nothing that was asked is nothing.
        }
    }

    /// The next line; `None` if a cancel came instead, which the agent then knows of.
    async fn next_line(&mut self, wait: &mut ResponseWait) -> Result<Option<Vec<u8>>, AcpError> {
        let is_cancelled = self.cancelled.is_some();
        let line = tokio::select! {
            biased;
            reason = self.scope.cancelled(), if !is_cancelled => {
                self.cancel(wait, reason).await?;
                return Ok(None);
            }
            line = self.lines.next() => line,
            () = passed(wait.until) => return Err(self.too_late(wait)),
        };
        match line {
            Ok(Some(line)) => Ok(Some(line)),
            Ok(None) => Err(self.gone(wait.doing, String::new())),
            Err(error) => Err(self.gone(wait.doing, format!(": {error}"))),
        }
    }

    async fn cancel(&mut self, wait: &mut ResponseWait, reason: CancelReason) -> Result<(), AcpError> {
        self.cancelled = Some(reason);
        wait.until = Some(Instant::now() + CANCEL_PATIENCE);
        match &self.session {
            Some(session) => {
                let params = json!({ "sessionId": session });
                let notice = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params });
                self.send(wait, &notice).await
            }
            // There is nothing yet that could be stopped.
            None => Err(self.called_off(reason)),
        }
    }

    async fn send(&mut self, wait: &ResponseWait, message: &Value) -> Result<(), AcpError> {
        let is_cancelled = self.cancelled.is_some();
        let sent = tokio::select! {
            biased;
            reason = self.scope.cancelled(), if !is_cancelled => return Err(self.called_off(reason)),
            sent = self.writing.send(message.to_string().into_bytes()) => sent,
            () = passed(wait.until) => return Err(self.too_late(wait)),
        };
        sent.map_err(|error| self.gone(wait.doing, format!(": {error}")))
    }

    /// A message, or nothing when the line is to be passed over.
    fn message(&mut self, doing: &'static str, line: &[u8]) -> Result<Option<Value>, AcpError> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let broken =
            |agent: &str, what: String| AcpError::NotTheProtocol { agent: agent.to_owned(), doing, what };
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            self.stray.get_or_insert_with(|| shown(line));
            self.stray_lines += 1;
            if self.stray_lines > STRAY_LINES_MAX {
                let first = self.stray.clone().unwrap_or_default();
                return Err(broken(self.agent, format!("too many lines are not messages: {first}")));
            }
            return Ok(None);
        };
        let has = |field: &str| message.get(field).is_some();
        match has("method") || has("id") && (has("result") || has("error")) {
            true => Ok(Some(message)),
            false => Err(broken(self.agent, format!("it wrote JSON that is not a message: {}", shown(line)))),
        }
    }

    fn answer<T: DeserializeOwned>(
        &self,
        doing: &'static str,
        mut message: Value,
    ) -> Result<Result<T, RpcError>, AcpError> {
        if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
            let text = error["message"].as_str().unwrap_or("it failed without a message");
            // Many say there what it was, and in the message only that it went wrong.
            let data = error.get("data").filter(|data| !data.is_null());
            let data = data.map(|data| data.as_str().map_or_else(|| data.to_string(), str::to_owned));
            let text = data.map_or_else(|| text.to_owned(), |data| format!("{text}: {data}"));
            let message = head_and_tail(&text, MESSAGE_BYTES_MAX, 0);
            return Ok(Err(RpcError { code: error["code"].as_i64().unwrap_or_default(), message }));
        }
        match serde_json::from_value(message["result"].take()) {
            Ok(result) => Ok(Ok(result)),
            Err(error) => {
                let what = format!("its answer cannot be read: {error}");
                Err(AcpError::NotTheProtocol { agent: self.agent.to_owned(), doing, what })
            }
        }
    }

    /// Handles a request or a notice of the agent.
    async fn deal_with(&mut self, wait: &ResponseWait, message: &Value) -> Result<(), AcpError> {
        let method = message["method"].as_str().unwrap_or_default();
        let params = message.get("params").cloned().unwrap_or_default();
        let Some(id) = message.get("id") else {
            if method == UPDATE
                && let Ok(notice) = serde_json::from_value::<SessionNotification>(params)
            {
                self.update(&notice);
            }
            return Ok(());
        };
        let answer = self.answer_to(method, params).await;
        let answer = match answer {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, message)) => {
                let error = json!({ "code": code, "message": message });
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        };
        self.send(wait, &answer).await
    }

    async fn answer_to(&mut self, method: &str, params: Value) -> Result<Value, (i32, String)> {
        if method == REQUEST_PERMISSION {
            self.said.pause();
            return Ok(self.permission(read(params)?));
        }
        let is_file = method == READ_TEXT_FILE || method == WRITE_TEXT_FILE;
        if !is_file || !self.offers_files {
            let why = format!("{method} is not offered, and there is no user to ask");
            return Err((METHOD_NOT_FOUND, why));
        }
        if self.cancelled.is_some() {
            return Err((REQUEST_CANCELLED, "the work was cancelled".to_owned()));
        }
        let refused = |why| (INTERNAL_ERROR, why);
        if method == READ_TEXT_FILE {
            let ReadTextFile { path, line, limit } = read(params)?;
            let content = self.host.read_text_file(&path, line, limit).await.map_err(refused)?;
            Ok(json!({ "content": content }))
        } else {
            let WriteTextFile { path, content } = read(params)?;
            self.host.write_text_file(&path, &content).await.map_err(refused)?;
            Ok(json!({}))
        }
    }

    fn permission(&self, asked: RequestPermission) -> Value {
        let title = asked.tool_call.title.unwrap_or_default();
        let kind = asked.tool_call.kind.unwrap_or_else(|| "other".to_owned());
        let is_allowed = self.cancelled.is_none() && self.host.permission(&Permission { title, kind });
        // The narrower of two is taken.
        let wanted =
            if is_allowed { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
        let chosen = wanted.iter().find_map(|kind| asked.options.iter().find(|option| option.kind == *kind));
        match chosen {
            Some(option) if self.cancelled.is_none() => {
                json!({ "outcome": { "outcome": "selected", "optionId": option.option_id } })
            }
            Some(_) | None => json!({ "outcome": { "outcome": "cancelled" } }),
        }
    }

    fn update(&mut self, notice: &SessionNotification) {
        if self.session.as_deref() != Some(notice.session_id.as_str()) {
            return;
        }
        match &notice.update {
            SessionUpdate::AgentMessageChunk { content: ContentBlock::Text { text } } => {
                self.said.push_piece(text);
                self.host.on_update(&AcpUpdate::Text(text));
            }
            SessionUpdate::AgentThoughtChunk { content: ContentBlock::Text { text } } => {
                self.host.on_update(&AcpUpdate::Thought(text));
            }
            SessionUpdate::ToolCall(call) | SessionUpdate::ToolCallChanged(call) => {
                self.tool_call(&call.tool_call_id, call.title.as_deref().unwrap_or_default());
            }
            SessionUpdate::AgentMessageChunk { content: ContentBlock::Other }
            | SessionUpdate::AgentThoughtChunk { content: ContentBlock::Other }
            | SessionUpdate::Other => {}
        }
    }

    fn tool_call(&mut self, id: &str, title: &str) {
        self.said.pause();
        if self.tool_calls.len() < TOOL_CALLS_MAX && self.tool_calls.insert(id.to_owned()) {
            self.host.on_update(&AcpUpdate::ToolCall { title });
        }
    }

    fn too_late(&self, wait: &ResponseWait) -> AcpError {
        match self.cancelled {
            Some(reason) => self.called_off(reason),
            None => {
                let seconds = wait.limit.unwrap_or_default().as_secs();
                let (agent, also) = (self.agent.to_owned(), self.describe());
                AcpError::TookTooLong { agent, doing: wait.doing, seconds, also }
            }
        }
    }

    fn gone(&self, doing: &'static str, why: String) -> AcpError {
        match self.cancelled {
            Some(reason) => self.called_off(reason),
            None => {
                let also = format!("{why}{}", self.describe());
                AcpError::Gone { agent: self.agent.to_owned(), doing, also }
            }
        }
    }

    pub(super) fn called_off(&self, reason: CancelReason) -> AcpError {
        AcpError::Cancelled { agent: self.agent.to_owned(), reason }
    }

    /// Its output that is no message, as the end of a sentence: a question to a person ends in no line end.
    fn describe(&self) -> String {
        let unfinished = Some(self.lines.unfinished()).filter(|line| !line.is_empty()).map(shown);
        let stray = self.stray.clone().or(unfinished);
        stray.map(|line| format!("; it wrote a line that is not a message: {line}")).unwrap_or_default()
    }
}

async fn passed(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, (i32, String)> {
    serde_json::from_value(params).map_err(|error| (INVALID_PARAMS, error.to_string()))
}
