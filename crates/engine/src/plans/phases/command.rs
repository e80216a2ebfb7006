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
    ByteText, CallEnd, CallNo, ChangeId, ErrorCategory, KeptOutput, NewCall, NewChange, NodeRun, NotCaptured,
    Plan, RelPath, RootNo, Run, Step, ToolCall,
};
use sandbox::command::{CommandSpec, Given, OutputSpec, Stdin, WorkDir, environment};
use sandbox::isolation::{Isolation, IsolationPolicy};
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
use super::finished::Finished;
use super::ground::blocking;
use super::kept::{self, KeptEnd};
use super::spending;
use super::spoken::{Line, Speaks, line};
use super::work::{Ends, LiveRun, Open};
use super::{Stopped, sandbox_category};
use crate::worker::JobRun;

/// How often the bases of a running command's changes are saved.
const SAVE_BASES_EVERY: Duration = Duration::from_secs(2);
/// How much of a command a message repeats.
const SHOWN_CHARS_MAX: usize = 80;
/// Where, beside its logs, a command may put its result: `$AGENTS_OUTPUT`.
const OUTPUT_DIR: &str = "output";
const OUTPUT_FILE: &str = "result.json";

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
        let ends = if line.is_some() { Ends::WhenAsked } else { Ends::AtOnce };
        waiter.began(&begun, &scope, &running.killer(), ends);
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
    // Cut afterwards: half of a secret is not known as one.
    let shown = one_line(&house.redactor.redact_text(&task.run.shown()));
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
        scanned(live, None).await?;
    }
    if finished.may_have_written && is_check {
        put_back(live).await?;
    }
    end_call_settling(house, run, live, plan, (&finished.call, &finished.effect), |open, changed| {
        let end = finished.call_end(house, &open.staging, result, changed)?;
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
    scanned(live, None).await?;
    found(live).await
}

/// The same when no call is at work: what a node leaves out is left out.
pub(super) async fn changed_beside(live: &LiveRun, node: &str) -> Result<Vec<(RootNo, RelPath)>, Stopped> {
    scanned(live, Some(node.to_owned())).await?;
    found(live).await
}

async fn found(live: &LiveRun) -> Result<Vec<(RootNo, RelPath)>, Stopped> {
    let place = live.open.lock().await;
    let found = place.as_ref().map(|open| open.found.as_slice()).unwrap_or_default();
    Ok(found.iter().map(|found| (found.root, found.draft.path().clone())).collect())
}

async fn scanned(live: &LiveRun, node: Option<String>) -> Result<(), Stopped> {
    let mut place = Arc::clone(&live.open).lock_owned().await;
    blocking(move || match place.as_mut() {
        None => Err(Stopped::Cancelled),
        Some(open) => match &node {
            Some(node) => scan_by(open, &rules_of(open, node)),
            None => scan(open),
        },
    })
    .await?
}

/// Keeps what changed in the sandbox since the last look.
pub(super) fn scan(open: &mut Open) -> Result<(), Stopped> {
    let rules = rules(open);
    scan_by(open, &rules)
}

fn scan_by(open: &mut Open, rules: &CaptureRules) -> Result<(), Stopped> {
    let captured = open
        .sandbox
        .scan(open.staging.as_ref(), rules)
        .map_err(|error| Stopped::failed(sandbox_category(&error), error))?;
    let sandbox::NotCaptured { scratch, protected, special } = captured.not_captured;
    open.record.not_captured = NotCaptured { scratch, protected, special };
    open.found.extend(captured.drafts);
    Ok(())
}

/// The files as they were before what was found.
pub(super) async fn put_back(live: &LiveRun) -> Result<(), Stopped> {
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
    rules_of(open, open.call.as_ref().map(|call| call.new.node.as_str()).unwrap_or_default())
}

fn rules_of(open: &Open, node: &str) -> CaptureRules {
    let plan = &open.plan;
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

/// A path as bytes.
pub(super) fn bytes_of(path: &Path) -> Vec<u8> {
    OsStr::new(path).as_bytes().to_vec()
}
