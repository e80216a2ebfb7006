//! The contexts that were delivered to the nodes of a plan, as they were stored.
//!
//! # Invariants
//! The text is byte for byte the one that the model got, or the answer says that it is not stored any more.
//! It is never made again.

use std::io::Read;

use domain::context::ContextRecord;
use domain::{Hash, PlanId};
use store::PlanStoreError;

use crate::engine::Engine;

/// The error if the text of a context cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the text of context {id} is no longer stored, or cannot be read: {source}")]
pub struct ReadContextError {
    /// The id of the context.
    pub id: domain::ContextId,
    /// The error of the store.
    #[source]
    pub source: std::io::Error,
}

impl Engine {
    /// The contexts that the nodes of a plan were given, in the order of their giving.
    ///
    /// # Errors
    /// There is no such plan, or the store failed.
    pub async fn given_contexts(&self, id: PlanId) -> Result<Vec<ContextRecord>, PlanStoreError> {
        let plan = self.inner.store.plan(id).await?;
        Ok(self.inner.store.contexts(plan.id).await?)
    }

    /// The text of one of them.
    ///
    /// # Errors
    /// It is gone, or the store failed.
    pub fn given_text(&self, given: &ContextRecord) -> Result<String, ReadContextError> {
        let unread = |source| ReadContextError { id: given.id, source };
        if given.text == Hash::from_content(b"") {
            return Ok(String::new());
        }
        let mut text = String::new();
        let content = self.inner.store.open_content(&given.text);
        content.and_then(|mut content| content.read_to_string(&mut text)).map_err(unread)?;
        Ok(text)
    }
}
