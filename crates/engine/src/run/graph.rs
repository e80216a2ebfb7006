//! Runs the graph of an actor: nodes that are ready begin while others run, until nothing is left to begin.
//!
//! # How a failure goes
//! The recovery records it. If the node may be tried again, no other node begins; those that run come to
//! their end, and the round is over ([`RoundEnd::Again`]). The next round begins as after a crash, on a tree
//! without the changes of the failed try. If it may not, the node has failed. A failure that a node handles
//! (`on: failure`) goes to that node. Any other stops the nodes that run concurrently with it. When those
//! have settled, the actor has failed with that cause. The recovery records every further failure in the
//! meantime too.
//!
//! # Invariants
//! 1. Ends of nodes are stored before anything that needs them begins. So an interrupted run resumes after
//!    the last node that settled, and a branch that was not taken stays so.
//! 2. At most `limits.parallel` nodes run concurrently. The graph and the settled nodes decide which begin
//!    next.
//! 3. Only this module tries a node again, apart from a model that asks its provider again.
//! 4. Nodes continue while the end of another is stored: nothing here waits for a resource of a node that is
//!    blocked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    ErrorCategory, Expr, GraphEnd, NextSteps, NodeKind, NodeOutcome, NodeRun, NodeState, PlanGraph, PlanStep,
    RecoveryAction, TokenUsage, ToolCall, Values, WallMs,
};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use store::CallAuthority;
use sync::{CancelReason, CancellationToken};

use super::accounting::{UnrecordedCall, record_all};
use super::context::{NodeContext, RunContext};
use super::node::{ActiveNode, NodeOutput, NodePersistence, NodeResult};
use super::node::{command, prompt};
use super::{PhaseFailure, ReportedFailure, RunError, report_failure};
use crate::query::details::store_error;

/// One run of an actor's graph, for one phase of a plan.
pub(crate) struct GraphRun<'a> {
    pub(crate) run: RunContext<'a>,
    pub(crate) steps: &'a [PlanStep],
}

impl<'a> Deref for GraphRun<'a> {
    type Target = RunContext<'a>;

    fn deref(&self) -> &RunContext<'a> {
        &self.run
    }
}

impl GraphRun<'_> {
    /// Returns the values for a node that begins now, and the number of the last message of a person.
    pub(crate) async fn brief_values(&self, values: &Arc<Values>) -> Result<(Arc<Values>, u32), RunError> {
        if self.plan.spec.prompt.is_empty() {
            return Ok((Arc::clone(values), 0));
        }
        let decisions = self.engine.store.decisions(self.plan.id).await?;
        let (values, seen) = prompt::with_brief(self.plan, values, &decisions);
        Ok((Arc::new(values), seen))
    }

    /// Stores the ends of nodes.
    pub(crate) async fn settle(&self, runs: Vec<NodeRun>) -> Result<(), RunError> {
        let effect = self.job.enter()?;
        self.engine.store.settle_nodes(CallAuthority::Effect(&effect), &self.job.claim(), runs).await?;
        Ok(())
    }

    /// A node came to its end: deaths of workers before that are not held against a plan that gets on.
    async fn forgive_lost_leases(&self) -> Result<(), RunError> {
        if self.job.job().lost_leases == 0 {
            return Ok(());
        }
        let effect = self.job.enter()?;
        let forgiven = self.engine.store.settled_node(&effect, &self.job.claim()).await;
        Ok(forgiven.map_err(store_error)?)
    }
}

/// The progress of a graph run.
pub(crate) struct GraphProgress {
    graph: PlanGraph,
    states: Vec<NodeState>,
    values: Arc<Values>,
    /// The number of times that each node was begun, by its place.
    tries: BTreeMap<usize, u32>,
    /// The results of settled nodes, by their places.
    runs: BTreeMap<usize, NodeRun>,
    /// Why nodes failed.
    causes: BTreeMap<usize, String>,
    /// The rounds of repair that succeeded, by their paths.
    mended: Vec<String>,
    /// The calls of the attempt before the round.
    calls: Vec<ToolCall>,
}

/// Returns the number of earlier tries of a node, by its stored end and by its calls. A node with a single
/// call makes it in each try. A model that made calls and has no end counts as begun once.
fn tries(step: &PlanStep, ended: Option<&NodeRun>, calls: &[ToolCall]) -> u32 {
    let made = calls.iter().filter(|call| call.new.node == step.node).count();
    let made = u32::try_from(made).unwrap_or(u32::MAX);
    let by_calls = match step.does {
        NodeKind::Actor { .. } => 0,
        NodeKind::Model(_) => made.min(1),
        NodeKind::Command(_)
        | NodeKind::External(_)
        | NodeKind::Read { .. }
        | NodeKind::Write { .. }
        | NodeKind::Edit { .. }
        | NodeKind::Wait { .. }
        | NodeKind::Tool { .. } => made,
    };
    ended.map_or(0, |run| run.tries).max(by_calls)
}

/// The end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// Nothing is left to do.
    Done,
    /// A node is to be tried again.
    Again {
        /// After this wait.
        after: Duration,
    },
}

impl GraphProgress {
    /// Returns the progress of the actor, by the ends that were stored.
    pub(crate) fn from_runs(
        actor: &GraphRun<'_>,
        runs: &[NodeRun],
        values: Values,
        calls: Vec<ToolCall>,
    ) -> Result<GraphProgress, RunError> {
        let graph = PlanGraph::new(actor.steps).map_err(|flaws| {
            let flaws: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            RunError::failed(ErrorCategory::InvalidInput, flaws.join("; "))
        })?;
        let of_this = |run: &&NodeRun| run.phase == actor.phase() && run.attempt == actor.plan.attempt;
        let known = |step: &PlanStep| runs.iter().filter(of_this).find(|run| run.path == step.node);
        let ends: Vec<Option<NodeOutcome>> =
            actor.steps.iter().map(|step| known(step).map(|run| run.outcome)).collect();
        let states = graph.resumed(&ends);
        let is_mending = |run: &&NodeRun| !actor.steps.iter().any(|step| step.node == run.path);
        let mended = runs.iter().filter(of_this).filter(is_mending);
        let mended =
            mended.filter(|run| run.outcome == NodeOutcome::Succeeded).map(|run| run.path.clone()).collect();
        let begun = actor.steps.iter().enumerate().map(|(at, step)| (at, tries(step, known(step), &calls)));
        let begun = begun.filter(|(_, tries)| *tries > 0).collect();
        let mut progress = GraphProgress {
            graph,
            states,
            values: Arc::new(values),
            tries: begun,
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

    /// The paths of the nodes, and of the rounds of repair, that are settled.
    pub(crate) fn settled(&self, steps: &[PlanStep]) -> BTreeSet<String> {
        let is_settled = |at: usize| matches!(self.states.get(at), Some(NodeState::Settled(_)));
        let nodes =
            steps.iter().enumerate().filter(|(at, _)| is_settled(*at)).map(|(_, step)| step.node.clone());
        nodes.chain(self.mended.iter().cloned()).collect()
    }

    /// The number of rounds of repair that have succeeded.
    pub(crate) fn rounds_mended(&self) -> u32 {
        u32::try_from(self.mended.len()).unwrap_or(u32::MAX)
    }

    /// Returns the present values of the templates.
    pub(crate) fn values(&self) -> &Arc<Values> {
        &self.values
    }

    fn add(&mut self, at: usize, run: NodeRun) {
        self.states[at] = NodeState::Settled(run.outcome);
        Arc::make_mut(&mut self.values).add(&run);
        self.runs.insert(at, run);
    }
}

/// Runs what is left of the graph.
pub(crate) async fn run(actor: &GraphRun<'_>, progress: &mut GraphProgress) -> Result<RoundEnd, RunError> {
    let mut round = GraphRound { actor, progress, stops: BTreeMap::new(), again: None, halted: None };
    let mut running = RunningNodes { nodes: FuturesUnordered::new(), ended: VecDeque::new() };
    loop {
        let next = round.next();
        if let Some(end) = next.end.filter(|_| next.settled.is_empty()) {
            return round.ended(end);
        }
        let is_new = !next.settled.is_empty();
        running.run_alongside(round.settle(next.settled)).await;
        next.stop.into_iter().for_each(|at| round.stop(at));
        if is_new || round.begin_ready(&next.ready, &mut running).await {
            continue;
        }
        let ended = running.next().await;
        if ended.is_empty() {
            break;
        }
        running.run_alongside(round.take_all(ended)).await;
    }
    match (round.halted, round.again) {
        (Some(stopped), _) => Err(stopped),
        (None, Some(after)) => Ok(RoundEnd::Again { after }),
        (None, None) => Err(RunError::Cancelled),
    }
}

/// A node by its place, and what it came to.
type EndedNode = (usize, Result<NodeResult, RunError>);

/// The nodes that run, and those that have ended and were not taken yet.
struct RunningNodes<'a> {
    nodes: FuturesUnordered<BoxFuture<'a, EndedNode>>,
    ended: VecDeque<EndedNode>,
}

impl RunningNodes<'_> {
    fn len(&self) -> usize {
        self.nodes.len() + self.ended.len()
    }

    /// Returns the results of nodes: one, and all that ended with it. Empty if no node runs.
    async fn next(&mut self) -> Vec<EndedNode> {
        if self.ended.is_empty() {
            self.ended.extend(self.nodes.next().await);
        }
        while let Some(Some(ended)) = self.nodes.next().now_or_never() {
            self.ended.push_back(ended);
        }
        self.ended.drain(..).collect()
    }

    /// Does this while the nodes continue: a node that is paused could hold what this waits for.
    async fn run_alongside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                Some(ended) = self.nodes.next() => self.ended.push_back(ended),
            }
        }
    }
}

/// One round: from the present progress of the actor to the moment when no node runs.
struct GraphRound<'a, 'b> {
    actor: &'a GraphRun<'a>,
    progress: &'b mut GraphProgress,
    /// Stops a node that runs.
    stops: BTreeMap<usize, CancellationToken>,
    /// The longest wait of those that are to be tried again.
    again: Option<Duration>,
    /// The reason why nothing continues, whatever the graph says.
    halted: Option<RunError>,
}

impl<'a> GraphRound<'a, '_> {
    /// Returns the next steps by the graph; none once the round is halted.
    fn next(&self) -> NextSteps {
        match self.halted {
            Some(_) => NextSteps::default(),
            None => self.progress.graph.next(&self.progress.states),
        }
    }

    /// Starts all nodes that can start, in the order of the file and up to the limit. Returns true if one of
    /// them has settled instead, so that others may be ready.
    async fn begin_ready(&mut self, ready: &[usize], running: &mut RunningNodes<'a>) -> bool {
        let room = usize::try_from(self.actor.plan.spec.parallel).unwrap_or(1).max(1);
        for at in ready.iter().copied() {
            if self.halted.is_some() || self.again.is_some() || running.len() >= room {
                return false;
            }
            let step = &self.actor.steps[at];
            match holds(step.only_if.as_deref(), &self.progress.values, step) {
                Ok(true) => {
                    running.nodes.push(self.begin(at));
                    continue;
                }
                Ok(false) => running.run_alongside(self.settle(vec![(at, NodeOutcome::Skipped)])).await,
                Err(stopped) => running.run_alongside(self.take(at, Err(stopped))).await,
            }
            return true;
        }
        false
    }

    /// Nothing begins any more, and what runs is stopped.
    fn halt(&mut self, stopped: RunError) {
        self.halted.get_or_insert(stopped);
        self.stops.keys().for_each(|at| self.stop(*at));
    }

    fn ended(self, end: GraphEnd) -> Result<RoundEnd, RunError> {
        match end {
            GraphEnd::Succeeded => Ok(RoundEnd::Done),
            GraphEnd::Cancelled => Err(RunError::Cancelled),
            GraphEnd::Failed { node } => Err(RunError::Reported(self.cause(node))),
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

    async fn settle(&mut self, settled: Vec<(usize, NodeOutcome)>) {
        if let Err(stopped) = self.settled(settled).await {
            self.halt(stopped);
        }
    }

    /// Stores the ends of nodes that were not begun.
    async fn settled(&mut self, settled: Vec<(usize, NodeOutcome)>) -> Result<(), RunError> {
        if settled.is_empty() {
            return Ok(());
        }
        let now = self.actor.engine.wall();
        let mut runs = Vec::new();
        for (at, outcome) in settled {
            let run = match &self.actor.steps[at].does {
                NodeKind::Actor { result, .. } => self.whole(at, result, outcome, now),
                NodeKind::Command(_)
                | NodeKind::Read { .. }
                | NodeKind::Write { .. }
                | NodeKind::Edit { .. }
                | NodeKind::Wait { .. }
                | NodeKind::Tool { .. }
                | NodeKind::Model(_)
                | NodeKind::External(_) => self.node_run(at, (now, now), outcome, NodeOutput::default()),
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
        let left = NodeOutput {
            exit: said.and_then(|run| run.exit),
            text: said.map(|run| run.text.clone()).unwrap_or_default(),
            json: said.map(|run| run.json.clone()).unwrap_or_default(),
            guidance_seen: of_members().map(|run| run.guidance_seen).max().unwrap_or(0),
            changed: of_members().filter(is_leaf).map(|run| run.changed).sum(),
            usage: of_members().filter(is_leaf).fold(TokenUsage::default(), |sum, run| sum.plus(run.usage)),
        };
        let started = of_members().map(|run| run.started).min().unwrap_or(now);
        self.node_run(at, (started, now), outcome, left)
    }

    fn node_run(
        &self,
        at: usize,
        (started, finished): (WallMs, WallMs),
        outcome: NodeOutcome,
        left: NodeOutput,
    ) -> NodeRun {
        NodeRun {
            attempt: self.actor.plan.attempt,
            phase: self.actor.phase(),
            path: self.actor.steps[at].node.clone(),
            tries: self.progress.tries.get(&at).copied().unwrap_or(0),
            ..left.node_run((started, finished), outcome)
        }
    }

    fn begin(&mut self, at: usize) -> BoxFuture<'a, EndedNode> {
        let token = self.actor.job.scope().child();
        let scope = token.observe();
        self.stops.insert(at, token);
        self.progress.states[at] = NodeState::Running;
        let tries = self.progress.tries.entry(at).or_default();
        *tries += 1;
        let (actor, tries, values) = (self.actor, *tries, Arc::clone(&self.progress.values));
        let step = &actor.steps[at];
        let began =
            self.progress.calls.iter().find(|call| call.new.node == step.node).map(|call| call.started);
        Box::pin(async move {
            let (path, started) = (step.node.as_str(), actor.engine.wall());
            let (values, guidance_seen) = match actor.brief_values(&values).await {
                Ok(brief) => brief,
                Err(stopped) => return (at, Err(stopped)),
            };
            let values = &values;
            actor.state.forget_changed(path);
            let context = NodeContext { run: actor.run, path, scope };
            let node = ActiveNode { context, step, values, guidance_seen, tries, started, began };
            (at, do_node(&node).await)
        })
    }

    fn stop(&self, at: usize) {
        if let Some(token) = self.stops.get(&at) {
            token.cancel(CancelReason::Sibling);
            self.actor.state.kill_node(&self.actor.steps[at].node);
        }
    }

    /// Handles the results of nodes that ended together.
    async fn take_all(&mut self, mut ended: Vec<EndedNode>) {
        match self.record_together(&mut ended).await {
            // The nodes that are left are recorded and reported one by one.
            Ok(()) | Err(RunError::Limit { .. }) => {}
            Err(stopped) => return self.halt(stopped),
        }
        for (at, done) in ended {
            self.take(at, done).await;
        }
    }

    /// Stores the results of several nodes in one step, if they only have to be stored.
    async fn record_together(&self, ended: &mut [EndedNode]) -> Result<(), RunError> {
        let ends = || ended.iter().filter_map(|(_, done)| Some(&done.as_ref().ok()?.end));
        let unkept: Vec<&UnrecordedCall> = ends().filter_map(NodePersistence::unkept).collect();
        if unkept.len() < 2 {
            return Ok(());
        }
        record_all(self.actor.run, &unkept).await?;
        for (_, done) in ended {
            if let Ok(NodeResult { end, .. }) = done
                && end.unkept().is_some()
            {
                *end = NodePersistence::Stored;
            }
        }
        Ok(())
    }

    /// Handles the result of a node that ran.
    async fn take(&mut self, at: usize, done: Result<NodeResult, RunError>) {
        self.stops.remove(&at);
        if let Err(stopped) = self.taken(at, done).await {
            self.halt(stopped);
        }
    }

    async fn taken(&mut self, at: usize, done: Result<NodeResult, RunError>) -> Result<(), RunError> {
        let run = self.actor.run;
        let step = &self.actor.steps[at];
        match done {
            Ok(done) => {
                let ended = done.persist(run).await?;
                self.progress.add(at, ended);
                run.state.close_changeset(&step.node).await?;
                self.actor.forgive_lost_leases().await
            }
            Err(RunError::Failed { category, message, left, call }) => {
                let failure = PhaseFailure { category, message, call, retry_after: None };
                let ReportedFailure { message, recovery } = report_failure(run, Some(step), failure).await;
                match recovery.map(|recovery| recovery.action) {
                    Some(RecoveryAction::Retry { after, .. }) => {
                        self.progress.states[at] = NodeState::Waiting;
                        self.again = self.again.max(Some(after));
                        Ok(())
                    }
                    Some(
                        RecoveryAction::Revert
                        | RecoveryAction::Ask
                        | RecoveryAction::GiveUp
                        | RecoveryAction::Told,
                    )
                    | None => self.failed(at, message, left).await,
                }
            }
            Err(RunError::Reported(message)) => self.failed(at, message, None).await,
            // Stopped by itself: the run continues.
            Err(RunError::Cancelled) if !run.job.scope().is_cancelled() => {
                let left = NodeOutput { changed: self.changed_by(at), ..NodeOutput::default() };
                self.ran(at, NodeOutcome::Cancelled, left).await
            }
            Err(stopped @ (RunError::Cancelled | RunError::Limit { .. } | RunError::Constrained(_))) => {
                Err(stopped)
            }
        }
    }

    async fn failed(
        &mut self,
        at: usize,
        message: String,
        left: Option<Box<NodeOutput>>,
    ) -> Result<(), RunError> {
        let left =
            left.map_or_else(|| NodeOutput { text: message.clone(), ..NodeOutput::default() }, |left| *left);
        let left = NodeOutput { changed: self.changed_by(at), ..left };
        self.progress.causes.insert(at, message);
        self.ran(at, NodeOutcome::Failed, left).await
    }

    /// The number of changes that a node has recorded that did not succeed.
    fn changed_by(&self, at: usize) -> u32 {
        self.actor.state.changed_by(&self.actor.steps[at].node)
    }

    /// A node that was begun has settled, and has not stored it.
    async fn ran(&mut self, at: usize, outcome: NodeOutcome, left: NodeOutput) -> Result<(), RunError> {
        let now = self.actor.engine.wall();
        let run = self.node_run(at, (now, now), outcome, left);
        self.progress.add(at, run.clone());
        self.actor.settle(vec![run]).await
    }
}

/// Returns true if a condition holds; without one it does.
fn holds(condition: Option<&str>, values: &Values, step: &PlanStep) -> Result<bool, RunError> {
    let Some(condition) = condition else { return Ok(true) };
    let unfit = |why: &dyn std::fmt::Display| {
        let message = format!("node {}: the condition `{condition}` cannot be evaluated: {why}", step.node);
        RunError::failed(ErrorCategory::InvalidInput, message)
    };
    let condition = Expr::parse_frozen(condition).map_err(|flaw| unfit(&flaw))?;
    condition.holds(&|path| values.get(path)).map_err(|error| unfit(&error))
}

/// Does a node until it has left what it is repeated for.
pub(crate) async fn do_node(node: &ActiveNode<'_>) -> Result<NodeResult, RunError> {
    let Some(repeat) = &node.step.repeat else { return command::run(node).await };
    let mut sum = NodeOutput::default();
    for _ in 0..repeat.max {
        let run = match command::run(node).await? {
            // Nothing of it was stored: the node has not ended.
            NodeResult { run, end: NodePersistence::Stored | NodePersistence::Loose } => run,
            NodeResult { run, end: NodePersistence::WithCall(unkept) } => {
                record_all(node.run, &[&unkept]).await?;
                run
            }
        };
        sum = NodeOutput {
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
            return Ok(NodeResult { run, end: NodePersistence::Loose });
        }
    }
    let message = format!(
        "REPEAT_EXHAUSTED: node {} ran {} times, and `{}` did not become true",
        node.path, repeat.max, repeat.until
    );
    Err(RunError::failed(ErrorCategory::Tool, message))
}
