//! The context of a run and of a node's calls: the values that are passed together to all work of a claimed
//! job.
//!
//! # Invariants
//! 1. A [`RunContext`] belongs to one claim of one job. Its holder can record only for that claim.
//! 2. A [`NodeContext`] ends with its node: its scope is that of the run, or a child of it.

use std::ops::Deref;
use std::sync::Arc;

use domain::{Phase, Plan};
use sync::{Effect, Observed};

use super::RunError;
use super::state::RunState;
use crate::engine::EngineInner;
use worker::JobRun;

/// One run of a job: the engine that runs it, the claimed job, the open resources of the run, and the plan.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub(crate) engine: &'a Arc<EngineInner>,
    pub(crate) job: &'a JobRun,
    pub(crate) state: &'a Arc<RunState>,
    pub(crate) plan: &'a Plan,
}

impl<'a> RunContext<'a> {
    /// Returns the phase that the job is for.
    pub(crate) fn phase(&self) -> Phase {
        self.job.job().phase
    }

    /// Returns the context of what the phase itself does, which is no node's.
    pub(crate) fn phase_context(self) -> NodeContext<'a> {
        NodeContext { run: self, path: "", scope: self.job.scope().clone() }
    }
}

/// The context of a node's calls. `Clone` is the same context.
#[derive(Clone)]
pub(crate) struct NodeContext<'a> {
    pub(crate) run: RunContext<'a>,
    /// The path under which the calls and the end of the node are recorded: that of its step, or of a repair
    /// round.
    pub(crate) path: &'a str,
    /// Ends with the run, and when the node is to be stopped.
    pub(crate) scope: Observed,
}

impl<'a> Deref for NodeContext<'a> {
    type Target = RunContext<'a>;

    fn deref(&self) -> &RunContext<'a> {
        &self.run
    }
}

impl NodeContext<'_> {
    /// The same context for work that is due although the node was stopped: it ends with the run only.
    pub(crate) fn until_run_ends(&self) -> Self {
        Self { scope: self.job.scope().clone(), ..self.clone() }
    }

    /// Begins something that has an effect.
    ///
    /// # Errors
    /// Returns an error if the node was stopped, or the run is over.
    pub(crate) fn enter(&self) -> Result<Effect, RunError> {
        self.scope.check()?;
        Ok(self.job.enter()?)
    }
}
