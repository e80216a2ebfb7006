//! Writes down what is asked and answered.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use domain::ErrorCategory;
use sync::Observed;

use super::{
    ModelLimits, Participants, RecordedCall, RecordedError, RecordedOutcome, RecordingError, RecordingHead,
    RequestSummary, unhashed,
};
use crate::model::error::{Cause, ModelError};
use crate::model::key::ProviderKey;
use crate::model::request::{ModelAnswer, ModelRequest, Provider, TextListener};

/// A recording that is being made.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    keys: Vec<ProviderKey>,
    calls: AtomicU32,
}

impl Recorder {
    /// A new recording at `path` of a run with this cast, which only its owner can read, and in which `keys`
    /// do not show.
    ///
    /// # Errors
    /// Returns an error if there is something at `path` already, or the file cannot be made.
    pub fn create(
        path: &Path,
        keys: Vec<ProviderKey>,
        cast: Participants,
    ) -> Result<Recorder, RecordingError> {
        let opened = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
        let file = opened.map_err(|source| {
            let path = path.to_owned();
            if source.kind() == io::ErrorKind::AlreadyExists {
                return RecordingError::Exists { path };
            }
            RecordingError::Io { path, verb: "made", source }
        })?;
        let recorder = Recorder { file, path: path.to_owned(), keys, calls: AtomicU32::new(0) };
        let head = serde_json::to_string(&RecordingHead { cast }).map_err(io::Error::from);
        head.and_then(|head| recorder.append(head)).map_err(|source| RecordingError::Io {
            path: path.to_owned(),
            verb: "made",
            source,
        })?;
        Ok(recorder)
    }

    /// Returns the number of calls that were recorded.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// `inner`, whose calls are recorded as those of `provider`.
    pub fn wrap(
        self: &Arc<Self>,
        provider: &str,
        bounds: ModelLimits,
        inner: Arc<dyn Provider>,
    ) -> Arc<dyn Provider> {
        Arc::new(RecordedProvider {
            recorder: Arc::clone(self),
            provider: provider.to_owned(),
            bounds,
            inner,
        })
    }

    fn store_call(&self, kept: RecordedCall) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.append(serde_json::to_string(&RecordedCall { call, ..kept })?)
    }

    /// One append: the file's position and its size move together, so no other line comes in between.
    fn append(&self, mut line: String) -> io::Result<()> {
        for key in &self.keys {
            line = key.hide_in(&line);
        }
        line.push('\n');
        (&self.file).write_all(line.as_bytes())
    }
}

/// A recording of no call is none: the next one may have its name.
impl Drop for Recorder {
    fn drop(&mut self) {
        if self.calls() == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A provider whose calls are recorded.
struct RecordedProvider {
    recorder: Arc<Recorder>,
    provider: String,
    bounds: ModelLimits,
    inner: Arc<dyn Provider>,
}

#[async_trait]
impl Provider for RecordedProvider {
    async fn answer(
        &self,
        request: &ModelRequest,
        heard: TextListener<'_>,
        scope: &Observed,
    ) -> Result<ModelAnswer, ModelError> {
        let shown = RequestSummary::new(&self.provider, request);
        let hash = shown.hash().map_err(|error| unhashed(&error))?;
        let answer = self.inner.answer(request, heard, scope).await;
        let outcome = match &answer {
            Ok(answer) => RecordedOutcome::Answer(answer.clone()),
            // No caller waited for the answer.
            Err(ModelError { cause: Cause::Cancelled(_), .. }) => return answer,
            Err(error) => RecordedOutcome::Error(RecordedError::from_model_error(error)),
        };
        // A recording with a gap would be found out only when it is replayed, so the call fails now.
        let (asker, bounds) = (request.caller.clone(), Some(self.bounds));
        // Its number is given where it is written.
        let kept = RecordedCall { call: 0, hash, asker, bounds, request: shown, outcome };
        self.recorder.store_call(kept).map_err(|error| {
            let path = self.recorder.path.display();
            ModelError::sent(
                ErrorCategory::Resource,
                format!("the recording {path} cannot be written: {error}"),
            )
        })?;
        answer
    }
}
