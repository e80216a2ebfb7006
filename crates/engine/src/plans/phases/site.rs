//! The place of a node's work: its plan, its run, what is alive of the run, and the scope that ends the work.

use std::sync::Arc;

use domain::Plan;
use sync::{Effect, Observed};

use super::super::House;
use super::Stopped;
use super::work::LiveRun;
use crate::worker::JobRun;

/// The place of a node's work. `Clone` is the same place.
#[derive(Clone)]
pub(super) struct Site<'a> {
    pub(super) house: &'a Arc<House>,
    pub(super) run: &'a JobRun,
    pub(super) live: &'a Arc<LiveRun>,
    pub(super) plan: &'a Plan,
    /// The path of the node.
    pub(super) path: &'a str,
    /// Ends with the node.
    pub(super) scope: Observed,
}

impl Site<'_> {
    /// The same place, for what is due although the node was stopped: it ends with the run only.
    pub(super) fn until_run_ends(&self) -> Self {
        Self { scope: self.run.scope().clone(), ..self.clone() }
    }

    /// Begins something that has an effect.
    ///
    /// # Errors
    /// The node was stopped, or the run is over.
    pub(super) fn enter(&self) -> Result<Effect, Stopped> {
        self.scope.check()?;
        Ok(self.run.enter()?)
    }
}
