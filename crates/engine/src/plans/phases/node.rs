//! One node of an actor's graph while it is being done, and what it leaves for those that need it.
//!
//! # Invariants
//! 1. A node that is stopped begins nothing any more, also when the run goes on without it.
//! 2. What a node leaves is bounded: its text has at most [`NODE_TEXT_BYTES_MAX`] bytes.

use std::sync::Arc;

use actors::tool::head_and_tail;
use domain::{
    ErrorCategory, NODE_TEXT_BYTES_MAX, NodeOutcome, NodeRun, Phase, Plan, Step, Template, Usage, Values,
    WallMs,
};
use serde_json::Value;
use store::By;
use sync::{Effect, Observed};

use super::super::House;
use super::Stopped;
use super::site::Site;
use super::spending::{Unkept, keep_all};
use super::work::LiveRun;
use crate::worker::JobRun;

/// A node that is being done, and all that it is done with.
pub(super) struct Node<'a> {
    pub(super) house: &'a Arc<House>,
    pub(super) run: &'a JobRun,
    pub(super) live: &'a Arc<LiveRun>,
    pub(super) plan: &'a Plan,
    pub(super) step: &'a Step,
    pub(super) phase: Phase,
    /// What its calls and its end are filed under: the step's name, or that of a round of mending.
    pub(super) path: &'a str,
    /// What its templates see.
    pub(super) values: &'a Values,
    /// The number of the last thing that a person said which they hold.
    pub(super) guidance_seen: u32,
    /// Ends with the run, and when the node is to be stopped.
    pub(super) scope: Observed,
    /// How often it was begun in this run, this time included.
    pub(super) tries: u32,
    /// When it was begun.
    pub(super) started: WallMs,
    /// When its first call of the attempt began, in an earlier round.
    pub(super) began: Option<WallMs>,
}

/// A node that succeeded.
pub(super) struct Done {
    pub(super) run: NodeRun,
    pub(super) end: End,
}

/// Where the end of a node is.
pub(super) enum End {
    /// Stored, together with that of its last call.
    Stored,
    /// Not stored.
    Loose,
    /// To be stored together with its only call, which is not kept either.
    WithCall(Box<Unkept>),
}

impl End {
    /// The call that is to be kept with it.
    pub(super) fn unkept(&self) -> Option<&Unkept> {
        match self {
            End::Stored | End::Loose => None,
            End::WithCall(unkept) => Some(unkept),
        }
    }
}

impl Done {
    /// Stores the end of the node, if it is not.
    pub(super) async fn stored(self, house: &House, run: &JobRun) -> Result<NodeRun, Stopped> {
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
pub(super) struct Left {
    /// The exit status of its command.
    pub(super) exit: Option<i32>,
    /// What it said, redacted.
    pub(super) text: String,
    /// What it said for programs, redacted; null when it said nothing.
    pub(super) json: Value,
    /// How many files it changed.
    pub(super) changed: u32,
    /// What its model calls used.
    pub(super) usage: Usage,
    /// The number of the last thing that a person said which it was told beyond its brief.
    pub(super) guidance_seen: u32,
}

impl Left {
    /// The end of a node that left this, its text within its bound. Whose it is, the caller says.
    pub(super) fn node_run(self, (started, finished): (WallMs, WallMs), outcome: NodeOutcome) -> NodeRun {
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
pub(super) fn bounded(text: String) -> String {
    let (half, mark) = (NODE_TEXT_BYTES_MAX / 2, 64);
    match text.len() > NODE_TEXT_BYTES_MAX {
        true => head_and_tail(&text, half - mark, half - mark),
        false => text,
    }
}

impl Node<'_> {
    /// The end of this node, which succeeded and left this.
    pub(super) fn ended(&self, left: Left) -> NodeRun {
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
    pub(super) fn settles(&self, left: Left) -> Option<NodeRun> {
        self.step.repeat.is_none().then(|| self.ended(left))
    }

    /// Whether nothing may be changed: while the plan is thought about, and where its action says so.
    pub(super) fn only_reads(&self) -> bool {
        self.phase == Phase::Strategize || self.plan.spec.read_only
    }

    /// The place of its work.
    pub(super) fn site(&self) -> Site<'_> {
        let Node { house, run, live, plan, path, .. } = *self;
        Site { house, run, live, plan, path, scope: self.scope.clone() }
    }

    /// Begins something that has an effect.
    pub(super) fn enter(&self) -> Result<Effect, Stopped> {
        self.scope.check()?;
        Ok(self.run.enter()?)
    }

    /// A text of the definition with the values of this run in it.
    pub(super) fn expand(&self, source: &str) -> Result<String, Stopped> {
        let text = Template::parse(source).map_err(|flaw| self.unfit(&flaw))?;
        text.expand(self.values).map_err(|error| self.unfit(&error))
    }

    /// What the definition says cannot be done with these values.
    pub(super) fn unfit(&self, why: &dyn std::fmt::Display) -> Stopped {
        Stopped::failed(ErrorCategory::InvalidInput, format!("node {}: {why}", self.path))
    }
}
