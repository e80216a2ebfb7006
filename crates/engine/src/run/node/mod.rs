//! One node of an actor's graph while it runs, and its output for the nodes that need it.
//!
//! # Invariants
//! 1. A node that is stopped begins nothing any more, also if the run continues without it.
//! 2. The output of a node is bounded: its text has at most [`NODE_TEXT_BYTES_MAX`] bytes.

pub(crate) mod command;
pub(crate) mod decisions;
mod model;
pub(crate) mod prompt;

use std::ops::Deref;

use actors::tool::head_and_tail;
use domain::{
    ErrorCategory, NODE_TEXT_BYTES_MAX, NodeOutcome, NodeRun, Phase, PlanStep, Template, TokenUsage, Values,
    WallMs,
};
use serde_json::Value;
use store::CallAuthority;

use super::RunError;
use super::accounting::{UnrecordedCall, record_all};
use super::context::{NodeContext, RunContext};

/// A node that runs, with everything that it needs.
pub(crate) struct ActiveNode<'a> {
    pub(crate) context: NodeContext<'a>,
    pub(crate) step: &'a PlanStep,
    /// The values of its templates.
    pub(crate) values: &'a Values,
    /// The number of the last thing that a person said which they hold.
    pub(crate) guidance_seen: u32,
    /// The number of times that it was begun in this run, this time included.
    pub(crate) tries: u32,
    /// When it was begun.
    pub(crate) started: WallMs,
    /// When its first call of the attempt began, in an earlier round.
    pub(crate) began: Option<WallMs>,
}

impl<'a> Deref for ActiveNode<'a> {
    type Target = NodeContext<'a>;

    fn deref(&self) -> &NodeContext<'a> {
        &self.context
    }
}

/// A node that succeeded.
pub(crate) struct NodeResult {
    pub(crate) run: NodeRun,
    pub(crate) end: NodePersistence,
}

/// The persistence of the end of a node.
pub(crate) enum NodePersistence {
    /// Stored, together with that of its last call.
    Stored,
    /// Not stored.
    Loose,
    /// To be stored together with its only call, which is not stored either.
    WithCall(Box<UnrecordedCall>),
}

impl NodePersistence {
    /// Returns the call that is to be stored with it.
    pub(crate) fn unkept(&self) -> Option<&UnrecordedCall> {
        match self {
            NodePersistence::Stored | NodePersistence::Loose => None,
            NodePersistence::WithCall(unkept) => Some(unkept),
        }
    }
}

impl NodeResult {
    /// Stores the end of the node, if it is not.
    pub(crate) async fn persist(self, run: RunContext<'_>) -> Result<NodeRun, RunError> {
        match self.end {
            NodePersistence::Stored => {}
            NodePersistence::Loose => {
                let RunContext { engine, job, .. } = run;
                let effect = job.enter()?;
                let runs = vec![self.run.clone()];
                engine.store.settle_nodes(CallAuthority::Effect(&effect), &job.claim(), runs).await?;
            }
            NodePersistence::WithCall(unkept) => record_all(run, &[&unkept]).await?,
        }
        Ok(self.run)
    }
}

/// The output of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeOutput {
    /// The exit status of its command.
    pub(crate) exit: Option<i32>,
    /// The output as text, redacted.
    pub(crate) text: String,
    /// The output for programs, redacted; null if there is none.
    pub(crate) json: Value,
    /// The number of files that it changed.
    pub(crate) changed: u32,
    /// The use of its model calls.
    pub(crate) usage: TokenUsage,
    /// The number of the last message of a person that it got beyond its brief.
    pub(crate) guidance_seen: u32,
}

impl NodeOutput {
    /// The end of a node that left this, its text within its bound. Whose it is, the caller says.
    pub(crate) fn node_run(self, (started, finished): (WallMs, WallMs), outcome: NodeOutcome) -> NodeRun {
        NodeRun {
            attempt: 0,
            phase: Phase::Execute,
            path: String::new(),
            tries: 0,
            outcome,
            exit: self.exit,
            text: bounded(self.text),
            json: self.json,
            changed: self.changed,
            usage: self.usage,
            guidance_seen: self.guidance_seen,
            started,
            finished,
        }
    }
}

/// Returns a text as it is stored for a node: whole, or its head and its tail.
pub(crate) fn bounded(text: String) -> String {
    let (half, mark) = (NODE_TEXT_BYTES_MAX / 2, 64);
    match text.len() > NODE_TEXT_BYTES_MAX {
        true => head_and_tail(&text, half - mark, half - mark),
        false => text,
    }
}

impl ActiveNode<'_> {
    /// The end of this node, which succeeded and left this.
    pub(crate) fn ended(&self, left: NodeOutput) -> NodeRun {
        let left = NodeOutput { guidance_seen: left.guidance_seen.max(self.guidance_seen), ..left };
        NodeRun {
            attempt: self.plan.attempt,
            phase: self.phase(),
            path: self.path.to_owned(),
            tries: self.tries,
            ..left.node_run((self.started, self.engine.wall()), NodeOutcome::Succeeded)
        }
    }

    /// The same, to be stored with the end of its only call; none when the node is repeated, and so has more
    /// of them.
    pub(crate) fn settles(&self, left: NodeOutput) -> Option<NodeRun> {
        self.step.repeat.is_none().then(|| self.ended(left))
    }

    /// Returns true if nothing may be changed: while the plan is thought about, and where its action says so.
    pub(crate) fn only_reads(&self) -> bool {
        self.phase() == Phase::Strategize || self.plan.spec.read_only
    }

    /// A text of the definition with the values of this run in it.
    pub(crate) fn expand(&self, source: &str) -> Result<String, RunError> {
        let text = Template::parse(source).map_err(|flaw| self.unfit(&flaw))?;
        text.expand(self.values).map_err(|error| self.unfit(&error))
    }

    /// Returns the error of a node whose definition cannot be carried out with these values.
    pub(crate) fn unfit(&self, why: &dyn std::fmt::Display) -> RunError {
        RunError::failed(ErrorCategory::InvalidInput, format!("node {}: {why}", self.path))
    }
}
