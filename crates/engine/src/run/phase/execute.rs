//! The execute phase: the graph of the plan's actor, in a sandbox if one of its nodes needs it; then its
//! checks.
//!
//! # How a round begins
//! Each begins the same way, be it the first, one after a failure, or one after a crash. A sandbox starts
//! from the live tree. The recorded changes of nodes with a valid end are put back into it, and these nodes
//! are not done again. The recorded changes of any other node are reverted by inverse entries, and that node
//! begins again. If a node with a valid end has changed the same file since, its change stays: the inverse is
//! merged with it (`plan_sandbox::revert`). Only if both changed the same lines a person is asked.
//!
//! A model that a limit stopped (its turns, or tokens, cost, time or calls of the plan) is not begun again.
//! Its changes stay, which a call of its own records, and it continues its conversation (`node::model`).
//!
//! If the changes of a command could not be captured, its sandbox was retained. That one is opened again,
//! captured, and the command is not run a second time.
//!
//! # Invariants
//! One loop tries again, and it does what the recovery says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actors::tool::Catalog;
use domain::{
    CallEnd, CallState, ChangeEntry, ErrorCategory, ErrorRecord, NewCall, NodeKind, Phase, Plan, PlanStep,
    RecoveryAction, RelPath, ToolCall, fold_all,
};
use serde_json::Value;
use store::CallAuthority;
use worker::EndedCall;

use super::repair;
use crate::query::details::ASK_MODEL;
use crate::query::effective_changes::{KEEP_WORK, dealt_with};
use crate::query::forecast::store_footprint;
use crate::run::context::RunContext;
use crate::run::graph;
use crate::run::graph::{GraphProgress, GraphRun, RoundEnd};
use crate::run::node::{command, prompt};
use crate::run::plan_sandbox::content::Staging;
use crate::run::plan_sandbox::{retained, revert};
use crate::run::{PhaseFailure, ReportedFailure, RunError, plan_sandbox, report_failure};

pub(crate) async fn execute(run: RunContext<'_>) -> Result<(), RunError> {
    let actor = GraphRun { run, steps: &run.plan.spec.steps };
    loop {
        let again = match round(&actor).await {
            Ok(RoundEnd::Done) => {
                // A forecast makes one that is missing.
                let _ = store_footprint(run.engine, run.plan).await;
                return Ok(());
            }
            Ok(RoundEnd::Again { after }) => after,
            Err(RunError::Failed { category, message, call, .. }) => {
                report_and_decide(run, PhaseFailure { category, message, call, retry_after: None }).await?
            }
            Err(stopped) => return Err(stopped),
        };
        plan_sandbox::close(&run.phase_context()).await?;
        command::pause(run.job, again).await?;
    }
}

/// A failure of the phase itself: how long to wait until it is tried again.
pub(crate) async fn report_and_decide(
    run: RunContext<'_>,
    failure: PhaseFailure,
) -> Result<Duration, RunError> {
    let ReportedFailure { message, recovery } = report_failure(run, None, failure).await;
    match recovery.map(|recovery| recovery.action) {
        Some(RecoveryAction::Retry { after, .. }) => Ok(after),
        Some(
            RecoveryAction::Revert | RecoveryAction::Ask | RecoveryAction::GiveUp | RecoveryAction::Told,
        )
        | None => Err(RunError::Reported(message)),
    }
}

/// Takes the plan from its present progress to the end of its graph and checks.
async fn round(actor: &GraphRun<'_>) -> Result<RoundEnd, RunError> {
    let mut progress = progress(actor, "").await?;
    keep_stopped_work(actor, &progress.settled(actor.steps)).await?;
    if needs_sandbox(actor.plan) && begin(actor, &progress).await? {
        progress = super::execute::progress(actor, "").await?;
    }
    match graph::run(actor, &mut progress).await? {
        RoundEnd::Done => repair::check_and_repair(actor, &progress).await,
        again @ RoundEnd::Again { .. } => Ok(again),
    }
}

/// Returns the progress of the actor, and the values for its nodes.
pub(crate) async fn progress(actor: &GraphRun<'_>, findings: &str) -> Result<GraphProgress, RunError> {
    let RunContext { engine, plan, .. } = actor.run;
    let (runs, calls) = (engine.store.node_runs(plan.id).await?, engine.calls(plan).await?);
    let values = prompt::values(plan, &runs, findings);
    GraphProgress::from_runs(actor, &runs, values, calls)
}

/// A plan that only reads needs none.
fn needs_sandbox(plan: &Plan) -> bool {
    let tools = Catalog::builtin();
    // A tool that is none of ours works in the sandbox, whatever it says of itself.
    let tool_writes = |name: &str| tools.find(name).map_or(true, |tool| tool.spec.writes);
    let needs_it = |step: &PlanStep| match &step.does {
        NodeKind::Command(_) | NodeKind::External(_) => true,
        NodeKind::Tool { name, .. } => tool_writes(name),
        NodeKind::Read { .. }
        | NodeKind::Write { .. }
        | NodeKind::Edit { .. }
        | NodeKind::Wait { .. }
        | NodeKind::Model(_)
        | NodeKind::Actor { .. } => step.writes(),
    };
    plan.spec.steps.iter().any(needs_it) || !plan.spec.validations.is_empty()
}

/// Opens the sandbox and brings it to the present progress of the plan. True if that finished a node: its
/// command ended well before, and its changes were retained.
pub(crate) async fn begin(actor: &GraphRun<'_>, progress: &GraphProgress) -> Result<bool, RunError> {
    let RunContext { engine, state, .. } = actor.run;
    let settled = progress.settled(actor.steps);
    let note = plan_sandbox::open(actor.run).await?;
    let mut standing = EffectiveEntries::load(actor, &settled).await?;
    if let Some(note) = note {
        // A retained sandbox holds all changes together. Their node is known only if no other changes are in
        // effect.
        let is_whole = standing.finished.is_empty();
        if is_whole && retained::capture_kept(actor, &settled, &note).await? {
            return Ok(true);
        }
        plan_sandbox::discard(state).await?;
        plan_sandbox::open(actor.run).await?;
        standing = EffectiveEntries::load(actor, &settled).await?;
    }
    if !standing.unfinished.is_empty() {
        let staging = Arc::new(Staging::new(Arc::clone(&engine.store)));
        let (kept, finished, unfinished) =
            (Arc::clone(&staging), standing.finished.clone(), standing.unfinished.clone());
        let back = plan_sandbox::blocking(move || revert::inverse(&kept, &finished, &unfinished)).await??;
        let back = back.map_err(|path| not_again(&standing.nodes, &path))?;
        plan_sandbox::revert_entries(actor.run, (back, staging.contents()), &standing.nodes).await?;
        standing = EffectiveEntries::load(actor, &settled).await?;
    }
    if !standing.finished.is_empty() {
        plan_sandbox::put_back(actor.run, fold_all(&standing.finished)).await?;
    }
    Ok(false)
}

/// Records for every model that the last limit stopped that its work stays.
async fn keep_stopped_work(actor: &GraphRun<'_>, settled: &BTreeSet<String>) -> Result<(), RunError> {
    let RunContext { engine, job, plan, .. } = actor.run;
    let history = engine.store.history(plan.id).await?;
    let is_limit = |record: &&ErrorRecord| {
        let error = &record.error;
        let is_of_this = error.phase() == Phase::Execute && error.step().attempt == plan.attempt;
        error.category() == ErrorCategory::Budget && is_of_this
    };
    if history.last_failure().filter(is_limit).is_none() {
        return Ok(());
    }
    let calls = engine.calls(plan).await?;
    let asked = calls.iter().filter(|call| call.new.tool == ASK_MODEL && call.state() == CallState::Ok);
    let unfinished: BTreeSet<&str> =
        asked.map(|call| call.new.node.as_str()).filter(|node| !settled.contains(*node)).collect();
    for node in unfinished {
        let last = calls.iter().rfind(|call| call.new.node == node);
        if last.is_some_and(|call| call.new.tool == KEEP_WORK) {
            continue;
        }
        let effect = job.enter()?;
        let new = NewCall {
            attempt: plan.attempt,
            node: node.to_owned(),
            tool: KEEP_WORK.to_owned(),
            requested: Value::Null,
            effective: Value::Null,
        };
        let call = engine.store.begin_call(&effect, &job.claim(), new).await?;
        let end = engine.ended(call.started, (CallState::Ok, None, Value::Null));
        let end = EndedCall::new(&call, CallEnd { duration_ms: 0, ..end });
        job.context().end_call(CallAuthority::Effect(&effect), end).await?;
    }
    Ok(())
}

/// The effective entries, by whether the nodes that made them are finished.
struct EffectiveEntries {
    finished: Vec<ChangeEntry>,
    unfinished: Vec<ChangeEntry>,
    /// The nodes of the unfinished ones.
    nodes: BTreeSet<String>,
}

impl EffectiveEntries {
    async fn load(actor: &GraphRun<'_>, settled: &BTreeSet<String>) -> Result<EffectiveEntries, RunError> {
        let entries = actor.engine.entries(actor.plan).await?;
        let calls: Vec<ToolCall> = match entries.is_empty() {
            true => Vec::new(),
            false => actor.engine.calls(actor.plan).await?,
        };
        let node = |entry: &ChangeEntry| {
            let call = calls.iter().find(|call| call.no == entry.call);
            call.map(|call| call.new.node.clone()).unwrap_or_default()
        };
        let dealt_with = dealt_with(&calls);
        let stands =
            |entry: &ChangeEntry| dealt_with.contains(&entry.call) || settled.contains(node(entry).as_str());
        let (finished, unfinished): (Vec<_>, Vec<_>) = entries.into_iter().partition(stands);
        let nodes = unfinished.iter().map(node).collect();
        Ok(EffectiveEntries { finished, unfinished, nodes })
    }
}

/// A node that cannot be done again by itself.
fn not_again(nodes: &BTreeSet<String>, path: &RelPath) -> RunError {
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let message = format!(
        "{} cannot run again: another node has since changed the same place in {path}",
        nodes.join(", ")
    );
    RunError::failed(ErrorCategory::MergeConflict, message)
}
