//! `--record` and `--replay`: questions to models and their answers, recorded and repeated.
//!
//! # Invariants
//! 1. A recording is made, or read, before any work begins.
//! 2. A recording says who was in the run; a replay has the same, whatever the settings say by then.
//! 3. None is made within a project that is worked on: models would be shown it, and no replay would be asked
//!    the same.
//!
//! # Not here
//! Plans that are left to a worker: it asks models with its own settings, so neither goes with `--detach`.

use std::path::{Path, PathBuf};

use domain::ProjectLink;
use engine::{Engine, Participants, RecordingMode, cast_of};

use super::Invocation;
use super::invocation::path_of;
use crate::errors::{CommandError, codes, hints};
use crate::output::{CommandReport, OutputNote};
use crate::setup::default_actor::ReplayedRecording;

#[derive(Debug, Default, clap::Args)]
pub(super) struct RecordingArgs {
    /// Record the requests to models and their answers in a new file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["replay", "detach"])]
    record: Option<PathBuf>,
    /// Use the answers of a recording instead of models: no key, no network
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    replay: Option<PathBuf>,
}

impl RecordingArgs {
    /// Returns the recording to replay, seen from `here`; `None` without `--replay`.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub(super) fn open_replay(&self, here: &Path) -> Result<Option<ReplayedRecording>, CommandError> {
        let Some(file) = &self.replay else { return Ok(None) };
        let cast = cast_of(&here.join(file)).map_err(|error| unusable(&error))?;
        Ok(Some(ReplayedRecording { file: file.clone(), cast }))
    }

    /// Returns the mode in which models are asked, seen from `here`; `cast` is the participants of the run.
    pub(super) fn mode(&self, here: &Path, cast: Participants) -> RecordingMode {
        match (&self.record, &self.replay) {
            (Some(file), _) => RecordingMode::Record { path: here.join(file), cast },
            (None, Some(file)) => RecordingMode::Replay(here.join(file)),
            (None, None) => RecordingMode::Live,
        }
    }

    /// Refuses to record within one of the projects, and reports a recording that is there.
    pub(super) fn refuse_inside_projects(
        &self,
        projects: &[ProjectLink],
        invocation: &Invocation,
    ) -> Result<(), CommandError> {
        let Some(file) = self.record.as_ref().or(self.replay.as_ref()) else { return Ok(()) };
        let Some(project) = projects.iter().find(|project| lies_in(&invocation.here.join(file), project))
        else {
            return Ok(());
        };
        let (file, alias) = (file.display(), &project.alias);
        if self.replay.is_some() {
            invocation.tell(&OutputNote::warning(format!(
                "the recording {file} is inside the project {alias}: models see it, which they did not when it \
                 was made; if a call differs from the recording, put it outside"
            )));
            return Ok(());
        }
        let message = format!(
            "the recording {file} would be inside the project {alias}: models would see it, and no replay would \
             make the same calls"
        );
        Err(CommandError::new(&codes::PREFLIGHT_FAILED, message).hint(hints::RECORD_OUTSIDE))
    }

    /// Makes sure that the file can be used, before anything is done.
    pub(super) fn ready(&self, engine: &Engine) -> Result<(), CommandError> {
        if self.record.is_none() && self.replay.is_none() {
            return Ok(());
        }
        engine.ready_models().map_err(|error| unusable(error.as_ref()))
    }

    /// The report, and what was recorded and not asked for, or that nothing was there to record.
    pub(super) fn add_recording_notes(&self, engine: &Engine, report: CommandReport) -> CommandReport {
        // A recording of no call is taken away when the engine goes.
        if let Some(file) = self.record.as_ref().filter(|_| engine.recorded_calls() == Some(0)) {
            let note =
                format!("no model was called, so nothing was recorded: {} is not created", file.display());
            return report.note(OutputNote::warning(note));
        }
        match engine.unused_recorded_calls() {
            Some(unused) if unused > 0 => {
                let calls = if unused == 1 { "call" } else { "calls" };
                report
                    .note(OutputNote::warning(format!("{unused} recorded {calls} of a model were not used")))
            }
            Some(_) | None => report,
        }
    }
}

/// Why a recording cannot be used, with its cause.
fn unusable(error: &dyn std::error::Error) -> CommandError {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    CommandError::new(&codes::PREFLIGHT_FAILED, format!("{error}{cause}"))
}

/// Returns whether a file that may not exist yet is below the root of a project.
fn lies_in(file: &Path, project: &ProjectLink) -> bool {
    let parent = file.parent().and_then(|parent| std::fs::canonicalize(parent).ok());
    let root = std::fs::canonicalize(path_of(project.root.as_bytes())).ok();
    parent.zip(root).is_some_and(|(parent, root)| parent.starts_with(root))
}
