//! The state of a run: its commands, its sandbox session, the changesets of its nodes.
//!
//! # Invariants
//! 1. A run that was killed begins no command any more, and a node that was stopped neither. A program that
//!    is spoken to is asked to stop first, unless the lease is lost. Its whole tree is killed when it has
//!    answered, or after [`ASKED_WAIT`].
//!
//! # Not here
//! Access to the sandbox and the record of a call in it: `sandbox_call`. The end of a run: `shutdown`.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use domain::{CallNumber, NewCall, Plan, RootIndex, SandboxRecord, ToolCall};
use sandbox::command::Killer;
use sandbox::fs::beneath;
use sandbox::{CapturedChange, RetainHandle, Sandbox};
use sync::primitives::{Mutex, lock};
use sync::{CancelReason, Observed};

use super::RunError;
use super::accounting::RunTime;
use super::call::sandbox_call::CallMark;
use super::plan_sandbox::content::Staging;
use worker::ChangesetHandle;
use worker::JobRun;

/// The open resources of one run.
#[derive(Default)]
pub(crate) struct RunState {
    switch: Mutex<KillSwitch>,
    pub(crate) time: RunTime,
    /// Set when no process of the job's earlier owners is alive.
    pub(crate) earlier_dead: tokio::sync::OnceCell<()>,
    /// True if programs can be prevented from writing; set by the first test.
    pub(crate) walls_hold: tokio::sync::OnceCell<bool>,
    /// Held by the call that works in the sandbox, also by a thread that outlives its task: the shutdown
    /// waits for it.
    pub(crate) session: Arc<tokio::sync::Mutex<Option<SandboxSession>>>,
    /// The turns in the sandbox: one call alone, or any number of calls that only read; served in order.
    pub(crate) turns: Arc<tokio::sync::RwLock<()>>,
    /// A handle of the sandbox that was opened last, also usable while a call works in it.
    reach: Mutex<Option<SandboxHandle>>,
    /// By the path of the node.
    changesets: tokio::sync::Mutex<BTreeMap<String, ChangesetHandle>>,
    /// The number of changes that each node has recorded since it was begun, by its path.
    changed: Mutex<BTreeMap<String, u32>>,
    /// Of each node whose servers are alive and may write, by its path: the call that what they change
    /// between their calls is recorded as.
    servers: Mutex<BTreeMap<String, NewCall>>,
}

/// A handle of a sandbox that is usable while a call works in it.
#[derive(Clone)]
pub(crate) struct SandboxHandle {
    /// Retains the sandbox.
    pub(crate) keeper: RetainHandle,
    /// The staging area of its contents; once that is ended, further captures fail.
    pub(crate) staging: Arc<Staging>,
}

/// The sandbox of a run, and the calls that work in it.
pub(crate) struct SandboxSession {
    pub(crate) plan: Plan,
    pub(crate) sandbox: Sandbox,
    pub(crate) record: SandboxRecord,
    /// The call that may have changed the sandbox and whose end is not stored.
    pub(crate) mark: Option<CallMark>,
    /// The call that records what a server may have changed while none of its calls ran, before anything else
    /// is recorded.
    pub(crate) unattended: Option<NewCall>,
    /// Commands that were admitted, change nothing and have not ended.
    pub(crate) looking: Vec<ToolCall>,
    /// The contents of that call, until they are stored.
    pub(crate) staging: Arc<Staging>,
    /// The reason why the changes of that call could not be captured: the sandbox is retained for it.
    pub(crate) kept: Option<String>,
    /// The changes of that call that were found and are not stored yet: a scan returns only new ones.
    pub(crate) found: Vec<CapturedChange>,
}

impl SandboxSession {
    /// The end of the marked call is stored, with all that was found.
    pub(crate) fn unmark(&mut self) {
        self.mark = None;
        self.found.clear();
        self.staging.clear();
    }
}

#[derive(Default)]
struct KillSwitch {
    is_killed: bool,
    /// By the call.
    killers: BTreeMap<CallNumber, KillableCommand>,
}

/// A command that runs.
#[derive(Clone)]
struct KillableCommand {
    node: String,
    killer: Killer,
    ends: StopBehavior,
}

/// The way in which a command that must stop ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopBehavior {
    /// It is killed.
    AtOnce,
    /// Its client asks it to stop, and ends it; it is killed if that takes too long.
    WhenAsked,
}

/// The time that a program has after it is asked to stop. It is longer than the patience of its client, and
/// shorter than the wait for an interrupted run.
const ASKED_WAIT: Duration = Duration::from_secs(3);

impl KillableCommand {
    fn end(self) {
        let later = match self.ends {
            StopBehavior::AtOnce => None,
            StopBehavior::WhenAsked => tokio::runtime::Handle::try_current().ok(),
        };
        let Some(runtime) = later else { return self.killer.kill() };
        let killer = self.killer;
        runtime.spawn(async move {
            tokio::time::sleep(ASKED_WAIT).await;
            killer.kill();
        });
    }
}

impl RunState {
    /// Looks at the tree of a project as the plan sees it (in its sandbox, if it has one). It waits for no
    /// task and no disk. For the holder of a turn.
    pub(crate) fn at_hand<T>(
        &self,
        no: RootIndex,
        project: &Path,
        read: impl FnOnce(BorrowedFd<'_>) -> Option<T>,
    ) -> Option<T> {
        let place = self.session.try_lock().ok()?;
        match place.as_ref() {
            Some(session) => read(session.sandbox.root(no).ok()?),
            None => read(beneath::root_at_hand(project)?.as_fd()),
        }
    }

    /// The changeset of a node, which is started if it is not open.
    pub(crate) async fn changeset(&self, job: &JobRun, node: &str) -> Result<ChangesetHandle, RunError> {
        let mut changesets = self.changesets.lock().await;
        if let Some(handle) = changesets.get(node) {
            return Ok(handle.clone());
        }
        let handle = job.context().start_changeset().await?;
        changesets.insert(node.to_owned(), handle.clone());
        Ok(handle)
    }

    /// A node begins: it has changed nothing yet.
    pub(crate) fn forget_changed(&self, node: &str) {
        lock(&self.changed).remove(node);
    }

    /// Changes of a node were recorded.
    pub(crate) fn count_changed(&self, node: &str, changes: usize) {
        let changes = u32::try_from(changes).unwrap_or(u32::MAX);
        let mut changed = lock(&self.changed);
        let count = changed.entry(node.to_owned()).or_default();
        *count = count.saturating_add(changes);
    }

    /// The number of changes that a node has recorded since it was begun.
    pub(crate) fn changed_by(&self, node: &str) -> u32 {
        lock(&self.changed).get(node).copied().unwrap_or(0)
    }

    /// A server of a node is alive and may write; what it changes between its calls is recorded as `new`.
    pub(crate) fn server_started(&self, new: NewCall) {
        lock(&self.servers).insert(new.node.clone(), new);
    }

    /// All servers of a node are dead.
    pub(crate) fn servers_ended(&self, node: &str) {
        lock(&self.servers).remove(node);
    }

    /// The call for what a server of another node changed between its calls; `None` if none is alive that may
    /// write.
    pub(crate) fn server_of_other(&self, node: &str) -> Option<NewCall> {
        let servers = lock(&self.servers);
        servers.iter().find(|(of, _)| *of != node).map(|(_, new)| new.clone())
    }

    /// Closes the changeset of a node that has settled, if it changed anything.
    pub(crate) async fn close_changeset(&self, node: &str) -> Result<(), RunError> {
        let handle = self.changesets.lock().await.remove(node);
        if let Some(handle) = handle {
            handle.close().await?;
        }
        Ok(())
    }

    /// A sandbox was opened.
    pub(crate) fn opened(&self, reach: Option<SandboxHandle>) {
        *lock(&self.reach) = reach;
    }

    /// Returns the handle of the sandbox that was opened last.
    pub(crate) fn reach(&self) -> Option<SandboxHandle> {
        lock(&self.reach).clone()
    }

    /// Ends the commands that run, and every one that would still begin. A successor does not wait for any.
    pub(crate) fn kill(&self, reason: CancelReason) {
        let is_taken_over = match reason {
            CancelReason::LeaseLost | CancelReason::Shutdown => true,
            CancelReason::User
            | CancelReason::Timeout
            | CancelReason::Sibling
            | CancelReason::Limit
            | CancelReason::Superseded => false,
        };
        let running: Vec<KillableCommand> = {
            let mut switch = lock(&self.switch);
            switch.is_killed = true;
            switch.killers.values().cloned().collect()
        };
        for command in running {
            match is_taken_over {
                true => command.killer.kill(),
                false => command.end(),
            }
        }
    }

    /// Ends the commands of a node whose scope is cancelled: none of it begins any more.
    pub(crate) fn kill_node(&self, node: &str) {
        let running: Vec<KillableCommand> = {
            let switch = lock(&self.switch);
            switch.killers.values().filter(|command| command.node == node).cloned().collect()
        };
        running.into_iter().for_each(KillableCommand::end);
    }

    /// A command has begun; if the run was killed meanwhile, or its node stopped, so is the command.
    pub(crate) fn began(&self, call: &ToolCall, scope: &Observed, killer: &Killer, ends: StopBehavior) {
        let is_killed = {
            let mut switch = lock(&self.switch);
            let command = KillableCommand { node: call.new.node.clone(), killer: killer.clone(), ends };
            switch.killers.insert(call.no, command);
            switch.is_killed
        };
        if is_killed || scope.is_cancelled() {
            killer.kill();
        }
    }

    /// A command has ended.
    pub(crate) fn ended(&self, call: CallNumber) {
        lock(&self.switch).killers.remove(&call);
    }
}
