//! What lives of a run: its command, its sandbox.
//!
//! # Invariants
//! A run that was killed begins no command any more.
//!
//! # Not here
//! How both are left: `wind_down`.

use std::sync::Arc;

use domain::{ChangesetId, Plan, SandboxRecord, ToolCall};
use sandbox::command::Killer;
use sandbox::{CapturedChange, Keeper, Sandbox};
use sync::primitives::{Mutex, lock};

use super::super::contents::Staging;
use super::spending::RunTime;

/// What one run has open.
#[derive(Default)]
pub(super) struct LiveRun {
    switch: Mutex<KillSwitch>,
    pub(super) time: RunTime,
    /// Set when nothing of the job's earlier owners lives.
    pub(super) earlier_dead: tokio::sync::OnceCell<()>,
    /// Held by whoever works in the sandbox, also by a thread that outlives its task: who winds down waits for it.
    pub(super) open: Arc<tokio::sync::Mutex<Option<Open>>>,
    /// Of the sandbox that was opened last, also while somebody works in it.
    reach: Mutex<Option<Reach>>,
}

/// What can be done with a sandbox while somebody else works in it.
#[derive(Clone)]
pub(super) struct Reach {
    /// Keeps it.
    pub(super) keeper: Keeper,
    /// Where what is found in it goes; ended, whoever looks for more fails.
    pub(super) staging: Arc<Staging>,
}

/// The sandbox of a run, and the call that works in it.
pub(super) struct Open {
    pub(super) plan: Plan,
    pub(super) sandbox: Sandbox,
    pub(super) record: SandboxRecord,
    pub(super) changeset: Option<ChangesetId>,
    /// The call that was admitted and has not ended.
    pub(super) call: Option<ToolCall>,
    /// What that call made, until it is stored.
    pub(super) staging: Arc<Staging>,
    /// Why what that call changed could not be captured: the sandbox is kept for it.
    pub(super) kept: Option<String>,
    /// What that call changed, as far as it was found and not stored yet: a look tells only what is new.
    pub(super) found: Vec<CapturedChange>,
}

#[derive(Default)]
struct KillSwitch {
    is_killed: bool,
    killer: Option<Killer>,
}

impl LiveRun {
    /// A sandbox was opened.
    pub(super) fn opened(&self, reach: Option<Reach>) {
        *lock(&self.reach) = reach;
    }

    /// What can be done with the sandbox that was opened last.
    pub(super) fn reach(&self) -> Option<Reach> {
        lock(&self.reach).clone()
    }

    /// Kills the command that runs, and every one that would still begin.
    pub(super) fn kill(&self) {
        let killer = {
            let mut switch = lock(&self.switch);
            switch.is_killed = true;
            switch.killer.clone()
        };
        if let Some(killer) = killer {
            killer.kill();
        }
    }

    /// A command has begun; if the run was killed meanwhile, so is the command.
    pub(super) fn began(&self, killer: &Killer) {
        let is_killed = {
            let mut switch = lock(&self.switch);
            switch.killer = Some(killer.clone());
            switch.is_killed
        };
        if is_killed {
            killer.kill();
        }
    }
}
