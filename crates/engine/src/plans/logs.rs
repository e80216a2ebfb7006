//! What the commands of a plan wrote: kept outputs, and those of a call that still runs.
//!
//! # Invariants
//! The secrets of an output are hidden, unless whoever looks says otherwise. It is kept as it was written.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use domain::{CallNo, KeptOutput, PlanId, ToolCall};
use store::PlanStoreError;

use super::contents::Stored;
use super::facts::READ_FILE;
use super::sandbox_home::log_dir;
use super::{Engine, House};

/// Whether secrets are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reveal {
    /// A mark stands in the place of each.
    Hidden,
    /// They are shown.
    Shown,
}

/// The output of one call.
#[derive(Clone, Debug)]
pub struct CallLog {
    /// The call.
    pub call: ToolCall,
    /// What it wrote to its output, as far as it was kept.
    pub stdout: Vec<u8>,
    /// What it wrote to its error output, as far as it was kept.
    pub stderr: Vec<u8>,
    /// How many bytes of both were not kept.
    pub left_out: u64,
}

impl Engine {
    /// The outputs of the present attempt, of one call or of all.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn logs(
        &self,
        id: PlanId,
        only: Option<CallNo>,
        reveal: Reveal,
    ) -> Result<Vec<CallLog>, PlanStoreError> {
        let plan = self.house.store.plan(id).await?;
        let calls = self.house.store.calls(id).await?;
        let of_attempt = |call: &ToolCall| call.new.attempt == plan.attempt;
        let wanted = |call: &ToolCall| of_attempt(call) && only.is_none_or(|no| no == call.no);
        let sandboxes = self.house.store.sandboxes(id).await?;
        let sandbox = sandboxes.into_iter().rfind(|sandbox| sandbox.attempt == plan.attempt);
        // Between its beginning and the store's word a sandbox lies where one does that nobody held.
        let dir = sandbox
            .map_or_else(|| self.house.sandbox_home(&plan), |sandbox| OsString::from_vec(sandbox.dir).into());
        let logs = calls.into_iter().filter(wanted).map(|call| self.house.log_of(&dir, call));
        Ok(match reveal {
            Reveal::Hidden => logs.map(|log| self.house.hidden(log)).collect(),
            Reveal::Shown => logs.collect(),
        })
    }
}

impl House {
    fn hidden(&self, log: CallLog) -> CallLog {
        let hide = |bytes: Vec<u8>| match self.redactor.redactor() {
            Some(redactor) => redactor.redact(&bytes).into_owned(),
            None => b"[text withheld: no redactor]\n".to_vec(),
        };
        CallLog { stdout: hide(log.stdout), stderr: hide(log.stderr), ..log }
    }

    fn log_of(&self, sandbox: &Path, call: ToolCall) -> CallLog {
        let kept = |output: Option<KeptOutput>| {
            output.and_then(|output| Stored(self.store.as_ref()).read(&output.hash).ok()).unwrap_or_default()
        };
        match &call.end {
            Some(end) => {
                let mut stdout = kept(end.stdout);
                // What was read is the whole of such a call's output, and stands in its result.
                if call.new.tool == READ_FILE
                    && let Some(text) = end.result["text"].as_str()
                {
                    stdout = text.as_bytes().to_vec();
                }
                let stderr = kept(end.stderr);
                let left_out =
                    [end.stdout, end.stderr].into_iter().flatten().map(|output| output.left_out).sum();
                CallLog { stdout, stderr, left_out, call }
            }
            None => {
                let live = |name| std::fs::read(log_dir(sandbox, call.no).join(name)).unwrap_or_default();
                CallLog { stdout: live("stdout"), stderr: live("stderr"), left_out: 0, call }
            }
        }
    }
}
