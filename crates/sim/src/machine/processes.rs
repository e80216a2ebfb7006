//! Processes of tools: they act until they end or are killed, fork, and take their time to die.
//!
//! # Invariants
//! 1. A process acts as a task of a group of its own: killing it is killing that group.
//! 2. One that was killed acts no more, and exists until it is gone.
//! 3. A process begins only in a sandbox that is there.

use std::sync::Arc;
use std::time::Duration;

use domain::{Claim, Fence, JobId};
use tokio::sync::oneshot;

use crate::executor::TaskGroup;
use crate::fault::Fault;
use crate::world::SimWorld;

/// The number of a process.
pub(crate) type Pid = u64;

/// A process.
#[derive(Debug)]
pub(crate) struct SimProcess {
    pub(crate) claim: Claim,
    /// The process that the tool began with.
    pub(crate) tree: Pid,
    /// The worker's process that started it.
    pub(crate) owner: TaskGroup,
    group: TaskGroup,
    dies_after: Duration,
    is_dying: bool,
    /// Dropped when it is gone.
    _gone: oneshot::Sender<()>,
}

/// A process to start.
#[derive(Clone, Debug)]
pub(crate) struct ProcessStart {
    pub(crate) claim: Claim,
    pub(crate) sandbox: u64,
    /// The process whose child it is.
    pub(crate) tree: Option<Pid>,
    pub(crate) owner: TaskGroup,
    /// The files that it writes, each after a part of its time.
    pub(crate) writes: Vec<(u32, u64)>,
    pub(crate) takes: Duration,
    /// The time that it takes to die.
    pub(crate) dies_after: Duration,
    /// True if it leaves a process behind that continues.
    pub(crate) forks: bool,
    /// True if it never ends by itself.
    pub(crate) hangs: bool,
}

impl SimWorld {
    /// Starts a process; what is given back comes to its end when the process is gone. None when its sandbox
    /// is.
    pub(crate) fn start_process(
        self: &Arc<Self>,
        start: ProcessStart,
    ) -> Option<(Pid, oneshot::Receiver<()>)> {
        let (gone, receiver) = oneshot::channel();
        let group = self.executor.new_group();
        let pid = {
            let mut machine = self.machine();
            machine.sandboxes.get(&start.sandbox)?;
            let pid = machine.number();
            let ProcessStart { claim, owner, dies_after, .. } = start;
            let tree = start.tree.unwrap_or(pid);
            let process = SimProcess { claim, tree, owner, group, dies_after, is_dying: false, _gone: gone };
            machine.processes.insert(pid, process);
            pid
        };
        self.watch.observe_effect(start.claim.plan, "a process started");
        self.note("process starts", [pid, start.claim.plan.as_u128() as u64]);
        let world = Arc::clone(self);
        self.executor.spawn(group, "process", Box::pin(async move { world.act(pid, start).await }));
        Some((pid, receiver))
    }

    async fn act(self: Arc<Self>, pid: Pid, start: ProcessStart) {
        if start.forks {
            let child = ProcessStart {
                forks: false,
                hangs: true,
                writes: Vec::new(),
                tree: Some(pid),
                ..start.clone()
            };
            self.start_process(child);
        }
        let parts = start.writes.len() as u32 + 1;
        for (file, value) in start.writes {
            self.clock.sleep(start.takes / parts).await;
            self.watch.observe_effect(start.claim.plan, "a process wrote");
            if let Some(sandbox) = self.machine().sandboxes.get_mut(&start.sandbox) {
                sandbox.write(file, value);
            }
        }
        self.clock.sleep(start.takes / parts).await;
        if start.hangs {
            loop {
                self.clock.sleep(self.scenario.lease).await;
                self.watch.observe_effect(start.claim.plan, "a process went on");
            }
        }
        self.machine().processes.remove(&pid);
    }

    /// Kills the processes that `is_meant` picks; they are gone a little later.
    pub(crate) fn kill_processes(self: &Arc<Self>, is_meant: impl Fn(&SimProcess) -> bool) {
        let mut dying = Vec::new();
        for (pid, process) in &mut self.machine().processes {
            if !process.is_dying && is_meant(process) {
                process.is_dying = true;
                dying.push((*pid, process.group, process.dies_after));
            }
        }
        for (pid, group, dies_after) in dying {
            self.executor.kill(group);
            if dies_after.is_zero() {
                self.machine().processes.remove(&pid);
                continue;
            }
            let world = Arc::clone(self);
            let death = async move {
                world.clock.sleep(dies_after).await;
                world.machine().processes.remove(&pid);
            };
            self.executor.spawn(TaskGroup::STAGE, "death", Box::pin(death));
        }
    }

    /// Kills what earlier owners of the job started, and removes where they worked.
    pub(crate) fn sweep_job(self: &Arc<Self>, job: JobId, before: Fence) {
        self.kill_processes(|process| process.claim.job == job && process.claim.fence < before);
        self.machine().sweep_job(job, before);
    }

    /// Completes when no process of the job that an owner up to `last` started is alive.
    pub(crate) async fn tree_is_dead(&self, job: JobId, last: Fence) {
        loop {
            let is_of = |process: &SimProcess| process.claim.job == job && process.claim.fence <= last;
            if !self.machine().processes.values().any(is_of) {
                return;
            }
            self.clock.sleep(Duration::from_millis(7)).await;
        }
    }

    /// Notes that a worker's process is gone, and releases its locks as the kernel does.
    pub(crate) fn owner_died(self: &Arc<Self>, group: TaskGroup) {
        self.machine().root_lock.take_if(|(holder, _)| *holder == group);
        if self.scenario.has_namespaces {
            self.kill_processes(|process| process.owner == group);
        }
    }

    /// Returns how long a process takes to die.
    pub(crate) fn time_to_die(&self) -> Duration {
        if self.strikes(Fault::ToolStubborn, 2_000) {
            return Duration::from_millis(self.random().between(200, 3_000));
        }
        Duration::from_millis(self.random().below(30))
    }
}
