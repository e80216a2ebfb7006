//! Consents in memory.

use std::collections::BTreeSet;

use async_trait::async_trait;
use sync::primitives::lock;

use super::MemoryStore;
use crate::{ConsentStore, StoreError};

/// To which content at which root the user said yes.
pub(super) type Consents = BTreeSet<(Vec<u8>, String)>;

#[async_trait]
impl ConsentStore for MemoryStore {
    async fn consented(&self, root: &[u8], digest: &str) -> Result<bool, StoreError> {
        Ok(lock(&self.consents).contains(&(root.to_vec(), digest.to_owned())))
    }

    async fn consent(&self, root: &[u8], digest: &str) -> Result<(), StoreError> {
        lock(&self.consents).insert((root.to_vec(), digest.to_owned()));
        Ok(())
    }
}
