//! The execute phase: a sandbox, what an earlier owner had recorded put back into it, then the graph, then a
//! check.
//!
//! # Invariants
//! 1. A node that was settled does not run again.
//! 2. The records of an unsettled node are rolled back by inverse entries before it runs again.
//! 3. Every change that the check sees is recorded before it begins: also those that a stopped call left.

use std::collections::{BTreeMap, BTreeSet};

use ::worker::{ChangesetHandle, JobRun};
use domain::inverse;
use domain::{
    CallNumber, CallState, CaptureOmissions, ChangeDraft, ChangeEntry, ChangeId, ChangesetId, ErrorCategory,
    NetChange, NewCall, NewChange, Plan, RelPath, RootIndex, SandboxRecord, ToolCall, fold,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use store::{CallAuthority, CallOutcome, CallStore, ChangesetStore};
use sync::{CancelReason, CancellationToken};

use super::sandbox_call::SimAccess;
use super::{PhaseStop, SimRunner, ended};
use crate::broken_programs::BrokenProgram;
use crate::machine::{FileDifference, state_of, value_of};
use crate::scenario::{ChangeRecording, NodeScript, PlanScript};

/// The most nodes of a plan that run at once.
const AT_ONCE: usize = 3;
pub(crate) const TAKE_BACK: &str = "take back";
const CHECK: &str = "check";

impl SimRunner {
    pub(super) async fn execute(&self, run: &JobRun, plan: &Plan) -> Result<(), PhaseStop> {
        let script = self.world.scenario.plan(plan.id).ok_or(PhaseStop::Cancelled)?;
        self.open_sandbox(run, plan).await?;
        let handle = run.context().start_changeset().await?;
        let settled = self.go_on(run, plan, script, handle.id()).await?;
        self.walk(run, plan, script, handle.clone(), settled).await?;
        self.check(run, plan, script, &handle).await?;
        handle.close().await?;
        Ok(())
    }

    async fn open_sandbox(&self, run: &JobRun, plan: &Plan) -> Result<(), PhaseStop> {
        let effect = run.enter()?;
        let claim = run.claim();
        self.tick().await;
        let opened = self.world.machine().open_sandbox(claim, self.group);
        let no =
            opened.ok_or_else(|| PhaseStop::failed(ErrorCategory::Resource, "no space for a sandbox"))?;
        let record = SandboxRecord {
            plan: plan.id,
            attempt: plan.attempt,
            rung: "copy".to_owned(),
            passed_over: Vec::new(),
            dir: no.to_string().into_bytes(),
            boot: self.world.boot(),
            opened: self.world.wall(),
            closed: None,
            not_captured: CaptureOmissions::default(),
            tree: None,
        };
        self.with_live(&claim, |live| live.sandbox = Some((no, record.clone())));
        self.store.sandbox_opened(&effect, &claim, record).await?;
        Ok(())
    }

    /// Restores the changes that were recorded in this attempt, and rolls back those that were not settled.
    /// Returns the nodes that were settled.
    async fn go_on(
        &self,
        run: &JobRun,
        plan: &Plan,
        script: &PlanScript,
        changeset: ChangesetId,
    ) -> Result<BTreeSet<usize>, PhaseStop> {
        let entries = self.store.entries(plan.id, plan.attempt).await?;
        let calls = self.store.calls(plan.id).await?;
        let settled = settled_nodes(script, plan, &calls);
        let (back, stays) = unsettled_and_settled(script, &settled, &entries);
        self.tick().await;
        self.in_sandbox(run, |sandbox| put_back(sandbox, &stays))?;
        if !back.is_empty() {
            self.take_back(run, plan, changeset, &back).await?;
        }
        Ok(settled)
    }

    async fn take_back(
        &self,
        run: &JobRun,
        plan: &Plan,
        changeset: ChangesetId,
        recorded: &[NetChange],
    ) -> Result<(), PhaseStop> {
        let effect = run.enter()?;
        let call = self.store.begin_call(&effect, &run.claim(), new_call(plan, TAKE_BACK)).await?;
        let changes = self.inverses(call.no, recorded);
        let outcome = CallOutcome {
            attempt: plan.attempt,
            no: call.no,
            end: ended(CallState::Ok),
            changeset: Some(changeset),
            changes,
            contents: Vec::new(),
            settles: Vec::new(),
        };
        self.store.end_call(CallAuthority::Effect(&effect), &run.claim(), outcome).await?;
        Ok(())
    }

    /// Runs the nodes, each after those that it needs. One that fails stops the others, and no new one
    /// begins.
    fn walk<'a>(
        &'a self,
        run: &'a JobRun,
        plan: &'a Plan,
        script: &'a PlanScript,
        handle: ChangesetHandle,
        settled: BTreeSet<usize>,
    ) -> BoxFuture<'a, Result<(), PhaseStop>> {
        let (mut done, mut begun) = (settled.clone(), settled);
        let mut running: FuturesUnordered<BoxFuture<'a, (usize, Result<(), PhaseStop>)>> =
            FuturesUnordered::new();
        let mut failed = None;
        let mut stops: BTreeMap<usize, CancellationToken> = BTreeMap::new();
        Box::pin(async move {
            loop {
                let room = if failed.is_some() { 0 } else { AT_ONCE.saturating_sub(running.len()) };
                for (index, node) in due(script, &begun, &done, room) {
                    begun.insert(index);
                    let (handle, stop) = (handle.clone(), run.scope().child());
                    stops.insert(index, stop.clone());
                    running.push(Box::pin(async move {
                        (index, self.node(run, plan, node, &handle, &stop).await)
                    }));
                }
                match running.next().await {
                    None => return failed.map_or(Ok(()), Err),
                    Some((index, Ok(()))) => {
                        stops.remove(&index);
                        done.insert(index);
                    }
                    Some((_, Err(stopped))) if self.world.is_broken(BrokenProgram::AbandonedCall) => {
                        return Err(stopped);
                    }
                    Some((index, Err(stopped))) => {
                        stops.remove(&index);
                        failed.get_or_insert(stopped);
                        for stop in stops.values() {
                            stop.cancel(CancelReason::Sibling);
                        }
                    }
                }
            }
        })
    }

    /// Looks at what the plan changed, and writes where it should not. Its result is believed for the entries
    /// that it names.
    async fn check(
        &self,
        run: &JobRun,
        plan: &Plan,
        script: &PlanScript,
        handle: &ChangesetHandle,
    ) -> Result<(), PhaseStop> {
        if !script.has_check {
            return Ok(());
        }
        if !self.world.is_broken(BrokenProgram::BlindCheck) {
            drop(self.turn(run, run.scope(), true).await?);
        }
        let entries = self.store.entries(plan.id, plan.attempt).await?;
        let call = self.begin_call(run, run.scope(), SimAccess::PutBack, new_call(plan, CHECK)).await?;
        self.tick().await;
        let wrong = self.in_sandbox(run, |sandbox| {
            let wrong = unlike(sandbox, &entries);
            sandbox.write(0, 1);
            wrong
        })?;
        self.world.watch.observe_sandbox_check(plan.id, &wrong);
        self.end_call(run, call, CallState::Ok, (ChangeRecording::WithTheCall, handle)).await
    }

    /// Acts on the sandbox of the run.
    pub(super) fn in_sandbox<R>(
        &self,
        run: &JobRun,
        act: impl FnOnce(&mut crate::machine::SimSandbox) -> R,
    ) -> Result<R, PhaseStop> {
        let no = self.with_live(&run.claim(), |live| live.sandbox.as_ref().map(|(no, _)| *no));
        let mut machine = self.world.machine();
        let sandbox = no.and_then(|no| machine.sandboxes.get_mut(&no));
        sandbox.map(act).ok_or_else(|| PhaseStop::failed(ErrorCategory::Sandbox, "the sandbox is gone"))
    }

    fn inverses(&self, call: CallNumber, recorded: &[NetChange]) -> Vec<NewChange> {
        recorded.iter().flat_map(inverse).map(|draft| self.named(call, draft)).collect()
    }

    /// Returns a change of a file, with a new id.
    pub(super) fn new_change(
        &self,
        call: CallNumber,
        (file, before, after): FileDifference,
    ) -> Option<NewChange> {
        let path = RelPath::new(format!("f{file}")).ok()?;
        ChangeDraft::between(path, state_of(before), state_of(after)).map(|draft| self.named(call, draft))
    }

    fn named(&self, call: CallNumber, draft: ChangeDraft) -> NewChange {
        let id = ChangeId::from_u128(self.ids.ulid());
        NewChange { id, call, root: RootIndex(0), base: domain::Base::Known, draft }
    }
}

pub(super) fn new_call(plan: &Plan, node: &str) -> NewCall {
    NewCall {
        attempt: plan.attempt,
        node: node.to_owned(),
        tool: "run".to_owned(),
        requested: Value::Null,
        effective: Value::Null,
    }
}

/// The file that a path names.
pub(crate) fn file_of(path: &RelPath) -> u32 {
    std::str::from_utf8(path.as_bytes()).ok().and_then(|path| path.get(1..)?.parse().ok()).unwrap_or(u32::MAX)
}

fn put_back(sandbox: &mut crate::machine::SimSandbox, recorded: &[NetChange]) {
    for change in recorded {
        sandbox.put_back(file_of(&change.path), value_of(change.after));
    }
}

/// The files in which the sandbox and the entries differ. Either a change is not the last recorded one, or a
/// recorded change does not exist.
fn unlike(sandbox: &crate::machine::SimSandbox, entries: &[ChangeEntry]) -> Vec<u32> {
    let last: BTreeMap<u32, u64> =
        entries.iter().map(|entry| (file_of(&entry.path), value_of(entry.after))).collect();
    let unrecorded = sandbox.differs_from_base().filter(|(file, now)| last.get(file) != Some(now));
    let net = fold(entries).into_iter().map(|change| (file_of(&change.path), value_of(change.after)));
    let missing = net.filter(|(file, after)| sandbox.value(*file) != *after);
    let files: BTreeSet<u32> = unrecorded.chain(missing).map(|(file, _)| file).collect();
    files.into_iter().collect()
}

/// Returns what was recorded by nodes that have to run again, and by those that have not.
fn unsettled_and_settled(
    script: &PlanScript,
    settled: &BTreeSet<usize>,
    entries: &[ChangeEntry],
) -> (Vec<NetChange>, Vec<NetChange>) {
    let nodes = script.nodes.iter().enumerate().filter(|(index, _)| !settled.contains(index));
    let files: BTreeSet<u32> = nodes.flat_map(|(_, node)| node.writes.iter().copied()).collect();
    fold(entries).into_iter().partition(|change| files.contains(&file_of(&change.path)))
}

/// The nodes that may begin, at most so many.
fn due<'a>(
    script: &'a PlanScript,
    begun: &BTreeSet<usize>,
    done: &BTreeSet<usize>,
    room: usize,
) -> Vec<(usize, &'a NodeScript)> {
    let is_due = |(index, node): &(usize, &NodeScript)| {
        !begun.contains(index) && node.after.iter().all(|before| done.contains(before))
    };
    script.nodes.iter().enumerate().filter(is_due).take(room).collect()
}

fn settled_nodes(script: &PlanScript, plan: &Plan, calls: &[ToolCall]) -> BTreeSet<usize> {
    let is_settled = |node: &NodeScript| {
        let of_node = |call: &&ToolCall| call.new.attempt == plan.attempt && call.new.node == node.name;
        calls.iter().rfind(of_node).is_some_and(|call| call.state() == CallState::Ok)
    };
    script.nodes.iter().enumerate().filter(|(_, node)| is_settled(node)).map(|(index, _)| index).collect()
}

/// The net change of a plan's attempt.
pub(super) fn net_of(entries: &[ChangeEntry]) -> Vec<NetChange> {
    fold(entries)
}
