//! Outcomes of the nodes of a plan's actors.

use super::PlanRecord;
use super::event_draft;
use super::event_draft::EventDraft;
use super::node_run::{NodeRun, NodeWait};
use crate::id::Claim;
use crate::job::LeaseLost;
use crate::time::Ms;

impl PlanRecord {
    /// Stores the ends of nodes of the owner. Of a node that ended before in the same attempt and phase, the
    /// new run takes the place of the old one.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's.
    pub fn settle_nodes(&mut self, claim: &Claim, runs: Vec<NodeRun>, now: Ms) -> Result<(), LeaseLost> {
        self.guard(claim)?;
        let told = self.keep_nodes(runs);
        self.tell(told, now);
        Ok(())
    }

    /// Records that a node of the owner waits.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's.
    pub fn node_waits(&mut self, claim: &Claim, wait: &NodeWait, now: Ms) -> Result<(), LeaseLost> {
        self.guard(claim)?;
        self.tell([event_draft::node_waits(wait)], now);
        Ok(())
    }

    /// Stores the runs, and returns their events. A run that is already stored unchanged has no event.
    pub(super) fn keep_nodes(&mut self, runs: Vec<NodeRun>) -> Vec<EventDraft> {
        let mut told = Vec::new();
        for run in runs {
            let known = self.nodes.iter_mut().find(|known| known.is_of_the_same(&run));
            if known.as_deref() == Some(&run) {
                continue;
            }
            told.push(event_draft::node_finished(&run));
            match known {
                Some(known) => *known = run,
                None => self.nodes.push(run),
            }
        }
        told
    }
}
