//! The graph of an actor: decides which steps can begin, which never will, and how the actor ends.
//!
//! Edges are stored at their target as `needs`. Steps whose needs are settled run concurrently; one with
//! several needs is a join. A nested actor is a step `ID` that does nothing itself ([`NodeKind::Actor`]) and
//! the steps `ID/CHILD`, its members. They begin when `ID` could, and `ID` is settled by how they ended.
//!
//! # Invariants
//! 1. A graph has no cycle, so every run of it ends.
//! 2. The next steps depend on the states of the steps alone. Asking again, or in another process, gives the
//!    same answer.
//! 3. A step is settled once. [`PlanGraph::next`] settles a step together with all that follow from it.
//! 4. A failure is handled iff a step that needs the failed one says `on: failure` or `on: always`, which is
//!    known before anything runs. One that is not handled cancels the rest of its actor, and then the actor
//!    has failed.
//!
//! # Not here
//! Conditions (`if`): the caller that starts a ready step looks at its condition, and settles it as skipped
//! if that is false. Running anything: the engine.

mod order;

use std::collections::{BTreeMap, BTreeSet};

use super::{NeedsCondition, NodeKind, PlanStep};
use crate::record::node_run::NodeOutcome;
use crate::suggest::did_you_mean;

/// The separator between the name of a nested actor's node and that of its member.
pub const MEMBER_SEPARATOR: char = '/';

/// The reason why steps are no graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphFlaw {
    /// Two have one name.
    #[error("two nodes are called `{node}`")]
    Duplicate {
        /// The name.
        node: String,
    },
    /// One needs what is not there.
    #[error("node `{node}` needs `{need}`, which is not a node{meant}")]
    UnknownNeed {
        /// The step that needs it.
        node: String,
        /// The name that it needs.
        need: String,
        /// The probable intention, in words.
        meant: String,
    },
    /// Some need each other.
    #[error("nodes need each other in a circle: {}", nodes.join(" → "))]
    Cycle {
        /// The way around; the first is the last.
        nodes: Vec<String>,
    },
}

/// The state of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// It has not begun.
    #[default]
    Waiting,
    /// It has begun.
    Running,
    /// It has ended, or never will begin.
    Settled(NodeOutcome),
}

/// The end of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphEnd {
    /// No failure was left unhandled.
    Succeeded,
    /// The first step in the order of the file whose failure no other step handles.
    Failed {
        /// The index of the step.
        node: usize,
    },
    /// It was cancelled.
    Cancelled,
}

/// The next steps to run and to settle, by their places in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextSteps {
    /// These can begin, in the order of the file.
    pub ready: Vec<usize>,
    /// These are settled by now, in an order in which they can be written down.
    pub settled: Vec<(usize, NodeOutcome)>,
    /// These run and are to be stopped.
    pub stop: Vec<usize>,
    /// The end; `None` while a step runs or waits.
    pub end: Option<GraphEnd>,
}

/// A sound graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanGraph {
    nodes: Vec<GraphNode>,
    /// Needs before those that need them, members before their actor.
    order: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GraphNode {
    name: String,
    needs: Vec<usize>,
    on: NeedsCondition,
    /// The nested actors around it, the innermost first.
    around: Vec<usize>,
    /// Of a nested actor.
    members: Vec<usize>,
    is_actor: bool,
    is_handled: bool,
}

impl PlanGraph {
    /// The graph of these steps.
    ///
    /// # Errors
    /// Returns all flaws of the graph.
    pub fn new(steps: &[PlanStep]) -> Result<PlanGraph, Vec<GraphFlaw>> {
        let mut flaws = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            if places.insert(&step.node, at).is_some() {
                flaws.push(GraphFlaw::Duplicate { node: step.node.clone() });
            }
        }
        let mut nodes: Vec<GraphNode> = steps.iter().map(|step| bare(step, &places)).collect();
        for at in 0..nodes.len() {
            nodes[at].needs = needs(steps, at, &places, &mut flaws);
            if let Some(actor) = nodes[at].around.first().copied() {
                nodes[actor].members.push(at);
            }
        }
        if !flaws.is_empty() {
            return Err(flaws);
        }
        for at in 0..nodes.len() {
            if matches!(nodes[at].on, NeedsCondition::Failure | NeedsCondition::Always) {
                for need in nodes[at].needs.clone() {
                    nodes[need].is_handled = true;
                }
            }
        }
        let order = order::order(&nodes).map_err(|cycles| {
            let named = |cycle: Vec<usize>| cycle.into_iter().map(|at| nodes[at].name.clone()).collect();
            cycles.into_iter().map(|cycle| GraphFlaw::Cycle { nodes: named(cycle) }).collect::<Vec<_>>()
        })?;
        Ok(PlanGraph { nodes, order })
    }

    /// Returns how many steps it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The place of the step with this name.
    pub fn place(&self, node: &str) -> Option<usize> {
        self.nodes.iter().position(|other| other.name == node)
    }

    /// Returns what a step needs.
    pub fn needs(&self, at: usize) -> &[usize] {
        self.nodes.get(at).map_or(&[], |node| &node.needs)
    }

    /// Returns whether a failure of the step is handled.
    pub fn is_handled(&self, at: usize) -> bool {
        self.nodes.get(at).is_some_and(|node| node.is_handled)
    }

    /// The steps that are settled before this one can begin.
    pub fn ancestors(&self, at: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let around = self.nodes.get(at).map_or(&[][..], |node| &node.around[..]);
        let mut left: Vec<usize> =
            around.iter().chain([&at]).flat_map(|at| self.needs(*at)).copied().collect();
        while let Some(at) = left.pop() {
            if found.insert(at) {
                left.extend(self.needs(at));
            }
        }
        found
    }

    /// The last step of the file, outside nested actors, that no other step needs: its text is the answer
    /// unless another is named.
    pub fn last_sink(&self) -> Option<usize> {
        let is_needed = |at: usize| self.nodes.iter().any(|node| node.needs.contains(&at));
        (0..self.nodes.len()).rev().find(|at| self.nodes[*at].around.is_empty() && !is_needed(*at))
    }

    /// Returns the states of the steps when a failed or interrupted run resumes, from the recorded ends.
    ///
    /// A success remains, and so does a failure that was handled, with all that followed from it. Everything
    /// else is done again: a failure that no step handled, the steps that it cancelled, and the steps that
    /// were skipped because of either.
    pub fn resumed(&self, ends: &[Option<NodeOutcome>]) -> Vec<NodeState> {
        let end = |at: usize| ends.get(at).copied().flatten();
        let is_past = |at: usize| end(at) == Some(NodeOutcome::Failed) && self.nodes[at].is_handled;
        let mut stands: Vec<bool> = (0..self.nodes.len())
            .map(|at| match end(at) {
                None => false,
                Some(NodeOutcome::Succeeded | NodeOutcome::Skipped) => true,
                Some(NodeOutcome::Failed | NodeOutcome::Cancelled) => {
                    is_past(at) || self.nodes[at].around.iter().any(|actor| is_past(*actor))
                }
            })
            .collect();
        loop {
            let falls =
                (0..self.nodes.len()).find(|at| stands[*at] && !self.still_stands(*at, end(*at), &stands));
            match falls {
                Some(at) => stands[at] = false,
                None => break,
            }
        }
        let state = |at: usize| end(at).filter(|_| stands[at]).map_or(NodeState::Waiting, NodeState::Settled);
        (0..self.nodes.len()).map(state).collect()
    }

    /// Returns whether the ends that this end followed from remain.
    fn still_stands(&self, at: usize, end: Option<NodeOutcome>, stands: &[bool]) -> bool {
        let node = &self.nodes[at];
        let mut needs = node.around.iter().chain([&at]).flat_map(|at| &self.nodes[*at].needs);
        let was_skipped = end == Some(NodeOutcome::Skipped);
        node.members.iter().all(|member| stands[*member])
            && !(was_skipped && needs.any(|need| !stands[*need]))
    }

    /// Returns the next steps for these states. Steps beyond the end of a list that is too short count as
    /// waiting.
    pub fn next(&self, states: &[NodeState]) -> NextSteps {
        let mut states: Vec<NodeState> =
            (0..self.nodes.len()).map(|at| states.get(at).copied().unwrap_or_default()).collect();
        let mut next = NextSteps::default();
        // An actor that fails here may cancel what was looked at before it. Each round goes one actor further out.
        while self.settle(&mut states, &mut next.settled) {}
        let broken = self.broken(&states);
        for (at, node) in self.nodes.iter().enumerate() {
            match states[at] {
                NodeState::Waiting if !node.is_actor && self.gate(at, &states) == NeedsState::Open => {
                    next.ready.push(at)
                }
                NodeState::Running if self.is_cut_off(at, &broken) => next.stop.push(at),
                NodeState::Waiting | NodeState::Running | NodeState::Settled(_) => {}
            }
        }
        next.end = self.end(&states);
        next
    }

    /// One pass; true when an actor failed in it.
    fn settle(&self, states: &mut [NodeState], settled: &mut Vec<(usize, NodeOutcome)>) -> bool {
        let broken = self.broken(states);
        let mut actor_failed = false;
        for at in self.order.iter().copied() {
            if states[at] != NodeState::Waiting {
                continue;
            }
            let outcome = match self.nodes[at].is_actor {
                true => self.actor_outcome(at, states, broken.actors[at]),
                false if self.is_cut_off(at, &broken) => Some(NodeOutcome::Cancelled),
                false => (self.gate(at, states) == NeedsState::Shut).then_some(NodeOutcome::Skipped),
            };
            if let Some(outcome) = outcome {
                states[at] = NodeState::Settled(outcome);
                settled.push((at, outcome));
                actor_failed |= outcome == NodeOutcome::Failed;
            }
        }
        actor_failed
    }

    /// Returns how a nested actor ended; `None` while a member is open.
    fn actor_outcome(&self, at: usize, states: &[NodeState], is_broken: bool) -> Option<NodeOutcome> {
        let outcome = |member: &usize| match states[*member] {
            NodeState::Settled(outcome) => Some(outcome),
            NodeState::Waiting | NodeState::Running => None,
        };
        let outcomes: Vec<NodeOutcome> = self.nodes[at].members.iter().map(outcome).collect::<Option<_>>()?;
        let is = |wanted| outcomes.contains(&wanted);
        Some(if is_broken {
            NodeOutcome::Failed
        } else if is(NodeOutcome::Cancelled) {
            NodeOutcome::Cancelled
        } else if is(NodeOutcome::Succeeded) || is(NodeOutcome::Failed) {
            NodeOutcome::Succeeded
        } else {
            NodeOutcome::Skipped
        })
    }

    fn is_unhandled(&self, at: usize, states: &[NodeState]) -> bool {
        states[at] == NodeState::Settled(NodeOutcome::Failed) && !self.nodes[at].is_handled
    }

    /// Returns the actors whose other members an unhandled failure has ended.
    fn broken(&self, states: &[NodeState]) -> FailedActors {
        let mut broken = FailedActors { outermost: false, actors: vec![false; self.nodes.len()] };
        for (at, node) in self.nodes.iter().enumerate() {
            if self.is_unhandled(at, states) {
                match node.around.first() {
                    Some(actor) => broken.actors[*actor] = true,
                    None => broken.outermost = true,
                }
            }
        }
        broken
    }

    fn is_cut_off(&self, at: usize, broken: &FailedActors) -> bool {
        broken.outermost || self.nodes[at].around.iter().any(|actor| broken.actors[*actor])
    }

    fn is_outermost(&self, at: usize) -> bool {
        self.nodes[at].around.is_empty()
    }

    /// Returns whether a step may begin, as far as needs can say: its own, and those of the actors around it.
    fn gate(&self, at: usize, states: &[NodeState]) -> NeedsState {
        let outermost_first = self.nodes[at].around.iter().rev().chain([&at]);
        for at in outermost_first {
            match self.own_gate(*at, states) {
                NeedsState::Open => {}
                closed @ (NeedsState::Closed | NeedsState::Shut) => return closed,
            }
        }
        NeedsState::Open
    }

    fn own_gate(&self, at: usize, states: &[NodeState]) -> NeedsState {
        let node = &self.nodes[at];
        let (mut failed, mut succeeded) = (false, node.needs.is_empty());
        for need in &node.needs {
            match states[*need] {
                NodeState::Waiting | NodeState::Running => return NeedsState::Closed,
                NodeState::Settled(NodeOutcome::Succeeded) => succeeded = true,
                NodeState::Settled(NodeOutcome::Failed) => failed = true,
                NodeState::Settled(NodeOutcome::Skipped | NodeOutcome::Cancelled) => {}
            }
        }
        let is_its_turn = match node.on {
            NeedsCondition::Success => succeeded && !failed,
            NeedsCondition::Failure => failed,
            NeedsCondition::Always => true,
        };
        if is_its_turn { NeedsState::Open } else { NeedsState::Shut }
    }

    fn end(&self, states: &[NodeState]) -> Option<GraphEnd> {
        let is_settled = |state: &NodeState| matches!(state, NodeState::Settled(_));
        if !states.iter().all(is_settled) {
            return None;
        }
        let mut outermost = (0..self.nodes.len()).filter(|at| self.is_outermost(*at));
        if let Some(node) = outermost.clone().find(|at| self.is_unhandled(*at, states)) {
            return Some(GraphEnd::Failed { node });
        }
        let is_cancelled = |at: usize| states[at] == NodeState::Settled(NodeOutcome::Cancelled);
        Some(if outermost.any(is_cancelled) { GraphEnd::Cancelled } else { GraphEnd::Succeeded })
    }
}

/// The actors that an unhandled failure has ended.
struct FailedActors {
    outermost: bool,
    /// By the place of the nested actor.
    actors: Vec<bool>,
}

/// The state of the needs of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NeedsState {
    /// Some are not settled.
    Closed,
    Open,
    /// It never opens.
    Shut,
}

fn bare(step: &PlanStep, places: &BTreeMap<&str, usize>) -> GraphNode {
    let outer = std::iter::successors(parent(&step.node), |name| parent(name));
    GraphNode {
        name: step.node.clone(),
        needs: Vec::new(),
        on: step.on,
        around: outer.filter_map(|name| places.get(name).copied()).collect(),
        members: Vec::new(),
        is_actor: matches!(step.does, NodeKind::Actor { .. }),
        is_handled: false,
    }
}

/// The nested actor that a step is a member of.
fn parent(node: &str) -> Option<&str> {
    node.rsplit_once(MEMBER_SEPARATOR).map(|(parent, _)| parent)
}

fn needs(
    steps: &[PlanStep],
    at: usize,
    places: &BTreeMap<&str, usize>,
    flaws: &mut Vec<GraphFlaw>,
) -> Vec<usize> {
    let step = &steps[at];
    let Some(named) = &step.needs else {
        return at.checked_sub(1).into_iter().collect();
    };
    let mut found = Vec::new();
    for need in named {
        match places.get(need.as_str()).filter(|_| parent(need) == parent(&step.node)) {
            Some(place) if found.contains(place) => {}
            Some(place) => found.push(*place),
            None => {
                let siblings = steps.iter().map(|step| step.node.as_str());
                let meant = did_you_mean(need, siblings.filter(|name| parent(name) == parent(&step.node)));
                flaws.push(GraphFlaw::UnknownNeed { node: step.node.clone(), need: need.clone(), meant });
            }
        }
    }
    found
}
