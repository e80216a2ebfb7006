//! The place of a node's work: its plan, its run, what is alive of the run, and the scope that ends the work.

use std::sync::Arc;

use domain::Plan;
use sync::{Effect, Observed};

use super::Stopped;
use super::state::LiveRun;
use crate::engine::House;
use worker::JobRun;

/// The place of a node's work. `Clone` is the same place.
#[derive(Clone)]
pub(crate) struct Site<'a> {
    pub(crate) house: &'a Arc<House>,
    pub(crate) run: &'a JobRun,
    pub(crate) live: &'a Arc<LiveRun>,
    pub(crate) plan: &'a Plan,
    /// The path of the node.
    pub(crate) path: &'a str,
    /// Ends with the node.
    pub(crate) scope: Observed,
}

impl Site<'_> {
    /// The same place, for what is due although the node was stopped: it ends with the run only.
    pub(crate) fn until_run_ends(&self) -> Self {
        Self { scope: self.run.scope().clone(), ..self.clone() }
    }

    /// Begins something that has an effect.
    ///
    /// # Errors
    /// The node was stopped, or the run is over.
    pub(crate) fn enter(&self) -> Result<Effect, Stopped> {
        self.scope.check()?;
        Ok(self.run.enter()?)
    }
}
