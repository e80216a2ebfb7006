//! The execute phase: the graph of the plan's actor, in a sandbox if one of its nodes needs it; then its checks.
//!
//! # How a round begins
//! Each begins the same way, be it the first, one after a failure, or one after a crash. A sandbox starts from the live
//! tree. What nodes recorded whose ends stand is put back into it, and they are not done again. What any other node had
//! recorded is taken back by inverse entries, and that node begins anew.
//!
//! If what a command changed could not be captured, its sandbox was kept: that one is opened again, captured, and the
//! command is not run a second time.
//!
//! # Invariants
//! One loop tries again, and it does what the recovery says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use domain::{Action, ChangeEntry, Does, ErrorCategory, NetChange, Phase, Plan, Step, ToolCall, fold};

use super::super::House;
use super::graph::{self, Actor, Progress, RoundEnd};
use super::work::LiveRun;
use super::{Stopped, Told, brief, ground, kept, mend, steps, tell};
use crate::worker::JobRun;

pub(super) async fn execute(
    house: &Arc<House>,
    run: &JobRun,
    live: &Arc<LiveRun>,
    plan: &Plan,
) -> Result<(), Stopped> {
    let actor = Actor { house, run, live, plan, phase: Phase::Execute, steps: &plan.spec.steps };
    loop {
        let again = match round(&actor).await {
            Ok(RoundEnd::Done) => return Ok(()),
            Ok(RoundEnd::Again { after }) => after,
            Err(Stopped::Failed { category, message, .. }) => told(&actor, category, message).await?,
            Err(stopped) => return Err(stopped),
        };
        ground::close(live).await?;
        steps::pause(run, again).await?;
    }
}

/// A failure of the phase itself: how long to wait until it is tried again.
pub(super) async fn told(
    actor: &Actor<'_>,
    category: ErrorCategory,
    message: String,
) -> Result<Duration, Stopped> {
    let Told { message, recovery } = tell(actor.house, actor.run, actor.plan, None, category, message).await;
    match recovery.map(|recovery| recovery.action) {
        Some(Action::Retry { after, .. }) => Ok(after),
        Some(Action::Revert | Action::Ask | Action::GiveUp) | None => Err(Stopped::Told(message)),
    }
}

/// Takes the plan from where it stands to the end of its graph and checks.
async fn round(actor: &Actor<'_>) -> Result<RoundEnd, Stopped> {
    let mut progress = progress(actor, "").await?;
    if needs_sandbox(actor.plan) && begin(actor, &progress).await? {
        progress = self::progress(actor, "").await?;
    }
    match graph::run(actor, &mut progress).await? {
        RoundEnd::Done => mend::check_and_mend(actor, &progress).await,
        again @ RoundEnd::Again { .. } => Ok(again),
    }
}

/// Where the actor stands, and what its nodes are told.
pub(super) async fn progress(actor: &Actor<'_>, findings: &str) -> Result<Progress, Stopped> {
    let Actor { house, plan, .. } = *actor;
    let (runs, calls) = (house.store.node_runs(plan.id).await?, house.calls(plan).await?);
    let values = brief::values(plan, &runs, findings);
    Progress::of(actor, &runs, values, calls)
}

/// A plan that only reads needs none.
fn needs_sandbox(plan: &Plan) -> bool {
    let runs_command = |step: &Step| matches!(step.does, Does::Command(_) | Does::External(_));
    plan.spec.steps.iter().any(|step| step.writes() || runs_command(step))
        || !plan.spec.validations.is_empty()
}

/// Opens the sandbox and brings it to where the plan stands. True when a node was finished by that: its command ended
/// well before, and what it changed was kept.
pub(super) async fn begin(actor: &Actor<'_>, progress: &Progress) -> Result<bool, Stopped> {
    let Actor { house, run, live, plan, .. } = *actor;
    let settled = progress.settled(actor.steps);
    let note = ground::open(house, run, live, plan).await?;
    let mut standing = Standing::of(actor, &settled).await?;
    if let Some(note) = note {
        // What is kept is all that the sandbox holds: whose it is can be told only while nothing else stands.
        let is_whole = standing.finished.is_empty();
        if is_whole && kept::capture(actor, &settled, &note).await? {
            return Ok(true);
        }
        ground::discard(live).await?;
        ground::open(house, run, live, plan).await?;
        standing = Standing::of(actor, &settled).await?;
    }
    if !standing.unfinished.is_empty() {
        let back = standing.to_take_back(plan)?;
        ground::take_back(house, run, live, plan, back, &standing.nodes).await?;
    }
    if !standing.finished.is_empty() {
        ground::put_back(house, live, fold(&standing.finished)).await?;
    }
    Ok(false)
}

/// The entries that stand, by whether the nodes that made them are finished.
struct Standing {
    finished: Vec<ChangeEntry>,
    unfinished: Vec<ChangeEntry>,
    /// Whose the unfinished ones are.
    nodes: BTreeSet<String>,
}

impl Standing {
    async fn of(actor: &Actor<'_>, settled: &BTreeSet<String>) -> Result<Standing, Stopped> {
        let entries = actor.house.entries(actor.plan).await?;
        let calls: Vec<ToolCall> = match entries.is_empty() {
            true => Vec::new(),
            false => actor.house.calls(actor.plan).await?,
        };
        let node = |entry: &ChangeEntry| {
            let call = calls.iter().find(|call| call.no == entry.call);
            call.map(|call| call.new.node.clone()).unwrap_or_default()
        };
        let (finished, unfinished): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| settled.contains(node(entry).as_str()));
        let nodes = unfinished.iter().map(node).collect();
        Ok(Standing { finished, unfinished, nodes })
    }

    /// What takes the unfinished ones back. Where a finished node changed the same file later, the two cannot be told
    /// apart any more.
    fn to_take_back(&self, plan: &Plan) -> Result<Vec<NetChange>, Stopped> {
        for entry in &self.unfinished {
            let is_later = |other: &&ChangeEntry| {
                (other.root, &other.path) == (entry.root, &entry.path) && other.no > entry.no
            };
            if self.finished.iter().any(|other| is_later(&other)) {
                let nodes: Vec<&str> = self.nodes.iter().map(String::as_str).collect();
                let message = format!(
                    "{} cannot be done again: another node has changed {} since, upon what it had written there; \
                     begin anew with `agents plan execute {} --again`",
                    nodes.join(", "),
                    entry.path,
                    plan.id
                );
                return Err(Stopped::failed(ErrorCategory::InvalidInput, message));
            }
        }
        Ok(fold(&self.unfinished))
    }
}
