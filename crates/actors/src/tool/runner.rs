//! The one way that a call takes, for one node.
//!
//! # Invariants
//! 1. A call is made by one at a time: a runner is not shared.
//! 2. Errors of a call are found before anything begins, and stored.

use std::sync::Arc;

use domain::{ErrorCategory, Hash};
use serde_json::{Value, json};

use super::arguments::work_of;
use super::catalog::{Catalog, Tool};
use super::error::ToolError;
use super::host::{CallInfo, ToolHost, ToolOutcome, ToolRequest};
use super::read_tracker::{FileKnowledge, ReadTracker};
use super::render::result_text;
use super::repeat_detector::{REPEATS_MAX, REPEATS_TOLD, RepeatDetector};
use super::resolve_path::ToolPath;
use crate::model::{ToolSpec, ToolUse};

/// Arguments longer than this are refused unread.
const ARGUMENTS_BYTES_MAX: usize = 18 << 20;
/// The limit of an unknown name that is stored.
const NAME_CHARS_MAX: usize = 64;

/// The files that a node must have read before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPolicy {
    /// Each file that it replaces: a model wrote the call.
    Strict,
    /// Nothing: a person wrote the call.
    Trusting,
}

/// The answer to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// The result as the model reads it, or what was wrong.
    pub text: String,
    /// The result for programs; null if it went wrong.
    pub result: Value,
    /// True if it went wrong.
    pub is_error: bool,
    /// The number of files it changed.
    pub changed: u32,
    /// The category of the fault; `None` if it succeeded, or failed as a normal part of the work.
    pub fault: Option<ErrorCategory>,
}

/// The reason why a node ends in a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt<S> {
    /// The workplace says so.
    Stopped(S),
    /// The model runs in a circle.
    Loop {
        /// The tool that it calls.
        tool: String,
        /// The number of repeats in a row.
        times: u32,
    },
}

/// Runs the calls of one node.
pub struct ToolRunner<W> {
    workplace: W,
    catalog: Catalog,
    memory: ReadPolicy,
    seen: ReadTracker,
    repeats: RepeatDetector,
}

impl<W: ToolHost> ToolRunner<W> {
    /// For a node that may call these tools.
    pub fn new(workplace: W, catalog: Catalog, memory: ReadPolicy) -> Self {
        Self { workplace, catalog, memory, seen: ReadTracker::default(), repeats: RepeatDetector::default() }
    }

    /// The tools that it runs.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the host of its calls.
    pub fn workplace(&self) -> &W {
        &self.workplace
    }

    /// The node has read these files whole, though by no call.
    pub fn has_read(&mut self, files: Vec<(ToolPath, Hash)>) {
        self.seen.learn(files.into_iter().map(|(place, hash)| (place, Some(hash))).collect());
    }

    /// Makes a call and says what came of it.
    ///
    /// # Errors
    /// Returns [`Halt`] if the node ends.
    pub async fn call(&mut self, call: &ToolUse) -> Result<ToolAnswer, Halt<W::Stopped>> {
        let performed = match self.prepare(call) {
            Ok((head, work)) => self.workplace.perform(head, work).await.map_err(Halt::Stopped)?,
            Err((head, why)) => {
                self.workplace.refused(head, &why).await.map_err(Halt::Stopped)?;
                ToolOutcome { outcome: Err(why), changed: 0, seen: Vec::new() }
            }
        };
        let ToolOutcome { outcome, changed, seen } = performed;
        self.seen.learn(seen);
        let (text, result, is_error, fault) = match outcome {
            Ok(result) => (self.render_result(&call.name, &result), result, false, None),
            Err(why) => (why.text_with_code(), Value::Null, true, why.fault()),
        };
        let times = self.repeats.record_call(&call.name, &call.arguments.to_string(), &text);
        if times >= REPEATS_MAX {
            return Err(Halt::Loop { tool: call.name.clone(), times });
        }
        if times >= REPEATS_TOLD {
            let repeated = ToolError::Repeated { tool: call.name.clone(), times };
            let (text, fault) = (repeated.text_with_code(), repeated.fault());
            return Ok(ToolAnswer { text, result: Value::Null, is_error: true, changed, fault });
        }
        Ok(ToolAnswer { text, result, is_error, changed, fault })
    }

    /// Everything that can be judged before the call begins.
    #[allow(clippy::result_large_err, reason = "it is an answer, not a way out")]
    fn prepare(&self, call: &ToolUse) -> Result<(CallInfo, ToolRequest), (CallInfo, ToolError)> {
        let name: String = call.name.chars().take(NAME_CHARS_MAX).collect();
        let requested = call.arguments.clone();
        let mut head = CallInfo { tool: None, name, requested, effective: Value::Null };
        match self.check_call(call, &mut head) {
            Ok(work) => Ok((head, work)),
            Err(why) => Err((head, why)),
        }
    }

    fn check_call(&self, call: &ToolUse, head: &mut CallInfo) -> Result<ToolRequest, ToolError> {
        let bytes = length(&call.arguments);
        if bytes > ARGUMENTS_BYTES_MAX {
            let hash = Hash::from_content(call.arguments.to_string().as_bytes()).to_string();
            head.requested = json!({ "bytes": bytes, "hash": hash });
            let problem = format!("they have {bytes} bytes, {ARGUMENTS_BYTES_MAX} are allowed");
            return Err(ToolError::InvalidArguments { tool: head.name.clone(), problems: vec![problem] });
        }
        let is_offered = |tool: &ToolSpec| self.workplace.forbids(tool).is_none();
        let tool: &Arc<Tool> = self.catalog.meant(&call.name, &is_offered)?;
        head.name.clone_from(&tool.spec.name);
        head.tool = Some(Arc::clone(tool));
        tool.check_input(&call.arguments)?;
        if let Some(why) = self.workplace.forbids(&tool.spec) {
            return Err(ToolError::NotAllowed { tool: tool.spec.name.clone(), why });
        }
        let seen = |place: &ToolPath| match self.memory {
            ReadPolicy::Strict => self.seen.of(place),
            ReadPolicy::Trusting => FileKnowledge::Whatever,
        };
        let (work, effective) = work_of(tool, &call.arguments, self.workplace.projects(), &seen)?;
        head.effective = effective;
        Ok(work)
    }

    /// A result as the model reads it. The model may have called the tool by another spelling of its name.
    fn render_result(&self, name: &str, result: &Value) -> String {
        let is_offered = |tool: &ToolSpec| self.workplace.forbids(tool).is_none();
        let name = self.catalog.meant(name, &is_offered).map_or(name, |tool| tool.spec.name.as_str());
        result_text(name, result)
    }
}

/// Returns the number of bytes all texts in a value have.
fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(length).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + length(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}
