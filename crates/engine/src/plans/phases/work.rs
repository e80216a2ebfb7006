//! What lives of a run: its command, its sandbox; and how both are left.

use std::path::PathBuf;
use std::sync::Arc;

use domain::{CallEnd, CallState, ChangesetId, KeptOutput, Plan, SandboxRecord, ToolCall};
use sandbox::command::Killer;
use sandbox::{CapturedChange, Sandbox};
use serde_json::Value;
use store::{By, CallOutcome};
use sync::primitives::{Mutex, lock};
use sync::{CancelReason, Finisher};

use super::super::House;
use super::super::contents::Staging;
use super::super::facts::writes;
use super::command;
use super::spending::RunTime;
use crate::worker::JobRun;

/// What one run has open.
#[derive(Default)]
pub(super) struct LiveRun {
    switch: Mutex<KillSwitch>,
    pub(super) time: RunTime,
    /// Held by whoever works in the sandbox, also by a thread that outlives its task: who winds down waits for it.
    pub(super) open: Arc<tokio::sync::Mutex<Option<Open>>>,
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

/// Captures what an interrupted command had changed, and closes the sandbox. One that is kept stays on the disk.
pub(super) async fn wind_down(
    house: &Arc<House>,
    run: &JobRun,
    live: &LiveRun,
    finisher: &Finisher,
    interrupted: Option<CancelReason>,
) {
    let Some(mut open) = Arc::clone(&live.open).lock_owned().await.take() else { return };
    let may_write = interrupted != Some(CancelReason::LeaseLost);
    if may_write && let Some(call) = open.call.take() {
        let logs = house.log_dir(&open.plan, call.no);
        let (back, changes, [stdout, stderr]) = match captured_last(open, &call, logs).await {
            Some(captured) => captured,
            None => return,
        };
        open = back;
        let end = CallEnd {
            state: if open.kept.is_some() { CallState::Failed } else { CallState::Cancelled },
            duration_ms: house.wall().0.saturating_sub(call.started.0),
            exit: None,
            error: open.kept.clone().or(interrupted.map(|reason| reason.to_string())),
            result: Value::Null,
            isolation: None,
            stdout,
            stderr,
        };
        let changes = changes.into_iter().map(|found| command::new_change(house, call.no, found)).collect();
        let outcome = CallOutcome {
            attempt: open.plan.attempt,
            no: call.no,
            end,
            changeset: open.changeset,
            changes,
            contents: open.staging.contents(),
        };
        // The run ends all the same; what the store does not take stays in the sandbox.
        let stored = house.store.end_call(By::Finisher(finisher), &run.claim(), outcome).await;
        if stored.is_err() {
            let kept = tokio::task::spawn_blocking(move || {
                keep_interrupted(&mut open);
                open
            });
            let Ok(kept) = kept.await else { return };
            open = kept;
        }
    }
    let Open { sandbox, mut record, kept, .. } = open;
    let _ = tokio::task::spawn_blocking(move || sandbox.close()).await;
    if kept.is_some() {
        return;
    }
    record.closed = Some(house.wall());
    let _ = house.store.sandbox_closed(record).await;
}

/// Keeps the sandbox for what an interrupted command had changed. How the command would have ended nobody knows.
fn keep_interrupted(open: &mut Open) {
    if open.kept.is_none() && open.sandbox.keep("").is_ok() {
        let dir = open.sandbox.dir().display();
        open.kept = Some(format!("what it changed could not be captured; its sandbox is kept in {dir}"));
    }
}

type LastCapture = (Open, Vec<CapturedChange>, [Option<KeptOutput>; 2]);

/// What the call left in the sandbox and in its logs. What cannot be read any more is not there.
async fn captured_last(mut open: Open, call: &ToolCall, logs: PathBuf) -> Option<LastCapture> {
    let is_writer = writes(&call.new.tool) && open.changeset.is_some();
    let captured = tokio::task::spawn_blocking(move || {
        if is_writer && open.kept.is_none() && command::scan(&mut open).is_err() {
            keep_interrupted(&mut open);
        }
        // What is captured later is captured whole.
        let found = std::mem::take(&mut open.found);
        let changes = if open.kept.is_some() { Vec::new() } else { found };
        let kept = |name| command::kept_log(&open.staging, &logs.join(name));
        let outputs = [kept("stdout"), kept("stderr")];
        (open, changes, outputs)
    });
    captured.await.ok()
}
