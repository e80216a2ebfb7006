//! A run recorded and repeated: `--record FILE` writes down each question and its answer, `--replay FILE`
//! answers from there.
//!
//! A recording is JSON lines: a head, `{"cast"}`, which says who was in the run, then one a call: `{"call",
//! "hash", "asker", "bounds", "request", "answer" | "error"}`. A cancelled call is not in it: it had no
//! answer. Older recordings have no head.
//!
//! # Invariants
//! 1. A line is written by one append, so that lines of parallel calls never mix and a killed run loses at
//!    most its last.
//! 2. A recorded call answers once. Of calls with the same request the earlier recorded one answers first.
//! 3. A request that the recorded run did not make is never answered: it is a [`Drift`], which names the
//!    difference.
//! 4. No key is in a recording, and only its owner can read it.
//!
//! # Not here
//! The network: a replay has none. Settings: those of the provider that decide the request are in the
//! recording.

mod drift;
mod play;
mod record;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::ErrorCategory;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::{Cause, ContextOverflow, ModelError};
use super::request::{Message, ModelAnswer, ModelRequest};
use super::tool_spec::ToolSpec;

pub use drift::Drift;
pub use play::Replay;
pub use record::Recorder;

/// The reason why a recording cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// There is one already: it is never written over.
    #[error("{} already exists: remove it, or record into another file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be made or read.
    #[error("the recording {} cannot be {verb}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `made` or `read`.
        verb: &'static str,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// It is too large.
    #[error("the recording {} is larger than {} MiB", path.display(), RECORDING_BYTES_MAX >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is no recording.
    #[error("{}:{line}: this is not a recorded call", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The reason.
        #[source]
        source: serde_json::Error,
    },
}

/// The longest first line of a recording that can be its head.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
const RECORDING_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordingHead {
    cast: Participants,
}

/// The participants of a run, as its settings and its command line named them: a replay needs them to ask the
/// same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Participants {
    /// The actor that was asked for, as it was typed.
    pub asked: Option<String>,
    /// The actor of tasks that named none.
    pub actor: Option<String>,
    /// The model of those who name none.
    pub model: Option<String>,
    /// The strategist where none was named; `none` means that there is none.
    pub strategist: Option<String>,
}

/// Returns the participants of the run that was recorded at `path`. `None` if the recording does not name
/// them, or can be read only once.
///
/// # Errors
/// Returns an error if the recording cannot be read.
pub fn cast_of(path: &Path) -> Result<Option<Participants>, RecordingError> {
    let unreadable = |source| RecordingError::Io { path: path.to_owned(), verb: "read", source };
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut line = Vec::new();
    BufReader::new(file.take(HEAD_BYTES_MAX)).read_until(b'\n', &mut line).map_err(unreadable)?;
    Ok(serde_json::from_slice::<RecordingHead>(&line).ok().map(|head| head.cast))
}

/// A recorded call.
#[derive(Debug, Serialize, Deserialize)]
struct RecordedCall {
    call: u32,
    hash: String,
    /// The asker; empty in recordings from before it was recorded.
    #[serde(default)]
    asker: String,
    /// `None` in recordings from before they were recorded.
    #[serde(default)]
    bounds: Option<ModelLimits>,
    request: RequestSummary,
    #[serde(flatten)]
    outcome: RecordedOutcome,
}

/// The limits of one call to a provider, as far as the settings gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelLimits {
    /// The number of tokens it reads and writes at most.
    pub context_tokens: Option<u32>,
    /// The number of tokens an answer may have.
    pub answer_tokens: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedOutcome {
    Answer(ModelAnswer),
    Error(RecordedError),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RecordedError {
    category: ErrorCategory,
    message: String,
    retry_after_ms: Option<u64>,
    was_sent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overflow: Option<ContextOverflow>,
}

/// The parts of a request that decide the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RequestSummary {
    provider: String,
    model: String,
    system: String,
    messages: Vec<Message>,
    tools: Vec<ToolSummary>,
    max_tokens: u32,
    output: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ToolSummary {
    name: String,
    description: String,
    input: Value,
}

impl RequestSummary {
    fn new(provider: &str, request: &ModelRequest) -> RequestSummary {
        let tool = |tool: &ToolSpec| ToolSummary {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input: tool.input.clone(),
        };
        RequestSummary {
            provider: provider.to_owned(),
            model: request.model.clone(),
            system: request.system.clone(),
            messages: request.messages.clone(),
            tools: request.tools.iter().map(tool).collect(),
            max_tokens: request.max_tokens,
            output: request.output.clone(),
        }
    }

    /// The same for the same request, whatever the order of the keys in its JSON.
    fn hash(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        write_sorted(&serde_json::to_value(self)?, &mut text);
        Ok(blake3::hash(text.as_bytes()).to_hex().to_string())
    }
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            text.push('{');
            for key in keys {
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                write_sorted(&map[key], text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string())
        }
    }
}

impl RecordedError {
    fn from_model_error(error: &ModelError) -> RecordedError {
        RecordedError {
            category: error.category,
            message: error.message.clone(),
            retry_after_ms: error.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            was_sent: error.was_sent,
            overflow: error.overflow,
        }
    }

    fn again(&self) -> ModelError {
        ModelError {
            category: self.category,
            message: self.message.clone(),
            retry_after: self.retry_after_ms.map(Duration::from_millis),
            was_sent: self.was_sent,
            overflow: self.overflow,
            cause: Cause::Provider,
        }
    }
}

fn unhashed(error: &serde_json::Error) -> ModelError {
    ModelError::unsent(ErrorCategory::Internal, format!("the request cannot be written as JSON: {error}"))
}
