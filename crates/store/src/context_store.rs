//! The port for contexts: the contexts of plan nodes, stored so that they can be shown again.
//!
//! # Not here
//! The text of a context: it is stored among the [contents](crate::ContentStore), and stays there as long as
//! a context names it.

use async_trait::async_trait;
use domain::context::ContextRecord;
use domain::{Claim, ContextId, PlanId};
use sync::Effect;

use crate::StoreError;
use crate::content_store::StagedContent;

/// Stores contexts.
#[async_trait]
pub trait ContextStore: Send + Sync {
    /// Stores a context with its text, and records the event. A second call does no more.
    async fn keep_context(
        &self,
        effect: &Effect,
        claim: &Claim,
        record: ContextRecord,
        text: StagedContent,
    ) -> Result<(), StoreError>;

    /// Returns the contexts of a plan, as they were stored; none for an unknown plan.
    async fn contexts(&self, plan: PlanId) -> Result<Vec<ContextRecord>, StoreError>;

    /// The context of this id, whichever plan's it is.
    async fn context(&self, id: ContextId) -> Result<Option<ContextRecord>, StoreError>;
}
