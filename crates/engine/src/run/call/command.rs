//! The gate that every command of a plan passes: admitted, run, captured, recorded.
//!
//! # How a call goes
//! 1. When its turn in the sandbox has come, the call is counted in the plan's accounts, stored as running under its number,
//!    and marked in the sandbox (`sandbox_call`).
//! 2. The command runs in the plan's sandbox, or, for a check, in a layer above it that is thrown away. While it runs
//!    the bases of what it changes are saved every few seconds.
//! 3. When its whole process tree is dead, what changed is captured: after a failure and a time-out too.
//! 4. Its end, its changes and their contents are stored as one step. When they cannot be, the sandbox is kept.
//!
//! A run that is interrupted stops between 2 and 3; `wind_down` does the rest, for the mark that the call leaves.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{ByteText, ErrorCategory, NewCall, NodeRun, Plan, RelPath, RootNo, Run, ToolCall, Walls};
use sandbox::Layer;
use sandbox::command::{
    Bounds, CommandSpec, Ended, Given, Openings, OutputSpec, Stdin, WorkDir, environment,
};
use sandbox::descriptors::wait_for_room;
use sandbox::isolation::{Isolation, IsolationPolicy, IsolationUsed, StartError};
use sandbox::view::View;
use serde_json::{Value, json};

use super::capture;
use super::home;
use super::piped::{Line, Speaks, line};
use super::result::Finished;
use super::sandbox_call::{Access, Recorded, SandboxCall};
use crate::engine::House;
use crate::plan::create::path_of;
use crate::query::details::RUN_COMMAND;
use crate::run::Stopped;
use crate::run::context::Site;
use crate::run::plan_sandbox::blocking;
use crate::run::plan_sandbox::location::log_dir;
use crate::run::plan_sandbox::retained;
use crate::run::plan_sandbox::retained::KeptEnd;
use crate::run::state::{Ends, LiveRun};
use worker::JobRun;

/// How often the bases of a running command's changes are saved.
const SAVE_BASES_EVERY: Duration = Duration::from_secs(2);
const MB: u64 = 1024 * 1024;
/// How much of a command a message repeats.
const SHOWN_CHARS_MAX: usize = 80;
/// Where, beside its logs, a command may put its result: `$AGENTS_OUTPUT`.
const OUTPUT_DIR: &str = "output";
const OUTPUT_FILE: &str = "result.json";

/// A command to be run for a plan.
pub(crate) struct Task {
    pub(crate) node: String,
    pub(crate) tool: &'static str,
    pub(crate) run: Run,
    pub(crate) root: RootNo,
    pub(crate) cwd: ByteText,
    pub(crate) timeout: Option<Duration>,
    pub(crate) network: bool,
    /// Ports of this machine's loopback that it may reach.
    pub(crate) allow_loopback: Vec<u16>,
    pub(crate) env: Vec<(ByteText, ByteText)>,
    pub(crate) pass_env: Vec<String>,
    pub(crate) writable: Vec<ByteText>,
    /// What it reads; nothing, when there is none, and when it is spoken to what it is told.
    pub(crate) stdin: Option<Vec<u8>>,
    /// Whether it may change the projects.
    pub(crate) writes: bool,
    /// What is done with what it changes.
    pub(crate) access: Access,
    /// How the call is kept, where it is more than a command.
    pub(crate) asked: Option<Asked>,
}

/// The arguments of a call as they are kept: redacted.
pub(crate) struct Asked {
    pub(crate) requested: Value,
    pub(crate) effective: Value,
}

/// A command that has ended, and its call, which has not.
pub(crate) struct RanCommand {
    pub(crate) call: SandboxCall,
    pub(crate) finished: Finished,
}

/// Admits a command when its turn in the sandbox has come, and runs it to its end.
pub(crate) async fn run(site: &Site<'_>, task: Task) -> Result<RanCommand, Stopped> {
    let (ran, ()) = run_beside(site, task, None, std::future::ready(())).await?;
    Ok(ran)
}

/// The same with a program that is spoken to: `talk` waits for it to begin, and ends it.
pub(crate) async fn run_spoken<T, F: Future<Output = T>>(
    site: &Site<'_>,
    task: Task,
    talk: impl FnOnce(Speaks) -> F,
) -> Result<(RanCommand, T), Stopped> {
    let (line, speaks) = line();
    run_beside(site, task, Some(line), talk(speaks)).await
}

async fn run_beside<T>(
    site: &Site<'_>,
    task: Task,
    line: Option<Line>,
    beside: impl Future<Output = T>,
) -> Result<(RanCommand, T), Stopped> {
    let Site { house, run, live, plan, .. } = *site;
    let mut sandbox_call = site.begin_call(task.access, new_call(house, plan, &task)).await?;
    let call = sandbox_call.call().clone();
    let Begun { view, layer, logs } = begin(site, &call, &task).await?;
    if layer.is_some() {
        sandbox_call.cannot_have_written();
    }
    let output = logs.join(OUTPUT_DIR).join(OUTPUT_FILE);
    let spec = match line {
        Some(_) => spoken_spec(house, run, plan, &task, logs)?,
        None => command_spec(house, &Marks::new(run), plan, &task, logs)?,
    };
    let (isolation, given, is_overlay) =
        (isolation(house, plan), spec.clone(), view.mount_namespace.is_some());
    let (waiter, begun, scope) = (Arc::clone(live), call.clone(), site.scope.clone());
    let waiting = tokio::task::spawn_blocking(move || {
        let mut running = isolation.start_when_there_is_room(view, spec, || scope.is_cancelled())?;
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
    let saves_bases = task.access == Access::Record;
    let mut both = std::pin::pin!(async { tokio::join!(waiting, beside) });
    let (ended, came_to) = loop {
        tokio::select! {
            both = &mut both => break both,
            () = tokio::time::sleep(SAVE_BASES_EVERY), if saves_bases => save_bases(live, &call.new.node).await?,
        }
    };
    run.scope().check()?;
    let ended = ended.map_err(|error| Stopped::failed(ErrorCategory::Internal, error))?;
    // Cut afterwards: half of a secret is not known as one.
    let shown = one_line(&house.redactor.redact_text(&task.run.shown()));
    let projects: Vec<PathBuf> = plan.projects.iter().map(|project| path_of(&project.root)).collect();
    let missed =
        ended.as_ref().ok().and_then(|(ended, _)| home::missed(&given, &projects, ended, is_overlay));
    let finished = Finished { call, shown, ended, _layer: layer, output, missed, judged: None };
    Ok((RanCommand { call: sandbox_call, finished }, came_to))
}

/// What a command is run in.
struct Begun {
    view: View,
    layer: Option<Layer>,
    /// Where its output goes.
    logs: PathBuf,
}

/// The trees that the command sees: those of the sandbox, or, for one that is to change nothing, of a layer above them.
async fn begin(site: &Site<'_>, call: &ToolCall, task: &Task) -> Result<Begun, Stopped> {
    let mut place = Arc::clone(&site.live.open).lock_owned().await;
    let (no, is_check, scope) = (call.no, task.tool != RUN_COMMAND, site.scope.clone());
    blocking(move || {
        let open = place.as_mut().ok_or(Stopped::Cancelled)?;
        let logs = log_dir(open.sandbox.dir(), no);
        let sandbox_failed = |error: std::io::Error| Stopped::failed(ErrorCategory::Sandbox, error);
        // A layer that cannot be had is done without, so a lack of descriptors has to be waited out before.
        wait_for_room(|| scope.is_cancelled()).map_err(sandbox_failed)?;
        make_logs(&logs).map_err(sandbox_failed)?;
        let layer = if is_check { open.sandbox.layer().ok() } else { None };
        let view = match &layer {
            Some(layer) => layer.view(),
            None => open.sandbox.view(),
        };
        Ok(Begun { view: view.map_err(sandbox_failed)?, layer, logs })
    })
    .await?
}

async fn save_bases(live: &LiveRun, node: &str) -> Result<(), Stopped> {
    let mut place = Arc::clone(&live.open).lock_owned().await;
    let node = node.to_owned();
    blocking(move || {
        if let Some(open) = place.as_mut() {
            // What cannot be saved early is looked at again when the command has ended.
            let _ = open.sandbox.save_bases(open.staging.as_ref(), &capture::rules(open, &node));
        }
    })
    .await
}

/// Stores the end of a command with all that it changed; what a check wrote into the sandbox itself is put back. If what
/// the plan's command changed cannot be stored, its sandbox is kept.
pub(crate) async fn record(
    site: &Site<'_>,
    ran: RanCommand,
    result: Option<Value>,
) -> Result<Recorded, Stopped> {
    record_settling(site, ran, result, |_| None).await
}

/// The same, with the end of the node whose last call it is, of how many files were changed.
pub(crate) async fn record_settling(
    site: &Site<'_>,
    ran: RanCommand,
    result: Option<Value>,
    settles: impl FnOnce(usize) -> Option<NodeRun>,
) -> Result<Recorded, Stopped> {
    let RanCommand { call, finished } = ran;
    let is_kept = call.records();
    let recorded = call.end(site, |staging, changed| {
        let end = finished.call_end(site.house, staging, result, changed)?;
        Ok((end, settles(changed)))
    });
    match recorded.await {
        Err(Stopped::Failed { category, message, .. }) if is_kept => {
            let end = KeptEnd::of(site.house, &finished);
            Err(retained::keep(site.live, &end, category, &message).await)
        }
        other => other,
    }
}

pub(crate) fn new_call(house: &House, plan: &Plan, task: &Task) -> NewCall {
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
pub(crate) fn isolation(house: &House, plan: &Plan) -> Isolation {
    let policy = match (plan.spec.isolation_required, plan.spec.walls.landlock) {
        (true, false) => IsolationPolicy::Required,
        (true, true) => IsolationPolicy::Landlock,
        (false, _) => IsolationPolicy::Optional,
    };
    Isolation::new(policy, house.options.child.clone())
}

/// Makes the directory of a call's logs, and the one for its result.
pub(crate) fn make_logs(logs: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(logs.join(OUTPUT_DIR))
}

/// A program of the plan that is spoken to.
pub(crate) fn spoken_spec(
    house: &House,
    run: &JobRun,
    plan: &Plan,
    task: &Task,
    logs: PathBuf,
) -> Result<CommandSpec, Stopped> {
    Ok(CommandSpec { stdin: Stdin::Spoken, ..command_spec(house, &Marks::new(run), plan, task, logs)? })
}

/// The marks by which the processes of a job are known; empty for those of no job, which die with who started them.
#[derive(Default)]
pub(crate) struct Marks {
    job: String,
    fence: u64,
}

impl Marks {
    pub(crate) fn new(run: &JobRun) -> Marks {
        Marks { job: run.job().id.to_string(), fence: run.claim().fence.0 }
    }
}

/// How a command ended, and what isolation was in force; or why it did not begin.
pub(crate) type HowCommandEnded = Result<(Ended, IsolationUsed), StartError>;

pub(crate) fn command_spec(
    house: &House,
    marks: &Marks,
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
        job: marks.job.clone().into(),
        fence: marks.fence,
        output: Some(logs.join(OUTPUT_DIR).join(OUTPUT_FILE)),
        pass_env: task.pass_env.iter().map(OsString::from).collect(),
        env: task.env.iter().map(|(name, value)| (word(name), word(value))).collect(),
    };
    house.redactor.know_passed(task.pass_env.iter().map(String::as_str));
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
    let of_plan = plan.spec.allow_loopback.iter().filter(|_| task.network);
    spec.loopback_ports = task.allow_loopback.iter().chain(of_plan).copied().collect();
    spec.loopback_ports.sort_unstable();
    spec.loopback_ports.dedup();
    let Walls { unix_sockets, io_uring, processes_max, memory_mb_max, disk_free_mb_min, landlock: _ } =
        plan.spec.walls;
    spec.openings = Openings { unix_sockets, io_uring };
    spec.bounds = Bounds {
        processes_max,
        memory_bytes_max: memory_mb_max.saturating_mul(MB),
        disk_free_bytes_min: disk_free_mb_min.saturating_mul(MB),
    };
    spec.writes = task.writes;
    spec.writable = paths(&task.writable);
    spec.writable.push(output_dir);
    spec.hide = paths(&plan.spec.hidden_paths());
    spec.hide.extend(house.contexts.hidden().paths().map(Path::to_owned));
    spec.scratch = paths(&plan.spec.scratch);
    home::show(plan, &mut spec);
    Ok(spec)
}

fn paths(texts: &[ByteText]) -> Vec<PathBuf> {
    texts.iter().map(path_of).collect()
}

/// The command on one line that a message can hold.
pub(crate) fn one_line(shown: &str) -> String {
    let line = shown.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(SHOWN_CHARS_MAX).collect();
    if cut == shown { cut } else { format!("{cut}…") }
}

/// A path as bytes.
pub(crate) fn bytes_of(path: &Path) -> Vec<u8> {
    OsStr::new(path).as_bytes().to_vec()
}
