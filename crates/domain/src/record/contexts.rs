//! Contexts that the nodes of a plan were given.

use super::PlanRecord;
use super::event_draft;
use crate::context::ContextRecord;
use crate::id::Claim;
use crate::job::LeaseLost;
use crate::time::Ms;

impl PlanRecord {
    /// Stores the context of a node of the owner. One of an id that is known stays as it is, and has no
    /// event.
    ///
    /// # Errors
    /// Returns an error if the claim is not the owner's, or the context is another plan's.
    pub fn keep_context(&mut self, claim: &Claim, record: ContextRecord, now: Ms) -> Result<(), LeaseLost> {
        self.guard(claim)?;
        self.guard(&Claim { plan: record.plan, ..*claim })?;
        if self.contexts.iter().any(|known| known.id == record.id) {
            return Ok(());
        }
        self.tell([event_draft::context_assembled(&record)], now);
        self.contexts.push(record);
        Ok(())
    }
}
