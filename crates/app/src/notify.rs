//! Notifies the user of a plan that needs input, by a command of the user's.
//!
//! # Invariants
//! 1. Only the user's own settings name the command: a project's file that does is refused.
//! 2. A command that hangs or fails harms no plan: the worker continues meanwhile, and after a while the
//!    command is killed.
//! 3. A plan that continues by itself needs no user.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use domain::{ApplyState, CheckObstacle, Plan, PlanId, PlanState, WorkState};
use engine::{Engine, PlanDetails};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::output::{escape_control_chars, one_line, write_err};

/// The time limit of the user's command.
const COMMAND_MAX: Duration = Duration::from_secs(10);
const COMMAND_LOOK_EVERY: Duration = Duration::from_millis(20);
/// The number of plans that wait for their notification; the rest is not worth a notification.
const WAITING_MAX: usize = 256;

/// The user input that a plan needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To start it.
    Start,
    /// To continue it, or stop it: its process is gone.
    GoOn,
    /// To say yes to its changes.
    Yes,
    /// To look at why it failed.
    Failed,
    /// To look at the checks that it did not pass.
    Checks,
    /// To look at the conflicts that prevent its apply.
    Refused,
}

impl Need {
    /// Returns the need of a plan that no process works on; `None` if it needs nothing.
    pub fn at_rest(plan: &Plan, has_changes: bool, obstacle: Option<CheckObstacle>) -> Option<Need> {
        match plan.state {
            PlanState::Execute(WorkState::Complete) if obstacle.is_some() => Some(Need::Checks),
            PlanState::Strategize(WorkState::Errored) | PlanState::Execute(WorkState::Errored) => {
                Some(Need::Failed)
            }
            PlanState::Apply(ApplyState::Errored) => Some(Need::Failed),
            PlanState::Apply(ApplyState::Constrained) => Some(Need::Refused),
            PlanState::Execute(WorkState::Complete) if has_changes => Some(Need::Yes),
            PlanState::Execute(WorkState::Complete) => None,
            PlanState::Strategize(WorkState::Queued | WorkState::Complete)
            | PlanState::Execute(WorkState::Queued) => Some(Need::Start),
            PlanState::Strategize(WorkState::Processing | WorkState::Cancelled)
            | PlanState::Execute(WorkState::Processing | WorkState::Cancelled) => None,
            PlanState::Apply(
                ApplyState::Queued | ApplyState::Processing | ApplyState::Applied | ApplyState::Cancelled,
            ) => None,
        }
    }

    /// Returns the need of a plan by all its facts; `None` if it needs nothing.
    pub fn from_plan(details: &PlanDetails) -> Option<Need> {
        if details.owner_is_gone || details.is_interrupted {
            return Some(Need::GoOn);
        }
        if details.live_job.is_some() || details.goes_on {
            return None;
        }
        Need::at_rest(&details.plan, !details.net.is_empty(), details.validations.obstacle())
    }

    /// Returns the need in a word or two.
    pub const fn words(self) -> &'static str {
        match self {
            Need::Start => "start it",
            Need::GoOn => "resume it",
            Need::Yes => "apply it",
            Need::Failed => "see errors",
            Need::Checks => "see checks",
            Need::Refused => "see conflicts",
        }
    }

    fn sentence(self, short: &str, title: &str) -> String {
        let what = match self {
            Need::Start => "waits to be started",
            Need::GoOn => "was interrupted",
            Need::Yes => "is done and waits for your yes",
            Need::Failed => "failed",
            Need::Checks => "did not pass its checks",
            Need::Refused => "could not be applied",
        };
        format!("plan {short} {what}: {}", escape_control_chars(&one_line(title)))
    }
}

/// Notifies a person of plans that need them, by the user's command.
#[derive(Debug)]
pub struct Notifier {
    telling: Option<(mpsc::Sender<PlanId>, JoinHandle<()>)>,
}

impl Notifier {
    /// Creates a notifier that runs this command, the words of which are its arguments; without any it does
    /// nothing.
    pub fn begin(engine: &Engine, command: &[String]) -> Notifier {
        if command.is_empty() {
            return Notifier { telling: None };
        }
        let (send, receive) = mpsc::channel(WAITING_MAX);
        Notifier { telling: Some((send, tokio::spawn(tell(engine.clone(), command.to_vec(), receive)))) }
    }

    /// Notifies the user if the plan, of which a job has ended, needs them now.
    pub fn notify_if_needed(&self, plan: PlanId) {
        if let Some((send, _)) = &self.telling {
            // When so many wait, one more notification says nothing new.
            let _ = send.try_send(plan);
        }
    }

    /// Sends the notifications that are left.
    pub async fn finish(self) {
        if let Some((send, task)) = self.telling {
            drop(send);
            // Each command has its own bound; who has a queue of hanging ones is not waited for.
            let _ = tokio::time::timeout(2 * COMMAND_MAX, task).await;
        }
    }
}

async fn tell(engine: Engine, command: Vec<String>, mut settled: mpsc::Receiver<PlanId>) {
    while let Some(plan) = settled.recv().await {
        let Ok(details) = engine.plan_details(plan).await else { continue };
        let Some(need) = Need::from_plan(&details) else { continue };
        let short = engine.short_id(plan).await.unwrap_or_else(|_| plan.to_string());
        let Some(prepared) = prepare(&command, &details, need, &short) else { continue };
        let name = command.first().cloned().unwrap_or_default();
        let ran = tokio::task::spawn_blocking(move || run_bounded(prepared)).await;
        if let Ok(Err(why)) = ran {
            // A user who got no notification looks into the worker's log.
            let _ = write_err(&format!("notify.command `{name}`: {why}\n"));
        }
    }
}

/// The user's command, with the news as its last argument, and in its environment in parts.
fn prepare(command: &[String], details: &PlanDetails, need: Need, short: &str) -> Option<Command> {
    let (program, arguments) = command.split_first()?;
    let plan = &details.plan;
    let mut prepared = Command::new(program);
    prepared.args(arguments).arg(need.sentence(short, &plan.title));
    prepared.env("AGENTS_PLAN", plan.id.to_string()).env("AGENTS_STATE", plan.state.to_string());
    prepared.env("AGENTS_NEEDS", need.words()).env("AGENTS_TITLE", &plan.title);
    if let Some(project) = plan.projects.first() {
        use std::os::unix::ffi::OsStrExt;
        prepared.env("AGENTS_PROJECT", std::ffi::OsStr::from_bytes(project.root.as_bytes()));
    }
    Some(prepared)
}

/// Runs it to its end, or to its bound.
fn run_bounded(mut command: Command) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    sandbox::descriptors::restore_limit(&mut command);
    let mut child = command.spawn().map_err(|error| format!("it cannot be run: {error}"))?;
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("it failed, {status}")),
            Ok(None) if began.elapsed() < COMMAND_MAX => std::thread::sleep(COMMAND_LOOK_EVERY),
            Ok(None) => {
                kill(&mut child);
                return Err(format!("it took longer than {COMMAND_MAX:?} and was killed"));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Kills it with what it started.
fn kill(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // It may have ended by itself meanwhile.
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_or_is_not_there_is_told_of() {
        let sh = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        assert_eq!(run_bounded(sh("exit 0")), Ok(()));
        assert!(run_bounded(sh("exit 3")).unwrap_err().contains("exit status: 3"));
        assert!(run_bounded(Command::new("/nowhere/at/all")).unwrap_err().starts_with("it cannot be run"));
    }

    #[test]
    fn a_sentence_names_the_plan_and_cannot_move_the_cursor() {
        assert_eq!(
            Need::Yes.sentence("01JB", "fix\x1b[2J it\nnow"),
            "plan 01JB is done and waits for your yes: fix\\x1B[2J it now"
        );
    }
}
