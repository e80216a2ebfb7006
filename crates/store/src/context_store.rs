//! The port for contexts: the contexts of plan nodes, stored so that they can be shown again.
//!
//! # Not here
//! The text of a context: it lies among the [contents](crate::ContentStore), and stays there as long as a
//! context names it.

use async_trait::async_trait;
use domain::context::ContextRecord;
use domain::{Claim, ContextId, PlanId};
use sync::Effect;

use crate::StoreError;
use crate::content_store::StagedContent;

/// Keeps contexts.
#[async_trait]
pub trait ContextStore: Send + Sync {
    /// Keeps a context with its text, and tells of it. Asked again, it does no more.
    async fn keep_context(
        &self,
        effect: &Effect,
        claim: &Claim,
        record: ContextRecord,
        text: StagedContent,
    ) -> Result<(), StoreError>;

    /// The contexts of a plan, as they were kept; none for an unknown plan.
    async fn contexts(&self, plan: PlanId) -> Result<Vec<ContextRecord>, StoreError>;

    /// The context of this id, whichever plan's it is.
    async fn context(&self, id: ContextId) -> Result<Option<ContextRecord>, StoreError>;
}
