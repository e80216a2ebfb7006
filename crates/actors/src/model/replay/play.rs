//! Answers out of a recording.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use domain::ErrorCategory;
use sync::Observed;

use super::drift::{Drift, drift};
use super::{
    ModelLimits, RECORDING_BYTES_MAX, RecordedCall, RecordedOutcome, RecordingError, RecordingHead,
    RequestSummary, unhashed,
};
use crate::model::error::{Cause, ModelError};
use crate::model::request::{ModelAnswer, ModelRequest, Provider, TextListener};

/// A recording that is repeated.
#[derive(Debug)]
pub struct Replay {
    calls: Vec<RecordedCall>,
    /// Marks the calls that have answered; as long as `calls`.
    used: Mutex<Vec<bool>>,
    /// True if its last line is no whole call.
    is_cut_off: bool,
}

impl Replay {
    /// Reads the recording at `path`. A last line that was cut off by a kill is left out.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or is no recording.
    pub fn open(path: &Path) -> Result<Replay, RecordingError> {
        let unreadable = |source| RecordingError::Io { path: path.to_owned(), verb: "read", source };
        let file = File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(RECORDING_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if u64::try_from(bytes.len()).is_ok_and(|size| size > RECORDING_BYTES_MAX) {
            return Err(RecordingError::TooLarge { path: path.to_owned() });
        }
        let mut calls: Vec<RecordedCall> = Vec::new();
        let mut is_cut_off = false;
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            if index == 0 && serde_json::from_slice::<RecordingHead>(line).is_ok() {
                continue;
            }
            match serde_json::from_slice(line) {
                Ok(kept) => calls.push(kept),
                Err(_) if !line.ends_with(b"\n") => is_cut_off = true,
                Err(source) => {
                    return Err(RecordingError::Malformed { path: path.to_owned(), line: index + 1, source });
                }
            }
        }
        let used = Mutex::new(vec![false; calls.len()]);
        Ok(Replay { calls, used, is_cut_off })
    }

    /// Returns the provider that answers in place of `provider`.
    pub fn provider(self: &Arc<Self>, provider: &str) -> Arc<dyn Provider> {
        Arc::new(ReplayedProvider { replay: Arc::clone(self), provider: provider.to_owned() })
    }

    /// The token limits of a provider in the settings when it was recorded; `None` if the recording has none.
    pub fn recorded_limits(&self, provider: &str) -> Option<ModelLimits> {
        self.calls.iter().find(|call| call.request.provider == provider)?.bounds
    }

    /// The token limits of a provider in the settings when it was recorded. If the recording has none, those
    /// of its first call.
    pub fn bounds(&self, provider: &str) -> ModelLimits {
        let first = self.calls.iter().find(|call| call.request.provider == provider);
        let told = |call: &RecordedCall| ModelLimits {
            context_tokens: None,
            answer_tokens: Some(call.request.max_tokens),
        };
        first.map(|call| call.bounds.unwrap_or_else(|| told(call))).unwrap_or_default()
    }

    /// Returns the number of recorded calls that no request has asked for. At the end of a run, more than
    /// none is a drift too.
    pub fn unused(&self) -> usize {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.iter().filter(|used| !**used).count()
    }

    /// The next recorded outcome of this request: found and used up in one step.
    fn take(&self, asker: &str, shown: &RequestSummary, hash: &str) -> Result<&RecordedOutcome, Drift> {
        let left: Vec<&RecordedCall> = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let found =
                self.calls.iter().zip(used.iter_mut()).find(|(call, used)| !**used && call.hash == hash);
            if let Some((call, used)) = found {
                *used = true;
                return Ok(&call.outcome);
            }
            self.calls.iter().zip(used.iter()).filter(|(_, used)| !**used).map(|(call, _)| call).collect()
        };
        let mut drift = drift(&self.calls, &left, asker, shown);
        if left.is_empty() && self.is_cut_off {
            drift.what += "; its last line is incomplete, because its writer was interrupted";
        }
        Err(drift)
    }
}

/// A provider that was there when the recording was made.
struct ReplayedProvider {
    replay: Arc<Replay>,
    provider: String,
}

#[async_trait]
impl Provider for ReplayedProvider {
    async fn answer(
        &self,
        request: &ModelRequest,
        heard: TextListener<'_>,
        scope: &Observed,
    ) -> Result<ModelAnswer, ModelError> {
        if let Some(reason) = scope.reason() {
            return Err(ModelError::cancelled(reason, false));
        }
        let shown = RequestSummary::new(&self.provider, request);
        let hash = shown.hash().map_err(|error| unhashed(&error))?;
        let outcome = self.replay.take(&request.caller, &shown, &hash).map_err(|drift| ModelError {
            cause: Cause::Drift(drift.clone()),
            ..ModelError::unsent(ErrorCategory::InvalidInput, drift.to_string())
        })?;
        match outcome {
            RecordedOutcome::Answer(answer) => {
                if !answer.text.is_empty() {
                    heard(&answer.text);
                }
                Ok(answer.clone())
            }
            RecordedOutcome::Error(error) => Err(error.again()),
        }
    }
}
