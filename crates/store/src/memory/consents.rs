//! Consents in memory.

use std::collections::{BTreeMap, BTreeSet};

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

    async fn consented_roots(&self) -> Result<Vec<(Vec<u8>, usize)>, StoreError> {
        let mut roots: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (root, _) in lock(&self.consents).iter() {
            *roots.entry(root.clone()).or_default() += 1;
        }
        Ok(roots.into_iter().collect())
    }

    async fn revoke_consents(&self, root: &[u8]) -> Result<usize, StoreError> {
        let mut consents = lock(&self.consents);
        let before = consents.len();
        consents.retain(|(known, _)| known != root);
        Ok(before - consents.len())
    }
}
