//! Consents of the user.

use async_trait::async_trait;
use store::{ConsentStore, StoreError};

use super::{FaultyStore, Kind};

#[async_trait]
impl ConsentStore for FaultyStore {
    async fn consented(&self, root: &[u8], digest: &str) -> Result<bool, StoreError> {
        self.before("consented", Kind::Read).await?;
        self.inner().consented(root, digest).await
    }

    async fn consent(&self, root: &[u8], digest: &str) -> Result<(), StoreError> {
        self.before("consent", Kind::Synced).await?;
        self.inner().consent(root, digest).await?;
        self.after("consent", Kind::Synced, None).await
    }

    async fn consented_roots(&self) -> Result<Vec<(Vec<u8>, usize)>, StoreError> {
        self.before("consented_roots", Kind::Read).await?;
        self.inner().consented_roots().await
    }

    async fn revoke_consents(&self, root: &[u8]) -> Result<usize, StoreError> {
        self.before("revoke_consents", Kind::Synced).await?;
        let revoked = self.inner().revoke_consents(root).await?;
        self.after("revoke_consents", Kind::Synced, None).await?;
        Ok(revoked)
    }
}
