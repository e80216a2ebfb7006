//! The context of a node's calls: its plan, its run, the live state of the run, and the scope that ends the
//! work.

use std::sync::Arc;

use domain::Plan;
use sync::{Effect, Observed};

use super::RunError;
use super::state::RunState;
use crate::engine::EngineInner;
use worker::JobRun;

/// The context of a node's calls. `Clone` is the same context.
#[derive(Clone)]
pub(crate) struct NodeContext<'a> {
    pub(crate) engine: &'a Arc<EngineInner>,
    pub(crate) run: &'a JobRun,
    pub(crate) live: &'a Arc<RunState>,
    pub(crate) plan: &'a Plan,
    /// The path of the node.
    pub(crate) path: &'a str,
    /// Ends with the node.
    pub(crate) scope: Observed,
}

impl NodeContext<'_> {
    /// The same context for work that is due although the node was stopped: it ends with the run only.
    pub(crate) fn until_run_ends(&self) -> Self {
        Self { scope: self.run.scope().clone(), ..self.clone() }
    }

    /// Begins something that has an effect.
    ///
    /// # Errors
    /// The node was stopped, or the run is over.
    pub(crate) fn enter(&self) -> Result<Effect, RunError> {
        self.scope.check()?;
        Ok(self.run.enter()?)
    }
}
