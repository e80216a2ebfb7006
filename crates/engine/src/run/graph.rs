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
//! 4. Nodes go on while the end of another is stored: nothing here waits for what a node holds that stands still.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Action, Does, ErrorCategory, Expr, Graph, GraphEnd, Next, NodeOutcome, NodeRun, NodeState, Phase, Plan,
    Step, ToolCall, Usage, Values, WallMs,
};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use store::By;
use sync::{CancelReason, CancellationToken};

use super::accounting::{Unkept, keep_all};
use super::context::Site;
use super::node::{Done, End, Left, Node};
use super::node::{command, prompt};
use super::state::LiveRun;
use super::{Failure, Stopped, Told, tell};
use crate::engine::House;
use crate::query::details::store_error;
use worker::JobRun;

/// An actor at work: the graph of one phase of a plan.
pub(crate) struct Actor<'a> {
    pub(crate) house: &'a Arc<House>,
    pub(crate) run: &'a JobRun,
    pub(crate) live: &'a Arc<LiveRun>,
    pub(crate) plan: &'a Plan,
    pub(crate) phase: Phase,
    pub(crate) steps: &'a [Step],
}

impl Actor<'_> {
    /// The place of what the phase itself does.
    pub(crate) fn site(&self) -> Site<'_> {
        let Actor { house, run, live, plan, .. } = *self;
        Site { house, run, live, plan, path: "", scope: run.scope().clone() }
    }

    /// What a node is told that begins now, and the number of the last thing that a person said.
    pub(crate) async fn told(&self, values: &Arc<Values>) -> Result<(Arc<Values>, u32), Stopped> {
        if self.plan.spec.prompt.is_empty() {
            return Ok((Arc::clone(values), 0));
        }
        let decisions = self.house.store.decisions(self.plan.id).await?;
        let (values, seen) = prompt::with_brief(self.plan, values, &decisions);
        Ok((Arc::new(values), seen))
    }

    /// Stores the ends of nodes.
    pub(crate) async fn settle(&self, runs: Vec<NodeRun>) -> Result<(), Stopped> {
        let effect = self.run.enter()?;
        self.house.store.settle_nodes(By::Effect(&effect), &self.run.claim(), runs).await?;
        Ok(())
    }
}

impl Actor<'_> {
    /// A node came to its end: deaths of workers before that are not held against a plan that gets on.
    async fn got_on(&self) -> Result<(), Stopped> {
        if self.run.job().lost_leases == 0 {
            return Ok(());
        }
        let effect = self.run.enter()?;
        let forgiven = self.house.store.settled_node(&effect, &self.run.claim()).await;
        Ok(forgiven.map_err(store_error)?)
    }
}

/// How far an actor has come.
pub(crate) struct Progress {
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

/// How often a node was begun before: as its stored end says, and as its calls tell. One that makes a single call makes it
/// in each try; of a model that made calls and has no end it is known that it was begun.
fn tries(step: &Step, ended: Option<&NodeRun>, calls: &[ToolCall]) -> u32 {
    let made = calls.iter().filter(|call| call.new.node == step.node).count();
    let made = u32::try_from(made).unwrap_or(u32::MAX);
    let by_calls = match step.does {
        Does::Actor { .. } => 0,
        Does::Model(_) => made.min(1),
        Does::Command(_)
        | Does::External(_)
        | Does::Read { .. }
        | Does::Write { .. }
        | Does::Edit { .. }
        | Does::Wait { .. }
        | Does::Tool { .. } => made,
    };
    ended.map_or(0, |run| run.tries).max(by_calls)
}

/// How a round ended.
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

impl Progress {
    /// Where the actor stands, by the ends that were stored.
    pub(crate) fn of(
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
        let begun = actor.steps.iter().enumerate().map(|(at, step)| (at, tries(step, known(step), &calls)));
        let begun = begun.filter(|(_, tries)| *tries > 0).collect();
        let mut progress = Progress {
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

    /// The paths of the nodes, and of the rounds of mending, whose ends stand.
    pub(crate) fn settled(&self, steps: &[Step]) -> BTreeSet<String> {
        let is_settled = |at: usize| matches!(self.states.get(at), Some(NodeState::Settled(_)));
        let nodes =
            steps.iter().enumerate().filter(|(at, _)| is_settled(*at)).map(|(_, step)| step.node.clone());
        nodes.chain(self.mended.iter().cloned()).collect()
    }

    /// How many rounds of mending have succeeded.
    pub(crate) fn rounds_mended(&self) -> usize {
        self.mended.len()
    }

    /// What the templates see by now.
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
pub(crate) async fn run(actor: &Actor<'_>, progress: &mut Progress) -> Result<RoundEnd, Stopped> {
    let mut round = Round { actor, progress, stops: BTreeMap::new(), again: None, halted: None };
    let mut running = Running { nodes: FuturesUnordered::new(), ended: VecDeque::new() };
    loop {
        let next = round.next();
        if let Some(end) = next.end.filter(|_| next.settled.is_empty()) {
            return round.ended(end);
        }
        let is_new = !next.settled.is_empty();
        running.beside(round.settle(next.settled)).await;
        next.stop.into_iter().for_each(|at| round.stop(at));
        if is_new || round.begin_ready(&next.ready, &mut running).await {
            continue;
        }
        let ended = running.next().await;
        if ended.is_empty() {
            break;
        }
        running.beside(round.take_all(ended)).await;
    }
    match (round.halted, round.again) {
        (Some(stopped), _) => Err(stopped),
        (None, Some(after)) => Ok(RoundEnd::Again { after }),
        (None, None) => Err(Stopped::Cancelled),
    }
}

/// A node by its place, and what it came to.
type Ended = (usize, Result<Done, Stopped>);

/// The nodes that run, and those that have ended and were not taken yet.
struct Running<'a> {
    nodes: FuturesUnordered<BoxFuture<'a, Ended>>,
    ended: VecDeque<Ended>,
}

impl Running<'_> {
    fn len(&self) -> usize {
        self.nodes.len() + self.ended.len()
    }

    /// What nodes came to: one, and all that ended with it. Nothing when none runs.
    async fn next(&mut self) -> Vec<Ended> {
        if self.ended.is_empty() {
            self.ended.extend(self.nodes.next().await);
        }
        while let Some(Some(ended)) = self.nodes.next().now_or_never() {
            self.ended.push_back(ended);
        }
        self.ended.drain(..).collect()
    }

    /// Does this while the nodes go on: one that stood still could hold what this waits for.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
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
    /// What the graph says by now; nothing once nothing goes on.
    fn next(&self) -> Next {
        match self.halted {
            Some(_) => Next::default(),
            None => self.progress.graph.next(&self.progress.states),
        }
    }

    /// Begins what can begin, in the order of the file and as far as there is room; true when one of them has settled
    /// instead, so that others may be ready.
    async fn begin_ready(&mut self, ready: &[usize], running: &mut Running<'a>) -> bool {
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
                Ok(false) => running.beside(self.settle(vec![(at, NodeOutcome::Skipped)])).await,
                Err(stopped) => running.beside(self.take(at, Err(stopped))).await,
            }
            return true;
        }
        false
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

    fn begin(&mut self, at: usize) -> BoxFuture<'a, Ended> {
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
        Box::pin(async move {
            let Actor { house, run, live, plan, phase, .. } = *actor;
            let (path, started) = (step.node.as_str(), house.wall());
            let (values, guidance_seen) = match actor.told(&values).await {
                Ok(told) => told,
                Err(stopped) => return (at, Err(stopped)),
            };
            let values = &values;
            live.forget_changed(path);
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
        })
    }

    fn stop(&self, at: usize) {
        if let Some(token) = self.stops.get(&at) {
            token.cancel(CancelReason::Sibling);
            self.actor.live.kill_node(&self.actor.steps[at].node);
        }
    }

    /// What nodes came to that ended together.
    async fn take_all(&mut self, mut ended: Vec<Ended>) {
        match self.keep_together(&mut ended).await {
            // Each is kept, and told, by itself.
            Ok(()) | Err(Stopped::Limit { .. }) => {}
            Err(stopped) => return self.halt(stopped),
        }
        for (at, done) in ended {
            self.take(at, done).await;
        }
    }

    /// Stores in one step what only has to be kept of several.
    async fn keep_together(&self, ended: &mut [Ended]) -> Result<(), Stopped> {
        let ends = || ended.iter().filter_map(|(_, done)| Some(&done.as_ref().ok()?.end));
        let unkept: Vec<&Unkept> = ends().filter_map(End::unkept).collect();
        if unkept.len() < 2 {
            return Ok(());
        }
        keep_all(self.actor.house, self.actor.run, &unkept).await?;
        for (_, done) in ended {
            if let Ok(Done { end, .. }) = done
                && end.unkept().is_some()
            {
                *end = End::Stored;
            }
        }
        Ok(())
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
            Ok(done) => {
                let run = done.stored(house, run).await?;
                self.progress.add(at, run);
                live.close_changeset(&step.node).await?;
                self.actor.got_on().await
            }
            Err(Stopped::Failed { category, message, left, call }) => {
                let failure = Failure { category, message, call };
                let Told { message, recovery } = tell(house, run, plan, Some(step), failure).await;
                match recovery.map(|recovery| recovery.action) {
                    Some(Action::Retry { after, .. }) => {
                        self.progress.states[at] = NodeState::Waiting;
                        self.again = self.again.max(Some(after));
                        Ok(())
                    }
                    Some(Action::Revert | Action::Ask | Action::GiveUp | Action::Told) | None => {
                        self.failed(at, message, left).await
                    }
                }
            }
            Err(Stopped::Told(message)) => self.failed(at, message, None).await,
            // Stopped by itself: the run goes on.
            Err(Stopped::Cancelled) if !run.scope().is_cancelled() => {
                let left = Left { changed: self.changed_by(at), ..Left::default() };
                self.ran(at, NodeOutcome::Cancelled, left).await
            }
            Err(stopped @ (Stopped::Cancelled | Stopped::Limit { .. } | Stopped::Constrained(_))) => {
                Err(stopped)
            }
        }
    }

    async fn failed(&mut self, at: usize, message: String, left: Option<Box<Left>>) -> Result<(), Stopped> {
        let left = left.map_or_else(|| Left { text: message.clone(), ..Left::default() }, |left| *left);
        let left = Left { changed: self.changed_by(at), ..left };
        self.progress.causes.insert(at, message);
        self.ran(at, NodeOutcome::Failed, left).await
    }

    /// How many changes a node has recorded that did not succeed.
    fn changed_by(&self, at: usize) -> u32 {
        self.actor.live.changed_by(&self.actor.steps[at].node)
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
pub(crate) async fn do_node(node: &Node<'_>) -> Result<Done, Stopped> {
    let Some(repeat) = &node.step.repeat else { return command::run(node).await };
    let mut sum = Left::default();
    for _ in 0..repeat.max {
        let run = match command::run(node).await? {
            // Nothing of it was stored: the node has not ended.
            Done { run, end: End::Stored | End::Loose } => run,
            Done { run, end: End::WithCall(unkept) } => {
                keep_all(node.house, node.run, &[&unkept]).await?;
                run
            }
        };
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
            return Ok(Done { run, end: End::Loose });
        }
    }
    let message = format!(
        "REPEAT_EXHAUSTED: node {} was done {} times, and `{}` did not hold",
        node.path, repeat.max, repeat.until
    );
    Err(Stopped::failed(ErrorCategory::Tool, message))
}
