//! The messages of the Agent Client Protocol, version 1: those that we send and read, and of each what we
//! need.
//!
//! # Invariants
//! Additions of a newer agent are passed over; a field that is missing and not needed has a default.
//!
//! # Not here
//! The official crate of all messages. It turns on `serde_json/preserve_order` for the whole program, and
//! with it the order of keys in everything that is digested or compared.

use serde::Deserialize;
use serde_json::{Value, json};

/// The version that is spoken.
pub(super) const VERSION: u64 = 1;

pub(super) const REQUEST_PERMISSION: &str = "session/request_permission";
pub(super) const READ_TEXT_FILE: &str = "fs/read_text_file";
pub(super) const WRITE_TEXT_FILE: &str = "fs/write_text_file";
pub(super) const UPDATE: &str = "session/update";

pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const REQUEST_CANCELLED: i32 = -32800;
/// A user has to log in.
pub(super) const AUTH_REQUIRED: i64 = -32000;

pub(super) fn initialize(offers_files: bool) -> Value {
    json!({
        "protocolVersion": VERSION,
        "clientCapabilities": {
            "fs": { "readTextFile": offers_files, "writeTextFile": offers_files },
            "terminal": false,
        },
        "clientInfo": { "name": "agents", "version": env!("CARGO_PKG_VERSION") },
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialized {
    pub(super) protocol_version: u64,
    #[serde(default)]
    pub(super) auth_methods: Vec<AuthMethod>,
    #[serde(default)]
    pub(super) agent_capabilities: AgentCapabilities,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCapabilities {
    #[serde(default)]
    pub(super) load_session: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct AuthMethod {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSession {
    pub(super) session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompted {
    pub(super) stop_reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestPermission {
    pub(super) tool_call: AcpToolCall,
    pub(super) options: Vec<PermissionOption>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AcpToolCall {
    pub(super) tool_call_id: String,
    pub(super) title: Option<String>,
    pub(super) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionOption {
    pub(super) option_id: String,
    pub(super) kind: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReadTextFile {
    pub(super) path: String,
    pub(super) line: Option<u32>,
    pub(super) limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WriteTextFile {
    pub(super) path: String,
    pub(super) content: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionNotification {
    pub(super) session_id: String,
    pub(super) update: SessionUpdate,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(super) enum SessionUpdate {
    AgentMessageChunk {
        content: ContentBlock,
    },
    AgentThoughtChunk {
        content: ContentBlock,
    },
    ToolCall(AcpToolCall),
    /// Some agents report a call for the first time when it is done.
    #[serde(rename = "tool_call_update")]
    ToolCallChanged(AcpToolCall),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentBlock {
    Text {
        text: String,
    },
    #[serde(other)]
    Other,
}
