//! The end of a call as it is stored; of a command also its output, and how both are reported.
//!
//! # Not here
//! Running it: `command`. Capturing its changes: `capture`.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use domain::{
    CallEnd, CallState, ErrorCategory, NODE_TEXT_BYTES_MAX, RelPath, StoredOutput, ToolCall, WallMs,
};
use sandbox::Layer;
use sandbox::command::{CommandExit, ExitKind, LimitHit};
use sandbox::fs::beneath;
use sandbox::isolation::{CommandStartError, IsolationUsed};
use serde_json::{Value, json};

use crate::engine::EngineInner;
use crate::run::RunError;
use crate::run::plan_sandbox::content::Staging;

/// The exit status by which a program says that another time it may work: EX_TEMPFAIL.
const TRY_LATER: i32 = 75;
/// The maximum number of bytes that a command writes to `$AGENTS_OUTPUT`.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// The number of bytes of a command's output that its result repeats.
pub(crate) const LAST_WORDS_BYTES: usize = 2 * 1024;

/// The key in the result of a call whose command probably failed for want of the network.
pub const NETWORK_SUSPECTED: &str = "network_suspected";

/// The key in the result of a call whose command reached a resource limit. The value has the `key` of the
/// setting that holds the limit, and a less strict `value` for it.
pub const RAISED_SETTING: &str = "raised_setting";

/// The key in the result of a call of an agent program: its session.
pub(crate) const AGENT_SESSION: &str = "session";

/// A command that has ended, or did not begin.
pub(crate) struct CommandResult {
    pub(crate) call: ToolCall,
    pub(crate) shown: String,
    pub(crate) ended: Result<(CommandExit, IsolationUsed), CommandStartError>,
    /// The layer that a check wrote to; removed when this is dropped.
    pub(crate) _layer: Option<Layer>,
    /// The path of its result, which it may have written.
    pub(crate) output: PathBuf,
    /// A part of the machine that the command seems to have missed, in a sentence.
    pub(crate) missed: Option<String>,
    /// The judgement of a program that was spoken to: the end of its process says nothing then.
    pub(crate) judged: Option<Result<(), String>>,
    /// The session of an agent program, by which a revision continues it.
    pub(crate) session: Option<String>,
}

impl CommandResult {
    /// Says what came of a program that was spoken to.
    pub(crate) fn judge(&mut self, came_to: Result<(), String>) {
        self.judged = Some(came_to);
    }

    pub(crate) fn call(&self) -> &ToolCall {
        &self.call
    }

    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the end of the command; `None` if it did not begin.
    pub(crate) fn ended(&self) -> Option<&CommandExit> {
        self.ended.as_ref().ok().map(|(ended, _)| ended)
    }

    /// Returns the output of the command as text.
    pub(crate) fn text(&self, engine: &EngineInner) -> String {
        let (head, tail) = (NODE_TEXT_BYTES_MAX / 4, NODE_TEXT_BYTES_MAX / 2);
        let said = self.ended().map(|ended| engine.redactor.bounded(&ended.stdout, head, tail));
        said.unwrap_or_default().trim_end().to_owned()
    }

    /// Returns the content of `$AGENTS_OUTPUT`; null if that is empty.
    pub(crate) fn json(&self, engine: &EngineInner) -> Result<Value, RunError> {
        let unfit = |why: &str| {
            let message =
                format!("`{}` wrote something to $AGENTS_OUTPUT that cannot be used: {why}", self.shown);
            Err(RunError::failed(ErrorCategory::ModelOutput, message))
        };
        let bytes = match read_output(&self.output) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Value::Null),
            Err(error) => return unfit(&error.to_string()),
        };
        match (bytes.len(), serde_json::from_slice::<Value>(&bytes)) {
            (bytes, _) if bytes > OUTPUT_BYTES_MAX => unfit(&format!("more than {OUTPUT_BYTES_MAX} bytes")),
            (0, _) => Ok(Value::Null),
            (_, Ok(value @ Value::Object(_))) => Ok(match engine.redactor.redactor() {
                Some(redactor) => redactor.redact_json(&value),
                None => Value::Null,
            }),
            (_, Ok(_)) => unfit("it is not a JSON object"),
            (_, Err(error)) => unfit(&error.to_string()),
        }
    }

    /// Returns the isolation that was in force.
    pub(crate) fn isolation(&self) -> Option<Value> {
        self.ended.as_ref().ok().and_then(|(_, used)| serde_json::to_value(used).ok())
    }

    pub(crate) fn state(&self) -> CallState {
        match &self.ended {
            Err(_) => CallState::Refused,
            Ok(_) if self.judged == Some(Ok(())) => CallState::Ok,
            Ok((ended, _)) => match ended.how {
                ExitKind::Exited(0) | ExitKind::Killed if self.judged.is_some() => CallState::Failed,
                ExitKind::Exited(0) => CallState::Ok,
                ExitKind::Exited(_) | ExitKind::Signalled(_) => CallState::Failed,
                ExitKind::TimedOut => CallState::TimedOut,
                ExitKind::Killed => CallState::Cancelled,
            },
        }
    }

    pub(crate) fn exit(&self) -> Option<i32> {
        match &self.ended {
            Ok((CommandExit { how: ExitKind::Exited(status), .. }, _)) => Some(*status),
            Ok(_) | Err(_) => None,
        }
    }

    pub(crate) fn duration_ms(&self) -> u64 {
        let duration = self.ended.as_ref().map(|(ended, _)| ended.duration).unwrap_or_default();
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the last output of the program, from either stream, without its secrets.
    pub(crate) fn last_words(&self, engine: &EngineInner, bytes: usize) -> String {
        match &self.ended {
            Err(error) => engine.redactor.redact_text(&error.to_string()),
            Ok((ended, _)) => {
                let both =
                    [&ended.stdout, &ended.stderr].map(|output| engine.redactor.bounded(output, 0, bytes));
                both.iter()
                    .map(|text| text.trim_end())
                    .filter(|text| !text.is_empty())
                    .collect::<Vec<_>>()
                    .join("\n")
            }
        }
    }

    /// A sentence about what went wrong; none when nothing did.
    pub(crate) fn failure(&self) -> Option<String> {
        let shown = &self.shown;
        let (ended, used) = match &self.ended {
            Err(error) => return Some(error.to_string()),
            Ok(ended) => ended,
        };
        if let Some(judged) = &self.judged {
            return judged.clone().err();
        }
        let what = match ended.how {
            ExitKind::Exited(0) => return None,
            ExitKind::Exited(status) => format!("`{shown}` exited with status {status}"),
            ExitKind::Signalled(signal) => format!("`{shown}` was killed by signal {signal}"),
            ExitKind::TimedOut => format!("`{shown}` took longer than its time limit and was stopped"),
            ExitKind::Killed => format!("`{shown}` was killed"),
        };
        if let Some(limit) = ended.limit {
            return Some(format!("{what}: {limit}"));
        }
        Some(match (ended.network_suspected, &self.missed) {
            (true, _) => format!("{what}; it probably needed the network, which is off unless allowed"),
            (false, _) if used.own_network && ended.refused_suspected => {
                format!("{what}; services of this machine can be reached only with `--allow-loopback PORT`")
            }
            (false, Some(missed)) => format!("{what}; {missed}"),
            (false, None) => what,
        })
    }

    /// Returns true if the command failed for want of the network, as far as its output shows.
    fn network_is_suspected(&self) -> bool {
        matches!(&self.ended, Ok((ended, _)) if ended.network_suspected)
    }

    /// Returns the resource limit at which the command failed; `None` if it ended well or for another reason.
    fn limit_hit(&self) -> Option<LimitHit> {
        match &self.ended {
            Ok((ended, _)) if self.judged.is_none() && ended.how != ExitKind::Exited(0) => ended.limit,
            Ok(_) | Err(_) => None,
        }
    }

    pub(crate) fn category(&self) -> ErrorCategory {
        match &self.ended {
            Err(CommandStartError::NotFound { .. } | CommandStartError::NotExecutable { .. }) => {
                ErrorCategory::InvalidInput
            }
            Err(_) => ErrorCategory::Sandbox,
            Ok((CommandExit { how: ExitKind::Exited(TRY_LATER), .. }, _)) => ErrorCategory::Overloaded,
            Ok(_) => ErrorCategory::Tool,
        }
    }

    /// Its end as it is stored with its call.
    pub(crate) fn call_end(
        &self,
        engine: &EngineInner,
        staging: &Staging,
        result: Option<Value>,
        changed: usize,
    ) -> Result<CallEnd, RunError> {
        let (isolation, stdout, stderr) = match &self.ended {
            Err(_) => (None, None, None),
            Ok((ended, used)) => (
                serde_json::to_value(used).ok(),
                kept_output(engine, staging, &ended.stdout)?,
                kept_output(engine, staging, &ended.stderr)?,
            ),
        };
        let mut result = result.unwrap_or_else(
            || json!({ "changed": changed, "last_words": self.last_words(engine, LAST_WORDS_BYTES) }),
        );
        if let (true, Some(result)) = (self.network_is_suspected(), result.as_object_mut()) {
            result.insert(NETWORK_SUSPECTED.to_owned(), true.into());
        }
        if let (Some(limit), Some(result)) = (self.limit_hit(), result.as_object_mut()) {
            let (key, value) = limit.raised_setting();
            result.insert(RAISED_SETTING.to_owned(), json!({ "key": key, "value": value }));
        }
        if let (Some(session), Some(result)) = (&self.session, result.as_object_mut()) {
            result.insert(AGENT_SESSION.to_owned(), session.clone().into());
        }
        let error = self.failure().map(|failure| engine.redactor.redact_text(&failure));
        Ok(CallEnd {
            state: self.state(),
            duration_ms: self.duration_ms(),
            exit: self.exit(),
            error,
            result,
            isolation,
            stdout,
            stderr,
        })
    }
}

/// Stores an output without the values that are known to be secrets: who looks at it later may not know them.
fn kept_output(
    engine: &EngineInner,
    staging: &Staging,
    output: &sandbox::command::Output,
) -> Result<Option<StoredOutput>, RunError> {
    if output.total() == 0 {
        return Ok(None);
    }
    let kept = staging
        .keep_bytes(&output.bytes_after(|bytes| engine.redactor.redact_known(bytes)))
        .map_err(|error| RunError::failed(ErrorCategory::Resource, error))?;
    Ok(Some(StoredOutput { hash: kept.hash, total: output.total(), left_out: output.left_out() }))
}

/// Returns the content that a program wrote to its result path. The program controls the path. So no link is
/// followed, which could lead to a hidden file, and only a regular file is waited for.
fn read_output(path: &Path) -> io::Result<Vec<u8>> {
    let (dir, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    let name = RelPath::new(name.as_bytes()).map_err(io::Error::other)?;
    let root = beneath::open_root(dir)?;
    let (bytes, _) = sandbox::read_file(root.as_fd(), &name, OUTPUT_BYTES_MAX as u64 + 1)?;
    Ok(bytes)
}

impl EngineInner {
    /// The end of a call that began at `started`, now: its state, what went wrong, and what it answered. What
    /// went wrong loses its secrets here; the answer has lost them.
    pub(crate) fn ended(
        &self,
        started: WallMs,
        (state, error, result): (CallState, Option<String>, Value),
    ) -> CallEnd {
        CallEnd {
            state,
            duration_ms: self.wall().0.saturating_sub(started.0),
            exit: None,
            error: error.map(|error| self.redactor.redact_text(&error)),
            result,
            isolation: None,
            stdout: None,
            stderr: None,
        }
    }
}
