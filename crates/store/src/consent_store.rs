//! The port for consents: the user allows, once, the commands that a project's files run and the access that
//! they ask for.
//!
//! # Invariants
//! 1. A consent is to one content at one place. The same file elsewhere, or another content there, has none.
//! 2. It belongs to no plan, and stays when plans are forgotten, until the user revokes it.

use async_trait::async_trait;

use crate::StoreError;

/// Stores the consents of the user.
#[async_trait]
pub trait ConsentStore: Send + Sync {
    /// Returns whether the user said yes to the content with this digest in the project at `root`, as bytes
    /// of a path.
    async fn consented(&self, root: &[u8], digest: &str) -> Result<bool, StoreError>;

    /// Stores the user's yes. Said again, it does no more.
    async fn consent(&self, root: &[u8], digest: &str) -> Result<(), StoreError>;

    /// Returns every root with a yes, in order, and the number of contents that it has one for.
    async fn consented_roots(&self) -> Result<Vec<(Vec<u8>, usize)>, StoreError>;

    /// Removes every yes for this root. Returns how many there were.
    async fn revoke_consents(&self, root: &[u8]) -> Result<usize, StoreError>;
}
