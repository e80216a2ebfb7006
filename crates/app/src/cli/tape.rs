//! `--record` and `--replay`: what models were asked and answered, kept and repeated.
//!
//! # Invariants
//! A recording is made, or read, before any work begins.
//!
//! # Not here
//! Plans that are left to a worker: it asks models with its own settings, so neither goes with `--detach`.

use std::path::{Path, PathBuf};

use engine::plans::{Engine, Mode};

use crate::failure::{Failure, codes};
use crate::output::{Note, Report};

#[derive(Debug, Default, clap::Args)]
pub(super) struct TapeArgs {
    /// Keep what models are asked and what they answer in a new file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["replay", "detach"])]
    record: Option<PathBuf>,
    /// Let a recording answer in the place of models: no key, no network
    #[arg(long, value_name = "FILE", conflicts_with = "detach")]
    replay: Option<PathBuf>,
}

impl TapeArgs {
    /// How models are asked, seen from `here`.
    pub(super) fn mode(&self, here: &Path) -> Mode {
        match (&self.record, &self.replay) {
            (Some(file), _) => Mode::Record(here.join(file)),
            (None, Some(file)) => Mode::Replay(here.join(file)),
            (None, None) => Mode::Live,
        }
    }

    /// Makes sure that the file can be used, before anything is done.
    pub(super) fn ready(&self, engine: &Engine) -> Result<(), Failure> {
        if self.record.is_none() && self.replay.is_none() {
            return Ok(());
        }
        engine.ready_models().map_err(|error| {
            let cause = std::error::Error::source(error.as_ref());
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            Failure::new(&codes::PREFLIGHT_FAILED, format!("{error}{cause}"))
        })
    }

    /// The report, and what was recorded and not asked for.
    pub(super) fn told(&self, engine: &Engine, report: Report) -> Report {
        match engine.unused_recorded_calls() {
            Some(unused) if unused > 0 => {
                let calls = if unused == 1 { "call" } else { "calls" };
                report.note(Note::warning(format!("{unused} recorded {calls} of a model were not asked for")))
            }
            Some(_) | None => report,
        }
    }
}
