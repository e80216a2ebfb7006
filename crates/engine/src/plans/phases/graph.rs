//! Runs the graph of an actor: what is ready begins beside what runs, until nothing is left to begin.
//!
//! # How a failure goes
//! It is told to the recovery. If the node may be tried again, no other node begins; those that run come to their end, and
//! the round is over ([`RoundEnd::Again`]): the next one begins as after a crash, on a tree without what the failed try
//! changed. If it may not, the node has failed. A failure that a node handles (`on: failure`) goes to that node. Any other
//! stops what runs beside it, and when that has settled the actor has failed with that cause; what fails meanwhile is told
//! to the recovery like everything else.
//!
//! # Invariants
//! 1. Ends of nodes are stored before anything that needs them begins, so a run that is broken off goes on after the last
//!    node that settled, and a branch that was not taken stays so.
//! 2. At most `limits.parallel` nodes run beside each other. Which begin next depends on the graph and on what settled.
//! 3. Only here a node is tried again, beside a model that asks its provider again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Action, Does, ErrorCategory, Expr, Graph, GraphEnd, NodeOutcome, NodeRun, NodeState, Phase, Plan, Step,
    ToolCall, Usage, Values, WallMs,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use store::By;
use sync::{CancelReason, CancellationToken};

use super::super::House;
use super::node::{Done, Left, Node};
use super::work::LiveRun;
use super::{Stopped, Told, brief, steps, tell};
use crate::worker::JobRun;

/// An actor at work: the graph of one phase of a plan.
pub(super) struct Actor<'a> {
    pub(super) house: &'a Arc<House>,
    pub(super) run: &'a JobRun,
    pub(super) live: &'a Arc<LiveRun>,
    pub(super) plan: &'a Plan,
    pub(super) phase: Phase,
    pub(super) steps: &'a [Step],
}

impl Actor<'_> {
    /// What a node is told that begins now, and the number of the last thing that a person said.
    pub(super) async fn told(&self, values: &Arc<Values>) -> Result<(Arc<Values>, u32), Stopped> {
        if self.plan.spec.prompt.is_empty() {
            return Ok((Arc::clone(values), 0));
        }
        let decisions = self.house.store.decisions(self.plan.id).await?;
        let (values, seen) = brief::with_brief(self.plan, values, &decisions);
        Ok((Arc::new(values), seen))
    }

    /// Stores the ends of nodes.
    pub(super) async fn settle(&self, runs: Vec<NodeRun>) -> Result<(), Stopped> {
        let effect = self.run.enter()?;
        self.house.store.settle_nodes(By::Effect(&effect), &self.run.claim(), runs).await?;
        Ok(())
    }
}

/// How far an actor has come.
pub(super) struct Progress {
    graph: Graph,
    states: Vec<NodeState>,
    values: Arc<Values>,
    /// How often each node was begun, by its place.
    tries: BTreeMap<usize, u32>,
    /// What settled nodes left, by their places.
    runs: BTreeMap<usize, NodeRun>,
    /// Why nodes failed.
    causes: BTreeMap<usize, String>,
    /// The rounds of mending that succeeded, by their paths.
    mended: Vec<String>,
    /// The calls of the attempt before the round.
    calls: Vec<ToolCall>,
}

/// How often nodes were begun before, as far as their calls tell: one that makes a single call makes it in each try.
fn tries(steps: &[Step], calls: &[ToolCall]) -> BTreeMap<usize, u32> {
    let made = |step: &Step| calls.iter().filter(|call| call.new.node == step.node).count();
    let tries = steps.iter().enumerate().map(|(at, step)| match step.does {
        Does::Model(_) | Does::External(_) | Does::Actor { .. } => (at, 0),
        Does::Command(_)
        | Does::Read { .. }
        | Does::Write { .. }
        | Does::Edit { .. }
        | Does::Wait { .. }
        | Does::Tool { .. } => (at, u32::try_from(made(step)).unwrap_or(u32::MAX)),
    });
    tries.filter(|(_, tries)| *tries > 0).collect()
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundEnd {
    /// Nothing is left to do.
    Done,
    /// A node is to be tried again.
    Again {
        /// After this wait.
        after: Duration,
    },
}

impl Progress {
    /// Where the actor stands, by the ends that were stored.
    pub(super) fn of(
        actor: &Actor<'_>,
        runs: &[NodeRun],
        values: Values,
        calls: Vec<ToolCall>,
    ) -> Result<Progress, Stopped> {
        let graph = Graph::new(actor.steps).map_err(|flaws| {
            let flaws: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            Stopped::failed(ErrorCategory::InvalidInput, flaws.join("; "))
        })?;
        let of_this = |run: &&NodeRun| run.phase == actor.phase && run.attempt == actor.plan.attempt;
        let known = |step: &Step| runs.iter().filter(of_this).find(|run| run.path == step.node);
        let ends: Vec<Option<NodeOutcome>> =
            actor.steps.iter().map(|step| known(step).map(|run| run.outcome)).collect();
        let states = graph.resumed(&ends);
        let is_mending = |run: &&NodeRun| !actor.steps.iter().any(|step| step.node == run.path);
        let mended = runs.iter().filter(of_this).filter(is_mending);
        let mended =
            mended.filter(|run| run.outcome == NodeOutcome::Succeeded).map(|run| run.path.clone()).collect();
        let mut progress = Progress {
            graph,
            states,
            values: Arc::new(values),
            tries: tries(actor.steps, &calls),
            runs: BTreeMap::new(),
            causes: BTreeMap::new(),
            mended,
            calls,
        };
        for (at, step) in actor.steps.iter().enumerate() {
            if let (NodeState::Settled(_), Some(run)) = (progress.states[at], known(step)) {
                progress.add(at, run.clone());
            }
        }
        Ok(progress)
    }

    /// The paths of the nodes, and of the rounds of mending, whose ends stand.
    pub(super) fn settled(&self, steps: &[Step]) -> BTreeSet<String> {
        let is_settled = |at: usize| matches!(self.states.get(at), Some(NodeState::Settled(_)));
        let nodes =
            steps.iter().enumerate().filter(|(at, _)| is_settled(*at)).map(|(_, step)| step.node.clone());
        nodes.chain(self.mended.iter().cloned()).collect()
    }

    /// How many rounds of mending have succeeded.
    pub(super) fn rounds_mended(&self) -> usize {
        self.mended.len()
    }

    /// What the templates see by now.
    pub(super) fn values(&self) -> &Arc<Values> {
        &self.values
    }

    fn add(&mut self, at: usize, run: NodeRun) {
        self.states[at] = NodeState::Settled(run.outcome);
        Arc::make_mut(&mut self.values).add(&run);
        self.runs.insert(at, run);
    }
}

/// Runs what is left of the graph.
pub(super) async fn run(actor: &Actor<'_>, progress: &mut Progress) -> Result<RoundEnd, Stopped> {
    let mut round = Round { actor, progress, stops: BTreeMap::new(), again: None, halted: None };
    let mut running = FuturesUnordered::new();
    loop {
        match round.settle_what_follows().await {
            Ok(Some(end)) => return round.ended(end),
            Ok(None) => {}
            Err(stopped) => round.halt(stopped),
        }
        let Some(at) = round.ready(running.len()) else {
            match running.next().await {
                Some((at, done)) => round.take(at, done).await,
                None => break,
            }
            continue;
        };
        match holds(actor.steps[at].only_if.as_deref(), &round.progress.values, &actor.steps[at]) {
            Ok(true) => running.push(round.begin(at)),
            Ok(false) => round.settle(vec![(at, NodeOutcome::Skipped)]).await,
            Err(stopped) => round.take(at, Err(stopped)).await,
        }
    }
    match (round.halted, round.again) {
        (Some(stopped), _) => Err(stopped),
        (None, Some(after)) => Ok(RoundEnd::Again { after }),
        (None, None) => Err(Stopped::Cancelled),
    }
}

/// One round: from where the actor stands to where nothing runs.
struct Round<'a, 'b> {
    actor: &'a Actor<'a>,
    progress: &'b mut Progress,
    /// Stops a node that runs.
    stops: BTreeMap<usize, CancellationToken>,
    /// The longest wait of those that are to be tried again.
    again: Option<Duration>,
    /// Why nothing goes on, whatever the graph says.
    halted: Option<Stopped>,
}

impl<'a> Round<'a, '_> {
    /// Writes down what follows from what has settled, and stops what an unhandled failure has cut off. How the graph
    /// ended, once it has.
    async fn settle_what_follows(&mut self) -> Result<Option<GraphEnd>, Stopped> {
        if self.halted.is_some() {
            return Ok(None);
        }
        let next = self.progress.graph.next(&self.progress.states);
        self.settled(next.settled).await?;
        for at in next.stop {
            self.stop(at);
        }
        Ok(next.end)
    }

    /// Nothing begins any more, and what runs is stopped.
    fn halt(&mut self, stopped: Stopped) {
        self.halted.get_or_insert(stopped);
        self.stops.keys().for_each(|at| self.stop(*at));
    }

    fn ended(self, end: GraphEnd) -> Result<RoundEnd, Stopped> {
        match end {
            GraphEnd::Succeeded => Ok(RoundEnd::Done),
            GraphEnd::Cancelled => Err(Stopped::Cancelled),
            GraphEnd::Failed { node } => Err(Stopped::Told(self.cause(node))),
        }
    }

    /// Why a node failed; a nested actor fails with the cause of its member.
    fn cause(&self, at: usize) -> String {
        let causes = &self.progress.causes;
        let members = format!("{}/", self.actor.steps[at].node);
        let of_member = || causes.iter().find(|(at, _)| self.actor.steps[**at].node.starts_with(&members));
        let cause = causes.get(&at).or_else(|| of_member().map(|(_, cause)| cause));
        cause.cloned().unwrap_or_else(|| format!("node {} failed", self.actor.steps[at].node))
    }

    /// The next that can begin, in the order of the file.
    fn ready(&self, running: usize) -> Option<usize> {
        let room = usize::try_from(self.actor.plan.spec.parallel).unwrap_or(1).max(1);
        if self.halted.is_some() || self.again.is_some() || running >= room {
            return None;
        }
        self.progress.graph.next(&self.progress.states).ready.first().copied()
    }

    async fn settle(&mut self, settled: Vec<(usize, NodeOutcome)>) {
        if let Err(stopped) = self.settled(settled).await {
            self.halt(stopped);
        }
    }

    /// Stores the ends of nodes that were not begun.
    async fn settled(&mut self, settled: Vec<(usize, NodeOutcome)>) -> Result<(), Stopped> {
        if settled.is_empty() {
            return Ok(());
        }
        let now = self.actor.house.wall();
        let mut runs = Vec::new();
        for (at, outcome) in settled {
            let run = match &self.actor.steps[at].does {
                Does::Actor { result, .. } => self.whole(at, result, outcome, now),
                Does::Command(_)
                | Does::Read { .. }
                | Does::Write { .. }
                | Does::Edit { .. }
                | Does::Wait { .. }
                | Does::Tool { .. }
                | Does::Model(_)
                | Does::External(_) => self.node_run(at, (now, now), outcome, Left::default()),
            };
            self.progress.add(at, run.clone());
            runs.push(run);
        }
        self.actor.settle(runs).await
    }

    /// The end of a nested actor: what its result said, and what all its members used and changed.
    fn whole(&self, at: usize, result: &str, outcome: NodeOutcome, now: WallMs) -> NodeRun {
        let members = format!("{}/", self.actor.steps[at].node);
        let of_members = || self.progress.runs.values().filter(|run| run.path.starts_with(&members));
        let is_leaf = |run: &&NodeRun| !run.path[members.len()..].contains(domain::MEMBER_SEPARATOR);
        let said = of_members().find(|run| run.path == result);
        let left = Left {
            exit: said.and_then(|run| run.exit),
            text: said.map(|run| run.text.clone()).unwrap_or_default(),
            json: said.map(|run| run.json.clone()).unwrap_or_default(),
            guidance_seen: of_members().map(|run| run.guidance_seen).max().unwrap_or(0),
            changed: of_members().filter(is_leaf).map(|run| run.changed).sum(),
            usage: of_members().filter(is_leaf).fold(Usage::default(), |sum, run| sum.plus(run.usage)),
        };
        let started = of_members().map(|run| run.started).min().unwrap_or(now);
        self.node_run(at, (started, now), outcome, left)
    }

    fn node_run(
        &self,
        at: usize,
        (started, finished): (WallMs, WallMs),
        outcome: NodeOutcome,
        left: Left,
    ) -> NodeRun {
        NodeRun {
            attempt: self.actor.plan.attempt,
            phase: self.actor.phase,
            path: self.actor.steps[at].node.clone(),
            tries: self.progress.tries.get(&at).copied().unwrap_or(0),
            ..left.node_run((started, finished), outcome)
        }
    }

    fn begin(&mut self, at: usize) -> impl Future<Output = (usize, Result<Done, Stopped>)> + use<'a> {
        let token = self.actor.run.scope().child();
        let scope = token.observe();
        self.stops.insert(at, token);
        self.progress.states[at] = NodeState::Running;
        let tries = self.progress.tries.entry(at).or_default();
        *tries += 1;
        let (actor, tries, values) = (self.actor, *tries, Arc::clone(&self.progress.values));
        let step = &actor.steps[at];
        let began =
            self.progress.calls.iter().find(|call| call.new.node == step.node).map(|call| call.started);
        async move {
            let Actor { house, run, live, plan, phase, .. } = *actor;
            let (path, started) = (step.node.as_str(), house.wall());
            let (values, guidance_seen) = match actor.told(&values).await {
                Ok(told) => told,
                Err(stopped) => return (at, Err(stopped)),
            };
            let values = &values;
            let node = Node {
                house,
                run,
                live,
                plan,
                step,
                phase,
                path,
                values,
                guidance_seen,
                scope,
                tries,
                started,
                began,
            };
            (at, do_node(&node).await)
        }
    }

    fn stop(&self, at: usize) {
        if let Some(token) = self.stops.get(&at) {
            token.cancel(CancelReason::Sibling);
            self.actor.live.kill_node(&self.actor.steps[at].node);
        }
    }

    /// What a node that ran came to.
    async fn take(&mut self, at: usize, done: Result<Done, Stopped>) {
        self.stops.remove(&at);
        if let Err(stopped) = self.taken(at, done).await {
            self.halt(stopped);
        }
    }

    async fn taken(&mut self, at: usize, done: Result<Done, Stopped>) -> Result<(), Stopped> {
        let Actor { house, run, plan, live, .. } = *self.actor;
        let step = &self.actor.steps[at];
        match done {
            Ok(Done { run, is_stored }) => {
                if !is_stored {
                    self.actor.settle(vec![run.clone()]).await?;
                }
                self.progress.add(at, run);
                live.close_changeset(&step.node).await
            }
            Err(Stopped::Failed { category, message, left }) => {
                let Told { message, recovery } = tell(house, run, plan, Some(step), category, message).await;
                match recovery.map(|recovery| recovery.action) {
                    Some(Action::Retry { after, .. }) => {
                        self.progress.states[at] = NodeState::Waiting;
                        self.again = self.again.max(Some(after));
                        Ok(())
                    }
                    Some(Action::Revert | Action::Ask | Action::GiveUp) | None => {
                        self.failed(at, message, left).await
                    }
                }
            }
            Err(Stopped::Told(message)) => self.failed(at, message, None).await,
            // Stopped by itself: the run goes on.
            Err(Stopped::Cancelled) if !run.scope().is_cancelled() => {
                self.ran(at, NodeOutcome::Cancelled, Left::default()).await
            }
            Err(stopped @ (Stopped::Cancelled | Stopped::Limit { .. } | Stopped::Constrained(_))) => {
                Err(stopped)
            }
        }
    }

    async fn failed(&mut self, at: usize, message: String, left: Option<Box<Left>>) -> Result<(), Stopped> {
        let left = left.map_or_else(|| Left { text: message.clone(), ..Left::default() }, |left| *left);
        self.progress.causes.insert(at, message);
        self.ran(at, NodeOutcome::Failed, left).await
    }

    /// A node that was begun has settled, and has not stored it.
    async fn ran(&mut self, at: usize, outcome: NodeOutcome, left: Left) -> Result<(), Stopped> {
        let now = self.actor.house.wall();
        let run = self.node_run(at, (now, now), outcome, left);
        self.progress.add(at, run.clone());
        self.actor.settle(vec![run]).await
    }
}

/// Whether a condition holds; without one it does.
fn holds(condition: Option<&str>, values: &Values, step: &Step) -> Result<bool, Stopped> {
    let Some(condition) = condition else { return Ok(true) };
    let unfit = |why: &dyn std::fmt::Display| {
        let message = format!("node {}: the condition `{condition}` cannot be told: {why}", step.node);
        Stopped::failed(ErrorCategory::InvalidInput, message)
    };
    let condition = Expr::parse_frozen(condition).map_err(|flaw| unfit(&flaw))?;
    condition.holds(&|path| values.get(path)).map_err(|error| unfit(&error))
}

/// Does a node until it has left what it is repeated for.
pub(super) async fn do_node(node: &Node<'_>) -> Result<Done, Stopped> {
    let Some(repeat) = &node.step.repeat else { return steps::run(node).await };
    let mut sum = Left::default();
    for _ in 0..repeat.max {
        let Done { run, .. } = steps::run(node).await?;
        sum = Left {
            exit: run.exit,
            text: run.text,
            json: run.json,
            changed: sum.changed.saturating_add(run.changed),
            usage: sum.usage.plus(run.usage),
            guidance_seen: run.guidance_seen,
        };
        let run = node.ended(sum.clone());
        let mut values = node.values.clone();
        values.add(&run);
        if holds(Some(&repeat.until), &values, node.step)? {
            return Ok(Done { run, is_stored: false });
        }
    }
    let message = format!(
        "REPEAT_EXHAUSTED: node {} was done {} times, and `{}` did not hold",
        node.path, repeat.max, repeat.until
    );
    Err(Stopped::failed(ErrorCategory::Tool, message))
}
