//! `--detach`: leaves a plan to a worker, and starts one in the background if none runs.
//!
//! # Invariants
//! 1. Of many commands that find no worker at once, one starts one. The command that looks and starts holds a
//!    lock until the worker is there.
//! 2. If no running worker was started with the keys of a plan, one is started from here, if they are here.
//!    It takes any plan, like every other.
//! 3. The plan is left to the workers before it is looked for one, so that no worker goes without having seen
//!    it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use engine::Engine;

use super::Invocation;
use super::invocation::NamedPlan;
use super::plan;
use crate::errors::{CommandError, codes, hints};
use crate::output::{CommandReport, OutputNote};
use crate::render;
use crate::setup::paths;

/// The idle time after which a worker that was started here ends.
const UNTIL_IDLE: &str = "60s";
/// The time within which a worker must be ready.
const READY_WAIT: Duration = Duration::from_secs(30);
const READY_LOOK_EVERY: Duration = Duration::from_millis(5);
/// A longer log is started again from empty.
pub(super) const LOG_BYTES_MAX: u64 = 1024 * 1024;

/// Makes sure that a worker runs that can do the plan that was left to it. Reports how the plan is followed
/// and stopped.
pub(super) async fn detach(
    invocation: &Invocation,
    engine: &Engine,
    plan: &NamedPlan,
) -> Result<CommandReport, CommandError> {
    let keys = plan::details(engine, plan).await?.plan.spec.keys.clone();
    let others_live = engine.has_worker_for(&BTreeSet::new());
    let is_started = start_worker(invocation, engine, &keys).await?;
    let details = plan::details(engine, plan).await?;
    let mut data = render::plan::to_json(&details, &plan.short);
    data["detached"] = true.into();
    data["worker_started"] = is_started.into();
    let id = &plan.short;
    let how = if is_started { "a worker that was started for it" } else { "the workers" };
    let text =
        format!("plan {id} is left to {how}\nnext  agents plan watch {id}     agents plan cancel {id}\n");
    let report = CommandReport::new(data, text);
    if is_started && others_live {
        let note = format!("no running worker was started with {}", join_names(&keys));
        return Ok(report.note(OutputNote::info(note)));
    }
    let commands = details.plan.spec.commands();
    let names: BTreeSet<&str> = commands.flat_map(|command| &command.pass_env).map(String::as_str).collect();
    if names.is_empty() || is_started {
        return Ok(report);
    }
    let note = format!("the command gets {} as the worker has it, not as you have it", join_names(names));
    Ok(report.note(OutputNote::info(note)))
}

fn join_names(names: impl IntoIterator<Item: AsRef<str>>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    names.join(", ")
}

fn cannot(why: impl std::fmt::Display) -> CommandError {
    let message = format!("the plan waits for a worker, and none could be started: {why}");
    CommandError::new(&codes::WORKER_NOT_STARTED, message)
}

/// Waits a moment for a worker to be there, up to a bound.
async fn wait_on(began: Instant, log: &Path) -> Result<(), CommandError> {
    if began.elapsed() > READY_WAIT {
        return Err(cannot(format!("it did not start within {READY_WAIT:?}; see {}", log.display())));
    }
    tokio::time::sleep(READY_LOOK_EVERY).await;
    Ok(())
}

/// Starts a worker in the background if none runs that has these variables. Returns whether it did.
pub(super) async fn start_worker(
    invocation: &Invocation,
    engine: &Engine,
    keys: &BTreeSet<String>,
) -> Result<bool, CommandError> {
    let locking = engine.clone();
    let starting = tokio::task::spawn_blocking(move || locking.starting()).await;
    let _starting = starting.map_err(cannot)?.map_err(cannot)?;
    if engine.has_worker_for(keys) {
        return Ok(false);
    }
    let lacking = engine.missing_keys(keys);
    if !lacking.is_empty() {
        let names = join_names(&lacking);
        let message = format!(
            "the plan waits for a worker that has {names}: no running worker does, nor does this shell"
        );
        return Err(CommandError::new(&codes::WORKER_NOT_STARTED, message)
            .hint(hints::START_WORKER_WITH_KEYS)
            .field("keys", names));
    }
    let (mut child, log) =
        start_program(invocation, &["worker", "--background", "--until-idle", UNTIL_IDLE])?;
    let began = Instant::now();
    while !engine.has_worker_for(keys) {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(cannot(format!("it ended at once, {status}; see {}", log.display())));
        }
        wait_on(began, &log).await?;
    }
    Ok(true)
}

/// Starts the program in the background, and says where it writes to.
fn start_program(invocation: &Invocation, words: &[&str]) -> Result<(Child, PathBuf), CommandError> {
    let data_dir = paths::data_dir(invocation.global.data_dir.as_deref(), &invocation.env)?;
    let log = data_dir.join("logs/worker.log");
    let child = spawn_worker(&data_dir, &log, words).map_err(cannot)?;
    Ok((child, log))
}

/// A worker with nothing of the caller's but its environment.
fn spawn_worker(data_dir: &Path, log: &Path, words: &[&str]) -> std::io::Result<Child> {
    let out = open_log(log)?;
    let mut worker = Command::new(std::env::current_exe()?);
    worker.args(words).args(["--format", "plain", "--data-dir"]);
    worker.arg(data_dir).current_dir(data_dir);
    worker.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    // A caller that waits for the end of a pipe, or for a lock, would else wait for the worker.
    sandbox::inherit_nothing()?;
    sandbox::descriptors::restore_limit(&mut worker);
    worker.spawn()
}

fn open_log(log: &Path) -> std::io::Result<File> {
    if let Some(dir) = log.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let out = OpenOptions::new().create(true).append(true).mode(0o600).open(log)?;
    if out.metadata()?.len() > LOG_BYTES_MAX {
        out.set_len(0)?;
    }
    Ok(out)
}
