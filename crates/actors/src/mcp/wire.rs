//! The wire to a server: a line is a message.
//!
//! # Invariants
//! 1. Text that is no JSON is taken for a log that went astray, [`STRAY_LINES_MAX`] times. Then, and at once
//!    where a line has no end or is JSON but no message, the connection ends.
//! 2. The reason why it ended, and the first stray line, are stored in [`WireErrors`] for those that wait for
//!    an answer.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::AsyncRead;

use crate::program::{LineReader, STRAY_LINES_MAX, StdinWriter, shown};

/// The errors of a wire.
#[derive(Debug, Default)]
pub(super) struct WireErrors {
    known: Mutex<WireErrorState>,
}

#[derive(Clone, Debug, Default)]
struct WireErrorState {
    ended: Option<String>,
    stray: Option<String>,
}

impl WireErrors {
    /// The known facts, as the end of a sentence.
    pub(super) fn describe(&self) -> String {
        let WireErrorState { ended, stray } =
            self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ended = ended.map(|why| format!(": {why}")).unwrap_or_default();
        let stray =
            stray.map(|line| format!("; it wrote a line that is not a message: {line}")).unwrap_or_default();
        format!("{ended}{stray}")
    }

    fn end(&self, why: String) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).ended.get_or_insert(why);
    }

    fn stray(&self, line: &[u8]) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).stray.get_or_insert_with(|| shown(line));
    }
}

pub(super) struct Wire {
    lines: LineReader<Box<dyn AsyncRead + Send + Unpin>>,
    writing: Option<StdinWriter>,
    heard: Arc<WireErrors>,
    stray_lines: u32,
}

impl Wire {
    pub(super) fn new(
        stdout: Box<dyn AsyncRead + Send + Unpin>,
        writing: StdinWriter,
        heard: Arc<WireErrors>,
    ) -> Wire {
        Wire { lines: LineReader::new(stdout), writing: Some(writing), heard, stray_lines: 0 }
    }

    /// A message, or nothing when the line is to be passed over.
    fn message(&mut self, line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleClient>>, String> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            self.heard.stray(line);
            self.stray_lines += 1;
            let too_many = self.stray_lines > STRAY_LINES_MAX;
            return if too_many { Err("too many lines are not messages".to_owned()) } else { Ok(None) };
        };
        let is_notice = value.get("method").is_some() && value.get("id").is_none();
        match serde_json::from_value(value) {
            Ok(message) => Ok(Some(message)),
            // A notification of an unknown kind asks for nothing.
            Err(_) if is_notice => Ok(None),
            Err(_) => Err(format!("it wrote JSON that is not a message: {}", shown(line))),
        }
    }
}

impl Transport<RoleClient> for Wire {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let writing = self.writing.clone();
        async move {
            let closed = || std::io::Error::new(std::io::ErrorKind::NotConnected, "it is closed");
            writing.ok_or_else(closed)?.send(serde_json::to_vec(&message)?).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(error) => {
                    self.heard.end(error.to_string());
                    return None;
                }
            };
            match self.message(&line) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(why) => {
                    self.heard.end(why);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.writing = None;
        Ok(())
    }
}
