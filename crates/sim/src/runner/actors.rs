//! Tools and the model, and all that they can do wrong.

use std::time::Duration;

use ::worker::JobRun;
use domain::ErrorCategory;
use sync::{Observed, Permit};

use super::node::{Fail, Tried};
use super::{SimRunner, Stopped};
use crate::broken::Broken;
use crate::fault::Fault;
use crate::machine::{Pid, Start};
use crate::scenario::NodeScript;

/// Longer than any wait that is not asked about.
const TOO_LONG: Duration = Duration::from_secs(41 * 60);

impl SimRunner {
    /// A tool: a process in the sandbox, and whatever it leaves behind. Nothing of it is alive when this returns, unless the
    /// run is over.
    pub(super) async fn tool(
        &self,
        run: &JobRun,
        scope: &Observed,
        script: &NodeScript,
    ) -> Result<(), Tried> {
        let (world, lease) = (&self.world, self.world.scenario.lease);
        if world.strikes(Fault::ToolPanics, 300) {
            // Not `panic!`, which would print.
            std::panic::resume_unwind(Box::new("the tool panicked"));
        }
        let sandbox = self.with_live(&run.claim(), |live| live.sandbox.as_ref().map(|(no, _)| *no));
        let is_slow = world.strikes(Fault::ToolSlow, 400);
        let hangs = world.strikes(Fault::ToolHung, 300);
        let start = Start {
            claim: run.claim(),
            sandbox: sandbox.ok_or(Tried::Stopped(Stopped::Cancelled))?,
            tree: None,
            owner: self.group,
            writes: self.writes(script),
            takes: if is_slow { lease + lease / 2 } else { script.takes },
            dies_after: world.time_to_die(),
            forks: world.strikes(Fault::ToolForks, 1_500),
            hangs,
        };
        self.tick().await;
        let Some((pid, gone)) = world.start_process(start) else {
            return Err(Tried::Failed(Fail::of(ErrorCategory::Sandbox)));
        };
        if self.with_live(&run.claim(), |live| live.is_killed) {
            self.kill_tree(pid);
        }
        let is_deaf = hangs && world.random().chance(3_000);
        let came_to = tokio::select! {
            biased;
            _ = scope.cancelled(), if !is_deaf => Err(Tried::Stopped(Stopped::Cancelled)),
            _ = gone => Ok(()),
            () = world.clock.sleep(lease * 2) => Err(Tried::Failed(Fail::of(ErrorCategory::Timeout))),
        };
        if came_to.is_err() && run.scope().is_cancelled() {
            return came_to;
        }
        self.kill_tree(pid);
        while world.machine().processes.values().any(|process| process.tree == pid) {
            world.clock.sleep(Duration::from_millis(11)).await;
        }
        came_to?;
        if world.strikes(Fault::ToolFails, 800) {
            let is_idempotent = world.random().chance(7_000);
            return Err(Tried::Failed(Fail { is_idempotent, ..Fail::of(ErrorCategory::Tool) }));
        }
        Ok(())
    }

    fn kill_tree(&self, pid: Pid) {
        self.world.kill_processes(|process| process.tree == pid);
    }

    /// The model: behind a breaker, and not always there. What it asks for is done in the sandbox afterwards.
    pub(super) async fn think(&self, scope: &Observed, script: &NodeScript) -> Result<(), Tried> {
        let permit = match self.breakers.try_acquire("model") {
            Ok(permit) => permit,
            Err(rejected) => {
                let retry_after = Some(rejected.retry_after);
                return Err(Tried::Failed(Fail { retry_after, ..Fail::of(ErrorCategory::Overloaded) }));
            }
        };
        if permit.is_probe() && self.world.is_broken(Broken::StuckProbe) {
            std::mem::forget(permit);
            return Err(Tried::Failed(Fail::of(ErrorCategory::Timeout)));
        }
        let answer = self.answer();
        let takes = match &answer {
            Answer::Silence => self.world.scenario.lease / 3,
            Answer::Good | Answer::Garbage | Answer::Fails(_) => script.takes,
        };
        tokio::select! {
            biased;
            _ = scope.cancelled() => return Err(Tried::Stopped(Stopped::Cancelled)),
            () = self.world.clock.sleep(takes) => {}
        }
        self.tick().await;
        match answer {
            Answer::Good => {
                permit.succeed();
                Ok(())
            }
            Answer::Garbage => {
                permit.succeed();
                Err(Tried::Failed(Fail::of(ErrorCategory::ModelOutput)))
            }
            Answer::Silence => Err(failed(permit, Fail::of(ErrorCategory::Timeout))),
            Answer::Fails(fail) => Err(failed(permit, fail)),
        }
    }

    /// A tool of the model, which needs no process.
    pub(super) async fn write(&self, run: &JobRun, script: &NodeScript) -> Result<(), Tried> {
        self.tick().await;
        let writes = self.writes(script);
        Ok(self.in_sandbox(run, |sandbox| {
            writes.iter().for_each(|(file, value)| sandbox.write(*file, *value));
        })?)
    }

    fn answer(&self) -> Answer {
        let (world, lease) = (&self.world, self.world.scenario.lease);
        if world.strikes(Fault::Model429, 1_200) {
            let hint = world.random().below(10);
            let retry_after = match hint {
                0 => Some(TOO_LONG),
                1..5 => Some(lease / 10 * hint as u32),
                _ => None,
            };
            return Answer::Fails(Fail { retry_after, ..Fail::of(ErrorCategory::RateLimit) });
        }
        if world.strikes(Fault::Model529, 1_200) {
            return Answer::Fails(Fail::of(ErrorCategory::Overloaded));
        }
        let garbage = if world.scenario.has_flood { 9_700 } else { 800 };
        if world.strikes(Fault::ModelGarbage, garbage) {
            return Answer::Garbage;
        }
        if world.strikes(Fault::ModelSilence, 800) { Answer::Silence } else { Answer::Good }
    }

    /// What the node writes this time.
    fn writes(&self, script: &NodeScript) -> Vec<(u32, u64)> {
        let mut random = self.world.random();
        let mut value = || if random.chance(1_500) { 0 } else { random.between(1_000, u64::MAX / 2) };
        script.writes.iter().map(|file| (*file, value())).collect()
    }
}

enum Answer {
    Good,
    Garbage,
    Silence,
    Fails(Fail),
}

fn failed(permit: Permit, fail: Fail) -> Tried {
    permit.fail();
    Tried::Failed(fail)
}
