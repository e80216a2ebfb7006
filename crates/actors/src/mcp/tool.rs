//! A call of a server's tool, and what its result becomes.
//!
//! # Invariants
//! 1. A call ends within its limit, and a call that is dropped notifies the server.
//! 2. A tool with an output schema gives its structured content and nothing else; one without gives text.
//! 3. Text is bounded; pictures and sounds are named, not passed on.
//!
//! # Not here
//! The check of arguments and results by the schemas: the gate's, as for every tool.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ResourceContents};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Value, json};

use super::error::McpError;
use super::wire::WireErrors;
use crate::program::ProgramProcess;
use crate::tool::{ForeignTool, HEAD_BYTES, TAIL_BYTES, head_and_tail};

/// The time that a server whose connection ended may take to end by itself, so that its end can be reported.
pub(super) const GONE_PATIENCE: Duration = Duration::from_secs(2);
/// The limit of a server's message about a failure that is repeated.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// A connection, as those who ask over it see it.
#[derive(Clone)]
pub(super) struct McpConnection {
    pub(super) server: String,
    pub(super) heard: Arc<WireErrors>,
    /// Nothing when the server was ended.
    pub(super) process: Weak<dyn ProgramProcess>,
}

impl McpConnection {
    /// Within the limit, or an error that says what was being done.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        doing: &str,
        asked: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, McpError> {
        match tokio::time::timeout(limit, asked).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.failed(doing, error).await),
            Err(_) => Err(self.too_late(doing, limit)),
        }
    }

    pub(super) fn too_late(&self, doing: &str, limit: Duration) -> McpError {
        let (server, also) = (self.server.clone(), self.heard.describe());
        McpError::TookTooLong { server, doing: doing.to_owned(), seconds: limit.as_secs(), also }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "a foreign enum that may grow")]
    async fn failed(&self, doing: &str, error: ServiceError) -> McpError {
        let (server, doing) = (self.server.clone(), doing.to_owned());
        match error {
            ServiceError::McpError(error) => {
                let message = head_and_tail(&error.message, MESSAGE_BYTES_MAX, 0);
                McpError::Refused { server, doing, message }
            }
            ServiceError::UnexpectedResponse => McpError::NotTheProtocol {
                server,
                doing,
                what: "it is not an answer to that request".to_owned(),
            },
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => self.gone(&doing).await,
            other => McpError::NotTheProtocol { server, doing, what: other.to_string() },
        }
    }

    pub(super) async fn gone(&self, doing: &str) -> McpError {
        let also = match self.process.upgrade() {
            Some(process) => {
                format!("{}{}", self.heard.describe(), process.end(GONE_PATIENCE).await.describe())
            }
            None => ": it was stopped before".to_owned(),
        };
        McpError::Gone { server: self.server.clone(), doing: doing.to_owned(), also }
    }
}

/// One tool of a server.
pub(super) struct McpTool {
    pub(super) asking: McpConnection,
    pub(super) peer: Peer<RoleClient>,
    pub(super) name: String,
    pub(super) is_structured: bool,
    pub(super) limit: Duration,
}

#[async_trait]
impl ForeignTool for McpTool {
    async fn call(&self, arguments: Value) -> Result<Value, String> {
        self.call_server(arguments).await.map_err(|error| error.to_string())?
    }
}

impl McpTool {
    /// The result, or what the tool itself said of its failure.
    async fn call_server(&self, arguments: Value) -> Result<Result<Value, String>, McpError> {
        let doing = format!("a call of {}", self.name);
        let mut params = CallToolRequestParams::new(self.name.clone());
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments);
        }
        let answer = self.asking.within(self.limit, &doing, self.peer.call_tool_once(params)).await?;
        #[allow(clippy::wildcard_enum_match_arm, reason = "a foreign enum that may grow")]
        match answer {
            CallToolResponse::Complete(result) => Ok(self.read(result)),
            CallToolResponse::InputRequired(_) => {
                Ok(Err("it asks for input, and there is no user to ask".to_owned()))
            }
            _ => Ok(Err("it returned a task to be polled later, which is not supported".to_owned())),
        }
    }

    fn read(&self, result: CallToolResult) -> Result<Value, String> {
        let text = text(&result.content);
        if result.is_error == Some(true) {
            let said = if text.is_empty() { "it failed without a message".to_owned() } else { text };
            return Err(said);
        }
        match (self.is_structured, result.structured_content) {
            (true, Some(structured)) => Ok(structured),
            (true, None) => {
                Err("its outputSchema requires structured content, and it returned none".to_owned())
            }
            (false, Some(structured)) if text.is_empty() => {
                Ok(json!({ "text": head_and_tail(&structured.to_string(), HEAD_BYTES, TAIL_BYTES) }))
            }
            (false, _) => Ok(json!({ "text": text })),
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "foreign enums that may grow")]
fn text(content: &[ContentBlock]) -> String {
    let piece = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[an image, {}, left out]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[a sound, {}, left out]", audio.mime_type),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text.clone(),
            _ => "[bytes, left out]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[see {}]", link.uri),
        _ => "[something of an unknown kind, left out]".to_owned(),
    };
    let pieces: Vec<String> = content.iter().map(piece).collect();
    head_and_tail(&pieces.join("\n"), HEAD_BYTES, TAIL_BYTES)
}
