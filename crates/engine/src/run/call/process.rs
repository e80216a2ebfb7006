//! The second step of a call that is a process: its view of the sandbox, its environment, its limits and its
//! isolation.
//!
//! # Not here
//! Waiting for it: `command`. Speaking to it: `piped`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{ByteText, ErrorCategory, IsolationOptions, Plan, RelPath, ToolCall};
use sandbox::Layer;
use sandbox::command::{
    CommandExit, CommandSpec, EnvSpec, IsolationExceptions, OutputSpec, ResourceLimits, Stdin, WorkDir,
    environment,
};
use sandbox::descriptors::wait_for_room;
use sandbox::isolation::{CommandStartError, Isolation, IsolationPolicy, IsolationUsed};
use sandbox::view::SandboxView;

use super::command::CommandRequest;
use super::home;
use crate::engine::EngineInner;
use crate::plan::create::path_of;
use crate::query::details::RUN_COMMAND;
use crate::run::RunError;
use crate::run::context::{NodeContext, RunContext};
use crate::run::plan_sandbox::blocking;
use crate::run::plan_sandbox::location::log_dir;
use worker::JobRun;

const MB: u64 = 1024 * 1024;
/// The directory next to its logs in which a command may write its result: `$AGENTS_OUTPUT`.
const OUTPUT_DIR: &str = "output";
const OUTPUT_FILE: &str = "result.json";

/// Returns the path at which a command may write its result, by the directory of its logs.
pub(super) fn output_path(logs: &Path) -> PathBuf {
    logs.join(OUTPUT_DIR).join(OUTPUT_FILE)
}
/// The view in which a command runs.
pub(super) struct CommandView {
    pub(super) view: SandboxView,
    pub(super) layer: Option<Layer>,
    /// The directory of its output.
    pub(super) logs: PathBuf,
}

/// The trees that the command sees: those of the sandbox, or, for one that is to change nothing, of a layer
/// above them.
pub(super) async fn open_view(
    context: &NodeContext<'_>,
    call: &ToolCall,
    task: &CommandRequest,
) -> Result<CommandView, RunError> {
    let mut place = Arc::clone(&context.state.session).lock_owned().await;
    let (no, is_check, scope) = (call.no, task.tool != RUN_COMMAND, context.scope.clone());
    blocking(move || {
        let session = place.as_mut().ok_or(RunError::Cancelled)?;
        let logs = log_dir(session.sandbox.dir(), no);
        let sandbox_failed = |error: std::io::Error| RunError::failed(ErrorCategory::Sandbox, error);
        // A layer that cannot be had is done without, so a lack of descriptors has to be waited out before.
        wait_for_room(|| scope.is_cancelled()).map_err(sandbox_failed)?;
        make_logs(&logs).map_err(sandbox_failed)?;
        let layer = if is_check { session.sandbox.layer().ok() } else { None };
        let view = match &layer {
            Some(layer) => layer.view(),
            None => session.sandbox.view(),
        };
        Ok(CommandView { view: view.map_err(sandbox_failed)?, layer, logs })
    })
    .await?
}

/// Returns the isolation of the plan's commands.
pub(crate) fn isolation(engine: &EngineInner, plan: &Plan) -> Isolation {
    let policy = match (plan.spec.isolation_required, plan.spec.walls.landlock) {
        (true, false) => IsolationPolicy::Required,
        (true, true) => IsolationPolicy::Landlock,
        (false, _) => IsolationPolicy::Optional,
    };
    Isolation::new(policy, engine.options.child.clone())
}

/// Makes the directory of a call's logs, and the one for its result.
pub(crate) fn make_logs(logs: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(logs.join(OUTPUT_DIR))
}

/// A program of the plan that is spoken to.
pub(crate) fn spoken_spec(
    run: RunContext<'_>,
    task: &CommandRequest,
    logs: PathBuf,
) -> Result<CommandSpec, RunError> {
    let RunContext { engine, job, plan, .. } = run;
    let spec = command_spec(engine, &ProcessMarks::new(job), plan, task, logs)?;
    Ok(CommandSpec { stdin: Stdin::Spoken, ..spec })
}

/// The marks by which the processes of a job are known; empty for those of no job, which die with who started
/// them.
#[derive(Default)]
pub(crate) struct ProcessMarks {
    job: String,
    fence: u64,
}

impl ProcessMarks {
    pub(crate) fn new(job: &JobRun) -> ProcessMarks {
        ProcessMarks { job: job.job().id.to_string(), fence: job.claim().fence.0 }
    }
}

/// The end of a command, and the isolation that was in force; or the reason why it did not begin.
pub(crate) type CommandEnd = Result<(CommandExit, IsolationUsed), CommandStartError>;

pub(crate) fn command_spec(
    engine: &EngineInner,
    marks: &ProcessMarks,
    plan: &Plan,
    task: &CommandRequest,
    logs: PathBuf,
) -> Result<CommandSpec, RunError> {
    let below = match task.cwd.as_bytes() {
        b"" => None,
        bytes => {
            Some(RelPath::new(bytes).map_err(|error| RunError::failed(ErrorCategory::InvalidInput, error))?)
        }
    };
    let word = |text: &ByteText| OsString::from_vec(text.as_bytes().to_vec());
    let given = EnvSpec {
        plan: plan.id.to_string().into(),
        job: marks.job.clone().into(),
        fence: marks.fence,
        output: Some(output_path(&logs)),
        pass_env: task.pass_env.iter().map(OsString::from).collect(),
        env: plan
            .spec
            .toolchain_env
            .iter()
            .chain(&task.env)
            .map(|(name, value)| (word(name), word(value)))
            .collect(),
    };
    engine.redactor.register_passed(task.pass_env.iter().map(String::as_str));
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
    let IsolationOptions {
        unix_sockets,
        io_uring,
        processes_max,
        memory_mb_max,
        disk_free_mb_min,
        landlock: _,
    } = plan.spec.walls;
    spec.openings = IsolationExceptions { unix_sockets, io_uring };
    spec.bounds = ResourceLimits {
        processes_max,
        memory_bytes_max: memory_mb_max.saturating_mul(MB),
        disk_free_bytes_min: disk_free_mb_min.saturating_mul(MB),
    };
    spec.writes = task.writes;
    spec.writable = paths(&task.writable);
    spec.writable.push(output_dir);
    spec.hide = paths(&plan.spec.hidden_paths());
    spec.hide.extend(engine.contexts.hidden().paths().map(Path::to_owned));
    spec.scratch = paths(&plan.spec.scratch);
    home::show(plan, &mut spec);
    Ok(spec)
}

fn paths(texts: &[ByteText]) -> Vec<PathBuf> {
    texts.iter().map(path_of).collect()
}
