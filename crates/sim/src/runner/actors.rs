//! Tools and the model, and all that they can do wrong.

use std::time::Duration;

use ::worker::JobRun;
use domain::ErrorCategory;
use sync::{Observed, Permit};

use super::node::{TryError, TryFailure};
use super::{PhaseStop, SimRunner};
use crate::broken_programs::BrokenProgram;
use crate::fault::Fault;
use crate::machine::{Pid, ProcessStart};
use crate::scenario::NodeScript;

/// Longer than any wait that is not asked about.
const TOO_LONG: Duration = Duration::from_secs(41 * 60);

impl SimRunner {
    /// A tool: a process in the sandbox, and whatever it leaves behind. Nothing of it is alive when this
    /// returns, unless the run is over.
    pub(super) async fn tool(
        &self,
        run: &JobRun,
        scope: &Observed,
        script: &NodeScript,
    ) -> Result<(), TryError> {
        let (world, lease) = (&self.world, self.world.scenario.lease);
        if world.strikes(Fault::ToolPanics, 300) {
            // Not `panic!`, which would print.
            std::panic::resume_unwind(Box::new("the tool panicked"));
        }
        let sandbox = self.with_live(&run.claim(), |live| live.sandbox.as_ref().map(|(no, _)| *no));
        let is_slow = world.strikes(Fault::ToolSlow, 400);
        let hangs = world.strikes(Fault::ToolHung, 300);
        let start = ProcessStart {
            claim: run.claim(),
            sandbox: sandbox.ok_or(TryError::Stopped(PhaseStop::Cancelled))?,
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
            return Err(TryError::Failed(TryFailure::new(ErrorCategory::Sandbox)));
        };
        if self.with_live(&run.claim(), |live| live.is_killed) {
            self.kill_tree(pid);
        }
        let is_deaf = hangs && world.random().chance(3_000);
        let came_to = tokio::select! {
            biased;
            _ = scope.cancelled(), if !is_deaf => Err(TryError::Stopped(PhaseStop::Cancelled)),
            _ = gone => Ok(()),
            () = world.clock.sleep(lease * 2) => Err(TryError::Failed(TryFailure::new(ErrorCategory::Timeout))),
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
            return Err(TryError::Failed(TryFailure {
                is_idempotent,
                ..TryFailure::new(ErrorCategory::Tool)
            }));
        }
        Ok(())
    }

    fn kill_tree(&self, pid: Pid) {
        self.world.kill_processes(|process| process.tree == pid);
    }

    /// The model: behind a breaker, and not always there. The calls that it asks for are made in the sandbox
    /// afterwards.
    pub(super) async fn think(&self, scope: &Observed, script: &NodeScript) -> Result<(), TryError> {
        let permit = match self.breakers.try_acquire("model") {
            Ok(permit) => permit,
            Err(rejected) => {
                let retry_after = Some(rejected.retry_after);
                return Err(TryError::Failed(TryFailure {
                    retry_after,
                    ..TryFailure::new(ErrorCategory::Overloaded)
                }));
            }
        };
        if permit.is_probe() && self.world.is_broken(BrokenProgram::StuckProbe) {
            std::mem::forget(permit);
            return Err(TryError::Failed(TryFailure::new(ErrorCategory::Timeout)));
        }
        let answer = self.answer();
        let takes = match &answer {
            SimModelAnswer::Silence => self.world.scenario.lease / 3,
            SimModelAnswer::Good | SimModelAnswer::Garbage | SimModelAnswer::Fails(_) => script.takes,
        };
        tokio::select! {
            biased;
            _ = scope.cancelled() => return Err(TryError::Stopped(PhaseStop::Cancelled)),
            () = self.world.clock.sleep(takes) => {}
        }
        self.tick().await;
        match answer {
            SimModelAnswer::Good => {
                permit.succeed();
                Ok(())
            }
            SimModelAnswer::Garbage => {
                permit.succeed();
                Err(TryError::Failed(TryFailure::new(ErrorCategory::ModelOutput)))
            }
            SimModelAnswer::Silence => Err(fail_permit(permit, TryFailure::new(ErrorCategory::Timeout))),
            SimModelAnswer::Fails(fail) => Err(fail_permit(permit, fail)),
        }
    }

    /// A tool of the model, which needs no process.
    pub(super) async fn write(&self, run: &JobRun, script: &NodeScript) -> Result<(), TryError> {
        self.tick().await;
        let writes = self.writes(script);
        Ok(self.in_sandbox(run, |sandbox| {
            writes.iter().for_each(|(file, value)| sandbox.write(*file, *value));
        })?)
    }

    fn answer(&self) -> SimModelAnswer {
        let (world, lease) = (&self.world, self.world.scenario.lease);
        if world.strikes(Fault::Model429, 1_200) {
            let hint = world.random().below(10);
            let retry_after = match hint {
                0 => Some(TOO_LONG),
                1..5 => Some(lease / 10 * hint as u32),
                _ => None,
            };
            return SimModelAnswer::Fails(TryFailure {
                retry_after,
                ..TryFailure::new(ErrorCategory::RateLimit)
            });
        }
        if world.strikes(Fault::Model529, 1_200) {
            return SimModelAnswer::Fails(TryFailure::new(ErrorCategory::Overloaded));
        }
        let garbage = if world.scenario.has_flood { 9_700 } else { 800 };
        if world.strikes(Fault::ModelGarbage, garbage) {
            return SimModelAnswer::Garbage;
        }
        if world.strikes(Fault::ModelSilence, 800) { SimModelAnswer::Silence } else { SimModelAnswer::Good }
    }

    /// Returns what the node writes this time.
    fn writes(&self, script: &NodeScript) -> Vec<(u32, u64)> {
        let mut random = self.world.random();
        let mut value = || if random.chance(1_500) { 0 } else { random.between(1_000, u64::MAX / 2) };
        script.writes.iter().map(|file| (*file, value())).collect()
    }
}

enum SimModelAnswer {
    Good,
    Garbage,
    Silence,
    Fails(TryFailure),
}

fn fail_permit(permit: Permit, fail: TryFailure) -> TryError {
    permit.fail();
    TryError::Failed(fail)
}
