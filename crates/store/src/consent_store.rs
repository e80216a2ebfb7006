//! The port for consents: a user's yes, once, to what a project's file asks for.
//!
//! # Invariants
//! 1. A yes is to one content at one place: the same file elsewhere, or another content there, has none.
//! 2. It belongs to no plan, and stays when plans are forgotten.

use async_trait::async_trait;

use crate::StoreError;

/// Keeps what the user consented to.
#[async_trait]
pub trait ConsentStore: Send + Sync {
    /// Whether the user said yes to the content with this digest in the project at `root`, as bytes of a path.
    async fn consented(&self, root: &[u8], digest: &str) -> Result<bool, StoreError>;

    /// Keeps the user's yes. Said again, it does no more.
    async fn consent(&self, root: &[u8], digest: &str) -> Result<(), StoreError>;
}
