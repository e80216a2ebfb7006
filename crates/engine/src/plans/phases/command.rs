//! The gate that every command of a plan passes: admitted, run, captured, recorded.
//!
//! # How a call goes
//! 1. The effect is entered; the call is counted in the plan's accounts and stored as running, under its number.
//! 2. The command runs in the plan's sandbox, or, for a check, in a layer above it that is thrown away. While it runs
//!    the bases of what it changes are saved every few seconds.
//! 3. When its whole process tree is dead, what changed is captured: after a failure and a time-out too.
//! 4. Its end, its changes and their contents are stored as one step. When they cannot be, the sandbox is kept.
//!
//! A run that is interrupted stops between 2 and 3; whoever winds it down does the rest.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    ByteText, CallEnd, CallNo, CallState, ChangeId, ErrorCategory, KeptOutput, NODE_TEXT_BYTES_MAX, NewCall,
    NewChange, NodeRun, NotCaptured, Plan, RelPath, RootNo, Run, Step, ToolCall,
};
use sandbox::command::{CommandSpec, Ended, Given, HowEnded, OutputSpec, Stdin, WorkDir, environment};
use sandbox::isolation::{Isolation, IsolationPolicy, IsolationUsed, StartError};
use sandbox::view::View;
use sandbox::{CaptureRules, CapturedChange, Layer};
use serde_json::{Value, json};
use store::{By, CallOutcome};
use sync::{Effect, Observed};

use super::super::House;
use super::super::contents::Staging;
use super::super::facts::RUN_COMMAND;
use super::super::sandbox_home::log_dir;
use super::super::use_plan::path_of;
use super::ground::blocking;
use super::kept::{self, KeptEnd};
use super::spending;
use super::spoken::{Line, Speaks, line};
use super::work::{LiveRun, Open};
use super::{Stopped, sandbox_category};
use crate::worker::JobRun;

/// The exit status by which a program says that another time it may work: EX_TEMPFAIL.
const TRY_LATER: i32 = 75;
/// How often the bases of a running command's changes are saved.
const SAVE_BASES_EVERY: Duration = Duration::from_secs(2);
/// How much of a command a message repeats.
const SHOWN_CHARS_MAX: usize = 80;
/// Where, beside its logs, a command may put its result: `$AGENTS_OUTPUT`.
const OUTPUT_DIR: &str = "output";
const OUTPUT_FILE: &str = "result.json";
/// How long that may be.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// How much of a command's output its result repeats.
pub(super) const LAST_WORDS_BYTES: usize = 2 * 1024;

/// A command to be run for a plan.
pub(super) struct Task {
    pub(super) node: String,
    pub(super) tool: &'static str,
    pub(super) run: Run,
    pub(super) root: RootNo,
    pub(super) cwd: ByteText,
    pub(super) timeout: Option<Duration>,
    pub(super) network: bool,
    pub(super) env: Vec<(ByteText, ByteText)>,
    pub(super) pass_env: Vec<String>,
    pub(super) writable: Vec<ByteText>,
    /// What it reads; nothing, when there is none, and when it is spoken to what it is told.
    pub(super) stdin: Option<Vec<u8>>,
    /// Whether it may change the projects.
    pub(super) writes: bool,
    /// Ends with what it is run for.
    pub(super) scope: Observed,
    /// How the call is kept, where it is more than a command.
    pub(super) asked: Option<Asked>,
}

/// The arguments of a call as they are kept: redacted.
pub(super) struct Asked {
    pub(super) requested: Value,
    pub(super) effective: Value,
}

/// A command that has ended, or did not begin.
pub(super) struct Finished {
    call: ToolCall,
    shown: String,
    ended: Result<(Ended, IsolationUsed), StartError>,
    effect: Effect,
    /// Where a check wrote; gone with this.
    _layer: Option<Layer>,
    /// Whether the sandbox may be changed by it.
    may_have_written: bool,
    /// Where it may have put its result.
    output: PathBuf,
    /// What came of a program that was spoken to: how its process ended says nothing then.
    judged: Option<Result<(), String>>,
}

impl Finished {
    /// Says what came of a program that was spoken to.
    pub(super) fn judge(&mut self, came_to: Result<(), String>) {
        self.judged = Some(came_to);
    }

    pub(super) fn call(&self) -> &ToolCall {
        &self.call
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// How it ended; none when it did not begin.
    pub(super) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref().ok().map(|(ended, _)| ended)
    }

    /// What it said, as text.
    pub(super) fn text(&self, house: &House) -> String {
        let said =
            self.ended().map(|ended| ended.stdout.bounded(NODE_TEXT_BYTES_MAX / 4, NODE_TEXT_BYTES_MAX / 2));
        house.redactor.redact_text(said.unwrap_or_default().trim_end())
    }

    /// What it put into `$AGENTS_OUTPUT`; null when that is nothing.
    pub(super) fn json(&self, house: &House) -> Result<Value, Stopped> {
        let unfit = |why: &str| {
            let message = format!("`{}` wrote to $AGENTS_OUTPUT what cannot be used: {why}", self.shown);
            Err(Stopped::failed(ErrorCategory::ModelOutput, message))
        };
        let bytes = match std::fs::File::open(&self.output) {
            Ok(file) => read_bounded(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Value::Null),
            Err(error) => return unfit(&error.to_string()),
        };
        match bytes.map(|bytes| (bytes.len(), serde_json::from_slice::<Value>(&bytes))) {
            Err(error) => unfit(&error.to_string()),
            Ok((bytes, _)) if bytes > OUTPUT_BYTES_MAX => {
                unfit(&format!("more than {OUTPUT_BYTES_MAX} bytes"))
            }
            Ok((0, _)) => Ok(Value::Null),
            Ok((_, Ok(value @ Value::Object(_)))) => Ok(match house.redactor.redactor() {
                Some(redactor) => redactor.redact_json(&value),
                None => Value::Null,
            }),
            Ok((_, Ok(_))) => unfit("it is no JSON object"),
            Ok((_, Err(error))) => unfit(&error.to_string()),
        }
    }

    /// What isolation was in force.
    pub(super) fn isolation(&self) -> Option<Value> {
        self.ended.as_ref().ok().and_then(|(_, used)| serde_json::to_value(used).ok())
    }

    pub(super) fn state(&self) -> CallState {
        match &self.ended {
            Err(_) => CallState::Refused,
            Ok(_) if self.judged == Some(Ok(())) => CallState::Ok,
            Ok((ended, _)) => match ended.how {
                HowEnded::Exited(0) | HowEnded::Killed if self.judged.is_some() => CallState::Failed,
                HowEnded::Exited(0) => CallState::Ok,
                HowEnded::Exited(_) | HowEnded::Signalled(_) => CallState::Failed,
                HowEnded::TimedOut => CallState::TimedOut,
                HowEnded::Killed => CallState::Cancelled,
            },
        }
    }

    pub(super) fn exit(&self) -> Option<i32> {
        match &self.ended {
            Ok((Ended { how: HowEnded::Exited(status), .. }, _)) => Some(*status),
            Ok(_) | Err(_) => None,
        }
    }

    pub(super) fn duration_ms(&self) -> u64 {
        let duration = self.ended.as_ref().map(|(ended, _)| ended.duration).unwrap_or_default();
        u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
    }

    /// What the program said last, whichever way.
    pub(super) fn last_words(&self, bytes: usize) -> String {
        match &self.ended {
            Err(error) => error.to_string(),
            Ok((ended, _)) => {
                let both = [ended.stdout.bounded(0, bytes), ended.stderr.bounded(0, bytes)];
                both.iter()
                    .map(|text| text.trim_end())
                    .filter(|text| !text.is_empty())
                    .collect::<Vec<_>>()
                    .join("\n")
            }
        }
    }

    /// A sentence about what went wrong; none when nothing did.
    pub(super) fn failure(&self) -> Option<String> {
        let shown = &self.shown;
        let (ended, _) = match &self.ended {
            Err(error) => return Some(error.to_string()),
            Ok(ended) => ended,
        };
        if let Some(judged) = &self.judged {
            return judged.clone().err();
        }
        let what = match ended.how {
            HowEnded::Exited(0) => return None,
            HowEnded::Exited(status) => format!("`{shown}` exited with status {status}"),
            HowEnded::Signalled(signal) => format!("`{shown}` was ended by signal {signal}"),
            HowEnded::TimedOut => format!("`{shown}` took longer than its time limit and was ended"),
            HowEnded::Killed => format!("`{shown}` was killed"),
        };
        Some(match ended.network_suspected {
            true => format!("{what}; it probably wanted the network, which is off unless allowed"),
            false => what,
        })
    }

    pub(super) fn category(&self) -> ErrorCategory {
        match &self.ended {
            Err(StartError::NotFound { .. }) => ErrorCategory::InvalidInput,
            Err(_) => ErrorCategory::Sandbox,
            Ok((Ended { how: HowEnded::Exited(TRY_LATER), .. }, _)) => ErrorCategory::Overloaded,
            Ok(_) => ErrorCategory::Tool,
        }
    }
}

/// Admits a command and runs it to its end. Who may change the sandbox has its permit.
pub(super) async fn run(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    task: Task,
) -> Result<Finished, Stopped> {
    let (finished, ()) = run_beside(house, run, live, plan, task, None, std::future::ready(())).await?;
    Ok(finished)
}

/// The same with a program that is spoken to: `talk` waits for it to begin, and ends it.
pub(super) async fn run_spoken<T, F: Future<Output = T>>(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    task: Task,
    talk: impl FnOnce(Speaks) -> F,
) -> Result<(Finished, T), Stopped> {
    let (line, speaks) = line();
    run_beside(house, run, live, plan, task, Some(line), talk(speaks)).await
}

async fn run_beside<T>(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    task: Task,
    line: Option<Line>,
    beside: impl Future<Output = T>,
) -> Result<(Finished, T), Stopped> {
    task.scope.check()?;
    let effect = run.enter()?;
    let call = spending::begin(house, run, &effect, new_call(house, plan, &task)).await?;
    let is_check = task.tool != RUN_COMMAND;
    if task.writes && !is_check {
        live.occupy(run, &call).await?;
    }
    let Begun { view, layer, logs, can_write } = begin(live, &call, &task).await?;
    let output = logs.join(OUTPUT_DIR).join(OUTPUT_FILE);
    let spec = match line {
        Some(_) => spoken_spec(house, run, plan, &task, logs)?,
        None => command_spec(house, run, plan, &task, logs)?,
    };
    let isolation = isolation(house, plan);
    let (waiter, begun, scope) = (Arc::clone(live), call.clone(), task.scope.clone());
    let waiting = tokio::task::spawn_blocking(move || {
        let mut running = isolation.start(view, spec)?;
        waiter.began(&begun, &scope, &running.killer());
        let told = line.map(|line| line.began(&mut running));
        let used = running.isolation().clone();
        let ended = running.wait();
        waiter.ended(begun.no);
        if let Some(told) = told {
            told.ended(&ended);
        }
        Ok((ended, used))
    });
    let saves_bases = task.writes && !is_check;
    let mut both = std::pin::pin!(async { tokio::join!(waiting, beside) });
    let (ended, came_to) = loop {
        tokio::select! {
            both = &mut both => break both,
            () = tokio::time::sleep(SAVE_BASES_EVERY), if saves_bases => save_bases(live).await?,
        }
    };
    run.scope().check()?;
    let ended = ended.map_err(|error| Stopped::failed(ErrorCategory::Internal, error))?;
    let shown = one_line(&task.run.shown());
    let may_have_written = can_write;
    let finished =
        Finished { call, shown, ended, effect, _layer: layer, may_have_written, output, judged: None };
    Ok((finished, came_to))
}

/// What a command is run in.
struct Begun {
    view: View,
    layer: Option<Layer>,
    /// Where its output goes.
    logs: PathBuf,
    /// Whether what it writes gets into the sandbox.
    can_write: bool,
}

/// The trees that the command sees: those of the sandbox, or, for one that is to change nothing, of a layer above them.
async fn begin(live: &LiveRun, call: &ToolCall, task: &Task) -> Result<Begun, Stopped> {
    let mut place = Arc::clone(&live.open).lock_owned().await;
    let call = call.clone();
    let (writes, is_check) = (task.writes, task.tool != RUN_COMMAND);
    blocking(move || {
        let open = place.as_mut().ok_or(Stopped::Cancelled)?;
        let logs = log_dir(open.sandbox.dir(), call.no);
        let sandbox_failed = |error: std::io::Error| Stopped::failed(ErrorCategory::Sandbox, error);
        make_logs(&logs).map_err(sandbox_failed)?;
        if is_check {
            open.call = Some(call);
        } else if !writes {
            open.beside.push(call);
        }
        let layer = if is_check { open.sandbox.layer().ok() } else { None };
        let view = match &layer {
            Some(layer) => layer.view(),
            None => open.sandbox.view(),
        };
        let can_write = layer.is_none() && (writes || is_check);
        Ok(Begun { view: view.map_err(sandbox_failed)?, layer, logs, can_write })
    })
    .await?
}

async fn save_bases(live: &LiveRun) -> Result<(), Stopped> {
    let mut place = Arc::clone(&live.open).lock_owned().await;
    blocking(move || {
        if let Some(open) = place.as_mut() {
            // What cannot be saved early is looked at again when the command has ended.
            let _ = open.sandbox.save_bases(open.staging.as_ref(), &rules(open));
        }
    })
    .await
}

/// Stores the end of a call with all that it changed. What a check wrote into the sandbox itself is put back. When what
/// the plan's command changed cannot be stored, its sandbox is kept.
pub(super) async fn record(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    finished: &Finished,
    result: Option<Value>,
) -> Result<(), Stopped> {
    record_settling(house, run, live, plan, finished, result, |_| None).await
}

/// The same, with the end of the node whose last call it is, of how many files were changed.
pub(super) async fn record_settling(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    finished: &Finished,
    result: Option<Value>,
    settles: impl FnOnce(usize) -> Option<NodeRun>,
) -> Result<(), Stopped> {
    match stored(house, run, live, plan, finished, result, settles).await {
        Err(Stopped::Failed { category, message, .. }) if finished.call.new.tool == RUN_COMMAND => {
            let end = KeptEnd::of(house, finished);
            Err(kept::keep(live, &end, category, &message).await)
        }
        other => other,
    }
}

async fn stored(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
    finished: &Finished,
    result: Option<Value>,
    settles: impl FnOnce(usize) -> Option<NodeRun>,
) -> Result<(), Stopped> {
    let is_check = finished.call.new.tool != RUN_COMMAND;
    if finished.may_have_written {
        scanned(live).await?;
    }
    if finished.may_have_written && is_check {
        put_back(live).await?;
    }
    end_call_settling(house, run, live, plan, (&finished.call, &finished.effect), |open, changed| {
        let end = call_end(house, finished, &open.staging, result, changed)?;
        Ok((end, settles(changed)))
    })
    .await
}

/// Stores the end of a call with what was found to be changed since the last one.
pub(super) async fn end_call(
    house: &House,
    run: &JobRun,
    live: &LiveRun,
    plan: &Plan,
    call: (&ToolCall, &Effect),
    end: impl FnOnce(&Open, usize) -> Result<CallEnd, Stopped>,
) -> Result<(), Stopped> {
    end_call_settling(house, run, live, plan, call, |open, changed| Ok((end(open, changed)?, None))).await
}

/// The same, with the end of the node whose last call it is.
pub(super) async fn end_call_settling(
    house: &House,
    run: &JobRun,
    live: &LiveRun,
    plan: &Plan,
    (call, effect): (&ToolCall, &Effect),
    end: impl FnOnce(&Open, usize) -> Result<(CallEnd, Option<NodeRun>), Stopped>,
) -> Result<(), Stopped> {
    let mut place = live.open.lock().await;
    let open = place.as_mut().ok_or(Stopped::Cancelled)?;
    let is_beside = open.beside.iter().any(|other| other.no == call.no);
    let found = open.found.iter().filter(|_| !is_beside).cloned();
    let changes: Vec<NewChange> = found.map(|found| new_change(house, call.no, found)).collect();
    let (end, settles) = end(open, changes.len())?;
    let outcome = CallOutcome {
        attempt: plan.attempt,
        no: call.no,
        end,
        changeset: open.changeset.filter(|_| !changes.is_empty()),
        changes,
        contents: open.staging.contents(),
        settles: settles.into_iter().collect(),
    };
    house.store.end_call(By::Effect(effect), &run.claim(), outcome).await?;
    if is_beside {
        open.beside.retain(|other| other.no != call.no);
    } else {
        open.call = None;
        open.found.clear();
    }
    open.staging.clear();
    Ok(())
}

/// Looks at what changed, and says where something did since the last call.
pub(super) async fn changed(live: &LiveRun) -> Result<Vec<(RootNo, RelPath)>, Stopped> {
    scanned(live).await?;
    let place = live.open.lock().await;
    let found = place.as_ref().map(|open| open.found.as_slice()).unwrap_or_default();
    Ok(found.iter().map(|found| (found.root, found.draft.path().clone())).collect())
}

async fn scanned(live: &LiveRun) -> Result<(), Stopped> {
    let mut place = Arc::clone(&live.open).lock_owned().await;
    blocking(move || match place.as_mut() {
        None => Err(Stopped::Cancelled),
        Some(open) => scan(open),
    })
    .await?
}

/// Keeps what changed in the sandbox since the last look.
pub(super) fn scan(open: &mut Open) -> Result<(), Stopped> {
    let captured = open
        .sandbox
        .scan(open.staging.as_ref(), &rules(open))
        .map_err(|error| Stopped::failed(sandbox_category(&error), error))?;
    let sandbox::NotCaptured { scratch, protected, special } = captured.not_captured;
    open.record.not_captured = NotCaptured { scratch, protected, special };
    open.found.extend(captured.drafts);
    Ok(())
}

/// The files as they were before what was found.
async fn put_back(live: &LiveRun) -> Result<(), Stopped> {
    let mut place = Arc::clone(&live.open).lock_owned().await;
    blocking(move || {
        let open = place.as_mut().ok_or(Stopped::Cancelled)?;
        let found = std::mem::take(&mut open.found);
        let back: Vec<_> = found.iter().map(|found| domain::undoing(found.root, &found.draft)).collect();
        let restored = open.sandbox.restore(&back, open.staging.as_ref());
        restored.map_err(|error| Stopped::failed(ErrorCategory::Sandbox, error))
    })
    .await?
}

pub(super) fn new_change(house: &House, call: CallNo, found: CapturedChange) -> NewChange {
    let CapturedChange { root, draft, base, too_large: _ } = found;
    NewChange { id: ChangeId::from_u128(house.ids.ulid()), call, root, base, draft }
}

/// What is captured of the present call: not what the plan, or the node whose call it is, leaves out.
pub(super) fn rules(open: &Open) -> CaptureRules {
    let Open { plan, call, .. } = open;
    let node = call.as_ref().map(|call| call.new.node.as_str()).unwrap_or_default();
    let is_its = |step: &&Step| step.node == node || node.starts_with(&format!("{}.fix", step.node));
    let of_node = plan.spec.steps.iter().filter(is_its).flat_map(|step| &step.ignore);
    CaptureRules {
        ignore: plan.spec.ignore.iter().chain(of_node).cloned().collect(),
        protected: plan.spec.protected.clone(),
        max_file_bytes: plan.spec.max_file_bytes,
    }
}

pub(super) fn new_call(house: &House, plan: &Plan, task: &Task) -> NewCall {
    let names = task.env.iter().map(|(name, _)| name.to_string());
    let requested = json!({
        "command": house.redactor.redact_text(&task.run.shown()),
        "cwd": task.cwd,
        "network": task.network,
        "timeout_s": task.timeout.map(|timeout| timeout.as_secs()),
        "env": names.chain(task.pass_env.iter().cloned()).collect::<Vec<_>>(),
        "writable": task.writable,
    });
    let argv: Vec<String> =
        task.run.argv().iter().map(|word| house.redactor.redact_text(&word.to_string())).collect();
    let effective = json!({ "argv": argv });
    let (requested, effective) = match &task.asked {
        Some(Asked { requested, effective }) => (requested.clone(), effective.clone()),
        None => (requested, effective),
    };
    NewCall {
        attempt: plan.attempt,
        node: task.node.clone(),
        tool: task.tool.to_owned(),
        requested,
        effective,
    }
}

/// What keeps the plan's commands apart.
pub(super) fn isolation(house: &House, plan: &Plan) -> Isolation {
    let policy =
        if plan.spec.isolation_required { IsolationPolicy::Required } else { IsolationPolicy::Optional };
    Isolation::new(policy, house.options.child.clone())
}

/// Makes the directory of a call's logs, and the one for its result.
pub(super) fn make_logs(logs: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(logs.join(OUTPUT_DIR))
}

/// A program of the plan that is spoken to.
pub(super) fn spoken_spec(
    house: &House,
    run: &JobRun,
    plan: &Plan,
    task: &Task,
    logs: PathBuf,
) -> Result<CommandSpec, Stopped> {
    Ok(CommandSpec { stdin: Stdin::Spoken, ..command_spec(house, run, plan, task, logs)? })
}

fn command_spec(
    house: &House,
    run: &JobRun,
    plan: &Plan,
    task: &Task,
    logs: PathBuf,
) -> Result<CommandSpec, Stopped> {
    let below = match task.cwd.as_bytes() {
        b"" => None,
        bytes => {
            Some(RelPath::new(bytes).map_err(|error| Stopped::failed(ErrorCategory::InvalidInput, error))?)
        }
    };
    let word = |text: &ByteText| OsString::from_vec(text.as_bytes().to_vec());
    let given = Given {
        plan: plan.id.to_string().into(),
        job: run.job().id.to_string().into(),
        fence: run.claim().fence.0,
        output: Some(logs.join(OUTPUT_DIR).join(OUTPUT_FILE)),
        pass_env: task.pass_env.iter().map(OsString::from).collect(),
        env: task.env.iter().map(|(name, value)| (word(name), word(value))).collect(),
    };
    let cwd = WorkDir { root: task.root, below };
    let output_dir = logs.join(OUTPUT_DIR);
    let output = OutputSpec::in_dir(logs);
    let mut spec = CommandSpec::new(task.run.argv().iter().map(word), cwd, output);
    spec.env = environment(std::env::vars_os(), &given);
    spec.timeout = task.timeout;
    if let Some(bytes) = &task.stdin {
        spec.stdin = Stdin::Bytes(bytes.clone());
    }
    spec.network = task.network;
    spec.writes = task.writes;
    spec.writable = paths(&task.writable);
    spec.writable.push(output_dir);
    spec.hide = paths(&plan.spec.hide);
    spec.hide.push(house.options.data_dir.clone());
    spec.scratch = paths(&plan.spec.scratch);
    Ok(spec)
}

fn paths(texts: &[ByteText]) -> Vec<PathBuf> {
    texts.iter().map(path_of).collect()
}

fn call_end(
    house: &House,
    finished: &Finished,
    staging: &Staging,
    result: Option<Value>,
    changed: usize,
) -> Result<CallEnd, Stopped> {
    let (isolation, stdout, stderr) = match &finished.ended {
        Err(_) => (None, None, None),
        Ok((ended, used)) => (
            serde_json::to_value(used).ok(),
            kept_output(staging, &ended.stdout)?,
            kept_output(staging, &ended.stderr)?,
        ),
    };
    let result = result.unwrap_or_else(|| {
        let last_words = house.redactor.redact_text(&finished.last_words(LAST_WORDS_BYTES));
        json!({ "changed": changed, "last_words": last_words })
    });
    let error = finished.failure().map(|failure| house.redactor.redact_text(&failure));
    Ok(CallEnd {
        state: finished.state(),
        duration_ms: finished.duration_ms(),
        exit: finished.exit(),
        error,
        result,
        isolation,
        stdout,
        stderr,
    })
}

fn kept_output(staging: &Staging, output: &sandbox::command::Output) -> Result<Option<KeptOutput>, Stopped> {
    if output.total() == 0 {
        return Ok(None);
    }
    let kept = staging
        .keep_bytes(&output.bytes())
        .map_err(|error| Stopped::failed(ErrorCategory::Resource, error))?;
    Ok(Some(KeptOutput { hash: kept.hash, total: output.total(), left_out: output.left_out() }))
}

/// What the log of an interrupted command holds; none when there is nothing.
pub(super) fn kept_log(staging: &Staging, log: &Path) -> Option<KeptOutput> {
    let bytes = std::fs::read(log).ok().filter(|bytes| !bytes.is_empty())?;
    let kept = staging.keep_bytes(&bytes).ok()?;
    Some(KeptOutput { hash: kept.hash, total: kept.size, left_out: 0 })
}

/// The command on one line that a message can hold.
pub(super) fn one_line(shown: &str) -> String {
    let line = shown.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(SHOWN_CHARS_MAX).collect();
    if cut == shown { cut } else { format!("{cut}…") }
}

fn read_bounded(file: std::fs::File) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A path as bytes.
pub(super) fn bytes_of(path: &Path) -> Vec<u8> {
    OsStr::new(path).as_bytes().to_vec()
}
