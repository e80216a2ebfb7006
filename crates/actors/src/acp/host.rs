//! The requests and updates of an agent to its host; the engine implements it.

use async_trait::async_trait;

/// Something that an agent wants to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Its subject, in the agent's words.
    pub title: String,
    /// The kind of the tool that it wants to use, as the protocol calls it: `edit`, `execute`, `other`.
    pub kind: String,
}

/// An update that an agent sends while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcpUpdate<'a> {
    /// A piece of its answer.
    Text(&'a str),
    /// A piece of its thoughts.
    Thought(&'a str),
    /// It began to use a tool of its own.
    ToolCall {
        /// Its subject.
        title: &'a str,
    },
}

/// Answers the requests of an agent.
#[async_trait]
pub trait AcpHost: Send + Sync {
    /// Reads a file, or `limit` of its lines from `line` (from 1).
    ///
    /// # Errors
    /// Returns the reason, as the agent is to read it.
    async fn read_text_file(
        &self,
        path: &str,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, String>;

    /// Writes a whole file.
    ///
    /// # Errors
    /// Returns the reason, as the agent is to read it.
    async fn write_text_file(&self, path: &str, content: &str) -> Result<(), String>;

    /// Returns true if it may. Inside a sandbox everything may be allowed, because the sandbox limits it.
    fn permission(&self, asked: &Permission) -> bool;

    /// Receives an update of the agent.
    fn on_update(&self, update: &AcpUpdate<'_>);

    /// The session of the agent is open: a new one, or an earlier one that it loaded.
    fn on_session(&self, _id: &str, _is_loaded: bool) {}
}
