//! One node of an actor's graph while it is being done, and what it leaves for those that need it.
//!
//! # Invariants
//! 1. A node that is stopped begins nothing any more, also when the run goes on without it.
//! 2. What a node leaves is bounded: its text has at most [`NODE_TEXT_BYTES_MAX`] bytes.

mod agent;
pub(crate) mod command;
pub(crate) mod decisions;
mod model;
pub(crate) mod prompt;

use std::sync::Arc;

use actors::tool::head_and_tail;
use domain::{
    ErrorCategory, NODE_TEXT_BYTES_MAX, NodeOutcome, NodeRun, Phase, Plan, Step, Template, Usage, Values,
    WallMs,
};
use serde_json::Value;
use store::By;
use sync::{Effect, Observed};

use super::Stopped;
use super::accounting::{Unkept, keep_all};
use super::context::Site;
use super::state::LiveRun;
use crate::engine::House;
use worker::JobRun;

/// A node that is being done, and all that it is done with.
pub(crate) struct Node<'a> {
    pub(crate) house: &'a Arc<House>,
    pub(crate) run: &'a JobRun,
    pub(crate) live: &'a Arc<LiveRun>,
    pub(crate) plan: &'a Plan,
    pub(crate) step: &'a Step,
    pub(crate) phase: Phase,
    /// What its calls and its end are filed under: the step's name, or that of a round of mending.
    pub(crate) path: &'a str,
    /// What its templates see.
    pub(crate) values: &'a Values,
    /// The number of the last thing that a person said which they hold.
    pub(crate) guidance_seen: u32,
    /// Ends with the run, and when the node is to be stopped.
    pub(crate) scope: Observed,
    /// How often it was begun in this run, this time included.
    pub(crate) tries: u32,
    /// When it was begun.
    pub(crate) started: WallMs,
    /// When its first call of the attempt began, in an earlier round.
    pub(crate) began: Option<WallMs>,
}

/// A node that succeeded.
pub(crate) struct Done {
    pub(crate) run: NodeRun,
    pub(crate) end: End,
}

/// Where the end of a node is.
pub(crate) enum End {
    /// Stored, together with that of its last call.
    Stored,
    /// Not stored.
    Loose,
    /// To be stored together with its only call, which is not kept either.
    WithCall(Box<Unkept>),
}

impl End {
    /// The call that is to be kept with it.
    pub(crate) fn unkept(&self) -> Option<&Unkept> {
        match self {
            End::Stored | End::Loose => None,
            End::WithCall(unkept) => Some(unkept),
        }
    }
}

impl Done {
    /// Stores the end of the node, if it is not.
    pub(crate) async fn stored(self, house: &House, run: &JobRun) -> Result<NodeRun, Stopped> {
        match self.end {
            End::Stored => {}
            End::Loose => {
                let effect = run.enter()?;
                let runs = vec![self.run.clone()];
                house.store.settle_nodes(By::Effect(&effect), &run.claim(), runs).await?;
            }
            End::WithCall(unkept) => keep_all(house, run, &[&unkept]).await?,
        }
        Ok(self.run)
    }
}

/// What a node left.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Left {
    /// The exit status of its command.
    pub(crate) exit: Option<i32>,
    /// What it said, redacted.
    pub(crate) text: String,
    /// What it said for programs, redacted; null when it said nothing.
    pub(crate) json: Value,
    /// How many files it changed.
    pub(crate) changed: u32,
    /// What its model calls used.
    pub(crate) usage: Usage,
    /// The number of the last thing that a person said which it was told beyond its brief.
    pub(crate) guidance_seen: u32,
}

impl Left {
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

/// A text as it is kept of a node: whole, or its head and its tail.
pub(crate) fn bounded(text: String) -> String {
    let (half, mark) = (NODE_TEXT_BYTES_MAX / 2, 64);
    match text.len() > NODE_TEXT_BYTES_MAX {
        true => head_and_tail(&text, half - mark, half - mark),
        false => text,
    }
}

impl Node<'_> {
    /// The end of this node, which succeeded and left this.
    pub(crate) fn ended(&self, left: Left) -> NodeRun {
        let left = Left { guidance_seen: left.guidance_seen.max(self.guidance_seen), ..left };
        NodeRun {
            attempt: self.plan.attempt,
            phase: self.phase,
            path: self.path.to_owned(),
            tries: self.tries,
            ..left.node_run((self.started, self.house.wall()), NodeOutcome::Succeeded)
        }
    }

    /// The same, to be stored with the end of its only call; none when the node is repeated, and so has more of them.
    pub(crate) fn settles(&self, left: Left) -> Option<NodeRun> {
        self.step.repeat.is_none().then(|| self.ended(left))
    }

    /// Whether nothing may be changed: while the plan is thought about, and where its action says so.
    pub(crate) fn only_reads(&self) -> bool {
        self.phase == Phase::Strategize || self.plan.spec.read_only
    }

    /// The place of its work.
    pub(crate) fn site(&self) -> Site<'_> {
        let Node { house, run, live, plan, path, .. } = *self;
        Site { house, run, live, plan, path, scope: self.scope.clone() }
    }

    /// Begins something that has an effect.
    pub(crate) fn enter(&self) -> Result<Effect, Stopped> {
        self.scope.check()?;
        Ok(self.run.enter()?)
    }

    /// A text of the definition with the values of this run in it.
    pub(crate) fn expand(&self, source: &str) -> Result<String, Stopped> {
        let text = Template::parse(source).map_err(|flaw| self.unfit(&flaw))?;
        text.expand(self.values).map_err(|error| self.unfit(&error))
    }

    /// What the definition says cannot be done with these values.
    pub(crate) fn unfit(&self, why: &dyn std::fmt::Display) -> Stopped {
        Stopped::failed(ErrorCategory::InvalidInput, format!("node {}: {why}", self.path))
    }
}
